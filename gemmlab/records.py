"""Recorded runs: read them, check them, and replay them where there is no GPU.

Each GPU has one file, results/<gpu>.json, which gemmlab.recorder writes. Which of several is read:
the one that the environment variable GEMMLAB_RECORDS names ("nvidia-h200"), else that of the GPU
here, else the first by name.

A recorded rung belongs to the code that was measured: it holds a hash of it, and where that no
longer fits, nothing is replayed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmlab.device import gpu, replayed_file
from gemmlab.ladder import settings_for
from gemmlab.timing import Measurement, sweep, table
from gemmlab.verify import random_matrix

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


class NoRecord(LookupError):
    """There is no record of what was asked for; the message names what there is."""


class StaleRecord(RuntimeError):
    """The record is of another version of the kernel."""


class BadRecord(ValueError):
    """A records file that is not in the format; the message names the file and the field."""


# ---- the format ----------------------------------------------------------------------------------
# A dict lists the fields of an object ("name?" may be missing), a one-element list describes each
# item of a list, Each each value of an object with free keys, a tuple the alternatives.


class Each:
    """An object with any keys, whose values are all of one form."""

    def __init__(self, form: Any) -> None:
        self.form = form


NUMBER = (int, float)
SHAPE = {"m": int, "n": int, "k": int}
SPREAD = {"best": NUMBER, "q1": NUMBER, "median": NUMBER, "q3": NUMBER}
STATE = {"sm_clock_mhz": (*NUMBER, None), "power_w": (*NUMBER, None), "temperature_c": (*NUMBER, None)}  # fmt: skip # noqa: E501
PROVENANCE = {
    name: str
    for name in ("recorded", "gpu", "driver", "cuda", "nvrtc", "cublas", "cupy", "numpy", "gemmlab")
} | {"ncu": (str, None), "python": str}
FORMAT = {
    "schema": int,
    "gpu": {
        "name": str, "compute_capability": [int], "sm_count": int, "memory_bytes": int,
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
    "pitfalls?": {"provenance": PROVENANCE, "samples_ms": Each([NUMBER])},
    "rungs": Each({
        "provenance": PROVENANCE,
        "code": str,
        "settings": Each(int),
        "verified": [{**SHAPE, "alpha": NUMBER, "beta": NUMBER, "passed": bool}],
        "runs": [{
            "kernel": str, "dtype": str, **SHAPE,
            "time_ms": SPREAD, "cublas_ms": SPREAD, "ratio": SPREAD, "noise": SPREAD, **STATE,
            "pairs": int, "noise_pairs": int, "launches": int, "cublas_launches": int,
            "input_sets": int, "verify": str, "gpu": str, "recorded": str,
        }],
        "skipped": [{**SHAPE, "reason": str, "time_ms": (*NUMBER, None)}],
        "counters": [{**SHAPE, "metrics": Each(NUMBER)}],
        "counters_missing": (str, None),
        "results": [{**SHAPE, "alpha": NUMBER, "beta": NUMBER, "seed": int, "sha256": str}],
    }),
}  # fmt: skip


def _check(value: Any, form: Any, field: str, path: Path) -> None:
    """Raise BadRecord unless the value has the form."""

    def bad(what: str) -> BadRecord:
        return BadRecord(f"{path}: {field or 'the file'} {what}.")

    if isinstance(form, tuple):
        plain = [kind for kind in form if kind is not None]
        if value is None and None in form:
            return
        if type(value) not in plain:
            names = " or ".join("null" if kind is None else kind.__name__ for kind in form)
            raise bad(f"is {value!r}, not {names}")
        if isinstance(value, float) and not math.isfinite(value):
            raise bad(f"is {value!r}, not a finite number")
    elif isinstance(form, type):
        _check(value, (form,), field, path)
    elif isinstance(form, list):
        if not isinstance(value, list):
            raise bad("is not a list")
        for at, item in enumerate(value):
            _check(item, form[0], f"{field}[{at}]", path)
    elif not isinstance(value, dict):
        raise bad("is not an object")
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
                raise BadRecord(f"{path}: {where} is missing.")
        for name in value:
            if name not in fields:
                raise BadRecord(f"{path}: {f'{field}.{name}'.lstrip('.')} is not a known field.")


def validate(record: Any, path: Path) -> None:
    """Raise BadRecord, naming the file and the field, unless the record is in the format."""
    if isinstance(record, dict) and record.get("schema") != SCHEMA:
        raise BadRecord(f"{path}: schema is {record.get('schema')!r}, not {SCHEMA}.")
    _check(record, FORMAT, "", path)


# ---- files ---------------------------------------------------------------------------------------


def load(path: Path) -> dict[str, Any]:
    """Read and check one records file. Raises BadRecord."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise BadRecord(f"{path}: is not JSON ({error}).") from error
    validate(record, path)
    return record


def save(record: dict[str, Any], path: Path) -> None:
    """Check the record and write it: whole, or not at all. Numbers keep six digits.

    Raises BadRecord, and then leaves the file as it was.
    """
    validate(record, path)
    text = json.dumps(_six_digits(record), indent=1, allow_nan=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _six_digits(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _six_digits(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_six_digits(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def current() -> dict[str, Any]:
    """The record that is replayed here. Raises NoRecord where there is none."""
    try:
        path = replayed_file()
    except LookupError as error:
        raise NoRecord(str(error)) from error
    if path is None:
        raise NoRecord("No run is recorded yet; run `python -m gemmlab record` on a GPU.")
    return load(path)


# ---- what is recorded of a kernel ----------------------------------------------------------------


def entry(kernel) -> dict[str, Any]:
    """What is recorded of this kernel's rung (see FORMAT).

    Raises NoRecord if the rung, or this choice of settings, was not recorded, and StaleRecord if
    the kernel or its default settings have changed since.
    """
    record, name = current(), kernel.rung.name
    if name not in record["rungs"]:
        there = ", ".join(record["rungs"]) or "no rung"
        raise NoRecord(
            f"{name}: not recorded on {record['gpu']['name']}, where there is {there}; "
            f"run `python -m gemmlab record {name}` on a GPU."
        )
    found = record["rungs"][name]
    by_default = kernel.settings == settings_for(kernel.rung, {})
    if kernel.settings != found["settings"] and not by_default:
        raise NoRecord(
            f"{name}: recorded with {_listed(found['settings'])}, "
            f"not with {_listed(kernel.settings)}; measuring that needs a GPU."
        )
    if kernel.code_hash() != found["code"]:
        raise StaleRecord(
            f"{name}: recorded for another version of this kernel; "
            f"run `python -m gemmlab record {name}` on a GPU."
        )
    return found


def _listed(settings: dict[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items()) or "no settings"


def replay(kernel) -> list[Measurement]:
    """The recorded runs of this kernel, small shapes first. Raises NoRecord, StaleRecord."""
    return [Measurement.from_dict(run) for run in entry(kernel)["runs"]]


def replay_at(kernel, m: int, n: int, k: int) -> Measurement:
    """The recorded run at one shape. Raises NoRecord, naming the shapes that were recorded."""
    found = entry(kernel)
    for run in found["runs"]:
        if (run["m"], run["n"], run["k"]) == (m, n, k):
            return Measurement.from_dict(run)
    for skipped in found["skipped"]:
        if (skipped["m"], skipped["n"], skipped["k"]) == (m, n, k):
            raise NoRecord(
                f"{kernel.name} at M={m}, N={n}, K={k} was skipped: {skipped['reason']}."
            )
    there = ", ".join(f"{run['m']}x{run['n']}x{run['k']}" for run in found["runs"])
    raise NoRecord(
        f"{kernel.name} was not recorded at M={m}, N={n}, K={k}; "
        f"recorded are, as MxNxK: {there or 'none'}."
    )


def counters_at(kernel, m: int, n: int, k: int) -> tuple[str, dict[str, float]]:
    """The GPU's name, and Nsight Compute's metrics of one launch at a recorded shape.

    Raises NoRecord, naming the shapes whose counters were recorded, and StaleRecord.
    """
    found = entry(kernel)
    for counted in found["counters"]:
        if (counted["m"], counted["n"], counted["k"]) == (m, n, k):
            return found["provenance"]["gpu"], counted["metrics"]
    there = ", ".join(f"{c['m']}x{c['n']}x{c['k']}" for c in found["counters"])
    raise NoRecord(
        f"{kernel.name}: no counters were recorded at M={m}, N={n}, K={k}; "
        f"there are, as MxNxK: {there or 'none'}."
    )


def benchmark(kernel) -> pandas.DataFrame:
    """Measure the kernel on the GPU here, or replay its recorded runs; columns timing.COLUMNS.

    Measures squares from 256 to 4096 as far as one launch stays under a second. Raises
    VerificationError if the kernel is wrong; without a GPU NoRecord and StaleRecord.
    """
    if gpu() is None:
        return table(replay(kernel))
    from tqdm.auto import tqdm

    shapes = tqdm(LIVE_SHAPES, desc=kernel.name, unit="shape", delay=2, leave=False)
    return table(item for item in sweep(kernel, shapes) if isinstance(item, Measurement))


def result_digest(kernel, m: int, n: int, k: int, alpha: float, beta: float, seed: int) -> str:
    """SHA-256 of the bytes of C = alpha·A·B + beta·C for the random matrices of a seed.

    A, B and C are verify.random_matrix of seed, seed + 1 and seed + 2, a bias that of seed + 3.
    """
    import numpy

    A, B, C = (
        random_matrix(rows, columns, seed + at, kernel.dtype)
        for at, (rows, columns) in enumerate(((m, k), (k, n), (m, n)))
    )
    result = kernel(A, B, C, alpha=alpha, beta=beta, bias=kernel.random_bias(n, seed + 3))
    return hashlib.sha256(numpy.ascontiguousarray(result).tobytes()).hexdigest()
