"""Schedules over several GPUs: compared with one rank, and what was measured."""

from collections.abc import Iterable

import numpy as np
import pandas

from gemmlab.kernel.operands import Operands
from gemmlab.ladder import Problem
from gemmlab.lessons.multi_gpu import in_turn, measure
from gemmlab.lessons.multi_gpu import schedules as make
from gemmlab.lessons.multi_gpu.gpus.runner import DMA_ENGINES, NCCL
from gemmlab.lessons.multi_gpu.in_turn import ByKernel
from gemmlab.lessons.multi_gpu.schedules import Schedule
from gemmlab.lessons.multi_gpu.timeline import COLLECTIVE, PRODUCT, Machine, Timeline
from gemmlab.records import roofs

YES = {True: "yes", False: "no"}


def machine(rung: str, link: float, network: float) -> Machine:
    """A GPU with the rates recorded of a rung at CUBE on one GPU and of a copy, links as given.

    `link`, `network`: bytes a second one way, to GPUs of its host of 8 and to others. Raises
    NoRecord and StaleRecord.
    """
    memory = roofs.recorded_ceilings().bytes_per_second
    rate = 1e12 * float(alone().loc[rung, str(measure.CUBE)])
    return Machine(rate, memory, link, network)


def against_one_rank(schedules: Iterable[Schedule], by: ByKernel, seed: int) -> pandas.DataFrame:
    """Each run in this process on inputs of a seed, a row each, beside one rank's product."""
    rows = {}
    for schedule in schedules:
        given = Operands.from_seed(schedule.problem, by.precision, seed)
        alone = in_turn.run(make.one_rank(schedule.problem), by, given.A, given.B)
        C = in_turn.run(schedule, by, given.A, given.B)
        off = in_turn.shares_of_bound(schedule, by.precision, given.A, given.B, C)
        bits = by.precision.c.bits
        rows[schedule.name] = {
            "ranks": schedule.ranks,
            "bits of one rank": YES[np.array_equal(C.view(bits), alone.view(bits))],
            "largest error, % of bound": round(100 * float(off.max()), 2),
        }  # fmt: skip
    return pandas.DataFrame.from_dict(rows, orient="index").rename_axis("schedule")


def beside_one_gpu(problem: Problem) -> pandas.DataFrame:
    """What was measured of a product over several GPUs: a row for each rung, schedule, way of
    moving and number of GPUs."""
    table = measure.at(measure.SPEEDS, problem)
    rows = table[["kernel", "schedule", "moved_by", "ranks", "one_gpu_ms", "ms"]]
    rows.columns = ["rung", "schedule", "moved by", "GPUs", "one GPU, ms", "all, ms"]
    rows = rows.assign(**{"times one": rows["one GPU, ms"] / rows["all, ms"]})
    return rows.set_index(["rung", "schedule", "moved by", "GPUs"])


def alone() -> pandas.DataFrame:
    """Recorded TFLOP/s of one GPU: a row for each rung, a column for each shape, else NaN."""
    table = measure.SPEEDS.read().drop_duplicates(["kernel", "m", "n", "k"])
    problems = [Problem(row.m, row.n, row.k) for row in table.itertuples()]
    flop = [problem.flop for problem in problems]
    columns = {"shape": list(map(str, problems)), "tflops": flop / table["one_gpu_ms"] / 1e9}
    table = table.assign(**columns).pivot(index="kernel", columns="shape", values="tflops")
    return table.rename_axis(index="rung", columns=None)


def where_time_goes(schedule: Schedule) -> pandas.DataFrame:
    """Milliseconds of the recorded run of a schedule, by rung, way of moving and GPU."""
    table, ranks, rows = measure.at(measure.SPEEDS, schedule.problem), schedule.ranks, {}
    for row in table[(table.schedule == schedule.name) & (table.ranks == ranks)].itertuples():
        run = measure.timeline(schedule, row.kernel, row.moved_by)
        for rank in range(ranks):
            idle_ms = run.idle_ms(rank)
            rows[row.kernel, row.moved_by, rank] = {
                "all": run.ms, "products": run.ms - idle_ms,
                f"1/{ranks} of one GPU": row.one_gpu_ms / ranks, "no product": idle_ms,
            }  # fmt: skip
    names = ["rung", "moved by", "GPU"]
    return pandas.DataFrame.from_dict(rows, orient="index").rename_axis(names)


def gather_rates(schedule: Schedule, kernel: str) -> pandas.DataFrame:
    """GB/s of the recorded gathers of a column-parallel schedule, by way of moving and GPU.

    The bytes that a GPU receives, over the whole time of the gather, waits included. Apart is the
    first gather, which has no product beside it.
    """
    precision, rows = measure.case_of(kernel).precision, {}
    for way in (NCCL, DMA_ENGINES):
        run = measure.timeline(schedule, kernel, way)
        for rank in range(schedule.ranks):
            gathers = run.of(rank, COLLECTIVE)
            moved = schedule.received_bytes(rank, precision) / len(gathers)  # the chunks are equal
            first, *others = (moved / step.ms / 1e6 for step in gathers)
            rows[way, rank] = {"first": first, "others, from": min(others), "to": max(others)}
    table = pandas.DataFrame.from_dict(rows, orient="index")
    return table.rename_axis(["GB/s of a gather", "GPU"])


def chunk_times(run: Timeline) -> pandas.DataFrame:
    """When GPU 0 gathers and multiplies its chunks, milliseconds. A row for each chunk."""
    columns = {}
    for name, kind in (("gather", COLLECTIVE), ("product", PRODUCT)):
        steps = run.of(0, kind)
        columns[f"{name} from"] = [step.start_ms for step in steps]
        columns[f"{name} to"] = [step.end_ms for step in steps]
        columns[f"{name} ms"] = [step.ms for step in steps]
    return pandas.DataFrame(columns).rename_axis("chunk")
