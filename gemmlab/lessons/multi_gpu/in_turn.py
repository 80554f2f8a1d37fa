"""A schedule run in this process: every rank's steps in turn, in an order that its events allow.

A rank computes by a rung's kernel, or moves the numbers of elements, which tells who holds what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import Settings, find, settings_for
from gemmlab.ladder.precision import ElementType
from gemmlab.lessons.multi_gpu.order import Unit, in_order, require_sound
from gemmlab.lessons.multi_gpu.schedules import Collective, Part, Product, Schedule, ScheduleError

Array = Any  # NumPy or CuPy


def rows_of(buffers: dict[str, Array], part: Part) -> Array:
    """The rows of a buffer that a part is, contiguous, not copied."""
    return buffers[part.buffer][part.start : part.stop]


def to_host(array: Array) -> np.ndarray:
    return array if isinstance(array, np.ndarray) else array.get()


def put(values: np.ndarray, into: Array) -> None:
    """Values of the host into rows of a buffer, wherever that is."""
    if isinstance(into, np.ndarray):
        into[...] = values
    else:
        into.set(values)


class ByKernel:
    """Products by a rung's kernel, on the GPU that is current or in the simulator."""

    def __init__(self, kernel: Kernel):
        """Raises ScheduleError for a rung whose products have more than A, B and C."""
        rung, scales = kernel.rung, kernel.precision.scales
        if kernel.ops != "NN" or rung.takes_bias(kernel.settings) or scales or rung.batch > 1:
            raise ScheduleError(
                f"{kernel.name} takes batches, a bias, scales or transposed matrices; take a rung "
                "of plain products, such as 10_register_banks or 18_persistent"
            )
        self.kernel, self.precision = kernel, kernel.precision

    @classmethod
    def of(cls, rung: str, settings: Settings | None = None) -> ByKernel:
        """By a rung's name and its macros, or its defaults: what can be sent to another process."""
        chosen = settings_for(find(rung), {}) | (settings or {})
        return cls(Kernel(find(rung), chosen, None, find(rung).path))

    def element(self, matrix: str) -> ElementType:
        """Of "A", "B" or "C"."""
        return getattr(self.precision, matrix.lower())

    def encoded(self, values: np.ndarray, matrix: str) -> np.ndarray:
        """A matrix as it is given, in the type of "A" or "B"."""
        return np.ascontiguousarray(values, self.element(matrix).storage)

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


Buffers = dict[str, Any]


def run(schedule: Schedule, arithmetic: ByKernel, A, B) -> Any:
    """A @ B by the schedule: C as the ranks have it together.

    `A`: (M, K), `B`: (K, N), NumPy, in the types of the precision. Raises ScheduleError for races
    and endless waits, KernelMistake in the simulator.
    """
    units = require_sound(schedule)
    ranks = [placed(schedule, rank, arithmetic, A, B) for rank in range(schedule.ranks)]
    for rank, work in _moved(units, ranks):
        arithmetic.multiply(*(rows_of(ranks[rank], part) for part in (work.a, work.b, work.c)))
    return gathered(schedule, ranks, arithmetic)


def _moved(units: list[Unit], ranks: list[Buffers]) -> Iterator[tuple[int, Product]]:
    """Does the messages, and gives the products between them, by rank."""
    for unit in units:
        rank, step = unit[0]
        if not isinstance(step.work, Collective):
            yield rank, step.work
            continue
        for message in step.work.messages:
            kept = rows_of(ranks[message.target], message.kept)
            kept[...] = rows_of(ranks[message.source], message.sent)


def placed(schedule: Schedule, rank: int, arithmetic, A, B) -> Buffers:
    """The buffers of a rank, with its parts of A and B in them."""
    buffers = {
        name: arithmetic.empty(buffer.rows, buffer.columns, buffer.matrix)
        for name, buffer in schedule.buffers[rank].items()
    }
    for held in schedule.inputs:
        if held.rank == rank:
            array = A if held.matrix == "A" else B
            cut = np.ascontiguousarray(array[slice(*held.rows), slice(*held.columns)])
            put(arithmetic.encoded(cut, held.matrix), rows_of(buffers, held.part))
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

    HOLDS: it has the element of A or B from the beginning, or of C at the end. COMES: another sends
    it. Messages move the numbers of elements, so take a small product.
    """
    problem = schedule.problem
    shapes = problem.shape_of_a, problem.shape_of_b, problem.shape_of_c
    by_rank = [
        {name: np.zeros(shape, np.int8) for name, shape in zip("ABC", shapes, strict=True)}
        for _ in schedule.steps
    ]
    places = _Places()
    A, B = (np.arange(m * n).reshape(m, n) for m, n in shapes[:2])
    ranks = [placed(schedule, rank, places, A, B) for rank in range(schedule.ranks)]
    for held in (*schedule.inputs, *schedule.outputs):
        by_rank[held.rank][held.matrix][slice(*held.rows), slice(*held.columns)] = HOLDS
    for rank, work in _moved(in_order(schedule), ranks):
        for matrix, part in (("A", work.a), ("B", work.b)):
            flat, numbers = by_rank[rank][matrix].reshape(-1), rows_of(ranks[rank], part)
            flat[numbers] = np.maximum(flat[numbers], COMES)
    return by_rank


class _Places:
    """Buffers of numbers of elements."""

    def encoded(self, values: np.ndarray, matrix: str) -> np.ndarray:
        return values

    def empty(self, rows: int, columns: int, matrix: str) -> np.ndarray:
        return np.zeros((rows, columns), np.int64)
