"""Everything that is measured on a GPU and kept, and the command that measures it again.

evidence() names it all: the runs of the rungs, which this module measures and runs reads, and
tables, which other modules and the lessons' `measure` modules measure and read.
"""

from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from tqdm.auto import tqdm

from gemmlab import ladder
from gemmlab.cuda.cublas import CublasError
from gemmlab.cuda.device import require_gpu
from gemmlab.cuda.disassembler import NoDisassembler, NoListing
from gemmlab.kernel.kernel import by_default
from gemmlab.ladder import OTHERS, RUNGS, IllegalSetting, LadderError
from gemmlab.lessons import modules
from gemmlab.measure import profiler
from gemmlab.measure.timing import Measurement, TimingError, require_verified, sweep
from gemmlab.records import best_by_shape, registry, roofs, runs, stalls, tuning
from gemmlab.records.registry import RUNS, BadRecord, Evidence, NoRecord, Row, Say, StaleRecord
from ptxsim.compile.nvrtc import CompileError, NoCompiler

COUNTER_SHAPES = ((1001, 777, 513), (512, 512, 512), (4096, 4096, 4096))
RESULT_SHAPES = (
    (1, 1, 1), (7, 3, 5), (31, 41, 37), (17, 33, 1), (5, 7, 0), (1001, 777, 513), (512, 512, 512),
)  # fmt: skip
RESULT_SCALES = ((1.0, 0.0), (0.5, 2.0))  # alpha, beta
RESULT_SEED = 100


def record(names: Iterable[str], say: Say) -> Path:
    """Measure evidence by name and write it; if none is named, what is missing by default.

    A name is that of one, or of a group, as "stalls" of all that begins with "stalls/". After each
    name its file is written anew, so an interruption loses no more than what is in hand; what the
    file holds of others stays. If none is named, what is recorded of this GPU and fits the code is
    left as it is, and what cannot run on this GPU is left out with the reason: so the same command
    goes on after an interruption. say gets a line about each step. Returns the last file. Before
    anything is measured, raises LadderError, NoGpu, OSError and BadRecord; then what the
    measurements raise.
    """
    every, named = evidence(), tuple(names)
    by_name = {piece.name: piece for piece in every}
    chosen = [piece for name in named for piece in _named(name, by_name)]
    chosen = chosen if named else [piece for piece in every if piece.by_default]
    folders = {piece.name: registry.RESULTS / piece.slug for piece in chosen}
    for folder in {*folders.values()}:
        folder.mkdir(parents=True, exist_ok=True)
        if (path := folder / RUNS).is_file():
            runs.load(path)
    for piece in tqdm(chosen, desc="record", unit="record", disable=len(chosen) == 1):
        name = piece.name
        if not named and _is_kept(piece, folders[name]):
            say(f"{name}: recorded already; `record {name}` measures it again")
            continue
        try:
            path = piece.remake(say)
        except CANNOT_RUN as error:
            if named:
                raise
            say(f"{name}: left out. {error}")
        else:
            say(f"{name}: written to {path}")
    return path


def _is_kept(piece: Evidence, folder: Path) -> bool:
    """Whether it is recorded of the GPU whose folder this is, as the code is now."""
    try:
        with registry.records_of(folder.name):
            piece.read()
    except (NoRecord, StaleRecord):
        return False
    return True


def evidence() -> tuple[Evidence, ...]:
    """All that is kept."""
    return (
        *roofs.PARTS,
        *(table for lesson in modules("measure") for table in lesson.EVIDENCE),
        roofs.WGMMA_TABLE,
        *(
            runs.Part(
                name=rung.name, measure=partial(_runs_of, rung.name),
                reader=partial(runs.entry, runs.Measured(rung)),
            )
            for rung in (*RUNGS, *(k for k in OTHERS if k.by_tcgen05))
        ),
        *map(tuning.evidence, RUNGS),
        *map(best_by_shape.evidence, RUNGS),
        *map(stalls.evidence, RUNGS),
    )  # fmt: skip


def refused() -> list[BadRecord | StaleRecord]:
    """What is damaged or stale of the records that are read here, each once."""
    errors: dict[str, BadRecord | StaleRecord] = {}
    for piece in evidence():
        try:
            piece.read()
        except NoRecord:
            continue
        except (BadRecord, StaleRecord) as error:
            errors.setdefault(str(error), error)
    return list(errors.values())


# What another GPU may lack, or its tools; a wrong result is none of these.
CANNOT_RUN = (
    IllegalSetting, TimingError, CublasError, CompileError, NoCompiler, NoDisassembler, NoListing,
)  # fmt: skip


def _named(name: str, by_name: dict[str, Evidence]) -> list[Evidence]:
    """What a name means: one, or all of a group, as "stalls" those of every rung."""
    group = [piece for full, piece in by_name.items() if full.startswith(f"{name}/")]
    if name not in by_name and not group:
        raise LadderError(
            f"there is nothing to record that is called {name!r}. "
            "`python -m gemmlab record --list` lists all names."
        )
    return [by_name[name]] if name in by_name else group


# ---- the runs ------------------------------------------------------------------------------------


def _runs_of(name: str, say: Say) -> Row:
    rung, provenance = ladder.find(name), runs.provenance()
    ladder.nearest_on(rung, rung.defaults, require_gpu("Recording").arch)  # else IllegalSetting
    kernel = by_default(rung)
    report = require_verified(kernel)
    say(f"{name}: pass ({len(report.cases)} cases)")

    measured, skipped = [], []
    for item in sweep(kernel, tqdm(runs.SHAPES, desc=name, unit="shape", leave=False)):
        if isinstance(item, Measurement):
            measured.append(asdict(item))
            say(
                f"{name} {item.m}x{item.n}x{item.k}: {item.gflops:.1f} GFLOP/s, "
                f"{100 * item.ratio.median:.1f} % of cuBLAS, noise "
                f"{100 * (item.noise.q3 - item.noise.q1):.1f} %"
            )
        else:
            skipped.append(asdict(item))
            say(f"{name} {item.m}x{item.n}x{item.k}: skipped, {item.reason}")

    counters: list[Row] = []
    try:
        counted = profiler.counters(kernel.rung, kernel.settings, list(COUNTER_SHAPES))
    except profiler.CountersUnavailable as error:
        say(f"{name}: NO COUNTERS RECORDED. {error}")
    else:
        counters = [
            {**dict(zip("mnk", shape, strict=True)), "metrics": metrics}
            for shape, metrics in zip(COUNTER_SHAPES, counted, strict=True)
        ]
        say(f"{name}: {len(counted[0])} counters at {len(counters)} shapes")

    entry = {
        "provenance": provenance, "code": "", "settings": dict(kernel.settings),
        "runs": measured, "skipped": skipped, "counters": counters,
        "results": [
            {
                "m": m, "n": n, "k": k, "alpha": alpha, "beta": beta, "seed": RESULT_SEED,
                "sha256": runs.result_digest(kernel, m, n, k, alpha, beta, RESULT_SEED),
            }
            for m, n, k in RESULT_SHAPES
            for alpha, beta in RESULT_SCALES
        ],
    }  # fmt: skip
    measured_code = kernel.fingerprint(runs.problems_of(entry), registry.target_here())
    entry["code"] = runs.kept_code(name, measured_code)
    return {"rungs": {name: entry}}
