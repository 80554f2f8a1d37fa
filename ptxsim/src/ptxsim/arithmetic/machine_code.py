"""What compiled.py gives out. To import this takes numba, and about a third of a second.

Nothing here is made by a function: numba would compile it anew in each process, for what it has in
its cache belongs to the values that a function encloses, too.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features, get_process_triple
from numba import boolean, float32, int32, int64, njit, types, uint16, vectorize
from numba.extending import intrinsic

f4, f8, i4 = np.float32, np.float64, np.int32

SMALLEST = 2.0**-126
ROUNDS_UP = SMALLEST - 2.0**-151  # from here on 24 bits are enough for SMALLEST
ZERO, ONE = f4(0), i4(1)
HALVES = types.Array(uint16, 1, "C", readonly=True)
ADDENDS, WORDS = (types.Array(of, 3, "C", readonly=True) for of in (float32, int32))


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
    strange = 0  # an integer: a vector of them is looked at when the row is done
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
# A product of two is a float32, but for very small or large bfloat16. The sum with the third is
# rounded to 16 bits from a float32 and its error, which decides where that is half-way: float16 by
# rounding to odd, which sets the last bit of what is not exact, bfloat16 by adding one or not.

LEAST_PRODUCT = f4(2.0**-126)
# Of the bits of a float32: what can be compared like integers, and 2**127.
ZERO_BITS, MAGNITUDE, LARGEST, UPPER = i4(0), i4(0x7FFFFFFF), i4(254 << 23), i4(-(2**16))
HALF = ir.HalfType()


def for_float16(*signature, **how):
    """njit, where the processor converts float16; else there is no such function (None)."""
    converts = "x86" not in get_process_triple() or get_host_cpu_features().get("f16c", False)
    return njit(*signature, **how) if converts else lambda function: None


def _same_bits(context, builder, signature, given):
    return builder.bitcast(given[0], context.get_value_type(signature.return_type))


@intrinsic
def bits_of(typing, x):
    return int32(float32), _same_bits


@intrinsic
def number_of(typing, bits):
    return float32(int32), _same_bits


@intrinsic
def from_float16(typing, bits):
    return float32(uint16), lambda context, builder, signature, given: builder.fpext(
        builder.bitcast(given[0], HALF), ir.FloatType()
    )


@intrinsic
def to_float16(typing, x):
    return uint16(float32), lambda context, builder, signature, given: builder.bitcast(
        builder.fptrunc(given[0], HALF), ir.IntType(16)
    )


@njit(inline="always")
def from_bfloat16(bits):
    return number_of(i4(i4(bits) << i4(16)))


@njit(inline="always")
def error_of(total, a, b):
    """What the float32 a + b, rounded to `total`, lacks: exact, by Knuth's TwoSum."""
    part = total - a
    return (a - (total - part)) + (b - part)


@njit(inline="always")
def odd_sum(product, addend):
    """(product + addend rounded to odd, the bits of it rounded to nearest)."""
    total = product + addend
    error, bits = error_of(total, product, addend), bits_of(total)
    towards_zero = i4(i4(bits ^ bits_of(error)) >> i4(31))  # -1, or 0
    odd = bits if error == ZERO else i4(i4(bits + towards_zero) | ONE)
    return number_of(odd), bits


@njit(inline="always")
def bfloat16_sum(product, addend):
    """(product + addend as a bfloat16, the upper half of 32 bits; the bits of a float32)."""
    total = product + addend
    error, bits = error_of(total, product, addend), bits_of(total)
    away = i4(i4(bits ^ bits_of(error)) >= ZERO_BITS)
    half_way_up = i4(i4(bits >> i4(16)) & ONE) if error == ZERO else away
    return i4(i4(bits + i4(0x7FFF)) + half_way_up), bits


@njit(inline="always")
def less_one(x):
    """The bits of a magnitude, less one: 0, of which products are exact, is the largest."""
    return i4(i4(bits_of(x) - ONE) & MAGNITUDE)


@for_float16([boolean(HALVES, HALVES, HALVES, uint16[::1])], cache=True, error_model="numpy")
def float16_fma(a, b, c, out):
    """a * b + c into `out`, all patterns of bits; True where a result is infinite or NaN."""
    largest = ZERO_BITS
    for n in range(len(out)):
        odd, bits = odd_sum(from_float16(a[n]) * from_float16(b[n]), from_float16(c[n]))
        out[n] = to_float16(odd)
        largest = max(largest, i4(bits & MAGNITUDE))
    return largest >= LARGEST


@njit([boolean(HALVES, HALVES, HALVES, uint16[::1])], cache=True, error_model="numpy")
def bfloat16_fma(a, b, c, out):
    """As float16_fma; True, too, where products may be too small for a float32, or too large."""
    largest, smallest_a, smallest_b = ZERO_BITS, LARGEST, LARGEST
    for n in range(len(out)):
        x, y = from_bfloat16(a[n]), from_bfloat16(b[n])
        upper, bits = bfloat16_sum(x * y, from_bfloat16(c[n]))
        out[n] = upper >> i4(16)
        largest = max(largest, i4(bits & MAGNITUDE))
        smallest_a, smallest_b = min(smallest_a, less_one(x)), min(smallest_b, less_one(y))
    exact = number_of(smallest_a) * number_of(smallest_b) >= LEAST_PRODUCT
    return largest >= LARGEST or not exact


@for_float16(
    [boolean(int32[::1], int64[:, ::1], boolean[::1], int64[:, ::1], int64[::1], WORDS,
             int32[:, :, ::1], boolean)],
    cache=True, error_model="numpy",
)  # fmt: skip
def batch_of_halves(words, places, along, pairs, starts, addends, out, is_float16):
    """As `batch`, of float16 or bfloat16, two in each word; gives up where their fma does."""
    numbers = np.empty((2, len(words)), f4)
    smallest, largest = LARGEST, ZERO_BITS
    for half in range(2):
        for n in range(len(words)):
            bits = uint16(words[n] >> i4(16 * half))
            numbers[half, n] = from_float16(bits) if is_float16 else from_bfloat16(bits)
            smallest = min(smallest, less_one(numbers[half, n]))
    if not is_float16 and number_of(smallest) * number_of(smallest) < LEAST_PRODUCT:
        return True
    sums, products = np.empty((2, out.shape[2]), f4)
    for row in range(out.shape[1]):
        for number in range(len(out)):
            result = out[number, row]
            addend = addends[number, row]
            for half in range(2):
                for n in range(len(sums)):
                    bits = uint16(addend[n] >> i4(16 * half))
                    sums[n] = from_float16(bits) if is_float16 else from_bfloat16(bits)
                for step in range(starts[number], starts[number + 1]):
                    x = numbers[half, places[row, pairs[step, 0]] :]
                    y = numbers[half, places[row, pairs[step, 1]] :]
                    if along[pairs[step, 0]]:
                        for n in range(len(sums)):
                            products[n] = x[n] * y[n]
                    else:
                        scale = x[0]
                        for n in range(len(sums)):
                            products[n] = scale * y[n]
                    if is_float16:
                        for n in range(len(sums)):
                            odd, _ = odd_sum(products[n], sums[n])
                            rounded = from_float16(to_float16(odd))
                            largest = max(largest, i4(bits_of(rounded) & MAGNITUDE))
                            sums[n] = rounded
                    else:
                        for n in range(len(sums)):
                            upper, _ = bfloat16_sum(products[n], sums[n])
                            sums[n] = number_of(i4(upper & UPPER))
                            largest = max(largest, i4(upper & MAGNITUDE))
                for n in range(len(sums)):
                    if is_float16:
                        bits = i4(to_float16(sums[n]))
                    else:
                        bits = i4(bits_of(sums[n]) >> i4(16)) & i4(0xFFFF)
                    result[n] = bits if half == 0 else result[n] | i4(bits << i4(16))
        if largest >= LARGEST:
            return True
    return False
