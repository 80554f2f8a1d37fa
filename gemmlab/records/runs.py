"""Recorded runs: read them, check them, and replay them where there is no GPU.

Each GPU has one file, results/<gpu>/runs.json (see gemmlab.records.registry), which
gemmlab.records.recorder writes. A recorded rung holds a hash of its code, and where that no longer
fits, nothing is replayed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmlab import files
from gemmlab.cuda.device import arch_of, gpu
from gemmlab.kernel.fingerprint import Fingerprint, of_rung
from gemmlab.ladder import (
    IllegalSetting,
    Precision,
    Problem,
    Rung,
    Settings,
    Target,
    nearest_on,
    settings_for,
)
from gemmlab.measure.timing import Measurement, Race, Spread, sweep, table
from gemmlab.records.registry import (
    RUNS,
    BadRecord,
    NoRecord,
    Row,
    again,
    bad,
    changed,
    folders,
    of_one_gpu,
    replayed,
    stale,
    target,
    text_of,
)

if TYPE_CHECKING:
    import pandas

SCHEMA = 1

SQUARES = tuple((size, size, size) for size in (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384))
"""(M, N, K) of the square shapes that are recorded."""

SHAPES = (*SQUARES, (4096, 4096, 8192), (8192, 8192, 4096), (1024, 1024, 512), (1001, 777, 513))
"""(M, N, K) of all shapes that are recorded."""

LARGE = (4096, 4096, 4096)
"""(M, N, K) at which rungs are compared with each other."""

LIVE_SHAPES = SQUARES[2:7]
"""(M, N, K) of what benchmark() measures where there is a GPU: 256 to 4096."""


# ---- the format ----------------------------------------------------------------------------------
# A dict lists the fields of an object ("name?" may be missing), a one-element list describes each
# item of a list, a longer one its items in order, Each each value of an object with free keys, a
# tuple the alternatives, Only the one value that is accepted, From a whole number from `least` on,
# and POSITIVE a number above 0.


@dataclass(frozen=True)
class Each:
    """An object with any keys, whose values are all of one form."""

    form: Any


@dataclass(frozen=True)
class Only:
    """What was not verified is no record."""

    value: bool | str


@dataclass(frozen=True)
class From:
    """A whole number that is not smaller."""

    least: int


NUMBER = (int, float)
POSITIVE = "a number above 0"
SHAPE = {"m": int, "n": int, "k": int}
SPREAD = {"best": POSITIVE, "q1": POSITIVE, "median": POSITIVE, "q3": POSITIVE}
STATE = {"sm_clock_mhz": (*NUMBER, None), "power_w": (*NUMBER, None), "temperature_c": (*NUMBER, None)}  # fmt: skip # noqa: E501
PROVENANCE = {
    name: str
    for name in ("recorded", "gpu", "driver", "cuda", "nvrtc", "cublas", "cupy", "numpy", "gemmlab")
} | {"ncu": (str, None), "python": str}
FORMAT = {
    "schema": int,
    "gpu": {
        "name": str, "compute_capability": [From(1), From(0)], "sm_count": From(1),
        "memory_bytes": int,
        "l2_bytes": int,
    },
    "ceilings?": {
        "provenance": PROVENANCE,
        "code": str,
        "copy": {"bytes_per_second": SPREAD, "bytes": int, **STATE},
        "fma": {"flop_per_second": SPREAD, "flop": int, **STATE},
    },
    "tensor_ceiling?": {
        "provenance": PROVENANCE,
        "code": str,
        "mma": {"flop_per_second": SPREAD, "flop": int, **STATE},
    },
    "levels?": {
        "provenance": PROVENANCE,
        "code": str,
        "reads": Each({"bytes_per_second": SPREAD, "bytes": int, **STATE}),
    },
    "pitfalls?": {"provenance": PROVENANCE, "samples_ms": Each([POSITIVE])},
    "rungs": Each({
        "provenance": PROVENANCE,
        "code": str,
        "settings": Each(int),
        "verified": [{**SHAPE, "alpha": NUMBER, "beta": NUMBER, "passed": Only(True)}],
        "runs": [{
            "kernel": str, "dtype": str, **SHAPE,
            "time_ms": SPREAD, "cublas_ms": SPREAD, "ratio": SPREAD, "noise": SPREAD, **STATE,
            "pairs": int, "noise_pairs": int, "launches": int, "cublas_launches": int,
            "input_sets": int, "verify": Only("pass"), "gpu": str, "recorded": str,
            "batch?": int, "ops?": str,
        }],
        "skipped": [{**SHAPE, "reason": str, "time_ms": (*NUMBER, None)}],
        "counters": [{**SHAPE, "metrics": Each(NUMBER)}],
        "counters_missing": (str, None),
        "results": [{**SHAPE, "alpha": NUMBER, "beta": NUMBER, "seed": int, "sha256": str}],
    }),
}  # fmt: skip


def _check(value: Any, form: Any, field: str, path: Path) -> None:
    """Raise BadRecord unless the value has the form."""

    def wrong(what: str) -> BadRecord:
        return bad(path, f"{field or 'the file'} {what}", "")

    if form is POSITIVE:
        _check(value, NUMBER, field, path)
        if value <= 0:
            raise wrong(f"is {value!r}, not {form}")
    elif isinstance(form, From):
        _check(value, int, field, path)
        if value < form.least:
            raise wrong(f"is {value!r}, not a whole number from {form.least} on")
    elif isinstance(form, Only):
        if type(value) is not type(form.value) or value != form.value:
            raise wrong(f"is {value!r}, not {form.value!r}")
    elif isinstance(form, tuple):
        plain = [kind for kind in form if kind is not None]
        if value is None and None in form:
            return
        if type(value) not in plain:
            names = " or ".join("null" if kind is None else kind.__name__ for kind in form)
            raise wrong(f"is {value!r}, not {names}")
        if isinstance(value, float) and not math.isfinite(value):
            raise wrong(f"is {value!r}, not a finite number")
    elif isinstance(form, type):
        _check(value, (form,), field, path)
    elif isinstance(form, list):
        if not isinstance(value, list):
            raise wrong("is not a list")
        if len(value) != len(form) > 1:
            raise wrong(f"is {value!r}, not {len(form)} numbers")
        for at, item in enumerate(value):
            _check(item, form[at if len(form) > 1 else 0], f"{field}[{at}]", path)
    elif not isinstance(value, dict):
        raise wrong("is not an object")
    elif isinstance(form, Each):
        for key, item in value.items():
            _check(item, form.form, f"{field}.{key}".lstrip("."), path)
    else:
        fields = {name.rstrip("?"): name for name in form}
        for name, declared in fields.items():
            where = f"{field}.{name}".lstrip(".")
            if name in value:
                _check(value[name], form[declared], where, path)
            elif not declared.endswith("?"):
                raise bad(path, f"{where} is missing", "")
        for name in value:
            if name not in fields:
                where = f"{field}.{name}".lstrip(".")
                raise bad(path, f"{where} is not a known field", "")


def validate(record: Any, path: Path) -> None:
    """Raise BadRecord, naming the file and the field, unless the record is in the format."""
    if isinstance(record, dict) and record.get("schema") != SCHEMA:
        raise bad(path, f"schema is {record.get('schema')!r}, not {SCHEMA}", "")
    _check(record, FORMAT, "", path)


# ---- files ---------------------------------------------------------------------------------------


def load(path: Path) -> dict[str, Any]:
    """Read and check one records file. Raises NoRecord, BadRecord."""
    text = text_of(path, "")
    _check_text(text, path)
    return json.loads(text)


@lru_cache(maxsize=4)  # read again and again: checking takes five times as long as reading
def _check_text(text: str, path: Path) -> None:
    try:
        record = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise bad(path, f"the file is not JSON ({error})", "") from error
    validate(record, path)


def save(record: dict[str, Any], path: Path) -> None:
    """Check the record and write it. Numbers keep six digits.

    Raises BadRecord and NotWritten, and then leaves the file as it was.
    """
    validate(record, path)
    text = json.dumps(_six_digits(record), indent=1, allow_nan=False) + "\n"
    files.write(path, text.encode())


def _six_digits(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _six_digits(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_six_digits(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def current() -> dict[str, Any]:
    """The record that is replayed here. Raises NoRecord where there is none, BadRecord."""
    return load(replayed() / RUNS)


# ---- the line that a notebook shows --------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Device:
    """What gl.device() returns: one line that says what runs here."""

    line: str

    def __repr__(self) -> str:
        return self.line


def device() -> Device:
    """What runs the kernels here, and without a GPU whose measurements are replayed."""
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
    """Whether anything is recorded of a rung where records are read.

    Raises NoRecord where there are none at all.
    """
    return any(rung.name in load(folder / RUNS)["rungs"] for folder in folders())


def entry(kernel) -> dict[str, Any]:
    """What is recorded of this kernel's rung (see FORMAT).

    Raises NoRecord if the rung, or this choice of settings, was not recorded, and StaleRecord if
    the kernel or its default settings have changed since.
    """
    return of_one_gpu(partial(_entry, kernel))


def _entry(kernel) -> dict[str, Any]:
    record, name = current(), kernel.rung.name
    if name not in record["rungs"]:
        there = ", ".join(record["rungs"]) or "no rung"
        raise NoRecord(
            f"{name}: not recorded on {record['gpu']['name']}, where there is {there}; "
            f"{again(name)} on a GPU."
        )
    rung_entry = record["rungs"][name]
    now = kernel.fingerprint(problems_of(rung_entry), target())
    by_default = kernel.settings == settings_for(kernel.rung, {})
    recorded = rung_entry["settings"].items()  # a parameter may be newer than the record
    if not by_default and any(kernel.settings.get(name) != value for name, value in recorded):
        raise NoRecord(
            f"{name}: recorded with {_listed(rung_entry['settings'])}, "
            f"not with {_listed(kernel.settings)}; measuring that needs a GPU."
        )
    if str(now) != rung_entry["code"]:
        raise stale(name, changed(name, now, rung_entry["code"]))
    return rung_entry


def problems_of(entry: dict[str, Any]) -> list[Problem]:
    """At which a rung was timed or counted."""
    timed = [Measurement.from_dict(run).problem for run in entry["runs"]]
    counted = [Problem(row["m"], row["n"], row["k"]) for row in entry["counters"]]
    return [*timed, *counted]


@dataclass(frozen=True)
class Measured:
    """A rung as it is recorded, as far as records look at it: nothing is compiled.

    With its default settings, or the nearest that run on the GPU whose record is read.
    """

    rung: Rung

    @property
    def name(self) -> str:
        return self.rung.name

    @cached_property
    def settings(self) -> Settings:
        wanted = settings_for(self.rung, {})
        try:
            arch = arch_of(tuple(current()["gpu"]["compute_capability"]))
            return (
                wanted if self.rung.runs_on(wanted, arch) else nearest_on(self.rung, wanted, arch)
            )
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
    problem = Problem(
        int(row.m), int(row.n), int(row.k), int(getattr(row, "batch", 1)), rung.ops(settings)
    )
    return of_rung(rung, settings, [problem], on)


def _listed(settings: dict[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items()) or "no settings"


def replay(kernel) -> list[Measurement]:
    """The recorded runs of this kernel, small shapes first. Raises NoRecord, StaleRecord."""
    return [Measurement.from_dict(run) for run in entry(kernel)["runs"]]


def replay_at(kernel, m: int, n: int, k: int) -> Measurement:
    """The recorded run at one shape. Raises NoRecord, naming the shapes that were recorded."""
    rung_entry = entry(kernel)
    for run in rung_entry["runs"]:
        if (run["m"], run["n"], run["k"]) == (m, n, k):
            return Measurement.from_dict(run)
    for skipped in rung_entry["skipped"]:
        if (skipped["m"], skipped["n"], skipped["k"]) == (m, n, k):
            reason = skipped["reason"].rstrip(".")
            raise NoRecord(f"{kernel.name} at M={m}, N={n}, K={k} was skipped: {reason}.")
    there = ", ".join(f"{run['m']}x{run['n']}x{run['k']}" for run in rung_entry["runs"])
    raise NoRecord(
        f"{kernel.name} was not recorded at M={m}, N={n}, K={k}; "
        f"recorded are, as MxNxK: {there or 'none'}."
    )


def counters_at(kernel, m: int, n: int, k: int) -> tuple[str, dict[str, float]]:
    """The GPU's name, and Nsight Compute's metrics of one launch at a recorded shape.

    Raises NoRecord, naming the shapes whose counters were recorded, and StaleRecord.
    """
    rung_entry = entry(kernel)
    for counted in rung_entry["counters"]:
        if (counted["m"], counted["n"], counted["k"]) == (m, n, k):
            return rung_entry["provenance"]["gpu"], counted["metrics"]
    there = ", ".join(f"{c['m']}x{c['n']}x{c['k']}" for c in rung_entry["counters"])
    raise NoRecord(
        f"{kernel.name}: no counters were recorded at M={m}, N={n}, K={k}; "
        f"there are, as MxNxK: {there or 'none'}."
    )


def benchmark(kernel) -> pandas.DataFrame:
    """Measure the kernel on the GPU here, or replay its recorded runs; columns timing.COLUMNS.

    Measures squares from 256 to 4096 as far as one launch stays under a second. Raises
    VerificationError if the kernel is wrong; without a GPU that runs it NoRecord and StaleRecord.
    """
    if not kernel.on_gpu:
        return table(replay(kernel))
    from tqdm.auto import tqdm

    shapes = tqdm(LIVE_SHAPES, desc=kernel.name, unit="shape", delay=2, leave=False)
    return table(item for item in sweep(kernel, shapes) if isinstance(item, Measurement))


# ---- cells of tables -----------------------------------------------------------------------------


def cells_of(run: Measurement | Race, problem: Problem) -> Row:
    """What tables keep of a kernel and cuBLAS in turn: microseconds, milliseconds, TFLOP/s, shares
    and noise in percent, the state of the GPU, and the problem."""
    if isinstance(run, Race):
        cublas_ms, noise, state = Spread.of(run.cublas_ms, min).median, None, run.state
        pairs = len(run.our_ms)
    else:
        cublas_ms, noise, state, pairs = run.cublas_ms.median, run.noise, run, run.pairs
    time_ms, tflop = run.time_ms, problem.flop / 1e12
    return {
        **dict(zip("mnk", problem.shape, strict=True)), "batch": problem.batch, "ops": problem.ops,
        **spread("time_ms", time_ms), "us": 1e3 * time_ms.median, "cublas_ms": cublas_ms,
        "tflops": tflop / (time_ms.median / 1e3), "cublas_tflops": tflop / (cublas_ms / 1e3),
        **spread("pct_cublas", run.ratio, 100), **(spread("noise", noise, 100) if noise else {}),
        **{name: getattr(state, name) for name in STATE}, "pairs": pairs,
    }  # fmt: skip


def spread(column: str, of: Spread, factor: float = 1) -> Row:
    """The median and the quartiles: x with x_q1 and x_q3, x_ms with x_q1_ms and x_q3_ms."""
    stem, unit = (column[:-3], "_ms") if column.endswith("_ms") else (column, "")
    return {
        column: factor * of.median, f"{stem}_q1{unit}": factor * of.q1,
        f"{stem}_q3{unit}": factor * of.q3,
    }  # fmt: skip


def taken(kernel) -> Row:
    """Registers and spilled bytes of a thread of what multiplies, from the compiler."""
    entry = kernel.compiled.entries[kernel.rung.entry(kernel.settings)]
    return {
        "registers": entry.registers,
        "spilled_bytes": entry.spill_store_bytes + entry.spill_load_bytes,
    }


def result_digest(kernel, m: int, n: int, k: int, alpha: float, beta: float, seed: int) -> str:
    """SHA-256 of the bytes of C = alpha·A·B + beta·C for the random matrices of a seed.

    See operands.Operands.from_seed.
    """
    import numpy

    given = kernel.operands(kernel.problem(m, n, k), seed)
    result = kernel(given.A, given.B, given.C, alpha, beta, given.bias, given.scales)
    return hashlib.sha256(numpy.ascontiguousarray(result).tobytes()).hexdigest()
