"""One product over all GPUs of this host: how long it takes, and when each step runs.

    python -m gemmlab record 21_multi_gpu

compares each schedule with its bound at a small shape, times one GPU and then 2, 4 and 8 of those
that are there, by NCCL and by their DMA engines; results/<gpu>/multi_gpu.csv. The steps of the
median run of the largest product are in multi_gpu_timeline.csv.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas

from gemmlab import ladder
from gemmlab.cuda.device import require_gpu
from gemmlab.kernel.fingerprint import Fingerprint, fingerprint, shortened
from gemmlab.kernel.operands import Operands
from gemmlab.kernel.verify import VerificationError
from gemmlab.ladder import Precision, Problem, Rung, Settings, Target
from gemmlab.lessons.multi_gpu import in_turn
from gemmlab.lessons.multi_gpu import schedules as make
from gemmlab.lessons.multi_gpu.gpus import dma_engines, rank_sum, runner
from gemmlab.lessons.multi_gpu.gpus.runner import DMA_ENGINES, NCCL, Job, Measured
from gemmlab.lessons.multi_gpu.in_turn import ByKernel
from gemmlab.lessons.multi_gpu.schedules import Schedule
from gemmlab.lessons.multi_gpu.timeline import Ran, Timeline
from gemmlab.lessons.persistent.rung import RUNG as PERSISTENT
from gemmlab.lessons.register_banks.rung import RUNG as REGISTER_BANKS
from gemmlab.lessons.warp_specialized.rung import RUNG as WARP_SPECIALIZED
from gemmlab.measure.timing import Spread, now
from gemmlab.records import registry
from gemmlab.records.registry import NUMBER, POSITIVE, SIZE, TEXT, NoRecord, Row, Say, Table, of_row
from gemmlab.records.runs import spread

NAME = "21_multi_gpu"
CHUNKS, REPEATS = 8, 9
COUNTS = (2, 4, 8)
SMALL = Problem(264, 136, 520)  # at which each schedule is verified
SEED = 21


@dataclass(frozen=True)
class Case:
    """A rung with settings, any macros of its file, and the shapes that it is measured at."""

    rung: Rung
    settings: Settings
    problems: tuple[Problem, ...]

    @property
    def full(self) -> Settings:
        return ladder.settings_for(self.rung, {}) | self.settings

    @property
    def precision(self) -> Precision:
        return self.rung.precision_of(self.full)

    @property
    def arithmetic(self) -> Callable[[], ByKernel]:
        return partial(ByKernel, self.rung.name, dict(self.full))


CUBE = Problem(16384, 16384, 16384)
CASES = (
    Case(PERSISTENT, {"DTYPE": 1}, (CUBE, Problem(8192, 8192, 8192))),
    # With its ring where it was when two GPUs were at hand: the same machine code as then.
    Case(REGISTER_BANKS, {"RING_ALIGN": 16}, (CUBE,)),
    Case(WARP_SPECIALIZED, {"DTYPE": 1}, (CUBE,)),
)


def case_of(kernel: str) -> Case:
    """The case whose products a rung computes. Raises KeyError for another rung."""
    return {case.rung.name: case for case in CASES}[kernel]


MAKERS: dict[str, Callable[..., Schedule]] = {  # of a problem, ranks and, if not CHUNKS, chunks
    make.COLUMN: partial(make.column_parallel, chunks=CHUNKS),
    make.ROW: partial(make.row_parallel, chunks=CHUNKS),
}
CODE = {**TEXT("code", "gpu"), **registry.DATE("recorded")}
KEY = ("schedule", "kernel", "settings", "moved_by", "ranks", "m", "n", "k")
WHAT = {
    **TEXT("schedule", "dtype", "kernel"), **registry.NOTE("settings"), **TEXT("moved_by"),
    **SIZE("ranks", "m", "n", "k"),
}  # fmt: skip
COLUMNS = {
    **WHAT, **SIZE("chunks"), **POSITIVE("ms", "ms_q1", "ms_q3", "tflops", "one_gpu_ms"),
    **POSITIVE("pct_of_ranks"), **TEXT("driver", "cuda", "nvrtc", "nccl"), **CODE,
}  # fmt: skip
STEPS = {
    **WHAT, **registry.WHOLE("rank"), **TEXT("stream", "step", "kind"),
    **NUMBER("start_ms", "end_ms"), **CODE,
}  # fmt: skip


def _measured(say: Say) -> Iterator[Row]:
    """All of CASES with all of MAKERS; keeps the steps of CUBE, too, in TIMELINES.

    Raises NoGpu, RankFailed, and VerificationError before anything is timed.
    """
    runner.require_gpus(COUNTS[0])
    from cupy.cuda import nccl, runtime

    version = {"nccl": str(nccl.get_version())}
    alone = {}
    for case in CASES:
        jobs = [Job(make.one_rank(problem), repeats=REPEATS) for problem in case.problems]
        for job, measured in _timed(case, jobs, say):
            alone[case.rung.name, job.schedule.problem] = _median(measured).ms
    steps: list[Row] = []
    for ranks in (count for count in COUNTS if count <= runtime.getDeviceCount()):
        ways = _ways(ranks, say)
        for case in CASES:
            jobs = [
                Job(maker(problem, ranks), repeats=REPEATS, moved_by=way)
                for problem in case.problems
                for maker in MAKERS.values()
                for way in ways
            ]
            for job, measured in _timed(case, jobs, say, ways):
                one_gpu_ms = alone[case.rung.name, job.schedule.problem]
                row = _row(case, job, measured, one_gpu_ms) | version
                if job.schedule.problem == CUBE:
                    steps += _step_rows(case, job, _median(measured))
                say(
                    f"{NAME}: {job.schedule}, {case.precision.name}, {job.moved_by}: "
                    f"{row['tflops']:.0f} TFLOP/s, {row['pct_of_ranks']:.1f} % of {ranks} GPUs"
                )
                yield row
            _keep(steps, whole=False)
    _keep(steps)


def _keep(steps: list[Row], whole: bool = True) -> None:
    about = TIMELINES.made_with() | {"recorded": now()}
    rows = pandas.DataFrame([about | step for step in steps])
    TIMELINES.write(rows, require_gpu("Recording").slug, whole)


def _ways(ranks: int, say: Say) -> tuple[str, ...]:
    """What can move parts between these GPUs."""
    if why := dma_engines.why_not(ranks):
        say(f"{NAME}: {DMA_ENGINES}: left out. {why}")
        return (NCCL,)
    return NCCL, DMA_ENGINES


def _timed(
    case: Case, jobs: list[Job], say: Say, ways: tuple[str, ...] = (NCCL,)
) -> Iterator[tuple[Job, Measured]]:
    """Each job and what was measured, after what is checked by the same processes passed.

    Raises VerificationError.
    """
    ranks, given = jobs[0].schedule.ranks, Operands.from_seed(SMALL, case.precision, SEED)
    makers = MAKERS.values() if ranks > 1 else [lambda problem, _: make.one_rank(problem)]
    checked = [
        Job(maker(SMALL, ranks), given.A, given.B, moved_by=way) for maker in makers for way in ways
    ]
    results = runner.run([*checked, *jobs], case.arithmetic)
    for job, result in zip(checked, results, strict=False):
        share = in_turn.shares_of_bound(job.schedule, case.precision, job.A, job.B, result.C).max()
        if not share <= 1:
            raise VerificationError(
                f"{job.schedule} by {case.rung.name}, {job.moved_by}: an error is {share:.3g} "
                "times its bound"
            )
    say(f"{NAME}: {case.rung.name} on {ranks}: pass ({len(checked)} schedules)")
    return zip(jobs, results[len(checked) :], strict=True)


def _median(measured: Measured) -> Timeline:
    """The run with the median time."""
    return sorted(measured.runs, key=lambda run: run.ms)[len(measured.runs) // 2]


def _about(case: Case, job: Job) -> Row:
    schedule = job.schedule
    m, n, k = schedule.problem.shape
    return {
        "schedule": schedule.name, "dtype": case.precision.name, "kernel": case.rung.name,
        "settings": ladder.written(case.full), "moved_by": job.moved_by, "ranks": schedule.ranks,
        "m": m, "n": n, "k": k,
    }  # fmt: skip


def _row(case: Case, job: Job, measured: Measured, one_gpu_ms: float) -> Row:
    schedule = job.schedule
    ms = Spread.of([run.ms for run in measured.runs], min)
    return _about(case, job) | {
        "chunks": CHUNKS, **spread("ms", ms),
        "tflops": schedule.problem.flop / ms.median / 1e9, "one_gpu_ms": one_gpu_ms,
        "pct_of_ranks": 100 * one_gpu_ms / ms.median / schedule.ranks,
    }  # fmt: skip


def _step_rows(case: Case, job: Job, run: Timeline) -> Iterator[Row]:
    about = _about(case, job)
    for step in run.steps:
        yield about | {
            "rank": step.rank, "stream": step.stream, "step": step.name, "kind": step.kind,
            "start_ms": step.start_ms, "end_ms": step.end_ms,
        }  # fmt: skip


def _fingerprint_of(row: Any, on: Target) -> Fingerprint:
    """Of the rung, as one GPU launches it; where partial sums are added, also of that kernel."""
    of_product = of_row(case_of(row.kernel).rung, row, on)
    if row.schedule != make.ROW:
        return of_product
    of_sum = fingerprint(rank_sum.PATH, {})
    both = shortened(of_product.code)[:8] + shortened(of_sum.code)[:8]
    return replace(of_product, files=of_product.files | of_sum.files, code=both)


SPEEDS = Table(
    name=NAME, file="multi_gpu.csv", key=KEY, columns=COLUMNS, measure=_measured,
    fingerprint_of=_fingerprint_of,
)  # fmt: skip


class _Timelines(Table):
    """Measured with SPEEDS."""

    def remake(self, say: Say) -> Path:
        SPEEDS.remake(say)
        return self.path_of(require_gpu("Recording").slug)


TIMELINES = _Timelines(
    name=f"{NAME}_timeline", file="multi_gpu_timeline.csv", key=(*KEY, "rank", "step"),
    columns=STEPS, measure=_measured, fingerprint_of=_fingerprint_of,
)  # fmt: skip
EVIDENCE = (SPEEDS, TIMELINES)


def at(evidence: Table, problem: Problem) -> pandas.DataFrame:
    """The recorded rows of SPEEDS or TIMELINES of a problem. Raises NoRecord, StaleRecord."""
    table = evidence.read()
    return table[(table[[*"mnk"]] == list(problem.shape)).all(axis=1)]


def timeline(schedule: Schedule, kernel: str, moved_by: str = NCCL) -> Timeline:
    """The recorded median run of a schedule of MAKERS, its products by a rung of CASES.

    `moved_by`: NCCL or DMA_ENGINES. Raises NoRecord, StaleRecord.
    """
    rows = at(TIMELINES, schedule.problem).query(
        "schedule == @schedule.name and kernel == @kernel and moved_by == @moved_by "
        "and ranks == @schedule.ranks"
    )
    if rows.empty:
        raise NoRecord(
            f"{NAME}: no timeline is recorded of {schedule} by {kernel}, moved by {moved_by}"
        )
    ran = tuple(
        Ran(row.rank, row.stream, row.step, row.kind, row.start_ms, row.end_ms)
        for row in rows.itertuples()
    )
    first = rows.iloc[0]
    gpus = f"{schedule.ranks} × {first.gpu}"
    source = f"{kernel}, moved by {moved_by}, measured on {gpus}, {first.recorded[:10]}"
    return Timeline(schedule, ran, source)
