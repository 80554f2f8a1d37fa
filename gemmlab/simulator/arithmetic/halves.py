"""Arithmetic of float16 and bfloat16, alone or two in a register.

A number is kept as its 16 bits. To compute, it becomes a float64, in which a product of two is
exact, and a sum is rounded to odd (see rounding.py); the result is rounded once, to nearest.
"""

from __future__ import annotations

import numpy as np

from gemmlab.simulator.arithmetic import rounding, special_functions

f4, f8, u2, u4 = np.float32, np.float64, np.uint16, np.uint32

FROM_BITS = {"f16": rounding.from_float16, "bf16": rounding.from_bfloat16}
TO_BITS = {"f16": rounding.to_float16, "bf16": rounding.to_bfloat16}
TOO_LARGE = {"f16": 2.0**16, "bf16": 2.0**128}
INFINITY = {"f16": u2(0x7C00), "bf16": u2(0x7F80)}
SMALLEST_NORMAL = {"f16": 2.0**-14, "bf16": 2.0**-126}
SIGN, MAGNITUDE = u2(0x8000), u2(0x7FFF)
NAN = rounding.NARROW_NAN


def each_half(function, words, count: int):
    """`function` on both 16-bit parts of `count`-fold operands (int32), as int32."""
    low, high = (
        np.asarray(function(*((w >> np.int32(s)).astype(u2) for w in words[:count]))).astype(u4)
        for s in (0, 16)
    )
    return (low | high << u4(16)).view(np.int32)


def numbers(bits, name: str, ftz: bool = False):
    """16-bit patterns as float64; with `ftz` subnormals are zeros."""
    value = FROM_BITS[name](bits).astype(f8)
    if ftz:
        value = np.where(np.abs(value) < SMALLEST_NORMAL[name], np.copysign(0.0, value), value)
    return value


def pattern(value, name: str, ftz: bool = False, limit: str | None = None):
    """float64, exact or rounded to odd, as 16 bits (uint16). `limit`: "sat" or "relu"."""
    if limit == "sat":
        value = rounding.saturate(value)
    elif limit == "relu":
        value = np.where(value < 0, 0.0, value)
    if ftz:
        scaled = numbers(TO_BITS[name](value * 16.0), name)  # rounded far from the subnormals
        small = np.abs(value) < 2 * SMALLEST_NORMAL[name]
        zero = small & (np.abs(scaled) < 16 * SMALLEST_NORMAL[name])
        value = np.where(zero, np.copysign(0.0, value), value)
    bits = TO_BITS[name](value)
    if limit == "relu":
        bits = np.where(bits == SIGN, u2(0), bits)
    return bits


def add(a, b, name, ftz, limit):
    return pattern(rounding.sum_to_odd(numbers(a, name, ftz), numbers(b, name, ftz)),
                   name, ftz, limit)  # fmt: skip


def subtract(a, b, name, ftz, limit):
    return pattern(rounding.sum_to_odd(numbers(a, name, ftz), -numbers(b, name, ftz)),
                   name, ftz, limit)  # fmt: skip


def multiply(a, b, name, ftz, limit):
    return pattern(numbers(a, name, ftz) * numbers(b, name, ftz), name, ftz, limit)


def multiply_add(a, b, c, name, ftz, limit):
    a, b, c = (numbers(x, name, ftz) for x in (a, b, c))
    return pattern(rounding.sum_to_odd(a * b, c), name, ftz, limit)


def negate(a, name, ftz):
    return _flushed(a, name, ftz) ^ SIGN


def magnitude(a, name, ftz):
    return _flushed(a, name, ftz) & MAGNITUDE


def extreme(a, b, name, ftz, larger: bool, nan: bool, xorsign: bool):
    """The smaller or larger; of a number and a NaN the number, or with `nan` a NaN."""
    a, b = _flushed(a, name, ftz), _flushed(b, name, ftz)
    sign = (a ^ b) & SIGN
    if xorsign:
        a, b = a & MAGNITUDE, b & MAGNITUDE
    x, y = numbers(a, name), numbers(b, name)
    # Of two zeros the negative one is the smaller.
    first = (x > y) if larger else (x < y)
    first = first | ((x == y) & (((a & SIGN) == 0) == larger)) | np.isnan(y)
    result = np.where(first, a, b)
    result = np.where(np.isnan(x) & ~np.isnan(y), b, result)
    wrong = (np.isnan(x) | np.isnan(y)) if nan else (np.isnan(x) & np.isnan(y))
    if xorsign:
        result = result | sign
    return np.where(wrong, NAN, result)


def power(a, name, ftz):
    """2**a: that of float32, cut off."""
    value = special_functions.power(numbers(a, name, ftz).astype(f4)).astype(f8)
    bits = TO_BITS[name](value, "rz")
    return np.where(value >= TOO_LARGE[name], INFINITY[name], bits)


def tangent(a, name, ftz):
    """The hyperbolic tangent."""
    return pattern(np.tanh(numbers(a, name)), name)


def _flushed(bits, name, ftz):
    if not ftz:
        return bits
    return np.where(np.abs(numbers(bits, name)) < SMALLEST_NORMAL[name], bits & SIGN, bits)
