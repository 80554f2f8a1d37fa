"""A rung with the settings that suit each shape, against cuBLAS: measured on a GPU, read anywhere.

    python -m gemmlab record best_by_shape/10_register_banks

writes results/<gpu>/best_by_shape.csv: a row for each shape, and for large squares two more, after
a pause and under load for seconds. The settings are those of the rung's recorded sweep.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pandas

from gemmlab import ladder
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import Problem
from gemmlab.ladder.problem import BATCHES, OPERATIONS, SINGLE_PRODUCTS
from gemmlab.measure.timing import PAIRS, Measurement, compare
from gemmlab.records import registry, tuning
from gemmlab.records.registry import BATCH, OPS, POSITIVE, REPORTED, SIZE, TEXT, Row, Say
from gemmlab.records.runs import LARGE, SHAPES, cells_of

IN_TURN, BURST, SUSTAINED = "in turn", "burst", "sustained"
SMALLEST = 1024**3 / 4  # m * n * k from which a shape is measured
SQUARES_AT_LENGTH = (4096, 8192)
# Where single products are also measured with A and B stored transposed.
TURNED = ((64, 4096, 4096), (4096, 64, 4096), (256, 256, 16384), (1024, 1024, 512))
PAUSE_S = 3.0  # idle before a burst
LOAD_S = 3.0  # of ours and cuBLAS in turn
COLUMNS = {
    **TEXT("kernel", "settings"), **SIZE("m", "n", "k"), **TEXT("way"),
    **POSITIVE("tflops", "cublas_tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3"),
    **POSITIVE("noise_q1", "noise_q3"), **SIZE("pairs"),
    **REPORTED("sm_clock_mhz", "power_w", "temperature_c"),
    **registry.provenance("driver", "cuda", "cublas"), **BATCH("batch"), **OPS("ops"),
}  # fmt: skip


def tuned(name: str) -> pandas.DataFrame:
    """The recorded rows of a rung, columns COLUMNS; pct and noise are ratios in percent.

    `way` is "in turn", "burst" (in turn, after a pause) or "sustained" (in turn, for seconds).
    Raises LadderError.
    """
    return evidence(ladder.find(name)).read()


def of(kernel: Kernel, shape: tuning.Shape) -> pandas.Series:
    """The row of one kernel's settings at one shape, in turn with cuBLAS. Raises NoRecord."""
    m, n, k, batch = tuning.sizes_of(shape)
    problem = Problem(m, n, k, batch, kernel.rung.ops(kernel.settings))
    return at(kernel.name, problem, ladder.written(kernel.settings))


def at(name: str, problem: Problem, settings: str | None = None) -> pandas.Series:
    """The row of a rung at one problem, in turn with cuBLAS, with these settings if any are named.
    Raises NoRecord."""
    rows = tuned(name).query("way == @IN_TURN and ops == @problem.ops")
    so = "" if settings is None else f" with {settings}"
    if settings is not None:
        rows = rows[rows["settings"] == settings]
    shape = (*problem.shape, problem.batch)
    return registry.at_shape(rows, shape, f"{name}{so} is not recorded").iloc[0]


def evidence(rung: ladder.Rung) -> registry.Table:
    """What is kept of a rung."""
    return registry.Table(
        name=f"best_by_shape/{rung.name}", file="best_by_shape.csv",
        measure=partial(_measure, rung), key=("kernel", "settings", "m", "n", "k", "batch", "way"),
        columns=COLUMNS, part=("kernel", rung.name), fingerprint_of=partial(registry.of_row, rung),
    )  # fmt: skip


# ---- measuring -----------------------------------------------------------------------------------


def problems_of(rung: ladder.Rung) -> tuple[Problem, ...]:
    """What is measured of a rung: the shape set, the shapes of runs that are not tiny, and of a
    rung of warpgroups those of its own sweep.

    Of a rung that no sweep tries at large shapes, the shape set alone.
    """
    if rung.batch > 1:
        return tuple(replace(batch, ops=ops) for batch in BATCHES for ops in _ways(rung))
    tried = LARGE in tuning.shapes_of(rung)
    large = [shape for shape in SHAPES if tried and math.prod(shape) >= SMALLEST]
    of_its_sweep = rung.tuned_shapes if rung.needs_arch(rung.defaults) == "sm_90a" else ()
    every = dict.fromkeys(
        (*map(Problem.of, large), *SINGLE_PRODUCTS, *map(Problem.of, of_its_sweep))
    )
    return (*every, *(Problem.of(shape, ops) for shape in TURNED for ops in _ways(rung)[1:]))


def _ways(rung: ladder.Rung) -> tuple[str, ...]:
    """How the rung takes A and B: as they are, or in all ways."""
    return OPERATIONS if "OP_A" in rung.defaults else ("NN",)


def at_length(
    kernel: Kernel, shape: tuning.Shape, pairs: int = PAIRS, long: bool = True
) -> Iterator[tuple[str, Measurement]]:
    """A kernel and cuBLAS in turn, and if it is to be `long`, after a pause and for LOAD_S."""
    m, n, k, batch = tuning.sizes_of(shape)
    run = compare(kernel, m, n, k, batch=batch, pairs=pairs)
    yield IN_TURN, run
    if long:
        time.sleep(PAUSE_S)
        yield BURST, compare(kernel, m, n, k, batch=batch, pairs=pairs)
        pair_ms = run.time_ms.median * run.launches
        pair_ms += run.cublas_ms.median * run.cublas_launches  # a sample is several launches
        pairs = math.ceil(1e3 * LOAD_S / pair_ms)
        yield SUSTAINED, compare(kernel, m, n, k, batch=batch, pairs=pairs)


def _measure(rung: ladder.Rung, say: Say) -> Iterator[Row]:
    """Raises NoRecord without a sweep of the rung."""
    for problem in problems_of(rung):
        shape = (*problem.shape, problem.batch)[: 3 if rung.batch == 1 else 4]
        kernel = tuning.kernel_for(rung, shape, **ladder.stored_as(rung, problem.ops))
        m, n, k = problem.shape
        long, settings = m == n == k and m in SQUARES_AT_LENGTH, ladder.written(kernel.settings)
        for way, run in at_length(kernel, (*problem.shape, problem.batch), long=long):
            row = cells_of(run, run.problem) | {"way": way}
            say(f"{problem} {way}: {row['tflops']:.3g} TFLOP/s, {row['pct_cublas']:.1f} % of "
                f"cuBLAS with {settings}")  # fmt: skip
            yield {"kernel": kernel.name, "settings": settings} | row
