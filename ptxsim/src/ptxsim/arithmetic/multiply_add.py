"""The fused multiply-add of float32: one rounding, as the GPU does it.

The product of two float32 is exact in float64. Its sum with a third is not
always, so rounding it again to float32 could round twice. That changes the result only where the
float64 sum lies exactly half-way between two float32 (its low 29 bits are 1 followed by zeros) or
is subnormal as a float32. There, and only there, the sum is corrected to "round to odd", after
which the second rounding is right (Boldo and Melquiond, "Emulation of a FMA and correctly rounded
sums", IEEE Transactions on Computers 57, 2008).

Looking for such sums costs as much as the multiply-add. It can be left out where the float64 sum
is known to be exact, which exactness.py says of sums below a limit. For that the largest magnitude
that a running sum can have is kept beside it, in Magnitudes; only where that passes the limit, the
values themselves are looked at.

A thread that computes a tile of C has, for each k, sums[i][j] += a[i] * b[j]. Those of one i are
one operation on the stacked b[j] and sums[i][j] (`fma_rows`). Results come back as the rows of one
array, which is used as it is where the next step takes all of them again.

Where numba is installed, large products are left to the processor's own multiply-add: compiled.py.
"""

from __future__ import annotations

import threading
import weakref
from functools import lru_cache
from itertools import pairwise
from math import prod
from operator import is_

import numpy as np

from ptxsim.arithmetic import compiled
from ptxsim.arithmetic.float32 import SMALLEST_NORMAL, to_float32_ftz
from ptxsim.arithmetic.rounding import sum_to_odd

f4, f8, i4, i8 = np.float32, np.float64, np.int32, np.int64

SPARE_BITS = 52 - 23  # the bits that a float64 has more than a float32
HALF_WAY = i4(-(2**31))  # 1 followed by zeros, shifted to the top of 32 bits
ROUNDED_UP = 1 + 2.0**-20  # more than the rounding of two float32 operations can add
KEPT = 256  # stacks that nobody took up again
LAYOUTS = 8  # of a batch that are kept: those of inner blocks, and of blocks at each edge
BATCHES = 4  # results that are kept: they are large
FEW, SHORT = 1 << 12, 16  # multiply-adds, and elements of a row, that are not worth a batch
LONG = 1 << 10  # elements of a row, which stay in the cache: a longer one is several


class Magnitudes:
    def __init__(self):
        self._bounds: dict = {}  # id of an array -> (weak reference to it, bound)

    def take(self, array) -> float:
        """The bound of `array`, forgotten with that: found by looking at it where none is known."""
        reference, bound = self._bounds.pop(id(array), (None, np.nan))
        if reference is None or reference() is not array or bound != bound:
            return magnitude(array)
        return bound

    def put(self, array: np.ndarray, bound: float) -> None:
        if len(self._bounds) > 4096:  # most of them of arrays that are gone
            self._bounds.clear()
        self._bounds[id(array)] = weakref.ref(array), bound


def magnitude(values) -> float:
    """The largest magnitude; NaN if one is NaN."""
    return max(-float(values.min()), float(values.max()))


def fma(a, b, c):
    """float32 a * b + c with one rounding; `a` and `b` are the operands as float64, c float32."""
    if machine_code := compiled.function("fma", np.broadcast(a, b, c).size):
        return machine_code(a, b, c)
    total = _sum(multiply(a, b), c)
    small = (np.abs(total) < 2 * SMALLEST_NORMAL) & (total != 0)
    return _made_odd(total, _half_way(total) | small, a, b, c).astype(f4)


def fma_ftz(a, b, c, known, magnitudes: Magnitudes):
    """As `fma`, but a subnormal result is zero. `known`: a KnownSum of exactness.py."""
    if machine_code := compiled.function("fma_ftz", np.broadcast(a, b, c).size):
        return machine_code(a, b, c)
    product = multiply(a, b)
    result = np.empty(np.broadcast(product, c).shape, f4)
    bound = add(product, c, (a, b), magnitudes.take(c), known, result)
    magnitudes.put(result, bound)
    return result


def multiply(a, b):
    """float64 a * b, exact, in memory that the next call overwrites: new memory costs more."""
    return np.multiply(a, b, out=_scratch("product", np.broadcast(a, b).shape, f8))


def add(product, c, factors, bound: float, known, out) -> float:
    """float32 product + c into `out`, subnormals as zero; a bound of its magnitudes."""
    limit = known.exact_below
    if bound < limit:  # else it is not worth trying
        np.add(product, c, out=out, dtype=f8, casting="same_kind")
        bound = (bound + known.largest_product) * ROUNDED_UP
        if not bound < limit:
            bound = magnitude(out)
        if bound < limit:
            return bound
    total = _sum(product, c)
    a, b = factors
    total = _made_odd(total, _half_way(total), a, b, c)
    out[...] = total if known.normal else to_float32_ftz(total)
    return np.nan  # it was too much to know, and will be


def _sum(product, c):
    fits = np.broadcast(product, c).shape == product.shape
    return np.add(product, c, dtype=f8, out=product if fits else None)


def _half_way(total):
    """Where a float64 lies exactly between two neighbouring float32: a mask, or False."""
    low = _scratch("low", total.shape, i4)
    np.copyto(low, total.view(i8), casting="unsafe")  # the lower half of the bits
    np.left_shift(low, i4(32 - SPARE_BITS), out=low)
    return low == HALF_WAY if low.min() == HALF_WAY else False


def _made_odd(total, doubtful, a, b, c):
    """float64 `total` of a * b + c, where `doubtful` rounded to odd."""
    if np.any(doubtful):
        a, b, c = (np.broadcast_to(x, total.shape)[doubtful] for x in (a, b, c))
        total[doubtful] = sum_to_odd(a * b, c)
    return total


def _scratch(name: str, shape, dtype) -> np.ndarray:
    arrays = _local.__dict__
    if name not in arrays or arrays[name].shape != shape:
        arrays[name] = np.empty(shape, dtype)
    return arrays[name]


_local = threading.local()


# --- those that share a factor, in one step -------------------------------------------------------


class Stacks:
    """Sums that lie stacked in one array, and upper bounds of their magnitudes."""

    def __init__(self):
        self._stacks: dict = {}  # id of the first row -> (rows, array, bound)

    def take(self, rows) -> tuple[np.ndarray, float] | None:
        """The array of which these are the rows, and its bound; forgotten with that."""
        kept, array, bound = self._stacks.pop(id(rows[0]), ((), None, 0.0))
        same = len(kept) == len(rows) and all(map(is_, kept, rows))
        return (array, bound) if same else None

    def put(self, array: np.ndarray, bound: float, most: int = KEPT) -> tuple[np.ndarray, ...]:
        rows = tuple(array)
        while len(self._stacks) >= most:
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
    """shared * factors[j] + sums[j] for all j, as multiply_add.fma_ftz does one."""
    taken = stacks.take(sums)
    if taken is None:
        rows = stack(dimensions, *sums)
        taken = rows, magnitude(rows)
    rows, bound = taken
    shape = np.broadcast_shapes(np.shape(shared), factors.shape, rows.shape)
    result = np.empty(shape, f4)
    if machine_code := compiled.function("fma_ftz", result.size):
        machine_code(shared, factors, rows, out=result)
        bound = np.nan  # nobody looked
    else:
        bound = add(multiply(shared, factors), rows, (shared, factors), bound, known, result)
    return stacks.put(result, bound)


# --- those that add to each other's results, in one call of machine code --------------------------


class Batch:
    """Sums of products. `products`: of each sum the pairs of factors, by number, in their order.

    `name`: "f32", of which subnormal sums are 0, or "f16" or "bf16", two in an int32.
    """

    def __init__(self, name: str, products):
        self.name, products = name, list(products)
        self.pairs = np.array([pair for pairs in products for pair in pairs], i8)
        self.starts = np.cumsum([0, *map(len, products)], dtype=i8)
        self.layout = lru_cache(LAYOUTS)(self._layout)

    def _layout(self, *shapes: tuple[int, ...]):
        """For factors of these shapes what machine_code.batch takes, and the shape of a sum.

        None if a sum has another shape, or there are too few of them, or too few side by side.
        """
        whole = np.broadcast_shapes(*shapes)
        for first, end in pairwise(self.starts):
            if np.broadcast_shapes(*(shapes[i] for i in self.pairs[first:end].flat)) != whole:
                return None
        padded = [(1,) * (len(whole) - len(shape)) + shape for shape in shapes]
        # A row: the last axes, as many as all factors that differ along one of them do along all.
        first, along = len(whole), [False] * len(shapes)
        for axis in reversed(range(len(whole))):
            differ = [shape[axis] > 1 for shape in padded]
            if any(differ):
                if any(along) and along != differ:
                    break
                along = differ
            first = axis
        length = prod(whole[first:])
        if length < SHORT or prod(whole) * len(self.pairs) < FEW:
            return None
        parts = np.arange(0, length, length if length % LONG else LONG)
        places, begin = [], 0
        for shape, varies in zip(padded, along, strict=True):
            numbers = begin + np.arange(prod(shape)).reshape(*shape[:first], -1)[..., 0]
            numbers = np.broadcast_to(numbers, whole[:first]).reshape(-1)
            places.append(np.add.outer(numbers, parts * varies).reshape(-1))
            begin += prod(shape)
        x, y = self.pairs.T
        both = np.array(along)
        pairs = np.where(both[y], (x, y), (y, x)).T.copy()
        if not both[pairs[:, 1]].all():
            return None
        return np.transpose(places).copy(), both, pairs, whole


def fma_batch(batch: Batch, factors, sums, stacks: Stacks, one_by_one):
    """All sums of a batch. `one_by_one`(a, b, c) is what it does to each, of the same bits."""
    rows = _in_machine_code(batch, factors, sums, stacks)
    if rows is not None:
        return rows
    results = []
    for total, (first, end) in zip(sums, pairwise(batch.starts), strict=True):
        for x, y in batch.pairs[first:end]:
            total = one_by_one(factors[x], factors[y], total)
        results.append(total)
    return results


def _in_machine_code(batch: Batch, factors, sums, stacks: Stacks):
    """None where machine code cannot do it: a sum on the way is NaN or subnormal, for example."""
    machine_code = compiled.batch(batch.name)
    layout = machine_code and batch.layout(*map(np.shape, factors))
    if not layout:
        return None
    places, along, pairs, whole = layout
    taken = stacks.take(sums)
    rows = sums[0][None] if taken is None else taken[0]
    if taken is None and len(sums) > 1:
        rows = stack(len(whole), *sums)
    if rows.shape[1:] != whole or not rows.flags.c_contiguous:
        if np.broadcast_shapes(rows.shape[1:], whole) != whole:
            return None
        rows = np.ascontiguousarray(np.broadcast_to(rows, (len(rows), *whole)))
    result = np.empty_like(rows)
    before, after = (x.reshape(len(rows), len(places), -1) for x in (rows, result))
    numbers = _scratch(f"factors of {batch.name}", (sum(map(np.size, factors)),), rows.dtype)
    np.concatenate(factors, axis=None, out=numbers)
    gives_up = machine_code(numbers, places, along, pairs, batch.starts, before, after)
    return None if gives_up else stacks.put(result, np.nan, BATCHES)
