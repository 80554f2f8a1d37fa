"""Every tuned setting of a rung against cuBLAS: measured on a GPU, read anywhere.

One CSV file for each rung, results/<gpu>-sweeps/<rung>.csv: a row for each setting and shape, with
the settings first. A row belongs to the code that was measured, as a record does: where it no
longer fits, nothing is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmlab import ladder, tables
from gemmlab.compiler import Compiled
from gemmlab.device import replayed_file, require_gpu, software_versions
from gemmlab.fingerprint import short_code, shortened
from gemmlab.kernel import Kernel, load
from gemmlab.ladder import RESULTS, Settings
from gemmlab.records import LARGE, NoRecord, StaleRecord
from gemmlab.timing import Spread, compare, gflops

if TYPE_CHECKING:
    import pandas

SHAPES = (LARGE, (1001, 777, 513))
"""(M, N, K) at which every setting is measured: a large one, and one where nothing is round. A rung
may have further ones, its tuned_shapes."""

PAIRS = 6  # of launches, ours and cuBLAS in turn: enough to tell settings apart
MEASURED = (
    "m", "n", "k", "dtype", "time_ms", "time_q1_ms", "time_q3_ms", "cublas_ms", "pct_cublas",
    "registers", "spilled_bytes", "code", "gpu", "driver", "cuda", "cublas", "recorded",
)  # fmt: skip


def recorded(name: str) -> pandas.DataFrame:
    """The recorded sweep of the rung `name`: a row for each tuned setting and shape.

    Columns: the rung's parameters, those of MEASURED, and gflops. Times are medians and quartiles
    in milliseconds, pct_cublas is the median ratio in percent, registers and spilled_bytes are per
    thread. Raises LadderError, NoRecord, and StaleRecord if a kernel has changed since.
    """
    import pandas

    rung = ladder.find(name)
    file = replayed_file()
    path = folder(file.stem) / f"{name}.csv" if file else None
    if path is None or not path.is_file():
        raise NoRecord(f"{name}: no sweep is recorded; run `python -m gemmlab tune {name}`.")
    table = pandas.read_csv(path)
    names = [parameter.name for parameter in rung.parameters]
    missing = [column for column in (*names, *MEASURED) if column not in table.columns]
    if missing or table.empty:
        raise NoRecord(f"{path.name}: the sweep lacks {', '.join(missing) or 'rows'}.")
    for *values, code in table[[*names, "code"]].drop_duplicates().itertuples(index=False):
        if code != short_code(rung.path, dict(zip(names, map(int, values), strict=True))):
            raise StaleRecord(
                f"{name}: the sweep was recorded for another version of this kernel; "
                f"run `python -m gemmlab tune {name}` on a GPU."
            )
    rates = [gflops(row.m, row.n, row.k, row.time_ms) for row in table.itertuples()]
    table.insert(len(names) + 5, "gflops", rates)
    return table


def at(table: pandas.DataFrame, shape: tuple[int, int, int]) -> pandas.DataFrame:
    """The rows of a sweep at one shape (M, N, K), the fastest first. Raises NoRecord."""
    m, n, k = shape
    rows = table[(table["m"] == m) & (table["n"] == n) & (table["k"] == k)]
    if rows.empty:
        there = sorted(set(zip(table["m"], table["n"], table["k"], strict=True)))
        raise NoRecord(f"no setting was measured at {shape}; measured are {there}.")
    return rows.sort_values("time_ms", kind="stable")


def best(table: pandas.DataFrame, shape: tuple[int, int, int] = SHAPES[0]) -> pandas.Series:
    """The row of the fastest setting at one shape (M, N, K). Raises NoRecord."""
    return at(table, shape).iloc[0]


def of(kernel: Kernel, shape: tuple[int, int, int] = SHAPES[0]) -> pandas.Series:
    """The row of one kernel's settings. Raises NoRecord, and StaleRecord for another code."""
    table = at(kept(kernel.name), shape)
    for name, value in kernel.settings.items():
        table = table[table[name] == value]
    if table.empty:
        raise NoRecord(f"{kernel!r} is not in the sweep.")
    row = table.iloc[0]
    if row["code"] != shortened(kernel.code_hash()):
        raise StaleRecord(f"{kernel.name}: the sweep is of another version of this kernel.")
    return row


@lru_cache
def kept(name: str) -> pandas.DataFrame:
    """As `recorded`, read once; nobody may change it."""
    return recorded(name)


def folder(slug: str) -> Path:
    """Where the sweeps of the GPU `slug` are kept."""
    return RESULTS / f"{slug}-sweeps"


# ---- measuring -----------------------------------------------------------------------------------


def record(names: Iterable[str], say: Callable[[str], None]) -> Path:
    """Measure the tuned settings of the named rungs on the GPU here; returns the folder.

    A rung's file is written when all of it is measured. Raises LadderError, NoGpu,
    VerificationError.
    """
    import pandas

    rungs = [ladder.find(name) for name in names]  # all, before any is measured
    here = require_gpu("A sweep")
    target = folder(here.slug)
    target.mkdir(parents=True, exist_ok=True)
    for rung in rungs:
        rows = list(_measure(rung))
        table = pandas.DataFrame(rows, columns=[*rung_parameters(rung), *MEASURED])
        path = target / f"{rung.name}.csv"
        tables.write(table, path)
        for shape in shapes_of(rung):
            row = best(table, shape)
            settings = ladder.written({name: row[name] for name in rung_parameters(rung)})
            size = "x".join(map(str, shape))
            say(f"{rung.name} {size}: {row['pct_cublas']:.1f} % of cuBLAS with {settings}")
    return target


def shapes_of(rung: ladder.Rung) -> tuple[tuple[int, int, int], ...]:
    return (*SHAPES, *rung.tuned_shapes)


def rung_parameters(rung: ladder.Rung) -> list[str]:
    return [parameter.name for parameter in rung.parameters]


def _measure(rung: ladder.Rung) -> Iterator[dict[str, Any]]:
    from tqdm.auto import tqdm

    here, versions = require_gpu("A sweep"), software_versions()
    context = {name: versions[name] for name in ("driver", "cuda", "cublas")}
    every = ladder.tuned_settings(rung)
    # NVRTC takes a second for each, so other processes compile ahead.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        compiled = pool.map(_compile, [rung.name] * len(every), every)
        for settings, result in tqdm(
            zip(every, compiled, strict=True), desc=rung.name, total=len(every), unit="setting"
        ):
            kernel = Kernel(rung, settings, here.arch, rung.path, compiled=result)
            taken = result.entries[rung.entry]
            for m, n, k in shapes_of(rung):
                run = compare(kernel, m, n, k, pairs=PAIRS)
                yield {
                    **settings, "m": m, "n": n, "k": k, "dtype": rung.dtype,
                    **_spread(run.time_ms), "cublas_ms": run.cublas_ms.median,
                    "pct_cublas": 100 * run.ratio.median, "registers": taken.registers,
                    "spilled_bytes": taken.spill_store_bytes + taken.spill_load_bytes,
                    "code": short_code(rung.path, settings), "gpu": run.gpu, **context,
                    "recorded": run.recorded,
                }  # fmt: skip


def _spread(spread: Spread) -> dict[str, float]:
    return {"time_ms": spread.median, "time_q1_ms": spread.q1, "time_q3_ms": spread.q3}


def _compile(name: str, settings: Settings) -> Compiled:
    """Compile in another process; CuPy keeps what it compiles on disk, where the first finds it."""
    kernel = load(name, **settings)
    kernel.prepare()
    return kernel.compiled
