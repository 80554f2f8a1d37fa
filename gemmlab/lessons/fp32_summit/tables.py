"""The way from 10 to 22 as recorded: its steps, 22 with another loop, speeds under load."""

from collections import Counter
from collections.abc import Mapping
from itertools import takewhile

import pandas

from gemmlab import ladder
from gemmlab.analysis import counters, recorded
from gemmlab.cuda.disassembler import parse
from gemmlab.kernel.kernel import Kernel
from gemmlab.lessons.fp32_summit import measure
from gemmlab.lessons.split_k.work import Part, Work
from gemmlab.lessons.tma_wgmma.tables import SHARES
from gemmlab.lessons.warp_tiling.tables import over_shapes
from gemmlab.records import runs, tuning
from gemmlab.records.best_by_shape import IN_TURN
from gemmlab.records.registry import of_one_gpu
from gemmlab.records.runs import Measured
from gemmlab.sass import loops
from gemmlab.sass.inner_loop import CLASSES, MULTIPLY_ADD, class_of, runs_of
from ptxsim.architectures import LIMITS, SIMULATED_ARCH, base

Steps = tuple[measure.SummitStep, ...]


def path(size: int, steps: Steps = measure.WAY) -> pandas.DataFrame:
    """For plots.path: the steps from 10 to 22 at size³, or others.

    predicted: of which rung, and what of its settings is not the default.
    """
    rows = measure.TABLE.rows_of(steps, (size, size, size), complete=False)
    rows = rows[rows["way"] == IN_TURN].reset_index(drop=True)
    by_title = {step.title: step for step in steps}
    every = [by_title[title] for title in rows["step"]]
    return rows.assign(
        predicted=[_settings(step) for step in every],
        taken=[step in measure.WAY for step in every],
    ).rename(columns=SHARES)[["step", "predicted", "taken", *SHARES.values(), "gpu", "recorded"]]


def _settings(step: measure.SummitStep) -> str:
    """Which rung it is, and what is not its default; of another loop its Change."""
    if step.change is not None:
        return ladder.written(vars(step.change))
    defaults = step.rung.defaults
    changed = {name: value for name, value in step.settings.items() if defaults[name] != value}
    return f"{step.rung.name} {ladder.written(changed)}".rstrip()


def combinations(size: int) -> pandas.DataFrame:
    """22 at size³ with and without stream-K and TMA for B, in percent of cuBLAS, a column for each
    depth of a stage. From the recorded sweep; all else is as by default, and as many stages as fit.

    Raises NoRecord and StaleRecord.
    """
    rung = measure.WAY[-1].rung
    rows = tuning.at(tuning.recorded(rung.name), (size, size, size))
    fills = rung.defaults["BK"] * rung.defaults["STAGES"]
    rows = rows[(rows["GROUP"] == rung.defaults["GROUP"]) & (rows["BK"] * rows["STAGES"] == fills)]
    rows = rows.assign(**{
        "last tiles": rows["STREAM_K"].map({0: "whole", 1: "cut (stream-K)"}),
        "B": rows["MAPPED"].map({0: "cp.async", 1: "TMA"}),
        "depth": "stages of " + rows["BK"].astype(str),
    })  # fmt: skip
    table = rows.pivot(index=["last tiles", "B"], columns="depth", values="pct_cublas")
    return table.sort_index(ascending=False).round(1).rename_axis(columns=None)


def squares(table: pandas.DataFrame, name: str, before: str) -> pandas.DataFrame:
    """Rung `name` over rung `before` at M=N=K, and its speed. table: runs of both."""
    rows = table.query("kernel == @name and m == n and m == k")
    shapes = rows[["m", "n", "k"]].astype(str).agg("×".join, axis=1)
    speeds = pandas.DataFrame({
        "TFLOP/s": (rows["gflops"] / 1e3).round(1).array,
        "% of cuBLAS": rows["pct_cublas"].round(1).array,
    }, index=shapes.array)  # fmt: skip
    return over_shapes(table, name, before).join(speeds, how="inner")


def issue_slots(kernels: Mapping[str, Kernel], depth: int) -> pandas.DataFrame:
    """What a warp that multiplies issues for `depth` steps along K, a column for each kernel.

    The code is that for sm_90a. Where other warps load the tiles, the change of stage counts once
    for each stage. depth: whole stages of each.
    """
    columns = {}
    for name, kernel in kernels.items():
        stages = depth // kernel.rung.depth(kernel.settings)
        trip, adds = loops.loop(kernel, SIMULATED_ARCH), loops.adds_per_tile(kernel)
        slots = Counter({kind: n * adds // trip.mix[MULTIPLY_ADD] for kind, n in trip.mix.items()})
        if trip.mix[MULTIPLY_ADD] < adds:
            # Between the two parts of a trip stands the change of stage. The trip jumps over it
            # while a stage lasts; where the next one is there already, all of it is executed once.
            listing = loops.listing_of(kernel.rung, kernel.text, kernel.settings, SIMULATED_ARCH)
            (_, end), (start, _) = runs_of(trip.instructions)
            slots += Counter(map(class_of, parse(listing)[end:start]))
        every = {kind: stages * slots[kind] for kind in CLASSES}
        columns[name] = pandas.Series(every | {"issue slots": sum(every.values())}, dtype=object)
    return pandas.DataFrame(columns)


def cycles(idle: Mapping[str, float]) -> pandas.DataFrame:
    """Where the cycles of all SMs went at LARGE³, in percent, a column for each rung in float32.

    `idle`: the share of the SMs' time without work, in percent, by the name of the rung. The last
    row is the recorded speed as a share of two FLOP a lane and cycle, at the clock that was read.
    Raises LadderError, NoRecord, StaleRecord, BadRecord.
    """
    return of_one_gpu(
        lambda: pandas.DataFrame({name: _cycles(name, share) for name, share in idle.items()})
    )


def _cycles(name: str, idle: float) -> dict[str, float]:
    shape, rung = (measure.LARGE,) * 3, ladder.find(name)
    adds = counters.side_by_side(name, shape=shape).loc["FP32 units busy, %", name]
    issued = recorded.row(rung, shape)["issue_active_pct"]
    run, limits = runs.replay_at(Measured(rung), *shape), LIMITS[base(ladder.SIMULATED.arch)]
    lanes = runs.current()["gpu"]["sm_count"] * limits.fp32_lanes
    busy = 1 - idle / 100
    return {
        "multiply-adds": busy * adds,
        "other instructions": busy * (issued - adds),
        "nothing to start": busy * (100 - issued),
        "no work": idle,
        "recorded speed, % of all": 100 * run.gflops * 1e9 / (2 * lanes * run.sm_clock_mhz * 1e6),
    }


def whole_tiles(work: Work) -> int:
    """How many whole tiles each block computes before its share of those that are cut begins."""
    of_sm: dict[int, list[Part]] = {}
    for part in sorted(work.parts, key=lambda part: part.start):
        of_sm.setdefault(part.sm, []).append(part)
    whole = (0, work.steps)
    first = (takewhile(lambda part: (part.first, part.end) == whole, p) for p in of_sm.values())
    return min(len([*parts]) for parts in first)
