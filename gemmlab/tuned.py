"""A rung with the settings that suit each shape, against cuBLAS: measured on a GPU, read anywhere.

    python benchmarks/tuned.py 10_register_banks

measures and writes results/<gpu>-tuned.csv: a row for each shape, taken as any timing is, and for
large squares two more, after a pause and under load for seconds. Rows belong to the code that was
measured: rows of a kernel that has changed since are not shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmlab import ladder, tables
from gemmlab.device import replayed_file, require_gpu, software_versions
from gemmlab.fingerprint import short_code
from gemmlab.kernel import Kernel
from gemmlab.loading import load
from gemmlab.records import SHAPES, NoRecord, StaleRecord
from gemmlab.timing import Measurement, compare, gflops

if TYPE_CHECKING:
    import pandas

SMALLEST = 1024**3 / 4  # m * n * k from which a shape is measured
SQUARES_AT_LENGTH = (4096, 8192)
PAUSE_S = 3.0  # idle before a burst
LOAD_S = 3.0  # of ours and cuBLAS in turn
COLUMNS = (
    "kernel", "settings", "m", "n", "k", "way", "tflops", "cublas_tflops", "pct_cublas",
    "pct_cublas_q1", "pct_cublas_q3", "noise_q1", "noise_q3", "pairs", "sm_clock_mhz", "power_w",
    "temperature_c", "code", "gpu", "driver", "cuda", "cublas", "recorded",
)  # fmt: skip


def tuned(name: str) -> pandas.DataFrame:
    """The recorded rows of a rung, columns COLUMNS; pct and noise are ratios in percent.

    `way` is "in turn", "burst" (in turn, after a pause) or "sustained" (in turn, for seconds).
    Raises LadderError, NoRecord, and StaleRecord if a kernel has changed since.
    """
    import pandas

    rung = ladder.find(name)
    file = replayed_file()
    path = file and file_of(file.stem)
    table = pandas.read_csv(path) if path and path.is_file() else pandas.DataFrame(columns=COLUMNS)
    table = table[table["kernel"] == name].reset_index(drop=True)
    if table.empty:
        raise NoRecord(f"{name}: nothing is recorded; run `python benchmarks/tuned.py {name}`.")
    for settings, code in table[["settings", "code"]].drop_duplicates().itertuples(index=False):
        if code != short_code(rung.path, ladder.read_settings(settings)):
            raise StaleRecord(
                f"{name}: recorded for another version of this kernel; "
                f"run `python benchmarks/tuned.py {name}` on a GPU."
            )
    return table


def file_of(slug: str) -> Path:
    return ladder.RESULTS / f"{slug}-tuned.csv"


# ---- measuring -----------------------------------------------------------------------------------


def record(name: str, say: Callable[[str], None]) -> Path:
    """Measure the rung at every shape of the records that is not tiny; returns the file.

    Rows of other rungs stay. Raises LadderError, NoGpu, NoRecord without a sweep of the rung.
    """
    import pandas

    ladder.find(name)
    path = file_of(require_gpu("Measuring").slug)
    there = pandas.read_csv(path) if path.is_file() else pandas.DataFrame(columns=COLUMNS)
    rows = []
    for row in _measure(name):
        say(f"{row['m']}x{row['n']}x{row['k']} {row['way']}: {row['tflops']:.1f} TFLOP/s, "
            f"{row['pct_cublas']:.1f} % of cuBLAS with {row['settings']}")  # fmt: skip
        rows.append(row)
    parts = [part for part in (there[there["kernel"] != name], pandas.DataFrame(rows)) if len(part)]
    tables.write(pandas.concat(parts), path, COLUMNS)
    return path


def _measure(name: str) -> Iterator[dict[str, Any]]:
    for shape in SHAPES:
        m, n, k = shape
        if m * n * k < SMALLEST:
            continue
        kernel = load(name, shape=shape)
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
