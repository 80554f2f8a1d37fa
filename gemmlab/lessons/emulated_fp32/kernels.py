"""A kernel of gl.matmul besides the rungs: float32 by tensor cores of 16 bits."""

from gemmlab.ladder.launch import Launch, Target, Workspace
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.rung import Rung
from gemmlab.ladder.settings import Parameter, Settings
from gemmlab.ladder.shapes import ceil_div, operations, ops
from gemmlab.lessons.emulated_fp32.model import STAGE_K, WAYS, Way
from gemmlab.lessons.emulated_fp32.splits import precision_of
from gemmlab.lessons.tma_wgmma import rung as hopper

TILE = 128  # rows and columns of C that a block computes
CLUSTER = 2  # blocks, whose tiles lie below one another
SPLIT_LINES = 32  # rows of A or columns of B that a block splits ...
SPLIT_THREADS = {False: 256, True: 1024}  # ... with so many threads, by whether rows are scaled
WAVES = 16  # blocks for each SM that split, if K is long enough
INT_BYTES = 4


def _way(s: Settings) -> Way:
    return WAYS[s["WAY"]]


def _tile_bytes(s: Settings) -> int:
    """All parts of a tile of A, or of B, and of a stage along K."""
    return _way(s).parts * TILE * hopper.ROW_BYTES


def _shared_bytes(s: Settings) -> int:
    """Stages, and two mbarriers each."""
    stages = 2 if _way(s).parts == 3 else 3
    return stages * (2 * _tile_bytes(s) + 2 * hopper.BARRIER_BYTES)


def _plan(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    down, across = ceil_div(problem.m, TILE), ceil_div(problem.n, TILE)
    k_tiles = ceil_div(problem.k, STAGE_K)
    parts_a, parts_b = (
        Workspace(name, max(1, lines * k_tiles) * _tile_bytes(s))
        for name, lines in (("parts_a", down), ("parts_b", across))
    )
    exponents = (
        Workspace("exponents_a", down * TILE * INT_BYTES),
        Workspace("exponents_b", across * TILE * INT_BYTES),
    )
    blocks = (down + across) * (TILE // SPLIT_LINES)
    along_k = 1 if _way(s).scales else max(1, min(k_tiles, WAVES * target.sm_count // blocks))
    tiles = ceil_div(down, CLUSTER) * across
    clusters = hopper.clusters_for(tiles, target.sm_count, CLUSTER)
    threads = hopper.GROUP_THREADS * (TILE // hopper.GROUP_ROWS + 1)
    return [
        Launch(
            "split", (blocks, along_k, 1), (SPLIT_THREADS[_way(s).scales], 1, 1),
            args=("A", "B", parts_a, parts_b, *exponents, "lost", "M", "N", "K", "lda", "ldb"),
            early=True, prepares=True,
        ),
        Launch(
            "emulated_fp32", (clusters * CLUSTER, 1, 1),
            (threads, 1, 1), _shared_bytes(s), (CLUSTER, 1, 1),
            (parts_a, parts_b, *exponents, "C", "lost", "M", "N", "K", "ldc", "alpha", "beta"),
            early=True,
        ),
    ]  # fmt: skip


def _bytes(problem: Problem, s: Settings) -> int:
    """A and B are read, their parts written and read once for each column or row of tiles."""
    m, n, k = problem.shape
    of_parts = 2 * _way(s).parts
    once = (4 + of_parts) * (m * k + k * n) + 4 * m * n
    return once + of_parts * (ceil_div(n, TILE) * m * k + ceil_div(m, TILE) * k * n)


ways = ", ".join(f"{number} {way.name}" for number, way in enumerate(WAYS))
EMULATED = Rung(
    name="23_emulated_fp32",
    title="FP32 from tensor cores",
    idea="a float32 is the sum of numbers of 16 bits; sums of the largest products are promoted",
    parameters=(
        Parameter("WAY", 0, tuple(range(len(WAYS))), f"type and number of products: {ways}"),
        Parameter("PROMOTE", 128, (64, 128, 256, 1024), "of K, after which sums are promoted"),
        *operations(),
    ),
    inner_loop=(("// One interval.", "promote(totals, largest);"),),
    tile=lambda s: (TILE, TILE),
    depth=lambda s: STAGE_K,
    cluster_tiles=lambda s: (CLUSTER, 1),
    plan=_plan,
    constraints=(),
    model_bytes=_bytes,
    needs_arch=lambda s: hopper.ARCH,
    precision=precision_of(0, 128),
    by_type=lambda s: precision_of(s["WAY"], s["PROMOTE"]),
    ops=ops,
    by_wgmma=True,
)
KERNELS = (EMULATED,)
