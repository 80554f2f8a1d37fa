"""Everything that is measured on a GPU and kept, and the command that measures it again.

evidence() names it all: the runs of the rungs, which this module measures and runs
reads, and what other modules measure and read themselves.
"""

from __future__ import annotations

import difflib
import statistics
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from gemmlab import files, ladder
from gemmlab.cuda.cublas import CublasError
from gemmlab.cuda.device import Gpu, require_gpu, software_versions
from gemmlab.cuda.disassembler import NoDisassembler, NoListing
from gemmlab.folders import require_checkout
from gemmlab.kernel.fingerprint import Fingerprint
from gemmlab.kernel.kernel import by_default
from gemmlab.ladder import (
    CEILINGS_NAME,
    LEVELS,
    RUNGS,
    TENSOR_CEILING,
    IllegalSetting,
    LadderError,
    Problem,
)
from gemmlab.ladder.rung import number
from gemmlab.lessons import modules
from gemmlab.measure import ceilings, profiler
from gemmlab.measure.timing import Measurement, TimingError, now, require_verified, sweep
from gemmlab.records import (
    ablations,
    best_by_shape,
    pitfalls,
    registry,
    roofs,
    runs,
    stalls,
    tuning,
    wgmma_ceilings,
)
from gemmlab.records.registry import RUNS, BadRecord, Evidence, NoRecord, Say, StaleRecord
from gemmlab.records.runs import Measured, Part
from ptxsim.compile.nvrtc import CompileError, NoCompiler

Shapes = Iterable[tuple[int, int, int]]

COUNTER_SHAPES = ((1001, 777, 513), (512, 512, 512), (4096, 4096, 4096))
RESULT_SHAPES = (
    (1, 1, 1), (7, 3, 5), (31, 41, 37), (17, 33, 1), (5, 7, 0), (1001, 777, 513), (512, 512, 512),
)  # fmt: skip
RESULT_SCALES = ((1.0, 0.0), (0.5, 2.0))  # alpha, beta
RESULT_SEED = 100


def record(names: Iterable[str], shapes: Shapes, say: Say) -> Path:
    """Measure evidence by name and write it; if none is named, what lacks of BY_DEFAULT.

    A name is that of one, or of a group, as "stalls" of all that begins with "stalls/". Rungs are
    measured at these shapes. After each name its file is written anew, so an interruption loses no
    more than what is in hand; what the file holds of others stays. If none is named, what is
    recorded of this GPU and fits the code is left as it is, and what cannot run on this GPU is left
    out with the reason: so the same command goes on after an interruption. say gets a line about
    each step. Returns the last file. Before anything is measured, raises LadderError, NoCheckout,
    NoGpu, NotWritten and BadRecord; then what the measurements raise.
    """
    from tqdm.auto import tqdm

    by_name, named = {one.name: one for one in evidence(tuple(shapes))}, tuple(names)
    chosen = [one for name in named or BY_DEFAULT for one in _named(name, by_name)]
    require_checkout("Recording")
    folder = registry.RESULTS / require_gpu("Recording").slug
    files.require_writable(folder)
    if (folder / RUNS).is_file():
        runs.load(folder / RUNS)
    path = folder / RUNS
    for one in tqdm(chosen, desc="record", unit="record", disable=len(chosen) == 1):
        if not named and _is_kept(one, folder):
            say(f"{one.name}: recorded already; `record {one.name}` measures it again")
            continue
        try:
            path = one.remake(say)
        except CANNOT_RUN as error:
            if named:
                raise
            say(f"{one.name}: left out. {error}")
        else:
            say(f"{one.name}: written to {path}")
    return path


def _is_kept(one: Evidence, folder: Path) -> bool:
    """Whether it is recorded of the GPU whose folder this is, as the code is now."""
    if not (folder / RUNS).is_file():
        return False
    try:
        with registry.records_of(folder.name):
            one.read()
    except (NoRecord, StaleRecord):
        return False
    return True


def evidence(shapes: Shapes = runs.SHAPES) -> tuple[Evidence, ...]:
    """All that is kept; `shapes` are those at which rungs are measured."""
    return (
        Part(CEILINGS_NAME, RUNS, _remake_ceilings, roofs.recorded_ceilings),
        Part(TENSOR_CEILING.name, RUNS, _remake_tensor_ceiling, roofs.recorded_tensor_ceiling),
        Part(LEVELS.name, RUNS, _remake_levels, roofs.recorded_levels),
        *(piece for lesson in modules("evidence") for piece in lesson.EVIDENCE),
        wgmma_ceilings.EVIDENCE,
        *(
            Part(rung.name, RUNS, partial(_remake_rung, rung.name, shapes),
                 partial(runs.entry, Measured(rung)))
            for rung in RUNGS
        ),
        *map(tuning.evidence, RUNGS),
        *map(best_by_shape.evidence, RUNGS),
        *map(stalls.evidence, RUNGS),
        *map(ablations.evidence, ablations.PATHS),
    )  # fmt: skip


def refused() -> list[BadRecord | StaleRecord]:
    """What is damaged or stale of the records that are read here, each once."""
    found: dict[str, BadRecord | StaleRecord] = {}
    for one in evidence():
        try:
            one.read()
        except NoRecord:
            continue
        except (BadRecord, StaleRecord) as error:
            found.setdefault(str(error), error)
    return list(found.values())


BY_DEFAULT = (
    CEILINGS_NAME, TENSOR_CEILING.name, LEVELS.name, "00_chains", "10_fma_order",
    *(rung.name for rung in RUNGS),
)  # fmt: skip


# What another GPU may lack, or its tools; a wrong result is none of these.
CANNOT_RUN = (
    IllegalSetting, TimingError, CublasError, CompileError, NoCompiler, NoDisassembler, NoListing,
)  # fmt: skip


def _named(name: str, by_name: dict[str, Evidence]) -> list[Evidence]:
    """What a name means: one, or all of a group, as "stalls" those of every rung."""
    group = [one for full, one in by_name.items() if full.startswith(f"{name}/")]
    if name not in by_name and not group:
        near = difflib.get_close_matches(name, by_name, n=3, cutoff=0.4)
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        raise LadderError(
            f"there is nothing to record that is called {name!r}.{hint} "
            "`python -m gemmlab record --list` lists all names."
        )
    return [by_name[name]] if name in by_name else group


# ---- the runs ------------------------------------------------------------------------------------


def _remake_ceilings(say: Say) -> Path:
    return _merge({"ceilings": _record_ceilings(say), "pitfalls": _record_pitfalls(say)})


def _remake_tensor_ceiling(say: Say) -> Path:
    return _merge({"tensor_ceiling": _record_tensor_ceiling(say)})


def _remake_levels(say: Say) -> Path:
    return _merge({"levels": _record_levels(say)})


def _remake_rung(name: str, shapes: Shapes, say: Say) -> Path:
    return _merge({"rungs": {name: _record_rung(name, shapes, say)}})


def _merge(measured: dict[str, Any]) -> Path:
    """Put what was measured into the file, beside what stands there. Raises BadRecord."""
    here = require_gpu("Recording")
    path = registry.RESULTS / here.slug / RUNS
    old = runs.load(path) if path.exists() else {"rungs": {}}
    rungs = old["rungs"] | measured.get("rungs", {})
    new = {"schema": runs.SCHEMA, "gpu": _facts(here)}
    for name in ("ceilings", "tensor_ceiling", "levels", "pitfalls"):
        if found := measured.get(name, old.get(name)):
            new[name] = found
    runs.save(new | {"rungs": dict(sorted(rungs.items()))}, path)
    return path


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


def _record_ceilings(say: Say) -> dict[str, Any]:
    provenance = _provenance()
    measured = roofs.measure_ceilings()
    say(f"{CEILINGS_NAME}: {measured}")
    return {
        "provenance": provenance,
        "code": _code(CEILINGS_NAME, ceilings.of_ceilings),
        **measured.as_record(),
    }


def _record_tensor_ceiling(say: Say) -> dict[str, Any]:
    provenance, arch = _provenance(), require_gpu("Recording").arch
    if number(arch) < TENSOR_CEILING.oldest_arch:
        raise IllegalSetting(
            f"{TENSOR_CEILING.name} needs sm_{TENSOR_CEILING.oldest_arch} or newer, this is {arch}"
        )
    roof = ceilings.measure_tensor_ceiling()
    say(f"{TENSOR_CEILING.name}: {roof.per_second.median / 1e12:.1f} TFLOP/s")
    code = _code(TENSOR_CEILING.name, ceilings.of_tensor_ceiling)
    return {"provenance": provenance, "code": code, "mma": roofs.arithmetic_fields(roof)}


def _record_levels(say: Say) -> dict[str, Any]:
    provenance = _provenance()
    found = ceilings.measure_levels()
    for level, roof in found.items():
        say(f"{LEVELS.name}: {level} {roof.per_second.median / 1e12:.2f} TB/s")
    reads = {level: roofs.bandwidth_fields(roof) for level, roof in found.items()}
    return {
        "provenance": provenance,
        "code": _code(LEVELS.name, ceilings.of_levels),
        "reads": reads,
    }


def _code(name: str, fingerprint_of: Callable[[int], Fingerprint]) -> str:
    """Of what was measured on the GPU here; what it is made of is kept."""
    here = require_gpu("Recording")
    now = fingerprint_of(here.sm_count)
    registry.keep_sources(name, registry.RESULTS / here.slug, [now])
    return str(now)


def _record_pitfalls(say: Say) -> dict[str, Any]:
    provenance = _provenance()
    samples = pitfalls.measure()
    for way, times in samples.items():
        say(f"{CEILINGS_NAME}: {way}: {statistics.median(times):.4g} ms")
    return {"provenance": provenance, "samples_ms": samples}


def _record_rung(name: str, shapes: Shapes, say: Say) -> dict[str, Any]:
    from tqdm.auto import tqdm

    rung, provenance = ladder.find(name), _provenance()
    ladder.nearest_on(rung, rung.defaults, require_gpu("Recording").arch)  # else IllegalSetting
    kernel = by_default(rung)
    report = require_verified(kernel)
    say(f"{name}: pass ({len(report.cases)} cases)")

    measured, skipped, problems = [], [], []
    for item in sweep(kernel, tqdm(shapes, desc=name, unit="shape", leave=False)):
        if isinstance(item, Measurement):
            measured.append(asdict(item))
            problems.append(item.problem)
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

    here = require_gpu("Recording")
    problems += [Problem(row["m"], row["n"], row["k"]) for row in counters]
    now = kernel.fingerprint(problems, registry.target_here())
    registry.keep_sources(name, registry.RESULTS / here.slug, [now])
    return {
        "provenance": provenance,
        "code": str(now),
        "settings": dict(kernel.settings),
        "verified": [
            {
                "m": case.m, "n": case.n, "k": case.k, "alpha": case.alpha, "beta": case.beta,
                "passed": case.passed,
            }
            for case in report.cases
        ],
        "runs": measured,
        "skipped": skipped,
        "counters": counters,
        "counters_missing": missing,
        "results": [
            {
                "m": m, "n": n, "k": k, "alpha": alpha, "beta": beta, "seed": RESULT_SEED,
                "sha256": runs.result_digest(kernel, m, n, k, alpha, beta, RESULT_SEED),
            }
            for m, n, k in RESULT_SHAPES
            for alpha, beta in RESULT_SCALES
        ],
    }  # fmt: skip
