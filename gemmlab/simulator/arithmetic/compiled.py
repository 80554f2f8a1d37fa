"""The multiply-add as machine code, where numba is installed: the same bits, in less time.

multiply_add.py is the model, and all that is needed. It takes six or more passes over its operands,
each a call of NumPy; a processor's own fused multiply-add takes one. To load numba, and what it
compiled once, costs about a second, so that waits until this process has spent as much on NumPy's
way. Which NaN comes of two is left open, as NumPy leaves it.
"""

from __future__ import annotations

from functools import cache

import numpy as np

f4, f8 = np.float32, np.float64

A_CALL = 1 << 13  # elements that cost as much as calling NumPy for any
WORTH_IT = 1 << 28  # elements, calls included

_done = 0


def fma(size: int):
    """A NumPy ufunc (float64 a, float64 b, float32 c) for float32 a * b + c, or None.

    `size`: how many elements are asked for now. None where numba is missing, or not yet worth it.
    """
    return _of(size, 0)


def fma_ftz(size: int):
    """The same, where a result that is subnormal after rounding to 24 bits is zero."""
    return _of(size, 1)


def _of(size: int, which: int):
    global _done
    _done += size + A_CALL
    return _ufuncs()[which] if _done > WORTH_IT else None


@cache
def _ufuncs():
    """fma and fma_ftz, compiled or loaded from numba's cache; None for both without numba."""
    try:
        from numba import vectorize
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

    smallest = 2.0**-126
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

    return fma, fma_ftz
