"""A schedule run in this process: every rank's steps in turn, in an order that its events allow."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gemmlab.lessons.multi_gpu.arithmetic import Bounded, ByKernel, put, rows_of, to_host
from gemmlab.lessons.multi_gpu.order import require_sound
from gemmlab.lessons.multi_gpu.ranks import ScheduleError
from gemmlab.lessons.multi_gpu.steps import Collective, Product, Schedule, Work

Buffers = dict[str, Any]


@dataclass
class Result:
    """C as the ranks have it together, and what each did: bytes that came from others, by kind of
    collective, and floating-point operations of products."""

    C: Any
    received: tuple[Counter[str], ...] = ()
    flop: tuple[int, ...] = field(default=())

    def bytes_received(self, rank: int) -> int:
        return sum(self.received[rank].values())


def run(schedule: Schedule, arithmetic: ByKernel | Bounded, A, B) -> Result:
    """A @ B by the schedule. `A`: (M, K), `B`: (K, N), NumPy, in the types of the precision.

    Raises ScheduleError for other shapes, DataRace and Stuck before anything is done, and
    KernelMistake in the simulator.
    """
    units = require_sound(schedule)
    ranks = [placed(schedule, rank, arithmetic, A, B) for rank in range(schedule.ranks)]
    received, flop = [Counter() for _ in ranks], [0] * schedule.ranks
    for unit in units:
        rank, step = unit[0]
        if isinstance(step.work, Collective):
            for one in step.work.messages:
                kept = rows_of(ranks[one.target], one.kept)
                kept[...] = rows_of(ranks[one.source], one.sent)
                if one.source != one.target:
                    received[one.target][step.work.kind] += kept.nbytes
        else:
            compute(step.work, ranks[rank], arithmetic)
            if isinstance(step.work, Product):
                flop[rank] += schedule.flop(rank, step.work)
    return Result(gathered(schedule, ranks, arithmetic), tuple(received), tuple(flop))


def placed(schedule: Schedule, rank: int, arithmetic, A, B) -> Buffers:
    """The buffers of a rank, with its parts of A and B in them. Raises ScheduleError."""
    problem = schedule.problem
    for name, array, shape in (("A", A, problem.shape_of_a), ("B", B, problem.shape_of_b)):
        if array.shape != shape:
            raise ScheduleError(
                f"{name} has the shape {array.shape}; the schedule is for {problem}: {shape}"
            )
    buffers = {
        name: arithmetic.empty(one.rows, one.columns, one.matrix)
        for name, one in schedule.buffers[rank].items()
    }
    for held in schedule.inputs:
        if held.rank == rank:
            array = A if held.matrix == "A" else B
            cut = np.ascontiguousarray(array[slice(*held.rows), slice(*held.columns)])
            put(arithmetic.encoded(cut, held.matrix), rows_of(buffers, held.part))
    return buffers


def compute(work: Work, buffers: Buffers, arithmetic) -> None:
    """A product or a sum, on buffers of its rank."""
    if isinstance(work, Product):
        a, b, c = (rows_of(buffers, part) for part in (work.a, work.b, work.c))
        if c.size:
            arithmetic.multiply(a, b, c, work.add)
    else:
        terms = [rows_of(buffers, part) for part in work.terms]
        arithmetic.total(terms, rows_of(buffers, work.into))


def gathered(schedule: Schedule, ranks: list[Buffers], arithmetic) -> Any:
    """C from what the ranks hold at the end, NumPy."""
    C = to_host(arithmetic.empty(schedule.problem.m, schedule.problem.n, "C"))
    for held in schedule.outputs:
        rows = to_host(rows_of(ranks[held.rank], held.part))
        C[..., slice(*held.rows), slice(*held.columns)] = rows
    return C
