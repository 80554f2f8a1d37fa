"""Products of small matrices of float64.

An element of the result is a chain of fused multiply-adds, each rounded to nearest, beginning with
the old sum and going up along k. An NVIDIA H200 gives the same bits, but for which NaN it is: see
hardware/record_doubles.py. A lane holds the elements that PTX says for mma.sync; wmma, of
which PTX says nothing, is taken to do the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ptxsim.arithmetic.double import double_fma
from ptxsim.tensor_cores.fragments import LINE, LINES, TURN
from ptxsim.tensor_cores.mma import check_whole_warps

SHAPES = {
    "m8n8k4": (8, 8, 4),
    "m16n8k4": (16, 8, 4),
    "m16n8k8": (16, 8, 8),
    "m16n8k16": (16, 8, 16),
}
WMMA_SHAPE = "m8n8k4"
DOUBLE = np.dtype("f8")


def places(matrix: str, shape: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """(row, column) of the element that each lane holds in each register of "a", "b", "c", "d"."""
    m, _, k = SHAPES[shape]
    if matrix == "a":
        return [(row + LINE, col + TURN) for col in range(0, k, 4) for row in range(0, m, LINES)]
    if matrix == "b":
        return [(row + TURN, LINE) for row in range(0, k, 4)]
    return [(row + LINE, 2 * TURN + i) for row in range(0, m, LINES) for i in range(2)]


@dataclass(frozen=True)
class DoubleProduct:
    """d = a @ b + c, of float64, for the warps that execute it."""

    shape: str

    @cached_property
    def registers(self) -> tuple[int, ...]:
        return tuple(len(places(matrix, self.shape)) for matrix in "dabc")

    def run(self, lanes, index: int, a, b, c, mask):
        check_whole_warps(lanes, index, mask)
        m, n, k = SHAPES[self.shape]
        lanes.count_product(m * n * k, 0, mask)
        a, b, total = (
            self._matrix(lanes, matrix, registers, size)
            for matrix, registers, size in (("a", a, (m, k)), ("b", b, (k, n)), ("c", c, (m, n)))
        )
        for i in range(k):
            column, row = np.broadcast_arrays(a[:, :, i, None], b[:, i, None, :])
            total = double_fma(np.ascontiguousarray(column), np.ascontiguousarray(row), total)
        return [lanes.layout.from_warps(total[:, row, col]) for row, col in places("d", self.shape)]

    def _matrix(self, lanes, matrix, registers, size):
        rows = [lanes.layout.to_warps(register) for register in registers]
        found = np.zeros((len(rows[0]), *size))
        for (row, col), values in zip(places(matrix, self.shape), rows, strict=True):
            found[:, row, col] = values
        return found


@dataclass(frozen=True)
class DoubleTransfer:
    """wmma.load and wmma.store of float64: each lane moves its own elements."""

    matrix: str
    by_columns: bool
    space: str

    def load(self, lanes, index: int, base, stride, mask):
        check_whole_warps(lanes, index, mask)
        found = []
        for address in self._addresses(lanes, base, stride):
            found += lanes.load(index, self.space, address, DOUBLE, 1, mask)
        return found

    def store(self, lanes, index: int, base, stride, registers, mask) -> None:
        check_whole_warps(lanes, index, mask)
        for address, value in zip(self._addresses(lanes, base, stride), registers, strict=True):
            lanes.store(index, self.space, address, [value], DOUBLE, mask)

    def _addresses(self, lanes, base, stride):
        lane = lanes.special["laneid"]
        for row, col in places(self.matrix, WMMA_SHAPE):
            across, along = (col, row) if self.by_columns else (row, col)
            offset = across[lane] * np.asarray(stride, np.int64) + along[lane]
            yield np.asarray(base) + (offset * DOUBLE.itemsize).astype(np.asarray(base).dtype)
