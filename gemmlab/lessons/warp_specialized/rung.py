"""Rung 17: its entry on the ladder."""

from gemmlab.ladder.launch import PRODUCT, Argument, Launch, MapOf, Target
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.rung import Planted, Rung
from gemmlab.ladder.settings import Constraint, Parameter, Settings
from gemmlab.ladder.shapes import fits
from gemmlab.lessons.tma_wgmma import rung as tma_wgmma
from gemmlab.lessons.tma_wgmma.rung import ARCH, GROUP_ROWS, GROUP_THREADS


def c_columns(s: Settings) -> int:
    """Of C, as many as one row of shared memory holds."""
    return tma_wgmma.ROW_BYTES // (4 if s["OUT32"] else 2)


def sent_bytes(s: Settings) -> int:
    """Of a block that also stores C by tensor map: buffers, a second mbarrier for each stage."""
    buffers = min(2, s["BN"] // c_columns(s))  # squares of a warpgroup's part of C
    buffer_bytes = s["BM"] // GROUP_ROWS * buffers * tma_wgmma.SQUARE_BYTES
    return tma_wgmma.stages_bytes(s) + buffer_bytes + 2 * tma_wgmma.BARRIER_BYTES * s["STAGES"]


def sent(
    entry: str, blocks: int, s: Settings, cluster: int, maps: tuple[MapOf, MapOf],
    args: tuple[Argument, ...] = PRODUCT[2:],
) -> Launch:  # fmt: skip
    """Of blocks that send what they have computed, so many of them in a cluster."""
    threads = GROUP_THREADS * (s["BM"] // GROUP_ROWS + 1)
    map_of_c = MapOf("C", (GROUP_ROWS, c_columns(s)), "128B")
    return Launch(
        entry, (blocks, 1, 1), (threads, 1, 1), sent_bytes(s), (cluster, 1, 1),
        (*maps, map_of_c, *args), early=bool(s["EARLY_LAUNCH"]),
    )  # fmt: skip


def _specialized(problem: Problem, s: Settings, target: Target) -> Launch:
    down, across = tma_wgmma.tiles_of(problem, s)
    blocks = down * across * s["SPLIT"]
    return sent("warp_specialized", blocks, s, s["SPLIT"], tma_wgmma.maps_of(s, s["BM"], s["BN"]))


def _room_for_sums(s: Settings) -> str | None:
    """Whether the sums of a block that shares its tile find room where its stages were."""
    accumulator_bytes = 4 * s["BM"] * s["BN"]
    if s["SPLIT"] > 1 and accumulator_bytes > (stages := tma_wgmma.stages_bytes(s)):
        return f"leaves {stages} bytes for sums of {accumulator_bytes} bytes: choose more STAGES"
    return None


THIN = ((64, 4096, 7168), (128, 7168, 2048))
EARLY = Parameter(
    "EARLY_LAUNCH", 1, (0, 1), "1: a launch begins while the one before ends", tuned=False
)

RUNG = Rung(
    name="17_warp_specialized",
    title="Warp specialization",
    idea="a warp that only copies, warps that only multiply, a ring of stages between them",
    inner_loop=(
        ("for (int k_tile = 0; k_tile < k_tiles; ++k_tile, state", "copy_b("),
        ("for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {", "}"),
    ),
    parameters=(
        *tma_wgmma.parameters((2, 3, 4, 6, 8)),
        Parameter("SPLIT", 1, (1, 2, 4, 8), "parts of K, a block for each"),
        EARLY,
        *tma_wgmma.WHAT,
    ),
    plan=tma_wgmma.or_any_width(_specialized),
    constraints=(fits(sent_bytes, ARCH), Constraint("room for sums", _room_for_sums)),
    tuned_shapes=(*THIN, (512, 512, 8192), (1024, 1024, 1024), (2048, 2048, 2048)),
    planted=Planted.beside(__file__),
    **tma_wgmma.common,
)
