"""Schedules over several GPUs: compared with one rank, their traffic, the model, the measured."""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import pandas

from gemmlab.kernel.operands import Operands
from gemmlab.ladder import Precision, Problem
from gemmlab.lessons.multi_gpu import in_turn, measure
from gemmlab.lessons.multi_gpu import schedules as make
from gemmlab.lessons.multi_gpu.gpus.runner import DMA_ENGINES, NCCL
from gemmlab.lessons.multi_gpu.in_turn import Bounded, ByKernel
from gemmlab.lessons.multi_gpu.schedule import Schedule
from gemmlab.lessons.multi_gpu.timeline import COLLECTIVE, MS, Machine, Timeline, modelled
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
    """Each run in this process on inputs of a seed, a row each, beside one rank's product.

    promised: by the schedule. Bytes: of the rank that gets most.
    """
    rows = {}
    for schedule in schedules:
        given = Operands.from_seed(schedule.problem, by.precision, seed)
        alone = in_turn.run(make.one_rank(schedule.problem), by, given.A, given.B).C
        result = in_turn.run(schedule, by, given.A, given.B)
        expected, bound = in_turn.run(schedule, Bounded(by.precision), given.A, given.B).C
        off = abs(by.precision.c.decode(result.C) - expected) / bound
        bits = by.precision.c.bits
        ranks = range(schedule.ranks)
        rows[schedule.name] = {
            "ranks": schedule.ranks,
            "bits of one rank": YES[np.array_equal(result.C.view(bits), alone.view(bits))],
            "promised": YES[schedule.same_bits],
            "largest error, % of bound": round(100 * float(off.max()), 2),
            "bytes in, counted": max(result.received),
            "from the schedule": max(schedule.received_bytes(r, by.precision) for r in ranks),
        }  # fmt: skip
    return pandas.DataFrame.from_dict(rows, orient="index").rename_axis("schedule")


def traffic(
    problem: Problem, ranks: int, machine: Machine, precision: Precision
) -> pandas.DataFrame:
    """What each of MAKERS sends to the rank that gets most, and which link would hide it."""
    rows = {}
    for maker in measure.MAKERS.values():
        schedule = maker(problem, ranks)
        moved = max(schedule.received_bytes(rank, precision) for rank in range(ranks))
        flop = problem.flop / ranks
        rows[schedule.name] = {
            "GB in": moved / 1e9, "FLOP per byte": flop / moved,
            "GB/s to hide it": moved / (flop / machine.flop_per_second) / 1e9,
        }  # fmt: skip
    return pandas.DataFrame.from_dict(rows, orient="index").rename_axis(f"{ranks} ranks")


def beside_model(problem: Problem) -> pandas.DataFrame:
    """What was measured of a product over several GPUs, and the model of it, see _model.

    A row for each rung, schedule, way of moving and number of GPUs.
    """
    rows = {}
    for row in measure.SPEEDS.read().itertuples():
        if (row.m, row.n, row.k) != problem.shape:
            continue
        model = _model(row)
        rows[row.kernel, row.schedule, row.moved_by, row.ranks] = {
            "one GPU, ms": row.one_gpu_ms, "all, ms": row.ms,
            "times one": row.one_gpu_ms / row.ms, "model: times one": row.one_gpu_ms / model.ms,
            "% hidden": row.hidden_pct, "model: % hidden": 100 * model.hidden,
        }  # fmt: skip
    return pandas.DataFrame.from_dict(rows, orient="index").rename_axis(RUNS)


def _model(row) -> Timeline:
    """Of a recorded row, with the recorded rates of one GPU and of the link that was used."""
    problem = Problem(row.m, row.n, row.k)
    rate = problem.flop / (row.one_gpu_ms / MS)
    memory = roofs.recorded_ceilings().bytes_per_second
    links = {NCCL: row.all_reduce_gbytes, DMA_ENGINES: row.peer_copy_gbytes}
    machine = Machine(rate, memory, 1e9 * links[row.moved_by], gpus_per_host=row.ranks)
    schedule = measure.MAKERS[row.schedule](problem, row.ranks)
    return modelled(schedule, machine, measure.case_of(row.kernel).precision)


def grown() -> pandas.DataFrame:
    """Weak scaling as it was measured: p GPUs with p times the rows that one has.

    A row for each rung, schedule, way of moving and number of GPUs that was measured so.
    """
    table, rows = measure.SPEEDS.read(), {}
    for case in filter(lambda case: case.grown, measure.CASES):
        of_one = case.grown
        of_rung = table[
            (table.kernel == case.rung.name) & (table.n == of_one.n) & (table.k == of_one.k)
        ]
        alone = float(of_rung.one_gpu_ms[of_rung.m == of_one.m].iloc[0])
        for row in of_rung[of_rung.m == of_rung.ranks * of_one.m].itertuples():
            rows[case.rung.name, row.schedule, row.moved_by, row.ranks] = {
                "M×N×K of one": str(of_one), "one GPU, ms": alone,
                "M×N×K of all": str(Problem(row.m, row.n, row.k)), "all, ms": row.ms,
                "% of them used": 100 * alone / row.ms,
                "model: % used": 100 * row.one_gpu_ms / row.ranks / _model(row).ms,
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
