"""A rung with the settings that suit each shape, against cuBLAS: measured on a GPU, read anywhere.

    python -m gemmlab record best_by_shape/10_register_banks

measures and writes results/<gpu>/best_by_shape.csv: a row for each shape, taken as any timing is,
and for large squares two more, after a pause and under load for seconds (see
gemmlab.records.registry). It takes the settings from the rung's recorded sweep.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmlab import ladder
from gemmlab.cuda.device import require_gpu, software_versions
from gemmlab.kernel.fingerprint import short_code
from gemmlab.kernel.kernel import Kernel
from gemmlab.measure.timing import Measurement, compare, gflops
from gemmlab.records import tuning
from gemmlab.records.registry import DATE, POSITIVE, REPORTED, SIZE, TEXT, NoRecord, Say, Table
from gemmlab.records.runs import SHAPES

if TYPE_CHECKING:
    import pandas

SMALLEST = 1024**3 / 4  # m * n * k from which a shape is measured
SQUARES_AT_LENGTH = (4096, 8192)
PAUSE_S = 3.0  # idle before a burst
LOAD_S = 3.0  # of ours and cuBLAS in turn
COLUMNS = {
    **TEXT("kernel", "settings"), **SIZE("m", "n", "k"), **TEXT("way"),
    **POSITIVE("tflops", "cublas_tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3"),
    **POSITIVE("noise_q1", "noise_q3"), **SIZE("pairs"),
    **REPORTED("sm_clock_mhz", "power_w", "temperature_c"),
    **TEXT("code", "gpu", "driver", "cuda", "cublas"), **DATE("recorded"),
}  # fmt: skip


def tuned(name: str) -> pandas.DataFrame:
    """The recorded rows of a rung, columns COLUMNS; pct and noise are ratios in percent.

    `way` is "in turn", "burst" (in turn, after a pause) or "sustained" (in turn, for seconds).
    Raises LadderError, and what registry.Table.read raises.
    """
    return evidence(ladder.find(name)).read()


def of(kernel: Kernel, shape: tuple[int, int, int]) -> pandas.Series:
    """The row of one kernel's settings at one shape (M, N, K), in turn with cuBLAS.

    Raises NoRecord and StaleRecord.
    """
    table = tuned(kernel.name)
    m, n, k = shape
    rows = table[
        (table["settings"] == ladder.written(kernel.settings)) & (table["way"] == "in turn")
        & (table["m"] == m) & (table["n"] == n) & (table["k"] == k)
    ]  # fmt: skip
    if rows.empty:
        raise NoRecord(f"{kernel!r} is not recorded at {shape}.")
    return rows.iloc[0]


def evidence(rung: ladder.Rung) -> Table:
    """What is kept of a rung."""
    return Table(
        name=f"best_by_shape/{rung.name}", file="best_by_shape.csv",
        remake=partial(record, rung.name), key=("kernel", "settings", "m", "n", "k", "way"),
        columns=COLUMNS, part=("kernel", rung.name),
        code_of_row=lambda row: short_code(rung.path, ladder.read_settings(row.settings)),
    )  # fmt: skip


# ---- measuring -----------------------------------------------------------------------------------


def record(name: str, say: Say) -> Path:
    """Measure the rung at every shape of the records that is not tiny; returns the file.

    Rows of other rungs stay. Raises LadderError, NoGpu, NoRecord without a sweep of the rung.
    """
    import pandas

    rung, here, rows = ladder.find(name), require_gpu("Measuring"), []
    for row in _measure(name):
        say(f"{row['m']}x{row['n']}x{row['k']} {row['way']}: {row['tflops']:.1f} TFLOP/s, "
            f"{row['pct_cublas']:.1f} % of cuBLAS with {row['settings']}")  # fmt: skip
        rows.append(row)
    return evidence(rung).write(pandas.DataFrame(rows), here.slug)


def _measure(name: str) -> Iterator[dict[str, Any]]:
    for shape in SHAPES:
        m, n, k = shape
        if m * n * k < SMALLEST:
            continue
        kernel = tuning.kernel_for(ladder.find(name), shape)
        run = compare(kernel, m, n, k)
        yield _row(kernel, run, "in turn")
        if m == n == k and m in SQUARES_AT_LENGTH:
            time.sleep(PAUSE_S)
            yield _row(kernel, compare(kernel, m, n, k), "burst")
            both_s = (run.time_ms.median + run.cublas_ms.median) / 1e3
            yield _row(kernel, compare(kernel, m, n, k, pairs=ceil(LOAD_S / both_s)), "sustained")


def _row(kernel: Kernel, run: Measurement, way: str) -> dict[str, Any]:
    versions = software_versions()
    return {
        "kernel": kernel.name,
        "settings": ladder.written(kernel.settings),
        "m": run.m, "n": run.n, "k": run.k, "way": way, "tflops": run.gflops / 1e3,
        "cublas_tflops": gflops(run.m, run.n, run.k, run.cublas_ms.median) / 1e3,
        "pct_cublas": 100 * run.ratio.median, "pct_cublas_q1": 100 * run.ratio.q1,
        "pct_cublas_q3": 100 * run.ratio.q3, "noise_q1": 100 * run.noise.q1,
        "noise_q3": 100 * run.noise.q3, "pairs": run.pairs, "sm_clock_mhz": run.sm_clock_mhz,
        "power_w": run.power_w, "temperature_c": run.temperature_c,
        "code": short_code(kernel.rung.path, kernel.settings), "gpu": run.gpu,
        **{which: versions[which] for which in ("driver", "cuda", "cublas")},
        "recorded": run.recorded,
    }  # fmt: skip
