"""The arithmetic of the GPU where NumPy's own differs: flushing to zero, C division.

Every function takes and gives NumPy arrays or scalars of any broadcastable shapes.

Flush to zero. With `.ftz`, subnormal operands and results count as zero of the same sign. A result
is rounded to 24 bits first, whatever its exponent, and is subnormal if that is below 2**-126.
"""

from __future__ import annotations

import numpy as np

f4, f8, i4, i8, u4, u8 = np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint64

SMALLEST_NORMAL = f4(2.0**-126)
WHOLE = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}
NORMAL = u4(2**24 - 1)  # SMALLEST_NORMAL as `_smallest` gives it


def multiply_ftz(a, b):
    """float32 a * b; a subnormal result is zero."""
    result = a * b
    return result if _smallest(result) > NORMAL else to_float32_ftz(a.astype(f8) * b.astype(f8))


def divide_ftz(a, b):
    result = a / b
    return result if _smallest(result) > NORMAL else to_float32_ftz(a.astype(f8) / b.astype(f8))


def to_float32_ftz(x):
    """float64 x to float32; a subnormal result is zero."""
    result = x.astype(f4)
    if _smallest(result) > NORMAL:
        return result
    scaled = (x * 2.0**64).astype(f4)  # rounded far from the subnormals
    zero = np.copysign(f4(0), result)
    return np.where(np.abs(scaled) < SMALLEST_NORMAL * f4(2.0**64), zero, result)


def minimum(a, b):
    """The smaller of two floats: of a number and a NaN the number, of two zeros the negative."""
    bits = np.dtype(f"i{a.dtype.itemsize}")
    return np.where(a == b, (a.view(bits) | b.view(bits)).view(a.dtype), np.fmin(a, b))


def maximum(a, b):
    """The larger of two floats: of a number and a NaN the number, of two zeros the positive."""
    bits = np.dtype(f"i{a.dtype.itemsize}")
    return np.where(a == b, (a.view(bits) & b.view(bits)).view(a.dtype), np.fmax(a, b))


def extreme(choose, a, b, nan: bool, xorsign: bool):
    """`choose` is minimum or maximum. `xorsign`: of magnitudes, with the signs' exclusive or."""
    result = choose(np.abs(a), np.abs(b)) if xorsign else choose(a, b)
    if xorsign:
        result = np.where(np.signbit(a) != np.signbit(b), -result, result)
    return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), result) if nan else result


def flush(x):
    """float32 x, with subnormals replaced by zeros of the same sign."""
    if not has_subnormal(x):
        return x
    return np.where(np.abs(x) < SMALLEST_NORMAL, np.copysign(f4(0), x), x)


def has_subnormal(x) -> bool:
    """Whether a float32 other than 0 lies below the smallest normal number."""
    return _smallest(x) < NORMAL


def divide_integers(a, b):
    """a / b rounded towards zero, as in C. Division by zero gives all ones, as the GPU does."""
    safe = np.where(b == 0, b.dtype.type(1), b)
    quotient = a // safe  # rounded down
    if a.dtype.kind == "i":
        quotient = quotient + ((a % safe != 0) & ((a < 0) != (safe < 0)))
    ones = ~a.dtype.type(0)
    return np.where(b == 0, ones, quotient).astype(a.dtype)


def remainder_integers(a, b):
    """a - a / b * b as in C. For b = 0 it is all ones, as the GPU does."""
    return np.where(b == 0, ~a.dtype.type(0), a - divide_integers(a, b) * b)


def multiply_high(a, b):
    """The upper half of the product of two integers of 16, 32 or 64 bits."""
    wide, bits = i8 if a.dtype.kind == "i" else u8, 8 * a.dtype.itemsize
    if bits < 64:
        return ((a.astype(wide) * b.astype(wide)) >> wide(bits)).astype(a.dtype)
    # By halves of 32 bits, as on paper. The lower ones are never negative.
    half, mask = wide(32), wide(0xFFFFFFFF)
    low = ((a & mask).astype(u8) * (b & mask).astype(u8) >> u8(32)).astype(wide)
    first = (a >> half) * (b & mask) + low
    second = (a & mask) * (b >> half) + (first & mask)
    return (a >> half) * (b >> half) + (first >> half) + (second >> half)


def float_to_integer(x, rounding: str, dtype):
    """Round `x` ("rzi", "rni", "rmi" or "rpi") to integers, saturated; NaN as PTX has it."""
    wide, limits = WHOLE[rounding](x).astype(f8), np.iinfo(dtype)
    # float(limits.max) may round up past the limit, so compare before converting.
    top, bottom = wide >= float(limits.max), wide <= float(limits.min)
    inside = np.where(top | bottom | np.isnan(wide), 0.0, wide).astype(dtype)
    limited = np.where(top, dtype(limits.max), np.where(bottom, dtype(limits.min), inside))
    no_number = limits.max // 2 + 1 if limits.min == 0 else limits.min
    if max(x.dtype.itemsize, limits.dtype.itemsize) < 8:
        no_number = 0
    return np.where(np.isnan(wide), dtype(no_number), limited)


def _smallest(x) -> np.uint32:
    """The smallest magnitude in float32 `x` but for 0: its bits, doubled, less 1."""
    magnitude = np.asarray(x).view(u4) << u4(1)  # without the sign
    return np.subtract(magnitude, u4(1)).min()  # 0 wraps round to the largest number
