"""Rungs 16 to 18: boxes by tensor map, products of warpgroups, for sm_90a alone."""

from __future__ import annotations

from collections.abc import Callable

from gemmlab.ladder.constraints import Constraint
from gemmlab.ladder.launch import PRODUCT, Launch, MapOf, Target
from gemmlab.ladder.precision import (
    BRAIN,
    BRAIN_TO_SINGLE,
    HALF,
    HALF_TO_SINGLE,
    Precision,
)
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.rungs.shapes import ceil_div, ops, tile, tile_reuse
from gemmlab.ladder.settings import Parameter, Settings

TYPES = ((HALF, HALF_TO_SINGLE), (BRAIN, BRAIN_TO_SINGLE))  # by the values of DTYPE and OUT32
GROUP_THREADS, GROUP_ROWS = 128, 64  # of a warpgroup: its threads, and the rows of C it computes
ROW_BYTES = 128  # of a tile in shared memory, and of a piece of C on its way out
SQUARE = 64  # elements of 16 bits in a row, and as many rows: what one swizzled square holds
SQUARE_BYTES = SQUARE * ROW_BYTES
BARRIER_BYTES = 8
MAP_ALIGNMENT = 16  # bytes, of the rows of a matrix that has a tensor map
BLOCK_SHARED_BYTES = 227 * 1024 - 1024  # what a block may ask for on sm_90a


def _precision(s: Settings) -> Precision:
    return TYPES[s["DTYPE"]][s["OUT32"]]


def _c_columns(s: Settings) -> int:
    """Of C, as many as one row of shared memory holds."""
    return ROW_BYTES // _precision(s).c.bytes


def _stages_bytes(s: Settings) -> int:
    return s["STAGES"] * (s["BM"] + s["BN"]) * ROW_BYTES


def _copied_bytes(s: Settings) -> int:
    """Of a block that copies what it multiplies: stages, an mbarrier for each."""
    return _stages_bytes(s) + BARRIER_BYTES * s["STAGES"]


def _sent_bytes(s: Settings) -> int:
    """Of one that also sends what it has computed: rooms, and a second mbarrier for each stage."""
    rooms = min(2, s["BN"] // _c_columns(s))  # squares of a warpgroup's part of C
    room_bytes = s["BM"] // GROUP_ROWS * rooms * SQUARE_BYTES
    return _stages_bytes(s) + room_bytes + 2 * BARRIER_BYTES * s["STAGES"]


def _has_maps(problem: Problem) -> bool:
    """Whether rows of A, B and C begin at multiples of 16 bytes, and there is something to sum.

    A C of float32 has longer rows, but is held to the same.
    """
    widths = problem.shape_of_a[-1], problem.shape_of_b[-1], problem.n
    return problem.k > 0 and all(width * HALF.a.bytes % MAP_ALIGNMENT == 0 for width in widths)


def _maps(s: Settings, columns_of_b: int) -> tuple[MapOf, MapOf]:
    """Of A and B. `columns_of_b`: how many one block brings, in one box where B is transposed."""
    b = (columns_of_b, SQUARE) if s["OP_B"] else (SQUARE, SQUARE)
    return MapOf("A", (s["BM"], SQUARE), "128B"), MapOf("B", b, "128B")


def _tiles(problem: Problem, s: Settings) -> tuple[int, int]:
    """Down and across, in blocks' tiles."""
    return ceil_div(problem.m, s["BM"]), ceil_div(problem.n, s["BN"])


Launched = Callable[[Problem, Settings, Target], Launch]


def _or_any_width(by_maps: Launched) -> Callable[[Problem, Settings, Target], list[Launch]]:
    """The launch, or for matrices that cannot have tensor maps that of any_width.cuh."""

    def plan(problem: Problem, s: Settings, target: Target) -> list[Launch]:
        if _has_maps(problem):
            return [by_maps(problem, s, target)]
        grid = ceil_div(problem.n, SQUARE), ceil_div(problem.m, GROUP_ROWS), 1
        return [Launch("any_width", grid, (GROUP_THREADS, 1, 1), args=PRODUCT)]

    return plan


def _one_block_a_tile(problem: Problem, s: Settings, target: Target) -> Launch:
    down, across = _tiles(problem, s)
    threads = GROUP_THREADS * (s["BM"] // GROUP_ROWS)
    return Launch(
        "tma_wgmma", (down * across, 1, 1), (threads, 1, 1), _copied_bytes(s),
        args=(*_maps(s, s["BN"]), *PRODUCT[2:]),
    )  # fmt: skip


def _sent(entry: str, blocks: int, s: Settings, together: int, columns_of_b: int) -> Launch:
    """Of blocks that send what they have computed, `together` of them in a cluster."""
    threads = GROUP_THREADS * (s["BM"] // GROUP_ROWS + 1)
    map_of_c = MapOf("C", (GROUP_ROWS, _c_columns(s)), "128B")
    return Launch(
        entry, (blocks, 1, 1), (threads, 1, 1), _sent_bytes(s), (together, 1, 1),
        (*_maps(s, columns_of_b), map_of_c, *PRODUCT[2:]), early=bool(s["EARLY_LAUNCH"]),
    )  # fmt: skip


def _specialized(problem: Problem, s: Settings, target: Target) -> Launch:
    down, across = _tiles(problem, s)
    return _sent("warp_specialized", down * across * s["SPLIT"], s, s["SPLIT"], s["BN"])


def _persistent(problem: Problem, s: Settings, target: Target) -> Launch:
    """As few clusters as need no more rounds than all that fit on the GPU at a time."""
    together = s["CLUSTER"]
    down, across = _tiles(problem, s)
    tiles = ceil_div(down, together) * across  # of a whole cluster
    most = max(1, target.sm_count // together)
    clusters = ceil_div(tiles, ceil_div(tiles, most))
    return _sent("persistent", clusters * together, s, together, s["BN"] // together)


def _fits(shared_bytes: Callable[[Settings], int]) -> Constraint:
    def broken(s: Settings) -> str | None:
        if (needed := shared_bytes(s)) > BLOCK_SHARED_BYTES:
            return f"needs {needed} bytes of shared memory, a block has {BLOCK_SHARED_BYTES}"
        return None

    return Constraint("shared memory", broken)


def _whole_squares(s: Settings) -> str | None:
    if s["BN"] // s["CLUSTER"] < SQUARE:
        return f"leaves each block less than the {SQUARE} columns of B that it brings at a time"
    return None


def _room_for_sums(s: Settings) -> str | None:
    """Whether the sums of a block that shares its tile find room where its stages were."""
    sums = 4 * s["BM"] * s["BN"]
    if s["SPLIT"] > 1 and sums > (stages := _stages_bytes(s)):
        return f"leaves {stages} bytes for sums of {sums} bytes: choose more STAGES"
    return None


def _parameters(stages: tuple[int, ...]) -> tuple[Parameter, ...]:
    return (
        Parameter("BM", 128, (64, 128), "rows of C that a block computes"),
        Parameter("BN", 256, (64, 128, 256), "columns of C that a block computes"),
        Parameter("STAGES", 4, stages, "pairs of tiles in shared memory"),
        Parameter("GROUP", 16, (1, 2, 4, 8, 16, 32), "rows of tiles that are computed together"),
    )


EARLY = Parameter(
    "EARLY_LAUNCH", 1, (0, 1), "1: a launch begins while the one before ends", tuned=False
)
USUAL = {
    "BM": 128, "BN": 256, "STAGES": 4, "GROUP": 16, "SPLIT": 1, "CLUSTER": 2, "EARLY_LAUNCH": 1,
    "OP_B": 0, "DTYPE": 0, "OUT32": 0,
}  # fmt: skip
TYPE_OF = {"OP_B", "DTYPE", "OUT32"}
WHAT = (
    Parameter("OP_B", 0, (0, 1), "B: 0 as it is, 1 stored transposed", tuned=False),
    Parameter("DTYPE", 0, (0, 1), "A and B: 0 float16, 1 bfloat16", tuned=False),
    Parameter("OUT32", 0, (0, 1), "1: C is float32", tuned=False),
)


def _ships(s: Settings) -> bool:
    """All tiles; with the usual one also other orders of tiles, other types and another B."""
    changed = {name for name, value in USUAL.items() if s.get(name, value) != value}
    return any(changed <= some for some in ({"BM", "BN", "STAGES", "CLUSTER"}, {"GROUP"}, TYPE_OF))


def _ops(s: Settings) -> str:
    return ops({"OP_A": 0, **s})


_common = {
    "tile": tile,
    "depth": lambda s: SQUARE,
    "model_bytes": lambda problem, s: tile_reuse(problem, s, _precision(s)),
    "needs_arch": lambda s: "sm_90a",
    "precision": HALF,
    "by_type": _precision,
    "ops": _ops,
    "ships": _ships,
    "by_wgmma": True,
}

TMA_WGMMA = Rung(
    name="16_tma_wgmma",
    title="Tensor copies and warpgroup products",
    idea="one thread brings a box, and 128 threads multiply it with one instruction",
    inner_loop=(("const auto fetch", "};"), ("for (int step = 0; step < steps", "}")),
    parameters=(*_parameters((1, 2, 3, 4, 6)), *WHAT),
    plan=_or_any_width(_one_block_a_tile),
    constraints=(_fits(_copied_bytes),),
    **_common,
)

WARP_SPECIALIZED = Rung(
    name="17_warp_specialized",
    title="Warp specialization",
    idea="a warp that only copies and warps that only multiply, with a ring between them",
    inner_loop=(
        ("for (int step = 0; step < steps; ++step, at", "[&](unsigned to"),
        ("for (int step = 0; step < steps; ++step) {", "}"),
    ),
    parameters=(
        *_parameters((2, 3, 4, 6, 8)),
        Parameter("SPLIT", 1, (1, 2, 4, 8), "parts of K, a block for each"),
        EARLY,
        *WHAT,
    ),
    plan=_or_any_width(_specialized),
    constraints=(_fits(_sent_bytes), Constraint("room for sums", _room_for_sums)),
    **_common,
)

PERSISTENT = Rung(
    name="18_persistent",
    title="Persistent blocks and clusters",
    idea="blocks that stay compute tile after tile, and two of them share what they bring",
    inner_loop=(
        ("for (; tile < down", "const int part"),
        ("for (; tile < down", "arrive_in_all("),
    ),
    parameters=(
        *_parameters((2, 3, 4, 6)),
        Parameter("CLUSTER", 2, (1, 2), "blocks that share B"),
        EARLY,
        *WHAT,
    ),
    plan=_or_any_width(_persistent),
    cluster_tiles=lambda s: (s["CLUSTER"], 1),
    constraints=(_fits(_sent_bytes), Constraint("whole squares of B", _whole_squares)),
    **_common,
)

RUNGS = (TMA_WGMMA, WARP_SPECIALIZED, PERSISTENT)
