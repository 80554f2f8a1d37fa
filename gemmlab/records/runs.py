"""Recorded runs: read them, check them, and replay them where there is no GPU.

Each GPU has one file, results/<gpu>/runs.json (see gemmlab.records.registry), which
gemmlab.records.recorder writes. A recorded rung holds a hash of its code, and where that no longer
fits, nothing is replayed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm

from gemmlab import files, ladder
from gemmlab.cuda.device import GpuState, arch_of, gpu, require_gpu, software_versions
from gemmlab.kernel.fingerprint import Fingerprint, of_rung
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import IllegalSetting, Precision, Problem, Rung, Settings, Target
from gemmlab.measure.profiler import ncu_version
from gemmlab.measure.timing import Measurement, Race, Spread, now, sweep, table
from gemmlab.records import registry
from gemmlab.records.registry import RUNS, BadRecord, Evidence, NoRecord, Row, Say, bad

if TYPE_CHECKING:
    import pandas

SCHEMA = 1

# (M, N, K) of all shapes that are recorded, and of the squares among them.
SQUARES = tuple((size, size, size) for size in (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384))
SHAPES = (*SQUARES, (4096, 4096, 8192), (8192, 8192, 4096), (1024, 1024, 512), (1001, 777, 513))
LARGE = (4096, 4096, 4096)  # at which rungs are compared with each other
LIVE_SHAPES = SQUARES[2:7]  # that benchmark() measures where there is a GPU: 256 to 4096


# ---- the format ----------------------------------------------------------------------------------

STATE = ("sm_clock_mhz", "power_w", "temperature_c")
GPU_FIELDS = ("name", "compute_capability", "sm_count", "memory_bytes", "l2_bytes")
RUNG_FIELDS = ("provenance", "code", "settings", "runs", "skipped", "counters", "results")


def validate(record: Any, path: Path) -> None:
    """Raise BadRecord, naming the file and what is wrong, unless the record is complete and each
    run a Measurement, which passed."""
    try:
        if record["schema"] != SCHEMA:
            raise ValueError(f"schema is {record['schema']!r}, not {SCHEMA}")
        for name in GPU_FIELDS:
            _ = record["gpu"][name]
        for rung in record["rungs"].values():
            for name in RUNG_FIELDS:
                _ = rung[name]
            for run in rung["runs"]:
                Measurement.from_dict(run)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise bad(path, f"it is not what `record` writes ({error!r})", "") from error


# ---- files ---------------------------------------------------------------------------------------


def load(path: Path) -> Row:
    """Read and check one records file. Raises NoRecord, BadRecord."""
    return json.loads(json.dumps(_file(path)))


def _file(path: Path) -> Row:
    return _read(registry.text_of(path, ""), path)


@lru_cache(maxsize=4)  # read again and again
def _read(text: str, path: Path) -> Row:
    try:
        record = json.loads(text)
        validate(record, path)
    except (json.JSONDecodeError, RecursionError) as error:
        raise bad(path, f"the file is not JSON ({error})", "") from error
    return record


def save(record: Row, path: Path) -> None:
    """Check the record and write it. Numbers keep six digits. Raises BadRecord and OSError, and
    then leaves the file as it was."""
    validate(record, path)
    text = json.dumps(_six_digits(record), indent=1, allow_nan=False) + "\n"
    files.write(path, text.encode())


def _six_digits(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _six_digits(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_six_digits(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def current() -> Row:
    """The record that is replayed here, to be read only. Raises NoRecord, BadRecord."""
    return _file(registry.replayed() / RUNS)


@dataclass(frozen=True, kw_only=True)
class Part(Evidence):
    """Evidence in the file of runs. measure: gives fields of the file, of "rungs" those that are
    measured. reader: reads them."""

    measure: Callable[[Say], Row]
    reader: Callable[[], Any]
    file: str = RUNS
    by_default: bool = True

    def read(self) -> Any:
        return self.reader()

    def remake(self, say: Say) -> Path:
        """As Evidence.remake. What stands in the file of other evidence stays. Raises BadRecord."""
        measured, here = self.measure(say), require_gpu("Recording")
        path = self.path_of(here.slug)
        record = load(path) if path.exists() else {"schema": SCHEMA, "rungs": {}}
        rungs = record.pop("rungs") | measured.pop("rungs", {})
        facts = {name: getattr(here, name) for name in GPU_FIELDS}
        save({**record, "gpu": facts, **measured, "rungs": dict(sorted(rungs.items()))}, path)
        return path


def provenance() -> dict[str, str | None]:
    """When, where and with what: gathered before the measuring starts. Raises NoGpu."""
    facts = {"recorded": now(), "gpu": require_gpu("Recording").name, "ncu": ncu_version()}
    return facts | software_versions()


def kept_code(name: str, measured: Fingerprint) -> str:
    """Of what was measured on the GPU here as `name`; what it is made of is kept."""
    registry.keep_sources(name, registry.RESULTS / require_gpu("Recording").slug, [measured])
    return str(measured)


# ---- the line that a notebook shows --------------------------------------------------------------


class Device(str):
    """What gl.device() returns: one line that says what runs here."""

    __repr__ = str.__str__


def device() -> Device:
    """The device that runs the kernels, and without a GPU the one whose records are replayed."""
    here = gpu()
    if here is not None:
        major, minor = here.compute_capability
        return Device(
            f"{here.name} (sm_{major}{minor}, {here.sm_count} SMs), "
            f"driver {here.driver}, CUDA {here.cuda}"
        )
    try:
        record = current()
    except (NoRecord, BadRecord) as error:
        return Device(f"simulator, with no recorded run to replay: {error}")
    dates = [rung["provenance"]["recorded"][:10] for rung in record["rungs"].values()]
    recorded = f" (recorded {max(dates)})" if dates else ""
    return Device(f"simulator, replaying {record['gpu']['name']}{recorded}")


# ---- what is recorded of a kernel ----------------------------------------------------------------


def is_recorded(rung: Rung) -> bool:
    """Whether anything is recorded of a rung where records are read; NoRecord if none are there."""
    return any(rung.name in _file(folder / RUNS)["rungs"] for folder in registry.folders())


def entry(kernel: Kernel | Measured) -> Row:
    """What is recorded of this kernel's rung: RUNG_FIELDS. Raises NoRecord if the rung, or this
    choice of settings, was not recorded, and StaleRecord if the kernel or its default settings have
    changed since."""
    return registry.of_one_gpu(partial(_entry, kernel))


def _entry(kernel: Kernel | Measured) -> Row:
    record, name = current(), kernel.rung.name
    if name not in record["rungs"]:
        there = ", ".join(record["rungs"]) or "no rung"
        raise NoRecord(
            f"{name}: not recorded on {record['gpu']['name']}, which has records of {there}; "
            f"{registry.again(name)} on a GPU."
        )
    rung_entry = record["rungs"][name]
    now = kernel.fingerprint(problems_of(rung_entry), registry.target())
    by_default = kernel.settings == ladder.settings_for(kernel.rung, {})
    recorded = rung_entry["settings"].items()  # a parameter may be newer than the record
    if not by_default and any(kernel.settings.get(name) != value for name, value in recorded):
        raise NoRecord(
            f"{name}: recorded with {ladder.listed(rung_entry['settings'])}, "
            f"not with {ladder.listed(kernel.settings)}; measuring these needs a GPU."
        )
    registry.refuse_stale(name, now, rung_entry["code"])
    return rung_entry


def problems_of(entry: Row) -> list[Problem]:
    """At which a rung was timed or counted."""
    timed = [Measurement.from_dict(run).problem for run in entry["runs"]]
    return timed + [Problem(*shape_of(row)) for row in entry["counters"]]


@dataclass(frozen=True)
class Measured:
    """A rung as it is recorded, as far as records look at it: nothing is compiled. With its default
    settings, or the nearest that run on the GPU whose record is read."""

    rung: Rung

    @property
    def name(self) -> str:
        return self.rung.name

    @cached_property
    def settings(self) -> Settings:
        wanted = ladder.settings_for(self.rung, {})
        try:
            arch = arch_of(tuple(current()["gpu"]["compute_capability"]))
            runs = self.rung.runs_on(wanted, arch)
            return wanted if runs else ladder.nearest_on(self.rung, wanted, arch)
        except (NoRecord, BadRecord, IllegalSetting):  # nothing of it can be recorded
            return wanted

    @property
    def precision(self) -> Precision:
        return self.rung.precision

    def fingerprint(self, problems: Iterable[Problem], on: Target) -> Fingerprint:
        return of_rung(self.rung, self.settings, problems, on)


def of_default(rung: Rung, row: Any, on: Target) -> Fingerprint:
    """Of a rung as it is recorded, at the shape that stands in a row of a table."""
    settings = Measured(rung).settings
    return of_rung(rung, settings, [registry.problem_in(row, rung.ops(settings))], on)


def replay(kernel: Kernel | Measured) -> list[Measurement]:
    """The recorded runs of this kernel, small shapes first. Raises NoRecord, StaleRecord."""
    return [Measurement.from_dict(run) for run in entry(kernel)["runs"]]


def replay_at(kernel: Kernel | Measured, m: int, n: int, k: int) -> Measurement:
    """The recorded run at one shape. Raises NoRecord, naming the shapes that were recorded."""
    rung_entry = entry(kernel)
    for skipped in rung_entry["skipped"]:
        if shape_of(skipped) == (m, n, k):
            reason = skipped["reason"].rstrip(".")
            raise NoRecord(f"{kernel.name} at M={m}, N={n}, K={k} was skipped: {reason}.")
    return Measurement.from_dict(_at(kernel, rung_entry["runs"], (m, n, k), "no time"))


def counters_at(kernel: Kernel | Measured, m: int, n: int, k: int) -> tuple[str, dict[str, float]]:
    """The GPU's name, and Nsight Compute's metrics of one launch at a recorded shape. Raises
    NoRecord, naming the shapes whose counters were recorded, and StaleRecord."""
    rung_entry = entry(kernel)
    counted = _at(kernel, rung_entry["counters"], (m, n, k), "no counters")
    return rung_entry["provenance"]["gpu"], counted["metrics"]


def shape_of(row: Row) -> tuple[int, int, int]:
    """(M, N, K) of a run or of counters."""
    return row["m"], row["n"], row["k"]


def _at(kernel: Kernel | Measured, rows: list[Row], shape: tuple[int, int, int], no: str) -> Row:
    by_shape = {shape_of(row): row for row in rows}
    if shape not in by_shape:
        m, n, k = shape
        there = ", ".join("x".join(map(str, known)) for known in by_shape)
        raise NoRecord(
            f"{kernel.name} has {no} recorded at M={m}, N={n}, K={k}; "
            f"recorded are, as MxNxK: {there or 'none'}."
        )
    return by_shape[shape]


def benchmark(kernel: Kernel) -> pandas.DataFrame:
    """Measure the kernel on the GPU here, or replay its recorded runs; columns timing.COLUMNS.

    Measures squares from 256 to 4096 as far as one launch stays under a second. Raises
    VerificationError if the kernel is wrong; without a GPU that runs it NoRecord and StaleRecord.
    """
    return table(measured(kernel, LIVE_SHAPES))


def measured(
    kernel: Kernel, shapes: Iterable[tuple[int, int, int]], say: Say = lambda line: None
) -> Iterator[Measurement]:
    """On a GPU that runs the kernel these shapes, with a line about each that is left out; else its
    recorded runs. Raises what timing.sweep and `replay` raise."""
    if not kernel.on_gpu:
        yield from replay(kernel)
        return
    for item in sweep(kernel, tqdm(shapes, desc=kernel.name, unit="shape", delay=2, leave=False)):
        if isinstance(item, Measurement):
            yield item
        else:
            say(f"{kernel.name} {item.m}x{item.n}x{item.k}: left out, {item.reason}")


# ---- cells of tables -----------------------------------------------------------------------------


def cells_of(run: Measurement | Race, problem: Problem) -> Row:
    """What tables keep of a kernel and cuBLAS in turn: microseconds, milliseconds, TFLOP/s, shares
    and noise in percent, the state of the GPU, and the problem."""
    state: Measurement | GpuState
    if isinstance(run, Race):
        state, cublas_ms, noise = run.state, Spread.of(run.cublas_ms, min).median, {}
    else:
        state, cublas_ms, noise = run, run.cublas_ms.median, spread("noise", run.noise, 100)
    time_ms, tflop = run.time_ms, problem.flop / 1e12
    return {
        **dict(zip("mnk", problem.shape, strict=True)), "batch": problem.batch, "ops": problem.ops,
        **spread("time_ms", time_ms), "us": 1e3 * time_ms.median, "cublas_ms": cublas_ms,
        "tflops": tflop / (time_ms.median / 1e3), "cublas_tflops": tflop / (cublas_ms / 1e3),
        **spread("pct_cublas", run.ratio, 100), **noise,
        **{name: getattr(state, name) for name in STATE}, "pairs": run.pairs,
    }  # fmt: skip


def spread(column: str, of: Spread, factor: float = 1) -> Row:
    """The median and the quartiles: x with x_q1 and x_q3, x_ms with x_q1_ms and x_q3_ms."""
    stem, unit = (column[:-3], "_ms") if column.endswith("_ms") else (column, "")
    columns = {column: of.median, f"{stem}_q1{unit}": of.q1, f"{stem}_q3{unit}": of.q3}
    return {name: factor * value for name, value in columns.items()}


def taken(kernel: Kernel) -> Row:
    """Registers and spilled bytes of a thread of what multiplies, from the compiler."""
    entry = kernel.compiled.entries[kernel.rung.entry(kernel.settings)]
    return {"registers": entry.registers, "spilled_bytes": entry.spilled_bytes}


def result_digest(
    kernel: Kernel, m: int, n: int, k: int, alpha: float, beta: float, seed: int
) -> str:
    """SHA-256 of the bytes of C = alpha·A·B + beta·C; for the matrices see Operands.from_seed."""
    given = kernel.operands(kernel.problem(m, n, k), seed)
    C = given.C if beta else None  # some take none
    result = kernel(given.A, given.B, C, alpha, beta, given.bias, given.scales)
    return hashlib.sha256(result.tobytes()).hexdigest()
