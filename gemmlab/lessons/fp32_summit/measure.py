"""What is measured for this lesson: the way from rung 10 to rung 22, and 22 with another loop.

    python -m gemmlab record 22_steps

verifies each, times it in turn with cuBLAS, and compares its errors with those of cuBLAS;
results/<gpu>/summit_steps.csv. What is rewritten is the cubin of the NVRTC in the column `nvrtc`;
where the loop of another version cannot be rewritten, its rows are left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gemmlab.kernel.compiler import Compiled
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import Operands
from gemmlab.lessons.fp32_summit.rewriting import Change, rewritten
from gemmlab.measure.in_turn import make_sets
from gemmlab.measure.timing import arena_of
from gemmlab.records.ablations import AblationStep, Shape, ablation, steps_beside
from gemmlab.records.best_by_shape import IN_TURN, at_length
from gemmlab.records.registry import POSITIVE, REPORTED, SIZE, TEXT, WITH_CUBLAS, Row
from gemmlab.records.runs import cells_of

PAIRS = {2048: 20, 4096: 20, 8192: 8, 16384: 4}  # of samples, by M
LARGE, HUGE = 4096, 8192
ERROR_ROWS = 64  # of C, that are compared with float64
AT_LENGTH = "at_length"  # also after a pause, and for seconds


@dataclass(frozen=True, kw_only=True)
class SummitStep(AblationStep):
    """change: of its machine code."""

    change: Change | None = None

    def kernel(self, compiled: Compiled | None = None) -> Kernel:
        """To be launched on a GPU. Raises NoListing where its loop cannot be rewritten."""
        kernel = super().kernel(compiled)
        cubin = kernel.compiled.cubin
        if self.change is not None:
            cubin = rewritten(cubin, self.rung.entry(self.all_settings), self.change)
        return kernel.made_of(cubin)


CHANGES = {  # of the loop, by title
    **{f"loads {n} multiply-adds apart": Change(n) for n in (8, 12, 16, 20)},
    "loads 15 multiply-adds apart, the first 6 later": Change(15, first=6),
}
WAY, REWRITTEN = (
    tuple(
        SummitStep(**vars(step), change=CHANGES.get(step.title))
        for step in steps_beside(__file__, group)
    )
    for group in ("way", "rewritten")
)
EVERY = (*WAY, *REWRITTEN)


def _rows(step: AblationStep, kernel: Kernel, shape: Shape) -> Iterator[Row]:
    size = shape[0]
    long = AT_LENGTH in step.also and size in (LARGE, HUGE)
    for way, run in at_length(kernel, shape, PAIRS[size], long):
        wrong = _errors(kernel, shape) if (way, size) == (IN_TURN, LARGE) else {}
        yield cells_of(run, run.problem) | {"way": way} | wrong


def _errors(kernel: Kernel, shape: Shape) -> Row:
    """Of some rows of C, ours and cuBLAS's: the distance from float64, as a share of its length."""
    import cupy

    with arena_of(kernel, *shape) as arena:
        operands = Operands(arena.problem, kernel.precision, *make_sets(arena.problem, 1)[0])
        rows = cupy.arange(0, shape[0], shape[0] // ERROR_ROWS)
        expected = operands.A[rows].astype("float64") @ operands.B.astype("float64")
        errors = []
        for launched in (kernel, arena.cublas):
            launched.launch(operands, 1.0, 0.0)
            distance = cupy.linalg.norm(operands.C[rows] - expected)
            errors.append(float(distance / cupy.linalg.norm(expected)))
    return dict(zip(("error", "cublas_error"), errors, strict=True))


TABLE = ablation(
    "22_steps", "summit_steps.csv", EVERY,
    {
        **TEXT("step", "kernel", "settings"), **SIZE("m", "n", "k"), **TEXT("way"),
        **POSITIVE("tflops", "cublas_tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3"),
        **SIZE("pairs"), **REPORTED("sm_clock_mhz", "power_w", "error", "cublas_error"),
        **WITH_CUBLAS,
    },
    ("step", "kernel", "settings", "m", "n", "k", "way"), _rows,
)  # fmt: skip
EVIDENCE = (TABLE,)
