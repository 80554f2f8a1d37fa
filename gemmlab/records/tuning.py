"""Every tuned setting of a rung against cuBLAS: measured on a GPU, read anywhere.

One CSV file for each rung, results/<gpu>/tuning/<rung>.csv: a row for each setting and shape, with
the settings first (see gemmlab.records.registry).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from math import log2
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmlab import ladder
from gemmlab.cuda.device import require_gpu, software_versions
from gemmlab.folders import require_checkout
from gemmlab.kernel.compiler import Compiled, CompileError
from gemmlab.kernel.fingerprint import short_code, shortened
from gemmlab.kernel.kernel import Kernel, arch_here
from gemmlab.kernel.verify import VerificationError
from gemmlab.ladder import IllegalSetting, Settings
from gemmlab.measure.timing import Spread, TimingError, compare, gflops
from gemmlab.processes import workers
from gemmlab.records.registry import (
    DATE,
    POSITIVE,
    SIZE,
    TEXT,
    WHOLE,
    NoRecord,
    StaleRecord,
    Table,
    again,
)
from gemmlab.records.runs import LARGE

if TYPE_CHECKING:
    import pandas

SHAPES = (LARGE, (1001, 777, 513))
"""(M, N, K) at which every setting is measured: a large one, and one where nothing is round. A rung
may have further ones, its tuned_shapes."""

Shape = tuple[int, int, int]

PAIRS = 6  # of launches, ours and cuBLAS in turn: enough to tell settings apart
FAILURES = (CompileError, IllegalSetting, TimingError, VerificationError)  # of one setting alone
MEASURED = {
    **SIZE("m", "n", "k"), **TEXT("dtype"),
    **POSITIVE("time_ms", "time_q1_ms", "time_q3_ms", "cublas_ms", "pct_cublas"),
    **WHOLE("registers", "spilled_bytes"), **TEXT("code", "gpu", "driver", "cuda", "cublas"),
    **DATE("recorded"),
}  # fmt: skip


def evidence(rung: ladder.Rung) -> Table:
    """The sweep of a rung, as it is kept."""
    names = rung_parameters(rung)

    def code_of_row(row) -> str:
        return short_code(rung.path, {name: int(getattr(row, name)) for name in names})

    return Table(
        name=f"tuning/{rung.name}", file=f"tuning/{rung.name}.csv",
        remake=partial(record, [rung.name]), key=(*names, "m", "n", "k"),
        columns=WHOLE(*names) | MEASURED, code_of_row=code_of_row,
    )  # fmt: skip


def recorded(name: str) -> pandas.DataFrame:
    """The recorded sweep of the rung `name`: a row for each tuned setting and shape.

    Columns: the rung's parameters, those of MEASURED, and gflops. Times are medians and quartiles
    in milliseconds, pct_cublas is the median ratio in percent, registers and spilled_bytes are per
    thread. Raises LadderError, and what registry.Table.read raises.
    """
    rung = ladder.find(name)
    table = evidence(rung).read()
    rates = [gflops(row.m, row.n, row.k, row.time_ms) for row in table.itertuples()]
    table.insert(len(rung.parameters) + 5, "gflops", rates)
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
        table = table[table[name] == value] if name in table else table[:0]
    if table.empty:
        raise NoRecord(f"{kernel!r} is not in the sweep.")
    row = table.iloc[0]
    if row["code"] != shortened(kernel.code_hash()):
        raise StaleRecord(
            f"{kernel.name}: the sweep is of another version of this kernel; "
            f"{again(f'tuning/{kernel.name}')} on a GPU."
        )
    return row


@lru_cache
def kept(name: str) -> pandas.DataFrame:
    """As `recorded`, read once; nobody may change it."""
    return recorded(name)


# ---- which settings for a shape ------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """Settings for a shape, why in words, and whether faster ones do not run on this GPU."""

    settings: Settings
    note: str
    passed_over: bool


def for_shape(rung: ladder.Rung, shape: Shape, arch: str) -> Choice:
    """The fastest settings at the recorded shape that is nearest: by the factors between their
    M, N and K. Of those that run on `arch`, if any does. Raises NoRecord, and IllegalSetting for
    no shape."""
    sizes = shape if isinstance(shape, tuple | list) else ()
    whole = [size for size in sizes if ladder.is_whole(size) and size >= 1]
    if not len(whole) == len(sizes) == 3:
        raise IllegalSetting(f"shape is (M, N, K), three whole numbers from 1 on, not {shape!r}")

    def distance(other: Shape) -> float:
        return sum(abs(log2(a / b)) for a, b in zip(shape, other, strict=True))

    nearest = min(shapes_of(rung), key=distance)
    table = at(kept(rung.name), nearest)
    fastest_first = [
        {key: int(value) for key, value in row.items()}
        for row in table[rung_parameters(rung)].to_dict("records")
    ]
    runs = (settings for settings in fastest_first if rung.runs_on(settings, arch))
    settings = next(runs, fastest_first[0])  # where none runs, the kernel says what it needs
    where = "×".join(map(str, nearest))
    note = f"the fastest in the sweep recorded on {table.iloc[0]['gpu']} at {where}"
    if settings == fastest_first[0]:
        return Choice(settings, note, False)
    return Choice(settings, f"{note}, of those that run on {arch}", True)


def kernel_for(rung: ladder.Rung, shape: Shape, **others: int) -> Kernel:
    """The rung with the settings for a shape on the GPU here, and others that no sweep chooses."""
    settings = {**for_shape(rung, shape, arch_here()).settings, **others}
    return Kernel(rung, ladder.settings_for(rung, settings), None, rung.path)


# ---- measuring -----------------------------------------------------------------------------------


def record(names: Iterable[str], say: Callable[[str], None]) -> Path:
    """Measure the tuned settings of the named rungs on the GPU here; returns the last file.

    Of those that run on its architecture. What does not compile, launch or pass is named, and the
    others go on. A rung's file is written when all of it is measured; when something ends it, such
    as a GpuFault, what there is goes beside the rows that the file has of other settings. Raises
    LadderError, NoCheckout, NoGpu, GpuFault.
    """
    rungs = [ladder.find(name) for name in names]  # all, before any is measured
    require_checkout("A sweep")
    here = require_gpu("A sweep")
    for rung in rungs:
        rows: list[dict[str, Any]] = []
        try:
            for measured in _measure(rung, say):
                rows += measured
        except BaseException:
            if rows:
                _write(rung, [*rows, *_of_other_settings(rung, rows, here.slug)], here.slug)
            raise
        if not rows:
            say(f"{rung.name}: no setting was measured")
            continue
        table = _write(rung, rows, here.slug)
        for shape in shapes_of(rung):
            row = best(table, shape)
            settings = ladder.written({name: row[name] for name in rung_parameters(rung)})
            size = "x".join(map(str, shape))
            say(f"{rung.name} {size}: {row['pct_cublas']:.1f} % of cuBLAS with {settings}")
    return evidence(rungs[-1]).path_of(here.slug)


def shapes_of(rung: ladder.Rung) -> tuple[tuple[int, int, int], ...]:
    return (*SHAPES, *rung.tuned_shapes)


def rung_parameters(rung: ladder.Rung) -> list[str]:
    return [parameter.name for parameter in rung.parameters]


def _write(rung: ladder.Rung, rows: list, slug: str) -> pandas.DataFrame:
    import pandas

    table = pandas.DataFrame(rows, columns=[*rung_parameters(rung), *MEASURED])
    evidence(rung).write(table, slug)
    return table


def _of_other_settings(rung: ladder.Rung, rows: list, slug: str) -> list[dict[str, Any]]:
    """What the file of this GPU has of settings that are not among the rows."""
    import pandas

    path, names = evidence(rung).path_of(slug), rung_parameters(rung)
    if not path.is_file():
        return []
    measured = {tuple(row[name] for name in names) for row in rows}
    old = pandas.read_csv(path, dtype={"cuda": str, "driver": str, "cublas": str})
    return [
        row for row in old.to_dict("records") if tuple(row[name] for name in names) not in measured
    ]


def _measure(rung: ladder.Rung, say: Callable[[str], None]) -> Iterator[list[dict[str, Any]]]:
    """For each setting that runs here and passes, its rows: one for each shape."""
    from tqdm.auto import tqdm

    here = require_gpu("A sweep")
    every = [one for one in ladder.tuned_settings(rung) if rung.runs_on(one, here.arch)]
    # NVRTC takes a second for each, so other processes compile ahead.
    with workers(get_context("spawn")) as pool:
        compiled = [pool.submit(_compile, rung.name, settings) for settings in every]
        for settings, result in tqdm(
            zip(every, compiled, strict=True), desc=rung.name, total=len(every), unit="setting"
        ):
            try:
                yield _rows(Kernel(rung, settings, here.arch, rung.path, compiled=result.result()))
            except (*FAILURES, *_cuda_errors()) as error:
                say(f"{rung.name} with {ladder.written(settings)}: {error}; left out")


def _rows(kernel: Kernel) -> list[dict[str, Any]]:
    rung, versions = kernel.rung, software_versions()
    taken = kernel.compiled.entries[rung.entry]
    runs = [compare(kernel, *shape, pairs=PAIRS) for shape in shapes_of(rung)]
    return [
        {
            **kernel.settings, "m": run.m, "n": run.n, "k": run.k, "dtype": rung.precision.name,
            **_spread(run.time_ms), "cublas_ms": run.cublas_ms.median,
            "pct_cublas": 100 * run.ratio.median, "registers": taken.registers,
            "spilled_bytes": taken.spill_store_bytes + taken.spill_load_bytes,
            "code": short_code(rung.path, kernel.settings), "gpu": run.gpu,
            **{name: versions[name] for name in ("driver", "cuda", "cublas")},
            "recorded": run.recorded,
        }
        for run in runs
    ]  # fmt: skip


def _cuda_errors() -> tuple[type[Exception], ...]:
    """What CuPy raises where code does not compile, load or launch, or stops with an error."""
    from cupy.cuda import compiler, driver, memory, runtime

    return (
        compiler.CompileException, driver.CUDADriverError, memory.OutOfMemoryError,
        runtime.CUDARuntimeError,
    )  # fmt: skip


def _spread(spread: Spread) -> dict[str, float]:
    return {"time_ms": spread.median, "time_q1_ms": spread.q1, "time_q3_ms": spread.q3}


def _compile(name: str, settings: Settings) -> Compiled:
    """Compile in another process; CuPy keeps what it compiles on disk, where the first finds it."""
    rung = ladder.find(name)
    kernel = Kernel(rung, settings, None, rung.path)
    kernel.prepare()
    return kernel.compiled
