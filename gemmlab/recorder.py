"""Measure on the GPU here and write the record, rung by rung (reading it is gemmlab.records)."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gemmlab import outer_products, pitfalls, profiler, records, roofline
from gemmlab.device import Gpu, require_gpu, software_versions
from gemmlab.kernel import load
from gemmlab.ladder import CEILINGS_NAME, RESULTS, RUNGS, TENSOR_CEILING, find
from gemmlab.timing import Measurement, now, require_verified, sweep

COUNTER_SHAPES = ((1001, 777, 513), (512, 512, 512), (4096, 4096, 4096))
RESULT_SHAPES = (
    (1, 1, 1), (7, 3, 5), (31, 41, 37), (17, 33, 1), (5, 7, 0), (1001, 777, 513), (512, 512, 512),
)  # fmt: skip
RESULT_SCALES = ((1.0, 0.0), (0.5, 2.0))  # alpha, beta
RESULT_SEED = 100


def record(
    names: Iterable[str], shapes: Iterable[tuple[int, int, int]], say: Callable[[str], None]
) -> Path:
    """Measure the named rungs and probes (all if none is named) and write results/<gpu>.json.

    After each rung the file is written anew, so an interruption loses no more than the rung in
    hand. What is recorded of other rungs stays; a rung measured again is replaced. say gets a line
    about each step. Raises LadderError, NoGpu, VerificationError.
    """
    probes = (CEILINGS_NAME, TENSOR_CEILING.name, outer_products.NAME)
    names = tuple(names) or (*probes, *(rung.name for rung in RUNGS))
    for name in names:
        if name not in probes:
            find(name)  # before any of the others is measured
    here = require_gpu("Recording")
    path = RESULTS / f"{here.slug}.json"
    shapes = tuple(shapes)
    for name in names:
        if name == outer_products.NAME:
            say(f"{name}: written to {outer_products.record(say)}")
            continue
        if name == CEILINGS_NAME:
            measured = {"ceilings": _record_ceilings(say), "pitfalls": _record_pitfalls(say)}
        elif name == TENSOR_CEILING.name:
            measured = {"tensor_ceiling": _record_tensor_ceiling(say)}
        else:
            measured = {"rungs": {name: _record_rung(name, shapes, say)}}
        _merge(measured, here, path)
        say(f"{name}: written to {path}")
    return path


def _merge(measured: dict[str, Any], here: Gpu, path: Path) -> None:
    """Put what was measured into the file, beside what stands there."""
    old = records.load(path) if path.exists() else {"rungs": {}}
    rungs = old["rungs"] | measured.get("rungs", {})
    new = {"schema": records.SCHEMA, "gpu": _facts(here)}
    for name in ("ceilings", "tensor_ceiling", "pitfalls"):
        if found := measured.get(name, old.get(name)):
            new[name] = found
    records.save(new | {"rungs": dict(sorted(rungs.items()))}, path)


def _facts(here: Gpu) -> dict[str, Any]:
    return {
        "name": here.name,
        "compute_capability": list(here.compute_capability),
        "sm_count": here.sm_count,
        "memory_bytes": here.memory_bytes,
        "l2_bytes": here.l2_bytes,
    }


def _provenance() -> dict[str, str | None]:
    """When, where and with what: gathered before the measuring starts."""
    here = require_gpu("Recording")
    found = {"recorded": now(), "gpu": here.name, "ncu": profiler.ncu_version()}
    return found | software_versions()


def _record_ceilings(say: Callable[[str], None]) -> dict[str, Any]:
    provenance = _provenance()
    measured = roofline.measure_ceilings()
    say(f"{CEILINGS_NAME}: {measured}")
    return {"provenance": provenance, "code": roofline.ceilings_code(), **measured.as_record()}


def _record_tensor_ceiling(say: Callable[[str], None]) -> dict[str, Any]:
    provenance = _provenance()
    roof = roofline.measure_tensor_ceiling()
    say(f"{TENSOR_CEILING.name}: {roof.per_second.median / 1e12:.1f} TFLOP/s")
    code = roofline.tensor_ceiling_code()
    return {"provenance": provenance, "code": code, "mma": roofline.arithmetic_fields(roof)}


def _record_pitfalls(say: Callable[[str], None]) -> dict[str, Any]:
    provenance = _provenance()
    samples = pitfalls.measure()
    for way, times in samples.items():
        say(f"{CEILINGS_NAME}: {way}: {statistics.median(times):.4g} ms")
    return {"provenance": provenance, "samples_ms": samples}


def _record_rung(
    name: str, shapes: tuple[tuple[int, int, int], ...], say: Callable[[str], None]
) -> dict[str, Any]:
    from tqdm.auto import tqdm

    provenance = _provenance()
    kernel = load(name)
    report = require_verified(kernel)
    say(f"{name}: pass ({len(report.cases)} cases)")

    runs, skipped = [], []
    for item in sweep(kernel, tqdm(shapes, desc=name, unit="shape", leave=False)):
        if isinstance(item, Measurement):
            runs.append(asdict(item))
            say(
                f"{name} {item.m}x{item.n}x{item.k}: {item.gflops:.1f} GFLOP/s, "
                f"{100 * item.ratio.median:.1f} % of cuBLAS, noise "
                f"{100 * (item.noise.q3 - item.noise.q1):.1f} %"
            )
        else:
            skipped.append(asdict(item))
            say(f"{name} {item.m}x{item.n}x{item.k}: skipped, {item.reason}")

    counters, missing = [], None
    try:
        found = profiler.counters(kernel.rung, kernel.settings, list(COUNTER_SHAPES))
        counters = [
            {"m": m, "n": n, "k": k, "metrics": metrics}
            for (m, n, k), metrics in zip(COUNTER_SHAPES, found, strict=True)
        ]
        say(f"{name}: {len(counters[0]['metrics'])} counters at {len(counters)} shapes")
    except profiler.CountersUnavailable as error:
        missing = str(error)
        say(f"{name}: NO COUNTERS RECORDED. {missing}")

    return {
        "provenance": provenance,
        "code": kernel.code_hash(),
        "settings": dict(kernel.settings),
        "verified": [
            {
                "m": case.m, "n": case.n, "k": case.k, "alpha": case.alpha, "beta": case.beta,
                "passed": case.passed,
            }
            for case in report.cases
        ],
        "runs": runs,
        "skipped": skipped,
        "counters": counters,
        "counters_missing": missing,
        "results": [
            {
                "m": m, "n": n, "k": k, "alpha": alpha, "beta": beta, "seed": RESULT_SEED,
                "sha256": records.result_digest(kernel, m, n, k, alpha, beta, RESULT_SEED),
            }
            for m, n, k in RESULT_SHAPES
            for alpha, beta in RESULT_SCALES
        ],
    }  # fmt: skip
