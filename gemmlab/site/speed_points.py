"""Every recorded speed as one point: which rung, of what, how fast, and where that comes from.

Read through the readers of gemmlab.records, of every GPU that has records; what these refuse as
stale is no point, and is named. Shares are percent, times milliseconds, rates TFLOP/s (of int8
operations of as many), all medians beside their quartiles where these are recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gemmlab import ladder
from gemmlab.ladder import Problem, Rung
from gemmlab.ladder.rungs import (
    fp8,
    fp32_summit,
    hopper,
    irregular,
    mma_sync,
    register_banks,
    tensor_cores,
    tiled,
    untiled,
    warp_tiled,
)
from gemmlab.lessons.batched import measure as batches
from gemmlab.lessons.fp8 import steps as fp8_steps
from gemmlab.lessons.fp32_summit import steps as summit_steps
from gemmlab.lessons.mma_sync import steps as mma_steps
from gemmlab.lessons.mma_sync import types as mma_types
from gemmlab.lessons.split_k import measure as joins
from gemmlab.lessons.tma_wgmma import steps as hopper_steps
from gemmlab.measure.timing import Measurement
from gemmlab.records import ablations, best_by_shape, registry, roofs, runs, tuning
from gemmlab.records.registry import NoRecord, StaleRecord

FAMILIES: dict[str, tuple[Rung, ...]] = {
    "without tiles": untiled.RUNGS,
    "tiles of a block": tiled.RUNGS,
    "tiles of a warp": warp_tiled.RUNGS,
    "register banks": register_banks.RUNGS,
    "few tiles, batches": irregular.RUNGS,
    "tensor cores": (*tensor_cores.RUNGS, *mma_sync.RUNGS),
    "Hopper": (*hopper.RUNGS, fp8.FP8, fp32_summit.FP32_SUMMIT),
}
RUNGS = {rung.name: rung for rungs in FAMILIES.values() for rung in rungs}
CUBLAS, LIBRARY = "cublas", "library"  # as a rung; in place of a hash of its code

DEFAULTS, FOR_SHAPE, SWEEP, TYPES, STEPS, WAYS, JOINS = (
    "defaults", "for-shape", "sweep", "types", "steps", "batches", "joins",
)  # fmt: skip
RECORDS = {
    DEFAULTS: "each rung as it is in its file",
    FOR_SHAPE: "with the settings chosen for the shape",
    SWEEP: "every setting that a sweep tried",
    TYPES: "15 with each type of its elements",
    STEPS: "the steps from one rung to the next, and roads not taken",
    WAYS: "ways to launch a batch",
    JOINS: "ways to add the parts of K",
}
KINDS = ("squares", "thin", "deep K", "rectangles", "batches")
THIN = 128  # rows or columns of C, at most
DEEP = 16  # times the longer side of C, at least


@dataclass(frozen=True)
class Point:
    """One recorded speed.

    `record`: one of RECORDS; `file`: below results/<gpu>/. `rung`: a name of RUNGS, or CUBLAS.
    `what`: the step, the way or the load that the record names, "" where there is nothing to tell
    apart. `precision`: of A, B, C and the sums, as records name it; `type` of A and B alone.
    `roof_share`: of the lower of the roofs over the rung's instructions and types, see `_roof`.
    None stands for what was not recorded. `code`: the first 16 digits of the hash of what was
    measured, LIBRARY of cuBLAS.
    """

    record: str
    file: str
    rung: str
    what: str
    settings: str
    precision: str
    problem: Problem
    time_ms: float
    code: str
    gpu: str
    driver: str
    cuda: str
    cublas: str
    recorded: str
    time_q1_ms: float | None = None
    time_q3_ms: float | None = None
    share: float | None = None
    share_q1: float | None = None
    share_q3: float | None = None
    roof_share: float | None = None
    clock_mhz: float | None = None
    power_w: float | None = None
    cublas_tflops: float | None = None

    @property
    def tflops(self) -> float:
        return self.problem.flop / (self.time_ms * 1e9)

    @property
    def type(self) -> str:
        return self.precision.partition(" ")[0]

    @property
    def kind(self) -> str:
        """One of KINDS, by the shape alone."""
        one = self.problem
        if one.batch > 1 or self.record == WAYS:
            return "batches"
        if one.m == one.n == one.k:
            return "squares"
        if one.k >= DEEP * max(one.m, one.n):
            return "deep K"
        return "thin" if min(one.m, one.n) <= THIN else "rectangles"


@dataclass(frozen=True)
class Recorded:
    """All points of one GPU, cuBLAS among them, and sentences about what was left out."""

    slug: str
    gpu: str
    points: tuple[Point, ...]
    left_out: tuple[str, ...]


def recorded() -> list[Recorded]:
    """Of every GPU that has records, as registry.gpus() has them. Raises BadRecord for a damaged
    file."""
    return [_of_gpu(slug) for slug in registry.gpus()]


def _of_gpu(slug: str) -> Recorded:
    with registry.records_of(slug):
        found, left_out = [], []
        for read in _readers():
            try:
                found += read()
            except NoRecord:
                continue
            except StaleRecord as error:
                left_out.append(str(error))
        roof = _roofs()
        points = [replace(one, roof_share=_share_of(roof(one), one)) for one in found]
        every = (*points, *_cublas(points))
        return Recorded(slug, runs.current()["gpu"]["name"], every, tuple(dict.fromkeys(left_out)))


# ---- reading -------------------------------------------------------------------------------------


def _readers() -> Iterator[Callable[[], Iterable[Point]]]:
    """One for each piece of evidence, so that a stale one does not take others with it."""
    for rung in ladder.RUNGS:
        yield partial(_of_runs, rung)
        yield partial(_of_best, rung)
        yield partial(_of_sweep, rung)
    yield _of_types
    for name in ablations.PATHS:
        yield partial(_of_path, name)
    yield _of_mma_steps
    for evidence in (hopper_steps.EVIDENCE, fp8_steps.EVIDENCE, summit_steps.EVIDENCE):
        yield partial(_of_steps, evidence)
    yield _of_batches
    yield _of_joins


def _of_runs(rung: Rung) -> list[Point]:
    measured = runs.Measured(rung)
    entry = runs.entry(measured)
    return [_of_run(rung, run, entry) for run in runs.replay(measured)]


def _of_run(rung: Rung, run: Measurement, entry: dict[str, Any]) -> Point:
    told = entry["provenance"]
    return Point(
        DEFAULTS, registry.RUNS, rung.name, "", ladder.written(entry["settings"]), run.dtype,
        run.problem, run.time_ms.median, entry["code"], run.gpu, told["driver"],
        told["cuda"], told["cublas"], run.recorded, run.time_ms.q1, run.time_ms.q3,
        100 * run.ratio.median, 100 * run.ratio.q1, 100 * run.ratio.q3,
        clock_mhz=run.sm_clock_mhz, power_w=run.power_w,
        cublas_tflops=run.problem.flop / (run.cublas_ms.median * 1e9),
    )  # fmt: skip


def _of_best(rung: Rung) -> list[Point]:
    evidence = best_by_shape.evidence(rung)
    return [
        _point(FOR_SHAPE, evidence, row, rung, "" if row.way == "in turn" else row.way)
        for row in evidence.read().itertuples()
    ]


def _of_sweep(rung: Rung) -> list[Point]:
    evidence = tuning.evidence(rung)
    names = tuning.rung_parameters(rung)
    return [
        _point(SWEEP, evidence, row, rung,
               settings=ladder.written({name: int(getattr(row, name)) for name in names}))
        for row in evidence.read().itertuples()
    ]  # fmt: skip


def _of_types() -> list[Point]:
    evidence = mma_types.EVIDENCE
    return [_point(TYPES, evidence, row, mma_sync.MMA_SYNC) for row in evidence.read().itertuples()]


def _of_path(name: str) -> list[Point]:
    evidence = ablations.evidence(name)
    steps = {step.row: step for step in ablations.PATHS[name]}
    return list(_of_ablations(evidence, steps))


def _of_mma_steps() -> list[Point]:
    return list(_of_ablations(mma_steps.EVIDENCE, {step.row: step for step in mma_steps.STEPS}))


def _of_ablations(evidence: registry.Table, steps: dict) -> Iterator[Point]:
    for row in evidence.read().itertuples():
        step = steps.get((row.file, row.settings))
        if step is not None:  # a former step has no name any more
            yield _point(STEPS, evidence, row, RUNGS[step.like], step.title)


def _of_steps(evidence: registry.Table) -> list[Point]:
    return [
        _point(STEPS, evidence, row, RUNGS[row.kernel], _named(row))
        for row in evidence.read().itertuples()
    ]


def _named(row: Any) -> str:
    """The step; where it was also measured after a pause or at length, with that."""
    way = getattr(row, "way", summit_steps.IN_TURN)
    return row.step if way == summit_steps.IN_TURN else f"{row.step}, {way}"


def _of_batches() -> list[Point]:
    """The times alone: a way is held against one launch of 13, not against cuBLAS."""
    evidence, rung = batches.EVIDENCE, RUNGS[batches.RUNG]
    found = []
    for row in evidence.read().itertuples():
        one = _point(WAYS, evidence, row, rung, row.way)
        if row.way.startswith("cuBLAS"):
            one = replace(one, rung=CUBLAS, settings="", code=LIBRARY)
        found.append(one)
    return found


def _of_joins() -> list[Point]:
    evidence, rung = joins.TIMES_OF_JOINS, RUNGS[joins.RUNG]
    return [_point(JOINS, evidence, row, rung, row.join) for row in evidence.read().itertuples()]


def _point(
    record: str, evidence: registry.Table, row: Any, rung: Rung, what: str = "",
    settings: str | None = None,
) -> Point:  # fmt: skip
    """A row of a table, whichever of these columns it has."""

    def cell(name: str) -> float | None:
        value = getattr(row, name, None)
        return None if value is None or value != value else float(value)

    written = row.settings if settings is None else settings
    ops = getattr(row, "ops", None) or _ops_of(rung, written)
    problem = Problem(int(row.m), int(row.n), int(row.k), int(getattr(row, "batch", 1)), ops)
    time_ms, theirs = cell("time_ms"), cell("cublas_tflops")
    if time_ms is None:
        time_ms = problem.flop / (row.tflops * 1e9)
    if theirs is None and (cublas_ms := cell("cublas_ms")):
        theirs = problem.flop / (cublas_ms * 1e9)
    return Point(
        record, evidence.file, rung.name, what, written, _precision(rung, written),
        problem, time_ms, row.code, row.gpu, row.driver, row.cuda, row.cublas, row.recorded,
        cell("time_q1_ms"), cell("time_q3_ms"), cell("pct_cublas"), cell("pct_cublas_q1"),
        cell("pct_cublas_q3"), clock_mhz=cell("sm_clock_mhz"), power_w=cell("power_w"),
        cublas_tflops=theirs,
    )  # fmt: skip


def _ops_of(rung: Rung, written: str) -> str:
    return rung.ops({**rung.defaults, **ladder.read_settings(written)})


def _precision(rung: Rung, written: str) -> str:
    return rung.precision_of({**rung.defaults, **ladder.read_settings(written)}).name


# ---- what stands beside them ---------------------------------------------------------------------


def _cublas(points: Iterable[Point]) -> list[Point]:
    """cuBLAS as it was timed beside rungs: of each record, type and problem its fastest median.

    A sweep takes few samples of each, so cuBLAS beside it is left out.
    """
    fastest: dict[tuple, Point] = {}
    for one in points:
        if one.cublas_tflops is None or one.record in (SWEEP, JOINS):
            continue
        key = one.record, one.precision, one.problem
        if key not in fastest or one.cublas_tflops > fastest[key].cublas_tflops:
            fastest[key] = one
    return [
        replace(
            one, rung=CUBLAS, what="", settings="", code=LIBRARY,
            time_ms=one.problem.flop / (one.cublas_tflops * 1e9), time_q1_ms=None, time_q3_ms=None,
            share=100.0, share_q1=None, share_q3=None, roof_share=None, clock_mhz=None,
            power_w=None,
        )
        for one in fastest.values()
    ]  # fmt: skip


def _roofs() -> Callable[[Point], float | None]:
    """The roof over a point, in TFLOP/s, of the GPU that is replayed; None where none is known.

    The lower of two recorded ceilings: that of the rung's own instruction for its type, and the
    copy's bytes per second times FLOP per byte, if A and B are read once and C is written once.
    """
    try:
        ceilings = roofs.recorded_ceilings()
    except (NoRecord, StaleRecord):
        return lambda one: None
    try:
        of_types = _mma_ceilings()
    except (NoRecord, StaleRecord):
        of_types = {}

    def roof(one: Point) -> float | None:
        rung = RUNGS.get(one.rung)
        if rung is None:
            return None
        if ceilings.knows(one.precision, rung.by_wgmma):
            arithmetic = ceilings.arithmetic(one.precision, rung.by_wgmma) / 1e12
        elif not rung.by_wgmma and one.precision in of_types:
            arithmetic = of_types[one.precision]
        else:
            return None
        precision = rung.precision_of({**rung.defaults, **ladder.read_settings(one.settings)})
        per_byte = one.problem.flop / one.problem.least_bytes(precision)
        return min(arithmetic, per_byte * ceilings.bytes_per_second / 1e12)

    return roof


def _mma_ceilings() -> dict[str, float]:
    """TFLOP/s of mma.sync from registers, by type."""
    table = mma_types.EVIDENCE.read().drop_duplicates("dtype").set_index("dtype")
    return {
        dtype: float(table.ceiling_tflops[mma_types.CEILING_OF.get(dtype, dtype)])
        for dtype in table.index
    }


def _share_of(roof: float | None, one: Point) -> float | None:
    return None if roof is None else 100 * one.tflops / roof
