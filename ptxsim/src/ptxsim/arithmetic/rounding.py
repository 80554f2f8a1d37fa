"""Rounding to the floats that NumPy cannot round to: other directions, bfloat16, smaller ones.

The way is always the same. The exact result, or a float64 near it that is *rounded to odd*, is
rounded once more to the narrow type. Rounded to odd means: where the exact result is no float64,
its neighbour whose last bit is 1. Such a number is never half-way between two narrow ones, and lies
on the same side of every narrow one as the exact result, so the second rounding is right in every
direction.

Directions: "rn" to nearest, ties to even; "rna" to nearest, ties away from zero; "rz" towards zero;
"rm" down; "rp" up.
"""

from __future__ import annotations

import numpy as np

from ptxsim.arithmetic.float32 import WHOLE

f4, f8, i4, i8, u2, u4 = np.float32, np.float64, np.int32, np.int64, np.uint16, np.uint32

NEXT = {"rm": -np.inf, "rp": np.inf}
SIGN = u2(0x8000)  # of float16 and bfloat16
NARROW_NAN = u2(0x7FFF)  # of float16 and bfloat16, as the hardware gives it
TF32_NAN = u4(0x7FFFE000)
FLOAT16_INFINITY = u2(0x7C00)
SPREAD = i4(0x8FFFE000 - 2**32)  # sign, exponent and mantissa of a float16, 13 bits higher
SCALE = f4(2.0**112)
SUBNORMAL = u4(113 << 23)  # as bits of a float32: 2**-14; what is less is subnormal as a float16


def sum_to_odd(a, b):
    """float64 a + b, rounded to odd. An exact 0 of numbers of unlike signs is +0."""
    total, error = two_sum(np.asarray(a, f8), np.asarray(b, f8))
    bits = np.asarray(total).view(i8)
    inexact = (error != 0) & ((bits & i8(1)) == 0) & np.isfinite(total)
    # Away from zero adds one to the bit pattern, towards zero subtracts one.
    step = np.where((error > 0) == (total > 0), i8(1), i8(-1))
    return np.where(inexact, bits + step, bits).view(f8)


def two_sum(a, b):
    """(a + b rounded, what the exact sum has more), by Knuth."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def signed_zero(total, a, b, direction: str):
    """The sum of `a` and `b`: rounding down, an exact 0 of numbers of unlike signs is -0."""
    if direction != "rm":
        return total
    return np.where((total == 0) & (np.signbit(a) != np.signbit(b)), f8(-0.0), total)


def integer_to_odd(x):
    """An integer of any width as a float64, rounded to odd."""
    if x.dtype.itemsize < 8:
        return x.astype(f8)
    high = x >> x.dtype.type(11)
    sticky = (x & x.dtype.type(0x7FF)) != 0
    far = (high | sticky.astype(x.dtype)).astype(f8) * 2048.0
    small = x.astype(f8)
    return np.where(np.abs(small) < 2.0**53, small, far)


def narrow(x, dtype, direction: str):
    """float64 `x` to a NumPy float type. `x` is exact or rounded to odd."""
    result = x.astype(dtype)
    if direction == "rn":
        return result
    if direction == "rz":
        wrong, goal = np.abs(result) > np.abs(x), dtype.type(0)
    else:
        goal = dtype.type(NEXT[direction])
        wrong = (result > x) if direction == "rm" else (result < x)
    return np.where(wrong, np.nextafter(result, goal), result)


def round_float32(x, direction: str, ftz: bool = False):
    """float64 `x`, exact or rounded to odd, to float32. With `ftz` subnormal results are zeros."""
    result = narrow(x, np.dtype(f4), direction)
    if not ftz:
        return result
    scaled = narrow(x * 2.0**64, np.dtype(f4), direction)  # far from the subnormals
    small = np.abs(x) < 2.0**-120
    return np.where(small & (np.abs(scaled) < 2.0**-62), np.copysign(f4(0), x.astype(f4)), result)


def saturate(x):
    """Numbers limited to 0 … 1; NaN gives +0."""
    return np.where(x > 0, np.minimum(x, x.dtype.type(1)), x.dtype.type(0))


# --- narrow floats as patterns of bits --------------------------------------------------------


def from_float16(bits):
    bits = np.asarray(bits).astype(u2)
    if not bits.size or (bits & ~SIGN).max() >= FLOAT16_INFINITY:
        return bits.view(np.float16).astype(f4)
    # With its sign, exponent and mantissa where a float32 has them, it is too small by 2**112.
    words = np.asarray(bits.view(np.int16).astype(i4))
    words <<= i4(13)
    words &= SPREAD
    return words.view(f4) * SCALE


def from_bfloat16(bits):
    return (np.asarray(bits).astype(u2).astype(u4) << u4(16)).view(f4)


def to_float16(x, direction: str = "rn"):
    """float64 `x`, exact or rounded to odd, to the bits of a float16 (uint16)."""
    bits = np.asarray(narrow(x, np.dtype(np.float16), direction)).view(u2)
    return np.where(np.isnan(x), NARROW_NAN, bits)


def to_bfloat16(x, direction: str = "rn"):
    """float64 `x`, exact or rounded to odd, to the bits of a bfloat16 (uint16)."""
    down = np.asarray(narrow(x, np.dtype(f4), "rz"))
    bits = down.view(u4) | (down.astype(f8) != x).astype(u4)  # a float32 rounded to odd
    bits = round_bits(bits, 16, direction)
    bits = (bits >> u4(16)).astype(u2)
    infinite = np.where(np.signbit(x), u2(0xFF80), u2(0x7F80))
    return np.where(np.isnan(x), NARROW_NAN, np.where(np.isinf(x), infinite, bits))


def to_half(value, name: str):
    """float32 to the nearest 16-bit number, as its bits."""
    if name == "f16":
        bits = value.astype(np.float16).view(u2)
    else:
        bits = value.view(u4)
        bits = (bits + (u4(0x7FFF) + ((bits >> u4(16)) & u4(1))) >> u4(16)).astype(u2)
    wrong = np.isnan(value)
    return np.where(wrong, NARROW_NAN, bits) if wrong.any() else bits


def round_bits(bits, drop: int, direction: str):
    """float32 patterns (uint32), no NaN, no infinity, rounded so that the lowest bits are 0."""
    unit = u4(1 << drop)
    if direction == "rn":
        added = unit // u4(2) - u4(1) + ((bits >> u4(drop)) & u4(1))
    elif direction == "rna":
        added = unit // u4(2)
    elif direction == "rz":
        added = u4(0)
    else:
        away = (bits >> u4(31) == 1) == (direction == "rm")
        added = np.where(away, unit - u4(1), u4(0))
    return (bits + added) & ~(unit - u4(1))


def to_tf32(x, direction: str, relu: bool = False):
    """float32 `x` with the 10 bits of mantissa of TF32 (int32)."""
    bits = np.asarray(x).view(u4)
    rounded = np.where(np.isinf(x), bits, round_bits(bits, 13, direction))
    nan = bits & ~u4(0x1FFF) if direction == "rna" else TF32_NAN
    bits = np.where(np.isnan(x), nan, rounded).view(i4)
    return np.where((bits < 0) & ~np.isnan(x), i4(0), bits) if relu else bits


# Name -> bits of an element, bits of mantissa, exponent of the smallest normal number.
FEW_BITS = {
    "e4m3": (8, 3, -6), "e5m2": (8, 2, -14), "e2m3": (6, 3, 0), "e3m2": (6, 2, -2),
    "e2m1": (4, 1, 0),
}  # fmt: skip
LARGEST = {"e4m3": (448.0, 0x7E), "e5m2": (57344.0, 0x7B)}  # number, and its bits


def to_eight_bits(x, name: str):
    """float64 `x` to the bits of e4m3 or e5m2 (uint16), to nearest; what is too large saturates."""
    (_, mantissa, lowest), (largest, most) = FEW_BITS[name], LARGEST[name]
    magnitude = np.minimum(np.abs(np.where(np.isnan(x), 0.0, x)), largest)
    _, exponent = np.frexp(magnitude)
    exponent = np.maximum(exponent - 1, lowest)
    exponent = np.where(magnitude == 0, lowest, exponent)
    steps = np.rint(np.ldexp(magnitude, mantissa - exponent)).astype(i8)
    steps = np.minimum(steps + ((exponent - lowest).astype(i8) << mantissa), most)
    bits = steps | np.where(np.signbit(x), 0x80, 0)
    return np.where(np.isnan(x), 0x7F, bits).astype(u2)


def from_few_bits(bits, name: str):
    """Bits of one of FEW_BITS to float64. Only those of 8 bits have infinities or NaN."""
    width, mantissa, lowest = FEW_BITS[name]
    bits = np.asarray(bits).astype(i8)
    magnitude = bits & (1 << width - 1) - 1
    exponent, fraction = magnitude >> mantissa, bits & (1 << mantissa) - 1
    significand = np.where(exponent > 0, fraction + (1 << mantissa), fraction).astype(f8)
    value = np.ldexp(significand, np.maximum(exponent, 1) - 1 + lowest - mantissa)
    if name == "e5m2":
        value = np.where(exponent == 31, np.where(fraction == 0, np.inf, np.nan), value)
    elif name == "e4m3":
        value = np.where(magnitude == 0x7F, np.nan, value)
    return np.where(bits >> width - 1 & 1, -value, value)


# --- float32 operations in any direction ------------------------------------------------------


def add(a, b, direction: str, ftz: bool):
    total = sum_to_odd(a.astype(f8), b.astype(f8))
    return round_float32(signed_zero(total, a, b, direction), direction, ftz)


def multiply(a, b, direction: str, ftz: bool):
    return round_float32(a.astype(f8) * b.astype(f8), direction, ftz)


def multiply_add(a, b, c, direction: str, ftz: bool):
    product = a.astype(f8) * b.astype(f8)
    total = sum_to_odd(product, c.astype(f8))
    return round_float32(signed_zero(total, product, c, direction), direction, ftz)


def divide(a, b, direction: str, ftz: bool):
    """float32 a / b. The quotient as a float64 is exact, or lies between the same float32."""
    return round_float32(a.astype(f8) / b.astype(f8), direction, ftz)


def square_root(x, direction: str, ftz: bool):
    return round_float32(np.sqrt(x.astype(f8)), direction, ftz)


# --- conversions ----------------------------------------------------------------------------------

TO_BITS = {"f16": to_float16, "bf16": to_bfloat16}


def to_float(x, to: str, mode: str, limit: str | None, ftz: bool):
    """Any number to `to`; `mode`: a direction, or one of WHOLE first; `limit`: "sat" or "relu"."""
    if to in TO_BITS and x.dtype == f4 and mode == "rn" and not limit:
        return to_half(x, to)
    exact = integer_to_odd(x) if x.dtype.kind in "iu" else x.astype(f8)
    if mode in WHOLE:
        exact, mode = WHOLE[mode](exact), "rn"
    if to in TO_BITS:
        return narrowed_bits(exact, to, mode, limit)
    if to == "f32":
        result = round_float32(exact, mode, ftz)
    elif x.dtype.kind in "iu":
        result = _integer_to_double(x, mode)
    else:
        result = exact
    return saturate(result) if limit == "sat" else result


def narrowed_bits(x, to: str, mode: str, limit: str | None):
    """float64, exact or rounded to odd, as 16 bits (uint16). `limit`: "sat" or "relu"."""
    bits = TO_BITS[to](saturate(x) if limit == "sat" else x, mode)
    if limit == "relu":  # NaN stays NaN
        bits = np.where((bits >= SIGN) & ~np.isnan(x), u2(0), bits)
    return bits


def _integer_to_double(x, mode: str):
    near = x.astype(f8)
    if mode == "rn" or x.dtype.itemsize < 8:
        return near
    # The nearest float64, one step back where it went the wrong way.
    limits = np.iinfo(x.dtype)
    past = near >= 2.0 ** (limits.bits - (limits.min < 0))
    back = np.where(past, 0.0, near).astype(x.dtype)
    above = past | (back > x)
    below = ~past & (back < x)
    goal = {"rz": 0.0, "rm": -np.inf, "rp": np.inf}[mode]
    wrong = {"rz": np.where(near > 0, above, below), "rm": above, "rp": below}[mode]
    return np.where(wrong, np.nextafter(near, goal), near)


def pair_of_halves(high, low, name: str, mode: str, limit: str | None):
    """Two float32 as two narrow floats (uint32)."""
    high, low = (to_float(x, name, mode, limit, False).astype(u4) for x in (high, low))
    return low | high << u4(16)


def pair_of_eight_bits(high, low, name: str, relu: bool):
    """Two floats as two of 8 bits (uint16)."""
    high, low = (
        to_eight_bits(np.where((x <= 0) & relu, 0.0, x.astype(f8)), name) for x in (high, low)
    )
    return low | high << u2(8)


def halves_of_eight_bits(bits, name: str, relu: bool):
    """Two floats of 8 bits (uint16) as two float16 (uint32)."""
    low, high = (
        narrowed_bits(from_few_bits(bits >> u2(s) & u2(0xFF), name), "f16", "rn",
                      "relu" if relu else None).astype(u4)
        for s in (0, 8)
    )  # fmt: skip
    return low | high << u4(16)


def eight_bits_of_halves(bits, name: str, relu: bool):
    """Two float16 (uint32) as two floats of 8 bits (uint16)."""
    low, high = (from_float16((bits >> u4(s)).astype(u2)) for s in (0, 16))
    return pair_of_eight_bits(high, low, name, relu)
