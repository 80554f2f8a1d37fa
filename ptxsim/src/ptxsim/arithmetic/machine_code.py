"""What compiled.py gives out. To import this takes numba, and about a third of a second.

Nothing here is made by a function: numba would compile it anew in each process, for what it has in
its cache belongs to the values that a function encloses, too.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, float32, float64, njit, types, vectorize
from numba.extending import intrinsic

f4, f8, i4 = np.float32, np.float64, np.int32

SMALLEST = 2.0**-126
ROUNDS_UP = SMALLEST - 2.0**-151  # from here on 24 bits are enough for SMALLEST
ZERO = f4(0)
FACTORS, SUMS = (types.Array(of, 4, "C", readonly=True) for of in (float64, float32))


@intrinsic
def fused(typing, a, b, c):
    return a(a, b, c), lambda context, builder, signature, given: builder.fma(*given)


@vectorize(["float32(float64, float64, float32)"], cache=True)
def fma(a, b, c):
    result = fused(f4(a), f4(b), c)
    if result != result:  # which NaN it is, is that of a product and a sum
        return f4(a * b + f8(c))
    return result


@vectorize(["float32(float64, float64, float32)"], cache=True)
def fma_ftz(a, b, c):
    result = fused(f4(a), f4(b), c)
    if abs(result) > SMALLEST:
        return result
    if result != result:
        return f4(a * b + f8(c))
    if abs(result) == SMALLEST:  # as a subnormal it was rounded to 23 bits
        product = a * b
        total = product + f8(c)
        part = total - product
        error = (product - (total - part)) + (f8(c) - part)  # Knuth's TwoSum
        less = error != 0.0 and (error > 0.0) != (total > 0.0)
        if abs(total) > ROUNDS_UP or (abs(total) == ROUNDS_UP and not less):
            return result
    return f4(np.copysign(0.0, result))


@njit([boolean(FACTORS, FACTORS, SUMS, float32[:, :, :, ::1])], cache=True, error_model="numpy")
def rows(a, b, c, out):
    """a * b + c into `out`, whole along the last axis; an axis of length 1 is that of all."""
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
                        strange |= i4(not abs(total) > SMALLEST) & i4(total != ZERO)
                else:
                    for n in range(len(result)):
                        total = fused(f4(x[n]), f4(y[n]), z[n])
                        result[n] = total
                        strange |= i4(not abs(total) > SMALLEST) & i4(total != ZERO)
                if strange:
                    return True
    return False
