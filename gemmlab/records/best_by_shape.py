"""A rung with the settings that suit each shape, against cuBLAS: measured on a GPU, read anywhere.

    python -m gemmlab record best_by_shape/10_register_banks

measures and writes results/<gpu>/best_by_shape.csv: a row for each shape, taken as any timing is,
and for large squares two more, after a pause and under load for seconds (see
gemmlab.records.registry). It takes the settings from the rung's recorded sweep. Rungs that take A
and B transposed are measured in all four ways at some shapes, those that take batches at batches.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmlab import ladder
from gemmlab.cuda.device import require_gpu, software_versions
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import Problem
from gemmlab.ladder.problem import BATCHES, OPERATIONS, SINGLE_PRODUCTS
from gemmlab.measure.timing import Measurement, compare
from gemmlab.records import tuning
from gemmlab.records.registry import (
    BATCH,
    DATE,
    OPS,
    POSITIVE,
    REPORTED,
    SIZE,
    TEXT,
    NoRecord,
    Say,
    Table,
    of_row,
)
from gemmlab.records.runs import LARGE, SHAPES
from gemmlab.records.tuning import Shape

if TYPE_CHECKING:
    import pandas

SMALLEST = 1024**3 / 4  # m * n * k from which a shape is measured
SQUARES_AT_LENGTH = (4096, 8192)
TURNED = tuple(
    Problem(*shape)
    for shape in ((64, 4096, 4096), (4096, 64, 4096), (256, 256, 16384), (1024, 1024, 512))
)
"""Where single products are also measured with A and B stored transposed."""
PAUSE_S = 3.0  # idle before a burst
LOAD_S = 3.0  # of ours and cuBLAS in turn
COLUMNS = {
    **TEXT("kernel", "settings"), **SIZE("m", "n", "k"), **TEXT("way"),
    **POSITIVE("tflops", "cublas_tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3"),
    **POSITIVE("noise_q1", "noise_q3"), **SIZE("pairs"),
    **REPORTED("sm_clock_mhz", "power_w", "temperature_c"),
    **TEXT("code", "gpu", "driver", "cuda", "cublas"), **DATE("recorded"),
    **BATCH("batch"), **OPS("ops"),
}  # fmt: skip


def tuned(name: str) -> pandas.DataFrame:
    """The recorded rows of a rung, columns COLUMNS; pct and noise are ratios in percent.

    `way` is "in turn", "burst" (in turn, after a pause) or "sustained" (in turn, for seconds).
    Raises LadderError, and what registry.Table.read raises.
    """
    return evidence(ladder.find(name)).read()


def of(kernel: Kernel, shape: Shape) -> pandas.Series:
    """The row of one kernel's settings at one shape, in turn with cuBLAS.

    Raises NoRecord and StaleRecord.
    """
    table = tuned(kernel.name)
    rows = table[
        (table["settings"] == ladder.written(kernel.settings)) & (table["way"] == "in turn")
        & (table[list(tuning.SIZES)].to_numpy() == tuning.sizes_of(shape)).all(axis=1)
    ]  # fmt: skip
    if rows.empty:
        raise NoRecord(f"{kernel!r} is not recorded at {shape}.")
    return rows.iloc[0]


def at(name: str, problem: Problem) -> pandas.Series:
    """The row of a rung at one problem, with the settings for it, in turn with cuBLAS.

    Raises NoRecord and what `tuned` raises.
    """
    table = tuned(name)
    where = (table[list(tuning.SIZES)] == [*problem.shape, problem.batch]).all(axis=1)
    rows = table[where & (table["ops"] == problem.ops) & (table["way"] == "in turn")]
    if rows.empty:
        raise NoRecord(f"{name} is not recorded at {problem}.")
    return rows.iloc[0]


def evidence(rung: ladder.Rung) -> Table:
    """What is kept of a rung."""
    return Table(
        name=f"best_by_shape/{rung.name}", file="best_by_shape.csv",
        remake=partial(record, rung.name),
        key=("kernel", "settings", "m", "n", "k", "batch", "way"),
        columns=COLUMNS, part=("kernel", rung.name),
        fingerprint_of=partial(of_row, rung),
    )  # fmt: skip


# ---- measuring -----------------------------------------------------------------------------------


def problems_of(rung: ladder.Rung) -> tuple[Problem, ...]:
    """What is measured of a rung: the shape set, the shapes of runs that are not tiny, and of a
    rung of warpgroups those of its own sweep.

    Of a rung that no sweep tries at large shapes, the shape set alone.
    """
    if rung.batch > 1:
        return tuple(replace(one, ops=ops) for one in BATCHES for ops in _ways(rung))
    large = [Problem(*shape) for shape in SHAPES if shape[0] * shape[1] * shape[2] >= SMALLEST]
    if LARGE not in tuning.shapes_of(rung):
        large = []
    own = (
        [Problem(*shape) for shape in rung.tuned_shapes]
        if rung.needs_arch(rung.defaults) == "sm_90a"
        else []
    )
    every = dict.fromkeys((*large, *SINGLE_PRODUCTS, *own))
    return (*every, *(replace(one, ops=ops) for one in TURNED for ops in _ways(rung)[1:]))


def _ways(rung: ladder.Rung) -> tuple[str, ...]:
    """How the rung takes A and B: as they are, or in all ways."""
    return OPERATIONS if "OP_A" in rung.defaults else ("NN",)


def record(name: str, say: Say) -> Path:
    """Measure the rung at its problems; returns the file.

    It is written at each row, beside those that are there, and what is whole replaces what there is
    of the rung. Raises LadderError, NoGpu, NoRecord without a sweep of the rung.
    """
    import pandas

    rung, here, rows = ladder.find(name), require_gpu("Measuring"), []
    for row in _measure(name):
        problem = Problem(*(row[size] for size in tuning.SIZES), row["ops"])
        say(f"{problem} {row['way']}: {row['tflops']:.3g} TFLOP/s, "
            f"{row['pct_cublas']:.1f} % of cuBLAS with {row['settings']}")  # fmt: skip
        rows.append(row)
        evidence(rung).write(pandas.DataFrame(rows), here.slug, whole=False)
    return evidence(rung).write(pandas.DataFrame(rows), here.slug)


def _measure(name: str) -> Iterator[dict[str, Any]]:
    rung = ladder.find(name)
    for problem in problems_of(rung):
        kernel = _kernel(rung, problem)
        how = {"batch": problem.batch}
        run = compare(kernel, *problem.shape, **how)
        yield _row(kernel, run, "in turn")
        m, n, k = problem.shape
        if m == n == k and m in SQUARES_AT_LENGTH:
            time.sleep(PAUSE_S)
            yield _row(kernel, compare(kernel, *problem.shape, **how), "burst")
            pair_ms = run.time_ms.median * run.launches
            pair_ms += run.cublas_ms.median * run.cublas_launches  # a sample is several launches
            pairs = ceil(1e3 * LOAD_S / pair_ms)
            yield _row(kernel, compare(kernel, *problem.shape, pairs=pairs, **how), "sustained")


def _kernel(rung: ladder.Rung, problem: Problem) -> Kernel:
    """The rung with the settings for a problem, A and B as they are stored there."""
    shape = (*problem.shape, problem.batch)[: 3 if rung.batch == 1 else 4]
    return tuning.kernel_for(rung, shape, **ladder.stored_as(rung, problem.ops))


def _row(kernel: Kernel, run: Measurement, way: str) -> dict[str, Any]:
    versions = software_versions()
    return {
        "kernel": kernel.name,
        "settings": ladder.written(kernel.settings),
        "m": run.m, "n": run.n, "k": run.k, "way": way, "tflops": run.gflops / 1e3,
        "cublas_tflops": run.problem.flop / (run.cublas_ms.median * 1e9),
        "pct_cublas": 100 * run.ratio.median, "pct_cublas_q1": 100 * run.ratio.q1,
        "pct_cublas_q3": 100 * run.ratio.q3, "noise_q1": 100 * run.noise.q1,
        "noise_q3": 100 * run.noise.q3, "pairs": run.pairs, "sm_clock_mhz": run.sm_clock_mhz,
        "power_w": run.power_w, "temperature_c": run.temperature_c,
        "gpu": run.gpu,
        **{which: versions[which] for which in ("driver", "cuda", "cublas")},
        "recorded": run.recorded, "batch": run.batch, "ops": run.ops,
    }  # fmt: skip
