"""What is recorded of this lesson: errors (see `errors`), the speed of each way, and its power.

    python -m gemmlab record 23_steps
    python -m gemmlab record 23_power

The first verifies each way and times it, its splitting included, in turn with cuBLAS's SGEMM;
results/<gpu>/emulated_steps.csv. The second times SGEMM, 22, and the two ways that are as accurate,
each alone, in a burst and sustained; results/<gpu>/emulated_power.csv.
"""

from collections.abc import Iterator

from gemmlab import ladder
from gemmlab.cuda.cublas import Cublas
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import Operands
from gemmlab.ladder import SINGLE, Problem
from gemmlab.lessons.emulated_fp32.errors import ERRORS, SGEMM
from gemmlab.loading import load
from gemmlab.measure.in_turn import make_sets
from gemmlab.measure.power import Work
from gemmlab.measure.timing import require_verified
from gemmlab.records import registry
from gemmlab.records.ablations import HUGE, AblationStep, Shape, ablation, steps_beside
from gemmlab.records.best_by_shape import at_length
from gemmlab.records.registry import POSITIVE, SIZE, TEXT, WITH_CUBLAS, Row, Say, Table
from gemmlab.records.roofs import LOADS, PACE, paced
from gemmlab.records.runs import cells_of

PAIRS = {1024: 20, 2048: 20, 4096: 20, 8192: 10}  # of samples, by M
STEPS = steps_beside(__file__, shapes=tuple((size,) * 3 for size in PAIRS))
SUMMIT, ALONE = "22_fp32_summit", "alone, "


def _rows(step: AblationStep, kernel: Kernel, shape: Shape) -> Iterator[Row]:
    for way, run in at_length(kernel, shape, PAIRS[shape[0]], "at_length" in step.also):
        yield cells_of(run, run.problem) | {"way": way}


SPEEDS = ablation(
    "23_steps", "emulated_steps.csv", STEPS,
    {
        **TEXT("step", "kernel", "settings"), **SIZE("m", "n", "k"), **TEXT("way"),
        **POSITIVE("tflops", "cublas_tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3"),
        **SIZE("pairs"), **registry.REPORTED("sm_clock_mhz", "power_w"), **WITH_CUBLAS,
    },
    ("step", "kernel", "settings", "m", "n", "k", "way"), _rows,
)  # fmt: skip


def _measure_power(say: Say) -> Iterator[Row]:
    """cuBLAS and the kernels, verified. Raises CublasError, VerificationError, TimingError."""
    import cupy

    problem = Problem(*HUGE)
    kernels = {SUMMIT: load(SUMMIT)}
    kernels |= {step.title: step.kernel() for step in STEPS if "at_length" in step.also}
    for kernel in kernels.values():
        require_verified(kernel)
    operands = Operands(problem, SINGLE, *make_sets(problem, 1)[0])
    with Cublas(cupy.cuda.get_current_stream()) as library:
        for title, kernel in {SGEMM: library, **kernels}.items():
            launch = kernel.prepared(operands, 1.0, 0.0)
            settings = "" if kernel is library else ladder.written(kernel.settings)
            for which, pace in LOADS.items():
                cells = paced(pace(Work(launch, problem.flop)))
                say(f"23_power: {title}, {which}: {cells['tflops']:.1f} TFLOP/s")
                yield {
                    "step": title, "kernel": kernel.name, "settings": settings, "load": which,
                    **dict(zip("mnk", HUGE, strict=True)), **cells,
                }  # fmt: skip


POWER = Table(
    name="23_power", file="emulated_power.csv", key=("step", "kernel", "settings", "load"),
    columns={
        **TEXT("step", "kernel", "load"), **registry.NOTE("settings"), **SIZE("m", "n", "k"),
        **PACE, **WITH_CUBLAS,
    },
    measure=_measure_power,
)  # fmt: skip
EVIDENCE = (ERRORS, SPEEDS, POWER)
