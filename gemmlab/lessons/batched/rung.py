"""Rung 13: its entry on the ladder."""

from gemmlab.ladder import launch, shapes
from gemmlab.ladder.launch import Launch, Target
from gemmlab.ladder.problem import BATCHES, Problem
from gemmlab.ladder.rung import Planted, Rung
from gemmlab.ladder.settings import Parameter, Settings, enough_registers
from gemmlab.lessons.split_k.rung import SQUARE, families, parameters, stages_bytes


def _batched_plan(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    across, down, _ = shapes.tiles_of_c(problem.m, problem.n, s)
    blocks = min(problem.batch * across * down, s["RESIDENT"] * target.sm_count)
    args = (
        *(launch.POINTERS if s["POINTERS"] else launch.MATRICES), "M", "N", "K",
        *launch.LEADING, *launch.STRIDES, "batch", "alpha", "beta",
    )  # fmt: skip
    threads = shapes.threads_of_tiles(s)
    return [Launch("batched", (blocks, 1, 1), (threads, 1, 1), stages_bytes(s), args=args)]


BATCHED_FAMILIES = families(
    (64, 64, 16, 8, 8, 3, 3), (64, 64, 16, 8, 4, 4, 3), (32, 32, 32, 8, 4, 2, 3),
    (128, 128, 16, 8, 8, 4, 3), (128, 128, 16, 8, 16, 3, 1), (128, 256, 32, 8, 16, 3, 1),
)  # fmt: skip


def _suits(problem: Problem, s: Settings) -> bool:
    """Whether a sweep tries the settings: on batches whose products are one to four tiles."""
    m, n, _ = problem.shape
    inside = s["BM"] <= m and s["BN"] <= n
    return problem.batch > 1 and inside and 4 * s["BM"] * s["BN"] >= m * n


RUNG = Rung(
    name="13_batched",
    title="Batched products",
    idea="one pipeline through all products of a batch: the next one is copied meanwhile",
    inner_loop=(
        ("if (copied_k >= copied_matrices.K)", "copied_k += BK"),
        ("for (; tile.product < batch", "accumulators, alpha, beta"),
    ),
    parameters=(
        *parameters(BATCHED_FAMILIES, SQUARE),
        Parameter("RESIDENT", 6, (1, 2, 3, 4, 6, 8, 12), "blocks that run on an SM at a time"),
        Parameter("POINTERS", 0, (0, 1), "1: arrays of addresses", tuned=False),
        *shapes.operations(),
    ),
    families=BATCHED_FAMILIES,
    tuned_shapes=tuple((*problem.shape, problem.batch) for problem in BATCHES),
    swept=_suits,
    tile=shapes.tile,
    plan=_batched_plan,
    constraints=(
        enough_registers(
            lambda s: s["TM"] * s["TN"] + 2 * (s["TM"] + s["TN"]),
            lambda s: f"{s['TM']}×{s['TN']} sums, two columns, two rows",
            shapes.threads_of_tiles,
            lambda s: s["RESIDENT"],
        ),
    ),
    model_bytes=lambda problem, s: problem.batch * shapes.tile_reuse(problem, s),
    needs_arch=lambda s: "sm_80",
    ops=shapes.ops,
    batch=3,
    shown_at=Problem(64, 64, 64, 4096),
    planted=Planted.beside(__file__),
)
