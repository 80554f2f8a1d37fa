"""Kernels that gl.matmul takes besides the rungs: for shapes that nobody tuned."""

from gemmlab.files import rows_beside
from gemmlab.ladder.launch import PRODUCT, Launch, MapOf, Target, Workspace
from gemmlab.ladder.precision import BRAIN, HALF, SINGLE
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.settings import Constraint, IllegalSetting, Parameter, Settings
from gemmlab.ladder.shapes import ceil_div, fits, tile, tile_reuse
from gemmlab.lessons.persistent.rung import cluster_tiles
from gemmlab.lessons.tma_wgmma.rung import (
    ARCH,
    BARRIER_BYTES,
    GROUP_ROWS,
    GROUP_THREADS,
    ROW_BYTES,
    SQUARE,
    SQUARE_BYTES,
    maps_of,
    or_any_width,
)
from ptxsim.architectures import LIMITS, base

LEAST = 4  # k tiles of a worker, at least: fewer are not worth joining another tile


def _families(name: str) -> tuple[Settings, ...]:
    """Of a table in this folder: those that were the fastest somewhere, of all that were timed."""
    rows = rows_beside(__file__, name)
    return tuple({each: int(value) for each, value in row.items()} for row in rows)


def _parameters(families: tuple[Settings, ...], meanings: dict[str, str]) -> list[Parameter]:
    """With the values that some family has; the first family's are the defaults."""
    return [
        Parameter(name, families[0][name], tuple(sorted({s[name] for s in families})), meaning)
        for name, meaning in meanings.items()
    ]


def widest(size: int, most: int) -> int:
    """Elements of a load, at most so many: rows of `size` elements consist of whole ones."""
    return max(width for width in (1, 2, 4, 8) if width <= most and size % width == 0)


def _require_whole(kernel: str, problem: Problem, s: Settings, of_a: str, of_b: str) -> None:
    if problem.k % s[of_a] or problem.n % s[of_b]:
        raise IllegalSetting(
            f"{kernel} with {of_a}={s[of_a]}, {of_b}={s[of_b]} takes a K and an N that are "
            f"multiples of them, not K={problem.k} and N={problem.n}"
        )


# ---- any shape -----------------------------------------------------------------------------------


def _threads(s: Settings) -> int:
    return 32 * (s["BM"] // s["WM"]) * (s["BN"] // s["WN"]) * s["WARPS_K"]


def _shared_bytes(s: Settings) -> int:
    """The stages, where sums are joined later."""
    sums = max((s["WARPS_K"] - 1) * s["BM"] * s["BN"] // 4, _threads(s))
    return max(2 * s["STAGES"] * s["BK"] * (s["BM"] + s["BN"]), 16 * sums)


def _workers(problem: Problem, s: Settings, target: Target) -> int:
    """One for each tile, or as many for each SM as the settings say, all resident."""
    tiles = ceil_div(problem.m, s["BM"]) * ceil_div(problem.n, s["BN"])
    if not s["WORKERS"]:
        return max(1, tiles)
    limits = LIMITS.get(base(target.arch), LIMITS["sm_80"])
    fit = limits.shared_bytes // (_shared_bytes(s) + limits.reserved_bytes)
    longest = tiles * k_tiles(problem, s) // LEAST
    return max(1, min(target.sm_count * min(s["WORKERS"], fit), longest))


def k_tiles(problem: Problem, s: Settings) -> int:
    return max(1, ceil_div(problem.k, s["BK"]))


def _any_shape(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    _require_whole("20_any_shape", problem, s, "COPY_A", "COPY_B")
    workers = _workers(problem, s, target)
    tiles = ceil_div(problem.m, s["BM"]) * ceil_div(problem.n, s["BN"])
    each, extra = divmod(tiles * k_tiles(problem, s), workers)
    shared = workers > 1 and workers != tiles
    parts = Workspace("parts", 8 * s["BM"] * s["BN"] * workers if shared else 16)
    arrived = Workspace("arrived", 4 * tiles, zeroed=True)
    return [
        Launch(
            "any_shape", (workers, 1, 1), (_threads(s), 1, 1), _shared_bytes(s),
            args=(*PRODUCT, each, extra, parts, arrived), early=target.arch >= "sm_90",
        )
    ]  # fmt: skip


TILES = _families("tiles.csv")
TYPES = HALF, BRAIN


def _resident(s: Settings) -> str | None:
    if s["WORKERS"] > s["MIN_BLOCKS"]:
        return f"has {s['WORKERS']} workers for each SM, where {s['MIN_BLOCKS']} blocks fit"
    return None


ANY_SHAPE = Rung(
    name="20_any_shape",
    title="Any shape",
    idea="all tiles laid end to end and cut evenly among the SMs, for any shape",
    parameters=(
        *_parameters(TILES, {
            "BM": "rows of C that a block computes", "BN": "columns", "BK": "k of a stage",
            "WM": "rows of C that a warp computes", "WN": "columns",
            "WARPS_K": "warps that share the k of a stage", "STAGES": "of the pipeline",
            "MIN_BLOCKS": "blocks that fit on an SM",
        }),
        Parameter("COPY_A", 8, (1, 2, 4, 8), "elements of a row of A in a copy", tuned=False),
        Parameter("COPY_B", 8, (1, 2, 4, 8), "elements of a row of B in a copy", tuned=False),
        Parameter(
            "WORKERS", 0, tuple(range(7)), "blocks for each SM; 0: one for each tile", macro=False
        ),
        Parameter("DTYPE", 0, (0, 1), "A, B and C: 0 float16, 1 bfloat16", tuned=False),
    ),
    families=TILES,
    tile=tile,
    plan=_any_shape,
    constraints=(Constraint("resident", _resident),),
    model_bytes=lambda problem, s: tile_reuse(problem, s, TYPES[s["DTYPE"]]),
    needs_arch=lambda s: "sm_80",
    precision=HALF,
    by_type=lambda s: TYPES[s["DTYPE"]],
    suited=lambda problem, s: {"COPY_A": widest(problem.k, 8), "COPY_B": widest(problem.n, 8)},
)  # fmt: skip


# ---- no shared memory ----------------------------------------------------------------------------

LANES = _families("lanes.csv")
DIRECT_TYPES = SINGLE, HALF, BRAIN
LOAD_BYTES = 16  # at most


def _lane_tile(s: Settings) -> tuple[int, int]:
    lanes_m = 32 // (s["LANES_N"] * s["LANES_K"])
    return s["WARPS"] * lanes_m * s["TM"], s["LANES_N"] * s["TN"]


def _direct(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    _require_whole("20_direct", problem, s, "VECTOR_A", "VECTOR_B")
    if s["ONE_COLUMN"] and problem.n != 1:
        raise IllegalSetting(f"20_direct with ONE_COLUMN=1 takes N=1, not N={problem.n}")
    rows, columns = _lane_tile(s)
    grid = ceil_div(problem.m, rows), ceil_div(problem.n, columns), 1
    block = 32 * s["WARPS"] * s["WARPS_K"], 1, 1
    return [Launch("direct", grid, block, early=target.arch >= "sm_90")]


def _vectors(problem: Problem, s: Settings) -> Settings:
    """Loads as wide as the rows allow."""
    most = LOAD_BYTES // DIRECT_TYPES[s["DTYPE"]].a.bytes
    return {
        "VECTOR_A": widest(problem.k, min(most, s["WIDEST"])),
        "VECTOR_B": widest(problem.n, min(most, s["TN"])),
    }


def _whole_vectors(s: Settings) -> str | None:
    most = LOAD_BYTES // DIRECT_TYPES[s["DTYPE"]].a.bytes
    if s["TN"] % s["VECTOR_B"]:
        return f"gives a lane {s['TN']} columns, no whole vectors of {s['VECTOR_B']}"
    if max(s["VECTOR_A"], s["VECTOR_B"]) > most:
        return f"loads more than {LOAD_BYTES} bytes at once"
    return None


DIRECT = Rung(
    name="20_direct",
    title="No shared memory",
    idea="each lane reads what it multiplies straight from global memory, for tiny and thin C",
    parameters=(
        *_parameters(LANES, {
            "TM": "rows of C that a lane computes", "TN": "columns",
            "LANES_N": "lanes side by side along N", "LANES_K": "lanes that share K",
            "WARPS": "warps of a block along M", "WARPS_K": "warps that share K",
            "UNROLL": "loads of a row of A at once", "ONE_COLUMN": "1: N is 1",
        }),
        Parameter("WIDEST", 1, (1, 2, 4, 8), "elements of A in a load at most", macro=False),
        Parameter("VECTOR_A", 1, (1, 2, 4, 8), "elements of A in a load", tuned=False),
        Parameter("VECTOR_B", 1, (1, 2, 4, 8), "elements of B in a load", tuned=False),
        Parameter(
            "DTYPE", 0, (0, 1, 2), "A, B and C: 0 float32, 1 float16, 2 bfloat16", tuned=False
        ),
    ),
    families=LANES,
    tile=_lane_tile,
    depth=lambda s: s["UNROLL"] * s["VECTOR_A"] * s["LANES_K"] * s["WARPS_K"],
    plan=_direct,
    constraints=(Constraint("whole vectors", _whole_vectors),),
    model_bytes=lambda problem, s: tile_reuse(
        problem, dict(zip(("BM", "BN"), _lane_tile(s), strict=True)), DIRECT_TYPES[s["DTYPE"]]
    ),
    needs_arch=lambda s: "sm_80",
    by_type=lambda s: DIRECT_TYPES[s["DTYPE"]],
    suited=_vectors,
)  # fmt: skip


# ---- stream-K on tensor cores --------------------------------------------------------------------

SQUARES = _families("squares.csv")
CUTS = {
    0: "tiles are whole", 1: "the last round's tiles are cut, each into equally many parts",
    2: "they are cut evenly among all workers", 3: "those of the last two rounds are",
    4: "each tile of the last round into half as many parts as 1",
}  # fmt: skip


def _stream_k_bytes(s: Settings) -> int:
    """Stages, whose columns of B come in whole squares, buffers for C, two mbarriers a stage."""
    columns = ceil_div(s["BN"], SQUARE) * SQUARE
    stage, groups = (s["BM"] + columns) * ROW_BYTES, s["BM"] // GROUP_ROWS
    buffers = 2 if s["BN"] // SQUARE % 2 == 0 and s["BM"] <= 2 * GROUP_ROWS else 1
    return s["STAGES"] * (stage + 2 * BARRIER_BYTES) + groups * buffers * SQUARE_BYTES


def _divided(problem: Problem, s: Settings, target: Target) -> tuple[int, int, int]:
    """(workers, cut tiles, workers that share them); a worker is a cluster, its tiles are one."""
    down, across = cluster_tiles(s)
    tiles = ceil_div(problem.m, s["BM"] * down) * ceil_div(problem.n, s["BN"] * across)
    most = max(1, target.sm_count * s["MIN_BLOCKS"] // s["CLUSTER"])
    length, last = ceil_div(problem.k, SQUARE), tiles % most
    sharing, cut = 0, last
    if last and s["CUT"] in (1, 4):
        parts = most // last // (2 if s["CUT"] == 4 else 1)
        sharing = last * min(parts, length // LEAST)
    elif last and s["CUT"] == 2:
        sharing = min(most, last * length // LEAST)
    elif last and s["CUT"] == 3 and tiles > most and (last + most) * length >= most * LEAST:
        sharing, cut = most, last + most
    if sharing <= last:
        return max(1, ceil_div(tiles, ceil_div(tiles, most))), 0, 0
    return (most if tiles > cut else sharing), cut, sharing


def _stream_k(problem: Problem, s: Settings, target: Target) -> Launch:
    workers, cut, sharing = _divided(problem, s, target)
    down, across = cluster_tiles(s)
    a, b = maps_of({"OP_B": 0}, s["BM"] // across, s["BN"] // down)
    parts = 8 * s["BM"] * s["BN"] * s["CLUSTER"] * sharing
    return Launch(
        "stream_k", (workers * s["CLUSTER"], 1, 1),
        (GROUP_THREADS * (s["BM"] // GROUP_ROWS + 1), 1, 1), _stream_k_bytes(s),
        args=(a, b, MapOf("C", (SQUARE, SQUARE), "128B"), *PRODUCT[2:], cut, sharing,
              Workspace("parts", max(16, parts)),
              Workspace("arrived", 4 * max(1, cut) * s["CLUSTER"], zeroed=True)),
        cluster=(s["CLUSTER"], 1, 1), early=True,
    )  # fmt: skip


STREAM_K = Rung(
    name="20_stream_k",
    title="Stream-K on tensor cores",
    idea="tiles that fill no round of all SMs are cut evenly among them",
    parameters=(
        *_parameters(SQUARES, {
            "BM": "rows of C that a block computes", "BN": "columns", "STAGES": "of the pipeline",
            "MIN_BLOCKS": "blocks that fit on an SM", "CLUSTER": "blocks that share B",
            "SHARE_A": "1: they share A, their tiles side by side",
        }),
        Parameter(
            "CUT", 1, tuple(CUTS), "; ".join(f"{c}: {what}" for c, what in CUTS.items()),
            macro=False,
        ),
        Parameter("DTYPE", 0, (0, 1), "A, B and C: 0 float16, 1 bfloat16", tuned=False),
    ),
    families=SQUARES,
    tile=tile,
    depth=lambda s: SQUARE,
    cluster_tiles=cluster_tiles,
    divided=_divided,
    plan=or_any_width(_stream_k),
    constraints=(fits(_stream_k_bytes, ARCH),),
    model_bytes=lambda problem, s: tile_reuse(problem, s, TYPES[s["DTYPE"]]),
    needs_arch=lambda s: ARCH,
    precision=HALF,
    by_type=lambda s: TYPES[s["DTYPE"]],
    by_wgmma=True,
)  # fmt: skip

KERNELS = (ANY_SHAPE, DIRECT, STREAM_K)
