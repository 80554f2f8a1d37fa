"""Which elements of A, B and C each rank holds, gets and computes: traced through a schedule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmlab.lessons.multi_gpu.arithmetic import rows_of
from gemmlab.lessons.multi_gpu.in_turn import placed
from gemmlab.lessons.multi_gpu.order import in_order
from gemmlab.lessons.multi_gpu.steps import Collective, Product, Schedule, Sum

NONE, COMES, HOLDS = 0, 1, 2


@dataclass(frozen=True)
class Holdings:
    """Of one rank a number for each element of A, B and C, in arrays of their shapes.

    HOLDS: it has the element of A or B from the beginning, or of C at the end. COMES: of A and B,
    another sends it; of C, it computes a part of its sum for another.
    """

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray


def holdings(schedule: Schedule) -> list[Holdings]:
    """Of each rank. Buffers are filled with the numbers of elements, which messages move on.

    Raises Stuck. It takes memory as a product does: draw a small one.
    """
    problem = schedule.problem
    shapes = problem.shape_of_a, problem.shape_of_b, problem.shape_of_c
    found = [Holdings(*(np.zeros(shape, np.int8) for shape in shapes)) for _ in schedule.steps]
    places = _Places()
    A, B, C = (np.arange(m * n).reshape(m, n) for m, n in shapes)
    ranks = [placed(schedule, rank, places, A, B) for rank in range(schedule.ranks)]
    for held in (*schedule.inputs, *schedule.outputs):
        matrix = getattr(found[held.rank], held.matrix)
        matrix[slice(*held.rows), slice(*held.columns)] = HOLDS
    for unit in in_order(schedule):
        rank, step = unit[0]
        work, own = step.work, ranks[rank]
        if isinstance(work, Collective):
            for one in work.messages:
                kept = rows_of(ranks[one.target], one.kept)
                kept[...] = rows_of(ranks[one.source], one.sent)
        elif isinstance(work, Product):
            a, b, c = (rows_of(own, part) for part in (work.a, work.b, work.c))
            _mark(found[rank].A, a)
            _mark(found[rank].B, b)
            if a.size and b.size:
                c[...] = C[np.ix_(a[:, 0] // problem.k, b[0] % problem.n)]
                _mark(found[rank].C, c)
        elif isinstance(work, Sum):
            rows_of(own, work.into)[...] = rows_of(own, work.terms[0])
    return found


def _mark(matrix: np.ndarray, numbers: np.ndarray) -> None:
    flat = matrix.reshape(-1)
    flat[numbers] = np.maximum(flat[numbers], COMES)


class _Places:
    """Buffers of numbers of elements."""

    def encoded(self, values: np.ndarray, matrix: str) -> np.ndarray:
        return values

    def empty(self, rows: int, columns: int, matrix: str) -> np.ndarray:
        return np.zeros((rows, columns), np.int64)
