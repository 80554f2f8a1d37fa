"""Rung 16: its entry on the ladder."""

from collections.abc import Callable

from gemmlab.ladder.launch import PRODUCT, Launch, MapOf, Target
from gemmlab.ladder.precision import BRAIN, BRAIN_TO_SINGLE, HALF, HALF_TO_SINGLE, Precision
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.settings import IllegalSetting, Parameter, Settings
from gemmlab.ladder.shapes import ceil_div, fits, ops, tile, tile_reuse

TYPES = ((HALF, HALF_TO_SINGLE), (BRAIN, BRAIN_TO_SINGLE))  # by the values of DTYPE and OUT32
GROUP_THREADS, GROUP_ROWS = 128, 64  # of a warpgroup: its threads, and the rows of C it computes
ROW_BYTES = 128  # of a tile in shared memory, and of a piece of C on its way out
SQUARE = 64  # elements of 16 bits in a row, and as many rows: what one swizzled square holds
SQUARE_BYTES = SQUARE * ROW_BYTES
BARRIER_BYTES = 8
MAP_ALIGNMENT = 16  # bytes, of the rows of a matrix that has a tensor map
ARCH = "sm_90a"


def precision(s: Settings) -> Precision:
    return TYPES[s["DTYPE"]][s["OUT32"]]


def stages_bytes(s: Settings) -> int:
    return s["STAGES"] * (s["BM"] + s["BN"]) * ROW_BYTES


def _copied_bytes(s: Settings) -> int:
    """Of a block that copies what it multiplies: stages, an mbarrier for each."""
    return stages_bytes(s) + BARRIER_BYTES * s["STAGES"]


def has_maps(problem: Problem) -> bool:
    """Whether rows of A, B and a C of 16 bits begin at multiples of 16 bytes, and K is not 0."""
    widths = problem.shape_of_a[-1], problem.shape_of_b[-1], problem.n
    return problem.k > 0 and all(width * HALF.a.bytes % MAP_ALIGNMENT == 0 for width in widths)


def maps_of(s: Settings, rows_of_a: int, columns_of_b: int) -> tuple[MapOf, MapOf]:
    """Of A and B, of which a block brings so many, those of B in one box where B is transposed."""
    b = (columns_of_b, SQUARE) if s["OP_B"] else (SQUARE, SQUARE)
    return MapOf("A", (rows_of_a, SQUARE), "128B"), MapOf("B", b, "128B")


def tiles_of(problem: Problem, s: Settings) -> tuple[int, int]:
    return ceil_div(problem.m, s["BM"]), ceil_div(problem.n, s["BN"])


def clusters_for(tiles: int, sm_count: int, together: int) -> int:
    """As few clusters of so many blocks as need no more rounds for these tiles, one for a cluster
    at a time, than all that fit on the GPU."""
    return ceil_div(tiles, ceil_div(tiles, max(1, sm_count // together)))


def require_maps(name: str, problem: Problem, of_n: int, of_k: int) -> None:
    """Raises IllegalSetting where rows of a matrix do not begin at multiples of 16 bytes."""
    if problem.n % of_n or problem.k % of_k or not problem.k:
        raise IllegalSetting(
            f"{name} takes an N that is a multiple of {of_n} and a K from {of_k} on that is one of "
            f"{of_k}, not N={problem.n} and K={problem.k}"
        )


Launched = Callable[[Problem, Settings, Target], Launch]


def or_any_width(by_maps: Launched) -> Callable[[Problem, Settings, Target], list[Launch]]:
    """The launch, or for matrices that cannot have tensor maps that of any_width.cuh."""

    def plan(problem: Problem, s: Settings, target: Target) -> list[Launch]:
        if has_maps(problem):
            return [by_maps(problem, s, target)]
        grid = ceil_div(problem.n, SQUARE), ceil_div(problem.m, GROUP_ROWS), 1
        return [Launch("any_width", grid, (GROUP_THREADS, 1, 1), args=PRODUCT)]

    return plan


def _one_block_a_tile(problem: Problem, s: Settings, target: Target) -> Launch:
    down, across = tiles_of(problem, s)
    threads = GROUP_THREADS * (s["BM"] // GROUP_ROWS)
    return Launch(
        "tma_wgmma", (down * across, 1, 1), (threads, 1, 1), _copied_bytes(s),
        args=(*maps_of(s, s["BM"], s["BN"]), *PRODUCT[2:]),
    )  # fmt: skip


def parameters(stages: tuple[int, ...]) -> tuple[Parameter, ...]:
    return (
        Parameter("BM", 128, (64, 128), "rows of C that a block computes"),
        Parameter("BN", 256, (64, 128, 256), "columns of C that a block computes"),
        Parameter("STAGES", 4, stages, "pairs of tiles in shared memory"),
        Parameter("GROUP", 16, (1, 2, 4, 8, 16, 32), "rows of tiles that are computed together"),
    )


WHAT = (
    Parameter("OP_B", 0, (0, 1), "B: 0 as it is, 1 stored transposed", tuned=False),
    Parameter("DTYPE", 0, (0, 1), "A and B: 0 float16, 1 bfloat16", tuned=False),
    Parameter("OUT32", 0, (0, 1), "1: C is float32", tuned=False),
)

USUAL = {
    "BM": 128, "BN": 256, "STAGES": 4, "GROUP": 16, "SPLIT": 1, "CLUSTER": 2, "SHARE_A": 0,
    "SEND_LATER": 1, "EARLY_LAUNCH": 1, "OP_B": 0, "DTYPE": 0, "OUT32": 0,
}  # fmt: skip
SMALL_C = 2048 * 2048  # elements; below it few tiles are large
LARGE_TILE = 128 * 128


def _changed(s: Settings) -> set[str]:
    return {name for name, value in s.items() if value != USUAL[name]}


# What a sweep tries besides the default: of some forty that were timed on an NVIDIA H200 they were
# the fastest somewhere, or near it.
TRIED = tuple(
    dict(zip(("BM", "BN", "STAGES", "SPLIT", "CLUSTER", "SHARE_A"), values, strict=True))
    for values in (
        (64, 64, 8, 2, 1, 0), (64, 64, 8, 1, 1, 0), (64, 128, 8, 2, 1, 0), (64, 128, 8, 1, 1, 0),
        (128, 64, 8, 1, 1, 0), (128, 128, 6, 1, 1, 0), (128, 128, 4, 1, 1, 0),
        (64, 128, 6, 1, 1, 0), (128, 256, 4, 1, 1, 0), (128, 64, 8, 1, 2, 1),
        (128, 64, 8, 1, 4, 1), (64, 64, 8, 1, 2, 1),
    )
)  # fmt: skip


def _swept(problem: Problem, s: Settings) -> bool:
    """Small tiles where C is small; the default alone where there are no tensor maps."""
    if not has_maps(problem) or not _changed(s):
        return not _changed(s)
    of_tiles = {"SPLIT": 1, "CLUSTER": 1, "SHARE_A": 0} | s
    if s["GROUP"] != USUAL["GROUP"] or not any(t.items() <= of_tiles.items() for t in TRIED):
        return False
    return problem.m * problem.n < SMALL_C or s["BM"] * s["BN"] >= LARGE_TILE


common = {
    "tile": tile,
    "depth": lambda s: SQUARE,
    "model_bytes": lambda problem, s: tile_reuse(problem, s, precision(s)),
    "needs_arch": lambda s: ARCH,
    "precision": HALF,
    "by_type": precision,
    "ops": lambda s: ops({"OP_A": 0, **s}),
    "swept": _swept,
    "by_wgmma": True,
}

RUNG = Rung(
    name="16_tma_wgmma",
    title="Tensor copies and warpgroup products",
    idea="one thread copies a box, and 128 threads multiply it with one instruction",
    inner_loop=(
        ("__device__ __forceinline__ void copy_k_tile", "}"),
        ("for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {", "}"),
    ),
    parameters=(*parameters((1, 2, 3, 4, 6)), *WHAT),
    plan=or_any_width(_one_block_a_tile),
    constraints=(fits(_copied_bytes, ARCH),),
    **common,
)
