"""Kernel of 26: no rung beside those of Hopper, for no GPU here has the instructions."""

from gemmlab.ladder.launch import PRODUCT, Launch, MapOf, Target
from gemmlab.ladder.precision import HALF
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.rung import Planted, Rung
from gemmlab.ladder.settings import Constraint, Parameter, Settings
from gemmlab.ladder.shapes import ceil_div, fits, tile_reuse
from gemmlab.lessons.tma_wgmma.rung import (
    BARRIER_BYTES,
    ROW_BYTES,
    SQUARE,
    clusters_for,
    has_maps,
)

ARCH = "sm_100a"
LANES = 128  # of tensor memory, one for each row of C that a block computes
HALVES = 2  # of tensor memory, for the sums of a tile each
EPILOGUE_WARPS = 4
STORE_ROWS = 32  # of C, that a warp of the epilogue stores
THREADS = 32 * (EPILOGUE_WARPS + 2)
ADDRESS_BYTES = 4  # of the address of the block's tensor memory
ANY_WIDTH = (32, 8)  # columns and rows of C of a block of any_width_blackwell.cuh


def tile(s: Settings) -> tuple[int, int]:
    return LANES, s["BN"]


def shared_bytes(s: Settings) -> int:
    """Stages, buffers for C, two mbarriers for each stage and each half."""
    stages = s["STAGES"] * (LANES + s["BN"] // s["CTAS"]) * ROW_BYTES
    buffers = EPILOGUE_WARPS * (2 if s["BN"] % (2 * SQUARE) == 0 else 1)
    stores = buffers * STORE_ROWS * ROW_BYTES
    return stages + stores + 2 * BARRIER_BYTES * (s["STAGES"] + HALVES) + ADDRESS_BYTES


def _plan(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    if not has_maps(problem):
        wide, high = ANY_WIDTH
        grid = ceil_div(problem.n, wide), ceil_div(problem.m, high), 1
        return [Launch("any_width", grid, (*ANY_WIDTH, 1), args=PRODUCT)]
    together = s["CTAS"]
    tiles = ceil_div(problem.m, LANES * together) * ceil_div(problem.n, s["BN"])
    blocks = clusters_for(tiles, target.sm_count, together) * together
    maps = (
        MapOf("A", (LANES, SQUARE), "128B"), MapOf("B", (SQUARE, SQUARE), "128B"),
        MapOf("C", (STORE_ROWS, SQUARE), "128B"),
    )  # fmt: skip
    return [Launch(
        "blackwell", (blocks, 1, 1), (THREADS, 1, 1), shared_bytes(s), (together, 1, 1),
        (*maps, *PRODUCT[2:]), early=True,
    )]  # fmt: skip


def _whole_squares(s: Settings) -> str | None:
    if s["BN"] // s["CTAS"] < SQUARE:
        return f"leaves each block less than the {SQUARE} columns of B that it copies at a time"
    return None


BLACKWELL = Rung(
    name="26_blackwell",
    title="Accumulators in tensor memory",
    idea="one thread multiplies into tensor memory, and the epilogue has warps of its own",
    inner_loop=(("} else if (warp == MULTIPLIER) {", "} else {"),),
    parameters=(
        Parameter("BN", 256, (64, 128, 256), "columns of C that a block computes"),
        Parameter("STAGES", 4, (2, 3, 4, 6, 8), "pairs of tiles in shared memory"),
        Parameter("GROUP", 16, (1, 4, 16), "rows of tiles that are computed together"),
        Parameter("CTAS", 1, (1, 2), "SMs that compute a tile together"),
    ),
    tile=tile,
    depth=lambda s: SQUARE,
    cluster_tiles=lambda s: (s["CTAS"], 1),
    plan=_plan,
    constraints=(fits(shared_bytes, ARCH), Constraint("whole squares of B", _whole_squares)),
    model_bytes=lambda problem, s: tile_reuse(problem, {"BM": LANES, **s}, HALF),
    needs_arch=lambda s: ARCH,
    precision=HALF,
    by_tcgen05=True,
    planted=Planted.beside(__file__),
)
KERNELS = (BLACKWELL,)
