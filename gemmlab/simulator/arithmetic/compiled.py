"""The multiply-add as machine code, where numba is installed: the same bits, in less time.

multiply_add.py is the model, and all that is needed. It takes six or more passes over its operands,
each a call of NumPy; a processor's own fused multiply-add takes one. To load numba, and what it
compiled once, costs about a second, so that waits until this process has spent as much on NumPy's
way. Which NaN comes of two is left open, as NumPy leaves it.

A ufunc takes one element after the other wherever an operand is the same along an axis. `rows`
takes as many as the processor can at once, and gives up where a result is NaN or subnormal: then
the ufunc does it again.
"""

from __future__ import annotations

from functools import cache, lru_cache, partial

import numpy as np

f4, f8, i4 = np.float32, np.float64, np.int32

A_CALL = 1 << 13  # elements that cost as much as calling NumPy for any
WORTH_IT = 1 << 28  # elements, calls included
AXES = 4  # of what `rows` takes

_done = 0


def fma(size: int):
    """A function (float64 a, float64 b, float32 c, out=None) for float32 a * b + c, or None.

    `size`: how many elements are asked for now. None where numba is missing, or not yet worth it.
    """
    return _of(size, 0)


def fma_ftz(size: int):
    """The same, where a result that is subnormal after rounding to 24 bits is zero."""
    return _of(size, 1)


def _of(size: int, which: int):
    global _done
    _done += size + A_CALL
    return _functions()[which] if _done > WORTH_IT else None


def _fma_ftz(rows, one_by_one, a, b, c, out=None):
    """`rows` where it can, and the ufunc `one_by_one`. `out`: C-contiguous."""
    layout = _layout(np.shape(a), np.shape(b), np.shape(c))
    if layout is None:
        return one_by_one(a, b, c, out=out)
    whole, shapes, exchanged = layout
    result = np.empty(whole, f4) if out is None else out
    x, y = (b, a) if exchanged else (a, b)
    given = map(np.ascontiguousarray, (x, y, c, result))
    in_axes = map(np.ndarray.reshape, given, shapes)
    return one_by_one(a, b, c, out=result) if rows(*in_axes) else result


@lru_cache(1 << 12)
def _layout(*shapes: tuple[int, ...]):
    """The shape of the result; all four in AXES axes; whether the factors change places.

    The first factor is whole along the last axis. Axes that all of them either have or not are one.
    None where there are too many, or a sum that is the same along the last axis.
    """
    whole = np.broadcast_shapes(*shapes)
    every = [(1,) * (len(whole) - len(shape)) + shape for shape in (*shapes, whole)]
    merged: list[list[int]] = []
    for lengths in zip(*every, strict=True):
        if lengths[-1] == 1:
            continue
        if merged and [x == 1 for x in merged[-1]] == [x == 1 for x in lengths]:
            merged[-1] = [x * y for x, y in zip(merged[-1], lengths, strict=True)]
        else:
            merged.append(list(lengths))
    columns = [[1] * 4] * (AXES - len(merged)) + merged
    a, b, c, result = zip(*columns, strict=True)
    exchanged = a[-1] < b[-1]
    if len(result) > AXES or max(a[-1], b[-1]) < result[-1] or c[-1] < result[-1]:
        return None
    return whole, ((b, a) if exchanged else (a, b)) + (c, result), exchanged


@cache
def _functions():
    """fma and fma_ftz, compiled or loaded from numba's cache; None for both without numba."""
    try:
        from numba import boolean, float32, float64, njit, types, vectorize
        from numba.extending import intrinsic
    except ImportError:  # not there, or made for another NumPy
        return None, None

    @intrinsic
    def fused(typing, a, b, c):
        return a(a, b, c), lambda context, builder, signature, given: builder.fma(*given)

    @vectorize(["float32(float64, float64, float32)"], cache=True)
    def fma(a, b, c):
        result = fused(f4(a), f4(b), c)
        if result != result:  # which NaN it is, is that of a product and a sum
            return f4(a * b + f8(c))
        return result

    smallest, zero = 2.0**-126, f4(0)
    rounds_up = smallest - 2.0**-151  # from here on 24 bits are enough for `smallest`

    @vectorize(["float32(float64, float64, float32)"], cache=True)
    def fma_ftz(a, b, c):
        result = fused(f4(a), f4(b), c)
        if abs(result) > smallest:
            return result
        if result != result:
            return f4(a * b + f8(c))
        if abs(result) == smallest:  # as a subnormal it was rounded to 23 bits
            product = a * b
            total = product + f8(c)
            part = total - product
            error = (product - (total - part)) + (f8(c) - part)  # Knuth's TwoSum
            less = error != 0.0 and (error > 0.0) != (total > 0.0)
            if abs(total) > rounds_up or (abs(total) == rounds_up and not less):
                return result
        return f4(np.copysign(0.0, result))

    factors, sums = (types.Array(of, AXES, "C", readonly=True) for of in (float64, float32))

    @njit([boolean(factors, factors, sums, float32[:, :, :, ::1])], cache=True, error_model="numpy")
    def rows(a, b, c, out):
        """Whether it gave up."""
        strange = 0  # an integer: a vector of them is looked at when the row is done
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                for k in range(out.shape[2]):
                    x = a[i % a.shape[0], j % a.shape[1], k % a.shape[2]]
                    y = b[i % b.shape[0], j % b.shape[1], k % b.shape[2]]
                    z = c[i % c.shape[0], j % c.shape[1], k % c.shape[2]]
                    result = out[i, j, k]
                    if len(y) == 1:
                        scale = f4(y[0])
                        for n in range(len(result)):
                            total = fused(f4(x[n]), scale, z[n])
                            result[n] = total
                            strange |= i4(not abs(total) > smallest) & i4(total != zero)
                    else:
                        for n in range(len(result)):
                            total = fused(f4(x[n]), f4(y[n]), z[n])
                            result[n] = total
                            strange |= i4(not abs(total) > smallest) & i4(total != zero)
                    if strange:
                        return True
        return False

    return fma, partial(_fma_ftz, rows, fma_ftz)
