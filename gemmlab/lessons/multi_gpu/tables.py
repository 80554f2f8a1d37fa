"""Schedules over several GPUs: compared with one rank, and what was measured."""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import pandas

from gemmlab.kernel.operands import Operands
from gemmlab.ladder import Problem
from gemmlab.lessons.multi_gpu import in_turn, measure
from gemmlab.lessons.multi_gpu import schedules as make
from gemmlab.lessons.multi_gpu.gpus.runner import DMA_ENGINES, NCCL
from gemmlab.lessons.multi_gpu.in_turn import Bounded, ByKernel
from gemmlab.lessons.multi_gpu.schedule import Schedule
from gemmlab.lessons.multi_gpu.timeline import COLLECTIVE, Machine, Timeline
from gemmlab.records import roofs

RUNS = ["rung", "schedule", "moved by", "GPUs"]  # what tells measured rows apart
YES = {True: "yes", False: "no"}


def machine(rung: str, link: float, network: float | None = None) -> Machine:
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
        expected, bound = in_turn.run(schedule, Bounded(by.precision), given.A, given.B)
        off = abs(by.precision.c.decode(C) - expected) / bound
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
    rows = {}
    for row in measure.SPEEDS.read().itertuples():
        if (row.m, row.n, row.k) != problem.shape:
            continue
        rows[row.kernel, row.schedule, row.moved_by, row.ranks] = {
            "one GPU, ms": row.one_gpu_ms, "all, ms": row.ms,
            "times one": row.one_gpu_ms / row.ms,
        }  # fmt: skip
    return pandas.DataFrame.from_dict(rows, orient="index").rename_axis(RUNS)


def alone() -> pandas.DataFrame:
    """Recorded TFLOP/s of one GPU: a row for each rung, a column for each shape, else NaN."""
    table = measure.SPEEDS.read().drop_duplicates(["kernel", "m", "n", "k"])
    rows: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for row in table.itertuples():
        problem = Problem(row.m, row.n, row.k)
        rows[row.kernel][str(problem)] = problem.flop / row.one_gpu_ms / 1e9
    return pandas.DataFrame.from_dict(rows, orient="index").rename_axis("rung")


def where_time_goes(schedule: Schedule) -> pandas.DataFrame:
    """Milliseconds of the recorded run of a schedule, by rung, way of moving and GPU."""
    table, rows, (m, n, k) = measure.SPEEDS.read(), {}, schedule.problem.shape
    for case in measure.CASES:
        kernel = case.rung.name
        same = (table.m == m) & (table.n == n) & (table.k == k) & (table.kernel == kernel)
        one_gpu_ms = float(table.one_gpu_ms[same].iloc[0])
        for way in table.moved_by[same].unique():
            run = measure.timeline(schedule, kernel, way)
            for rank in range(schedule.ranks):
                idle_ms = run.idle_ms(rank)
                rows[kernel, way, rank] = {
                    "all": run.ms, "products": run.ms - idle_ms,
                    f"1/{schedule.ranks} of one GPU": one_gpu_ms / schedule.ranks,
                    "no product": idle_ms,
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


def chunk_times(run: Timeline, chunks: int) -> pandas.DataFrame:
    """When GPU 0 gathers and multiplies its first chunks, milliseconds. A row for each chunk."""
    steps = {step.name: step for step in run.of(0)}
    rows = {}
    for at in range(chunks):
        gather, product = steps[f"gather {at}"], steps[f"product {at}"]
        rows[at] = {
            "gather from": gather.start_ms, "gather to": gather.end_ms, "gather ms": gather.ms,
            "product from": product.start_ms, "product to": product.end_ms,
            "product ms": product.ms,
        }  # fmt: skip
    return pandas.DataFrame.from_dict(rows, orient="index").rename_axis("chunk")
