"""What compiled.py gives out. To import this takes numba, and about a third of a second.

Nothing here is made by a function: numba would compile it anew in each process, for what it has in
its cache belongs to the values that a function encloses, too.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, float32, float64, int32, int64, njit, types, uint16, vectorize
from numba.extending import intrinsic

f4, f8, i4 = np.float32, np.float64, np.int32

SMALLEST = 2.0**-126
ROUNDS_UP = SMALLEST - 2.0**-151  # from here on 24 bits are enough for SMALLEST
ZERO = f4(0)
HALVES = types.Array(uint16, 1, "C", readonly=True)
FACTORS, SUMS = (types.Array(of, 4, "C", readonly=True) for of in (float64, float32))
ADDENDS = types.Array(float32, 3, "C", readonly=True)


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


@njit(
    [boolean(float32[::1], int64[:, ::1], boolean[::1], int64[:, ::1], int64[::1], ADDENDS,
             float32[:, :, ::1])],
    cache=True, error_model="numpy",
)  # fmt: skip
def batch(numbers, places, along, pairs, starts, addends, out):
    """Sums of products into `out`: see multiply_add.Batch. True where one is NaN or subnormal.

    `addends` and `out`: (sums, rows, elements); `places`: where in `numbers` each factor begins,
    for each row; `along`: whether it differs along a row, as the second of each pair does.
    """
    strange = 0
    for row in range(out.shape[1]):
        for number in range(len(out)):
            sums = out[number, row]
            addend = addends[number, row]
            for n in range(len(sums)):  # first, for what lies in one place is added up faster
                sums[n] = addend[n]
            for step in range(starts[number], starts[number + 1]):
                x = numbers[places[row, pairs[step, 0]] :]
                y = numbers[places[row, pairs[step, 1]] :]
                if along[pairs[step, 0]]:
                    for n in range(len(sums)):
                        total = fused(x[n], y[n], sums[n])
                        sums[n] = total
                        strange |= i4(not abs(total) > SMALLEST) & i4(total != ZERO)
                else:
                    scale = x[0]
                    for n in range(len(sums)):
                        total = fused(scale, y[n], sums[n])
                        sums[n] = total
                        strange |= i4(not abs(total) > SMALLEST) & i4(total != ZERO)
        if strange:
            return True
    return False


# --- 16 bits --------------------------------------------------------------------------------------
# The product of two is a float32, but of very large or small bfloat16. The sum with the third is
# rounded to odd: its last bit is set where it is not exact. Then one rounding more is the only one.


def _same_bits(context, builder, signature, given):
    return builder.bitcast(given[0], context.get_value_type(signature.return_type))


@intrinsic
def bits_of(typing, x):
    return int32(float32), _same_bits


@intrinsic
def number_of(typing, bits):
    return float32(int32), _same_bits


LEAST_PRODUCT, LARGEST = f4(2.0**-100), f4(2.0**127)
SCALE, SMALLEST_HALF, HALF = f4(2.0**112), f4(2.0**-14), f4(0.5)
HALF_BITS = i4(HALF.view(i4))
TOO_LARGE = f4(65520)  # as a float16, it rounds to infinity


@njit(inline="always")
def to_odd(x, y, z):
    """(x * y + z, 1 where the product may not be exact, or the sum is not finite)."""
    product = x * y
    total = product + z
    part = total - product
    error = (product - (total - part)) + (z - part)  # Knuth's TwoSum
    bits = bits_of(total)
    step = i4(1) if (error > ZERO) == (total > ZERO) else i4(-1)
    bits += step * (i4(error != ZERO) & i4(bits & 1 == 0))
    strange = i4(abs(product) < LEAST_PRODUCT) & i4(x != ZERO) & i4(y != ZERO)
    return number_of(i4(bits)), strange | i4(not abs(total) < LARGEST)


@njit([boolean(HALVES, HALVES, HALVES, uint16[::1])], cache=True, error_model="numpy")
def float16_fma(a, b, c, out):
    """a * b + c into `out`, all patterns of bits; True where a number is not finite."""
    strange = i4(0)
    for n in range(len(out)):
        x, y, z = i4(a[n]), i4(b[n]), i4(c[n])
        infinite = i4(x & 0x7C00 == 0x7C00) | i4(y & 0x7C00 == 0x7C00) | i4(z & 0x7C00 == 0x7C00)
        left = number_of(i4((x & 0x7FFF) << 13 | (x & 0x8000) << 16)) * SCALE
        right = number_of(i4((y & 0x7FFF) << 13 | (y & 0x8000) << 16)) * SCALE
        addend = number_of(i4((z & 0x7FFF) << 13 | (z & 0x8000) << 16)) * SCALE
        total, _ = to_odd(left, right, addend)
        strange |= infinite
        size = abs(total)
        bits = bits_of(size)
        normal = (bits + i4(0xFFF) + (bits >> 13 & 1) - i4(112 << 23)) >> 13
        subnormal = bits_of(f4(size + HALF)) - HALF_BITS
        kept = subnormal if size < SMALLEST_HALF else normal
        kept = i4(0x7C00) if size >= TOO_LARGE else kept
        out[n] = kept | (bits_of(total) >> 16 & 0x8000)
    return strange != 0


@njit([boolean(HALVES, HALVES, HALVES, uint16[::1])], cache=True, error_model="numpy")
def bfloat16_fma(a, b, c, out):
    """As float16_fma; True, too, for a product that is not a float32."""
    strange = i4(0)
    for n in range(len(out)):
        left = number_of(i4(i4(a[n]) << 16))
        right = number_of(i4(i4(b[n]) << 16))
        total, wrong = to_odd(left, right, number_of(i4(i4(c[n]) << 16)))
        strange |= wrong
        bits = bits_of(total)
        out[n] = (bits + i4(0x7FFF) + (bits >> 16 & 1)) >> 16
    return strange != 0
