"""A schedule run in this process: every rank's steps in turn, in an order that its events allow.

A rank computes by a rung's kernel, or moves the numbers of elements, which tells who holds what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gemmlab.kernel.bounds import error_bound
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import Precision, Settings, find, settings_for
from gemmlab.ladder.precision import FLOAT32, ElementType
from gemmlab.lessons.multi_gpu.order import Unit, in_order
from gemmlab.lessons.multi_gpu.schedules import (
    ROW,
    Collective,
    Part,
    Product,
    Schedule,
    Sum,
    parts,
)

Array = Any  # NumPy or CuPy


def rows_of(buffers: dict[str, Array], part: Part) -> Array:
    """The rows of a buffer that a part is, contiguous, not copied."""
    return buffers[part.buffer][part.start : part.stop]


def to_host(array: Array) -> np.ndarray:
    return array if isinstance(array, np.ndarray) else array.get()


class ByKernel:
    """Products by a rung's kernel, on the GPU that is current or in the simulator.

    Of a rung that takes A, B and C alone: no batch, bias, scales or transposed matrices.
    """

    def __init__(self, rung: str, settings: Settings | None = None):
        """By its name and its macros, or its defaults."""
        chosen = settings_for(find(rung), {}) | (settings or {})
        self.kernel = Kernel(find(rung), chosen, None, find(rung).path)
        self.precision = self.kernel.precision

    def element(self, matrix: str) -> ElementType:
        """Of "A", "B" or "C"."""
        return getattr(self.precision, matrix.lower())

    def encoded(self, values: np.ndarray, matrix: str) -> Array:
        """A matrix as it is given, in the type of "A" or "B", where the kernel runs."""
        return self.kernel.to_device(np.ascontiguousarray(values, self.element(matrix).storage))

    def empty(self, rows: int, columns: int, matrix: str) -> Array:
        """Bits that no arithmetic makes, so that what nobody wrote shows."""
        element = self.element(matrix)
        made = self.kernel.array_module.full((rows, columns), element.guard, element.bits)
        return made.view(element.storage)

    def multiply(self, a: Array, b: Array, c: Array) -> None:
        self.kernel.launch(self.kernel.given(a, b, c), 1.0, 0.0)

    def prepared(self, a: Array, b: Array, c: Array) -> Callable[[], None]:
        """Multiplies these on the current stream at each call, with arguments made once."""
        return self.kernel.prepared(self.kernel.given(a, b, c), 1.0, 0.0)

    def total(self, terms: list[Array], into: Array) -> None:
        """In float32, from the first term to the last, rounded once at the end."""
        element = self.precision.c
        added = element.decode(terms[0]).astype(np.float32)
        for term in terms[1:]:
            added += element.decode(term).astype(np.float32)
        into[...] = element.encode(added, element.storage)


Buffers = dict[str, Any]


def run(schedule: Schedule, arithmetic: ByKernel, A, B) -> Any:
    """A @ B by the schedule: C as the ranks have it together.

    `A`: (M, K), `B`: (K, N), NumPy, in the types of the precision. Raises ScheduleError for endless
    waits, KernelMistake in the simulator.
    """
    ranks = [placed(schedule, rank, arithmetic, A, B) for rank in range(schedule.ranks)]
    for rank, work in _moved(in_order(schedule), ranks):
        buffers = ranks[rank]
        if isinstance(work, Product):
            a, b, c = (rows_of(buffers, part) for part in (work.a, work.b, work.c))
            arithmetic.multiply(a, b, c)
        else:
            terms = [rows_of(buffers, part) for part in work.terms]
            arithmetic.total(terms, rows_of(buffers, work.into))
    return gathered(schedule, ranks, arithmetic)


def bounded(schedule: Schedule, precision: Precision, A, B) -> tuple[np.ndarray, np.ndarray]:
    """A @ B in float64, and how far each element may be from it.

    A product has the bound of kernel.bounds. Where row_parallel cuts the sum, p parts are added in
    float32: p - 1 roundings, and the one to C's type.
    """
    A, B = precision.a.decode(np.asarray(A)), precision.b.decode(np.asarray(B))
    element, ranks = precision.c, schedule.ranks if schedule.name == ROW else 1
    cuts = [slice(*cut) for cut in parts(len(B), ranks)]
    values = np.stack([A[:, cut] @ B[cut] for cut in cuts])
    bound = sum(
        error_bound(A[:, cut], B[cut], value, 1.0, 0.0, precision)
        for cut, value in zip(cuts, values, strict=True)
    )
    expected = values.sum(axis=0)
    if schedule.name == ROW:
        roundings = (len(cuts) - 1) * FLOAT32.unit_roundoff
        bound = bound + roundings / (1 - roundings) * (abs(values).sum(axis=0) + bound)
        if element is not FLOAT32:  # rounded once more
            bound += element.unit_roundoff * (abs(expected) + bound)
            bound += element.smallest_subnormal / 2
    return expected, bound


def shares_of_bound(schedule: Schedule, precision: Precision, A, B, C) -> np.ndarray:
    """How far each element of C is from A @ B in float64, as a share of its bound."""
    expected, bound = bounded(schedule, precision, A, B)
    return abs(precision.c.decode(C) - expected) / bound


def _moved(units: list[Unit], ranks: list[Buffers]) -> Iterator[tuple[int, Product | Sum]]:
    """Does the messages, and gives the work between them, by rank."""
    for unit in units:
        rank, step = unit[0]
        if not isinstance(step.work, Collective):
            yield rank, step.work
            continue
        for message in step.work.messages:
            kept = rows_of(ranks[message.target], message.kept)
            kept[...] = rows_of(ranks[message.source], message.sent)


def empty_buffers(schedule: Schedule, rank: int, arithmetic) -> Buffers:
    """The buffers of a rank."""
    return {
        name: arithmetic.empty(buffer.rows, buffer.columns, buffer.matrix)
        for name, buffer in schedule.buffers[rank].items()
    }


def placed(schedule: Schedule, rank: int, arithmetic, A, B) -> Buffers:
    """The buffers of a rank, with its parts of A and B in them."""
    buffers = empty_buffers(schedule, rank, arithmetic)
    for held in schedule.inputs:
        if held.rank == rank:
            array = A if held.matrix == "A" else B
            cut = np.ascontiguousarray(array[slice(*held.rows), slice(*held.columns)])
            rows_of(buffers, held.part)[...] = arithmetic.encoded(cut, held.matrix)
    return buffers


def gathered(schedule: Schedule, ranks: list[Buffers], arithmetic) -> Any:
    """C from what the ranks hold at the end, NumPy."""
    C = to_host(arithmetic.empty(schedule.problem.m, schedule.problem.n, "C"))
    for held in schedule.outputs:
        rows = to_host(rows_of(ranks[held.rank], held.part))
        C[slice(*held.rows), slice(*held.columns)] = rows
    return C


NONE, COMES, HOLDS = 0, 1, 2


def holdings(schedule: Schedule) -> list[dict[str, np.ndarray]]:
    """Of each rank a number for each element of "A", "B" and "C". Raises ScheduleError.

    HOLDS: it has the element of A or B from the beginning, or of C at the end. COMES: of A and B,
    another sends it; of C, it computes a part of its sum for another. Messages move the numbers of
    elements, so take a small product.
    """
    problem = schedule.problem
    shapes = problem.shape_of_a, problem.shape_of_b, problem.shape_of_c
    by_rank = [
        {name: np.zeros(shape, np.int8) for name, shape in zip("ABC", shapes, strict=True)}
        for _ in schedule.steps
    ]
    places = _Places()
    A, B, C = (np.arange(m * n).reshape(m, n) for m, n in shapes)
    ranks = [placed(schedule, rank, places, A, B) for rank in range(schedule.ranks)]
    for held in (*schedule.inputs, *schedule.outputs):
        by_rank[held.rank][held.matrix][slice(*held.rows), slice(*held.columns)] = HOLDS
    for rank, work in _moved(in_order(schedule), ranks):
        buffers = ranks[rank]
        if isinstance(work, Product):
            a, b, c = (rows_of(buffers, part) for part in (work.a, work.b, work.c))
            _mark(by_rank[rank]["A"], a)
            _mark(by_rank[rank]["B"], b)
            c[...] = C[np.ix_(a[:, 0] // problem.k, b[0] % problem.n)]
            _mark(by_rank[rank]["C"], c)
        else:
            rows_of(buffers, work.into)[...] = rows_of(buffers, work.terms[0])
    return by_rank


def _mark(matrix: np.ndarray, numbers: np.ndarray) -> None:
    flat = matrix.reshape(-1)
    flat[numbers] = np.maximum(flat[numbers], COMES)


class _Places:
    """Buffers of numbers of elements."""

    def encoded(self, values: np.ndarray, matrix: str) -> np.ndarray:
        return values

    def empty(self, rows: int, columns: int, matrix: str) -> np.ndarray:
        return np.zeros((rows, columns), np.int64)
