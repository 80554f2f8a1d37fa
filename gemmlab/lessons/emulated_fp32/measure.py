"""What is recorded of this lesson: errors (see `errors`), and the speed of each way.

    python -m gemmlab record 23_steps

verifies each way and times it, its splitting included, in turn with cuBLAS's SGEMM;
results/<gpu>/emulated_steps.csv.
"""

from collections.abc import Iterator

from gemmlab.kernel.kernel import Kernel
from gemmlab.lessons.emulated_fp32.errors import ERRORS
from gemmlab.records.ablations import AblationStep, Shape, ablation, steps_beside
from gemmlab.records.best_by_shape import at_length
from gemmlab.records.registry import POSITIVE, REPORTED, SIZE, TEXT, WITH_CUBLAS, Row
from gemmlab.records.runs import cells_of

PAIRS = {4096: 20, 8192: 10}  # of samples, by M
STEPS = steps_beside(__file__, shapes=tuple((size,) * 3 for size in PAIRS))


def _rows(step: AblationStep, kernel: Kernel, shape: Shape) -> Iterator[Row]:
    for way, run in at_length(kernel, shape, PAIRS[shape[0]], "at_length" in step.also):
        yield cells_of(run, run.problem) | {"way": way}


SPEEDS = ablation(
    "23_steps", "emulated_steps.csv", STEPS,
    {
        **TEXT("step", "kernel", "settings"), **SIZE("m", "n", "k"), **TEXT("way"),
        **POSITIVE("tflops", "cublas_tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3"),
        **SIZE("pairs"), **REPORTED("sm_clock_mhz", "power_w"), **WITH_CUBLAS,
    },
    ("step", "kernel", "settings", "m", "n", "k", "way"), _rows,
)  # fmt: skip
EVIDENCE = (ERRORS, SPEEDS)
