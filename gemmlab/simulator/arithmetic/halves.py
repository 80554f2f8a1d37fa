"""Arithmetic of float16 and bfloat16, alone or two in a register.

A number is kept as its 16 bits. To compute, it becomes a float64, in which a product of two is
exact, and a sum is rounded to odd (see rounding.py); the result is rounded once, to nearest. What
needs no more than a float32 is faster that way: see "without flags".
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
    halves = np.asarray(function(*map(_parts, words[:count])), u2)
    return np.ascontiguousarray(halves).view(np.int32)[..., 0]


def _parts(words):
    """Both halves of int32 words along one more axis, the lower first: uint16."""
    words = np.asarray(words)
    return np.ascontiguousarray(words).view(u2).reshape(*words.shape, 2)


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
    if not (ftz or limit):
        return _from_sum(_single(a, name) + _single(b, name), name)
    return pattern(rounding.sum_to_odd(numbers(a, name, ftz), numbers(b, name, ftz)),
                   name, ftz, limit)  # fmt: skip


def subtract(a, b, name, ftz, limit):
    return add(a, b ^ SIGN, name, ftz, limit)


def multiply(a, b, name, ftz, limit):
    if not (ftz or limit):
        return _from_sum(_single(a, name) * _single(b, name), name)
    return pattern(numbers(a, name, ftz) * numbers(b, name, ftz), name, ftz, limit)


def multiply_add(a, b, c, name, ftz, limit):
    if not (ftz or limit):
        if name == "f16":
            return _multiply_add_float16(a, b, c)
        return _multiply_add_bfloat16(a, b, c)
    a, b, c = (numbers(x, name, ftz) for x in (a, b, c))
    return pattern(rounding.sum_to_odd(a * b, c), name, ftz, limit)


# ---- without flags -------------------------------------------------------------------------------
# A float32 has more than twice the digits of a float16 or a bfloat16, and two more: the sum of two
# of them, rounded to float32 and then once more, is the sum rounded once (Figueroa, "When is double
# rounding innocuous?", 1995). Their product is a float32, or so small that both roundings agree.


def _single(bits, name: str):
    """16-bit patterns as float32."""
    if name == "f16":
        return np.asarray(bits, u2).view(np.float16).astype(f4)
    return (np.asarray(bits, u2).astype(u4) << u4(16)).view(f4)


def _from_sum(value, name: str):
    """float32 to the nearest 16-bit number, as its bits."""
    if name == "f16":
        bits = value.astype(np.float16).view(u2)
    else:
        bits = value.view(u4)
        bits = (bits + (u4(0x7FFF) + ((bits >> u4(16)) & u4(1))) >> u4(16)).astype(u2)
    return np.where(np.isnan(value), NAN, bits)


def _multiply_add_float16(a, b, c):
    """A float64 has all digits of the sum, or lies on the same side of what separates float16s:
    digits are lost only where one of the two is 2**53 times the last digit of the other.
    """
    total = (_single(a, "f16") * _single(b, "f16")).astype(f8) + _single(c, "f16")
    return np.where(np.isnan(total), NAN, total.astype(np.float16).view(u2))


def _multiply_add_bfloat16(a, b, c):
    """As a float32, which decides unless it is half-way between two bfloat16: then, to odd."""
    product = _single(a, "bf16").astype(f8) * _single(b, "bf16")
    c = _single(c, "bf16")
    near = (product + c).astype(f4)
    bits = _from_sum(near, "bf16")
    half_way = (near.view(u4) & u4(0xFFFF)) == u4(0x8000)
    if half_way.any():
        product, c = np.broadcast_to(product, near.shape), np.broadcast_to(c, near.shape)
        exact = rounding.sum_to_odd(product[half_way], c[half_way])
        bits = np.array(bits)
        bits[half_way] = TO_BITS["bf16"](exact)
    return bits


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
