"""Schedules over several GPUs: held against one rank, their traffic, and what the model says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from gemmlab import ladder
from gemmlab.distributed import clock, in_turn
from gemmlab.distributed import schedules as make
from gemmlab.distributed.arithmetic import Bounded, ByKernel
from gemmlab.distributed.clock import Machine, Make, Scaled
from gemmlab.distributed.ranks import squarest
from gemmlab.distributed.steps import Schedule
from gemmlab.kernel.operands import Operands
from gemmlab.ladder import Precision, Problem
from gemmlab.records import roofs, runs
from gemmlab.records.runs import Measured

if TYPE_CHECKING:
    import pandas

CHUNKS = 8
AT = (16384, 16384, 16384)  # whose recorded rate the model takes
MAKERS: dict[str, Callable[[Problem, int, int], Schedule]] = {
    make.COLUMN: make.column_parallel,
    make.ROW: make.row_parallel,
    make.SUMMA: lambda problem, ranks, chunks: make.summa(problem, squarest(ranks), chunks),
}


def machine(rung: str, link: float, network: float | None = None, hosts_of: int = 8) -> Machine:
    """A GPU with the recorded rates of a rung at AT and of a copy, and with links as given.

    `link`, `network`: bytes a second one way, of a GPU to others of its host, which has `hosts_of`,
    and to those of others. Raises LadderError, NoRecord, StaleRecord and ScheduleError.
    """
    run = runs.replay_at(Measured(ladder.find(rung)), *AT)
    memory = roofs.recorded_ceilings().bytes_per_second
    return Machine(1e9 * run.gflops, memory, link, network, hosts_of)


def against_one_rank(schedules: Iterable[Schedule], by: ByKernel, seed: int) -> pandas.DataFrame:
    """Each run in this process on inputs of a seed, a row each, beside one rank's product.

    Columns: ranks; whether the bits are those of one rank, and whether the schedule promises it;
    the largest error in percent of its bound; bytes that came to the rank that gets most, counted
    by the runner and summed from the schedule. Raises what in_turn.run raises.
    """
    import pandas

    rows = {}
    for schedule in schedules:
        given = Operands.from_seed(schedule.problem, by.precision, seed)
        alone = in_turn.run(make.one_rank(schedule.problem), by, given.A, given.B).C
        found = in_turn.run(schedule, by, given.A, given.B)
        expected, bound = in_turn.run(schedule, Bounded(by.precision), given.A, given.B).C
        off = abs(by.precision.c.decode(found.C) - expected) / bound
        bits = by.precision.c.bits
        ranks = range(schedule.ranks)
        rows[schedule.name] = {
            "ranks": schedule.ranks,
            "bits of one rank": _yes(np.array_equal(found.C.view(bits), alone.view(bits))),
            "promised": _yes(schedule.same_bits),
            "largest error, % of bound": round(100 * float(off.max()), 2),
            "bytes in, counted": max(map(found.bytes_received, ranks)),
            "from the schedule": max(schedule.received_bytes(r, by.precision) for r in ranks),
        }  # fmt: skip
    return pandas.DataFrame.from_dict(rows, orient="index").rename_axis("schedule")


def _yes(true: bool) -> str:
    return "yes" if true else "no"


def traffic(
    problem: Problem, ranks: int, machine: Machine, precision: Precision
) -> pandas.DataFrame:
    """What each of MAKERS brings to a rank, and which link would hide it. A row for each.

    Columns: GB that come to the rank that gets most; FLOP of a rank for each of these bytes; GB/s
    of a link with which they come in the time of its products.
    """
    import pandas

    rows = {}
    for maker in MAKERS.values():
        schedule = maker(problem, ranks, CHUNKS)
        moved = max(schedule.received_bytes(rank, precision) for rank in range(ranks))
        flop = problem.flop / ranks
        rows[schedule.name] = {
            "GB in": moved / 1e9, "FLOP per byte": flop / moved,
            "GB/s to hide it": moved / (flop / machine.flop_per_second) / 1e9,
        }  # fmt: skip
    return pandas.DataFrame.from_dict(rows, orient="index").rename_axis(f"{ranks} ranks")


def makers(chunks: int = CHUNKS) -> dict[str, Make]:
    """MAKERS with a number of chunks, as clock.strong and clock.weak take them."""

    def of(maker: Callable[[Problem, int, int], Schedule]) -> Make:
        return lambda problem, ranks: maker(problem, ranks, chunks)

    return {name: of(maker) for name, maker in MAKERS.items()}


def scaled(
    problem: Problem, grown: Problem, counts: Iterable[int], machine: Machine, precision: Precision
) -> tuple[Mapping[str, list[Scaled]], Mapping[str, list[Scaled]]]:
    """Strong scaling of `problem` and weak scaling of `grown`, that of one GPU, for each of MAKERS.

    It is what plots.scaling takes.
    """
    counts = tuple(counts)
    strong, weak = (
        {name: scale(maker, one, counts, machine, precision) for name, maker in makers().items()}
        for scale, one in ((clock.strong, problem), (clock.weak, grown))
    )
    return strong, weak
