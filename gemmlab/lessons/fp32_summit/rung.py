"""Rung 22: rung 10's loop with producer warps, tensor copies and blocks that share all the work."""

from gemmlab.ladder.launch import Launch, MapOf, Target, Workspace
from gemmlab.ladder.problem import Problem
from gemmlab.ladder.rung import Planted, Rung
from gemmlab.ladder.settings import Constraint, Parameter, Settings
from gemmlab.ladder.shapes import ceil_div, fits, tile, tile_reuse
from gemmlab.lessons.tma_wgmma.rung import ARCH

BM, BN, TM, TN = 128, 256, 8, 16  # as in rung 10 for large products
CONSUMERS, PRODUCERS = BM // TM * (BN // TN), 128  # threads of a block
WARPS = CONSUMERS // 32  # that multiply
PADDING = 4  # floats, of a row of A's tile
COLUMNS_OF_A_COPY = 4  # rows of B begin at whole 16 bytes, as tensor maps ask for, in steps of it
FLAG_BYTES = 4
GROUP = 8
NEARLY_ALL = 0.95  # of the SMs


def _shared_bytes(s: Settings) -> int:
    return s["STAGES"] * 4 * s["BK"] * (BM + PADDING + BN)


def _plan(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    """A block for each SM, but no more than there are tiles, or stages of them to share.

    Where tiles are nearly as many as SMs, joining parts would take longer than it saves.
    """
    tiles = ceil_div(problem.m, BM) * ceil_div(problem.n, BN)
    stages = max(1, ceil_div(problem.k, s["BK"]))
    cut = s["STREAM_K"] and not NEARLY_ALL * target.sm_count <= tiles <= target.sm_count
    blocks = max(1, min(target.sm_count, tiles * (stages if cut else 1)))
    parts = Workspace("parts", 4 * BM * BN * blocks)
    flags = Workspace("flags", FLAG_BYTES * WARPS * blocks, zeroed=True)
    mapped = problem.k > 0 and problem.n % COLUMNS_OF_A_COPY == 0 and s["MAPPED"]
    of_b = (MapOf("B", (s["BK"], BN)), "A") if mapped else ("A", "B")
    return [
        Launch(
            "fp32_summit" if mapped else "fp32_summit_unmapped",
            (blocks, 1, 1), (CONSUMERS + PRODUCERS, 1, 1), _shared_bytes(s),
            args=(*of_b, "C", "M", "N", "K", "alpha", "beta", parts, flags),
        )
    ]  # fmt: skip


def _only_to_compare(s: Settings) -> str | None:
    if s["GROUP"] != GROUP and not (s["STREAM_K"] and s["MAPPED"]):
        return f"is there to compare: STREAM_K=0 and MAPPED=0 only with GROUP={GROUP}"
    return None


RUNG = Rung(
    name="22_fp32_summit",
    title="FP32 summit",
    idea="warps that only copy, warps that only multiply, and all SMs at work to the end",
    inner_loop=(
        ("for (int k_tile = work.begin", "cp_async_arrive(stage_full)"),
        ("if (--chunks == 0)", "b = &shared.b"),
    ),
    parameters=(
        Parameter("BM", BM, (BM,), "rows of C that a block computes"),
        Parameter("BN", BN, (BN,), "columns of C that a block computes"),
        Parameter("BK", 64, (32, 64), "how far along K one stage goes"),
        Parameter("TM", TM, (TM,), "rows of C that a thread computes"),
        Parameter("TN", TN, (TN,), "columns of C that a thread computes"),
        Parameter("STAGES", 2, (2, 3, 4), "pairs of tiles in shared memory"),
        Parameter("GROUP", GROUP, (1, 4, 8, 16), "rows of tiles that are computed together"),
        Parameter("STREAM_K", 1, (0, 1), "1: the last tiles are cut, so that all have as much"),
        Parameter("MAPPED", 1, (0, 1), "1: B comes by tensor map where its rows allow it"),
        Parameter("PTXAS", 1, (1,), "the assembler's optimization; 1 keeps the order of the FMAs"),
    ),
    tile=tile,
    plan=_plan,
    constraints=(fits(_shared_bytes, ARCH), Constraint("only to compare", _only_to_compare)),
    model_bytes=tile_reuse,
    needs_arch=lambda s: ARCH,
    planted=Planted.beside(__file__),
)
