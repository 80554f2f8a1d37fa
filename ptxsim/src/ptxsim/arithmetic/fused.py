"""Multiply-adds that share a factor, done in one step.

A thread that computes a tile of C has, for each k, sums[i][j] += a[i] * b[j]. Those of one i share
a[i], so they are one operation on the stacked b[j] and sums[i][j]. Results come back as the rows of
one array, and where the next step takes all of them again, that array is used as it is.
"""

from __future__ import annotations

from operator import is_

import numpy as np

from ptxsim.arithmetic import compiled
from ptxsim.arithmetic.multiply_add import add, magnitude, multiply

f4, f8 = np.float32, np.float64

KEPT = 256  # stacks that nobody took up again
LARGE = 1 << 18  # elements; from here on single rows are as fast, and take less memory


class Stacks:
    """Sums that lie stacked in one array, and upper bounds of their magnitudes."""

    def __init__(self):
        self._stacks: dict = {}  # id of the first row -> (rows, array, bound)

    def take(self, rows) -> tuple[np.ndarray, float] | None:
        """The array of which these are the rows, and its bound; forgotten with that."""
        found, array, bound = self._stacks.pop(id(rows[0]), ((), None, 0.0))
        same = len(found) == len(rows) and all(map(is_, found, rows))
        return (array, bound) if same else None

    def put(self, array: np.ndarray, bound: float) -> tuple[np.ndarray, ...]:
        """Its rows."""
        rows = tuple(array)
        if len(self._stacks) >= KEPT:
            self._stacks.pop(next(iter(self._stacks)))
        self._stacks[id(rows[0])] = rows, array, bound
        return rows


def stack(dimensions: int, *rows) -> np.ndarray:
    """(rows, …) with so many dimensions after the first, each row broadcast to the same shape."""
    shape = np.broadcast_shapes(*(np.shape(row) for row in rows))
    shape = (1,) * (dimensions - len(shape)) + shape
    stacked = np.empty((len(rows), *shape), rows[0].dtype)
    for place, row in zip(stacked, rows, strict=True):
        place[...] = row
    return stacked


def fma_rows(shared, factors, sums, known, stacks: Stacks, dimensions: int):
    """shared * factors[j] + sums[j] for all j, as multiply_add.fma_ftz does one.

    `shared`: float64; `factors`: float64 (rows, …), from `stack`; `sums`: float32 arrays.
    """
    taken = stacks.take(sums)
    if taken is None:
        rows = stack(dimensions, *sums)
        taken = rows, magnitude(rows)
    rows, bound = taken
    shape = np.broadcast_shapes(np.shape(shared), factors.shape, rows.shape)
    result = np.empty(shape, f4)
    if machine_code := compiled.fma_ftz(result.size):
        machine_code(shared, factors, rows, out=result)
        bound = np.nan  # nobody looked
    elif result.size < LARGE:
        bound = add(multiply(shared, factors), rows, (shared, factors), bound, known, result)
    else:
        bounds = [
            add(multiply(shared, factor), row, (shared, factor), bound, known, out)
            for factor, row, out in zip(
                np.broadcast_to(factors, (shape[0], *factors.shape[1:])),
                np.broadcast_to(rows, (shape[0], *rows.shape[1:])),
                result,
                strict=True,
            )
        ]
        bound = max(bounds)
    return stacks.put(result, bound)
