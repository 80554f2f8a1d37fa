"""Arithmetic of float16 and bfloat16, single or two in a register.

A number is kept as its 16 bits. To compute, it becomes a float64, in which a product of two is
exact, and a sum is rounded to odd (see rounding.py); the result is rounded once, to nearest. What
needs no more than a float32 is faster that way: see "without flags".
"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np

from ptxsim.arithmetic import compiled, float32, rounding, special_functions

f4, f8, i4, u2, u4 = np.float32, np.float64, np.int32, np.uint16, np.uint32

FROM_BITS = {"f16": rounding.from_float16, "bf16": rounding.from_bfloat16}
TO_BITS = rounding.TO_BITS
TOO_LARGE = {"f16": 2.0**16, "bf16": 2.0**128}
INFINITY = {"f16": u2(0x7C00), "bf16": u2(0x7F80)}
SMALLEST_NORMAL = {"f16": 2.0**-14, "bf16": 2.0**-126}
SIGN, MAGNITUDE = rounding.SIGN, u2(0x7FFF)
ONE = {"f16": u2(0x3C00), "bf16": u2(0x3F80)}
LEAST = 1 << 10  # numbers for which machine code is called
PIECE = 1 << 17  # numbers at a time: what is made of them stays in the cache


def each_half(function, words):
    """`function` on both 16-bit parts of its operands (int32), as int32."""
    parts = [_parts(word) for word in words]
    shape = np.broadcast_shapes(*(part.shape for part in parts))
    halves = np.empty(shape, u2)
    if halves.size <= PIECE:
        halves[...] = function(*parts)
        return halves.view(np.int32)[..., 0]
    flat, rows = halves.reshape(-1), [np.broadcast_to(p, shape).reshape(-1) for p in parts]
    for at in range(0, halves.size, PIECE):
        flat[at : at + PIECE] = function(*(row[at : at + PIECE] for row in rows))
    return halves.view(np.int32)[..., 0]


def of_pairs(name: str, a, b, c):
    """a * b + c, of both numbers in each word."""
    return each_half(partial(multiply_add, name=name, ftz=False, limit=None), (a, b, c))


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
    if ftz:
        scaled = numbers(TO_BITS[name](value * 16.0), name)  # rounded far from the subnormals
        small = np.abs(value) < 2 * SMALLEST_NORMAL[name]
        zero = small & (np.abs(scaled) < 16 * SMALLEST_NORMAL[name])
        value = np.where(zero, np.copysign(0.0, value), value)
    return rounding.narrowed_bits(value, name, "rn", limit)


def add(a, b, name, ftz, limit):
    if not (ftz or limit):
        bits = _in_machine_code(a, ONE[name], b, name)
        if bits is None:
            bits = rounding.to_half(FROM_BITS[name](a) + FROM_BITS[name](b), name)
        return bits
    return pattern(rounding.sum_to_odd(numbers(a, name, ftz), numbers(b, name, ftz)),
                   name, ftz, limit)  # fmt: skip


def subtract(a, b, name, ftz, limit):
    return add(a, b ^ SIGN, name, ftz, limit)


def multiply(a, b, name, ftz, limit):
    if not (ftz or limit):
        bits = _in_machine_code(a, b, SIGN, name)  # plus -0
        if bits is None:
            bits = rounding.to_half(FROM_BITS[name](a) * FROM_BITS[name](b), name)
        return bits
    return pattern(numbers(a, name, ftz) * numbers(b, name, ftz), name, ftz, limit)


def multiply_add(a, b, c, name, ftz, limit):
    if not (ftz or limit):
        if (bits := _in_machine_code(a, b, c, name)) is not None:
            return bits
        if name == "f16":
            return _multiply_add_float16(a, b, c)
        return _multiply_add_bfloat16(a, b, c)
    a, b, c = (numbers(x, name, ftz) for x in (a, b, c))
    return pattern(rounding.sum_to_odd(a * b, c), name, ftz, limit)


def _in_machine_code(a, b, c, name: str):
    """a * b + c as bits, or None where there is no machine code for it."""
    shape = np.broadcast_shapes(np.shape(a), np.shape(b), np.shape(c))
    bits = np.empty(shape, u2)
    function = compiled.function(name, bits.size)
    if function is None or bits.size < LEAST:
        return None
    given = (
        np.ascontiguousarray(np.broadcast_to(x, shape)).reshape(-1)
        if np.ndim(x) else _filled(int(x), bits.size)
        for x in (a, b, c)
    )  # fmt: skip
    return None if function(*given, bits.reshape(-1)) else bits


@lru_cache(8)
def _filled(bits: int, size: int):
    return np.full(size, bits, u2)


# ---- without flags -------------------------------------------------------------------------------
# A float32 has more than twice the digits of a float16 or a bfloat16, and two more: the sum of two
# of them, rounded to float32 and then once more, is the sum rounded once (Figueroa, "When is double
# rounding innocuous?", 1995). Their product is a float32, or so small that both roundings agree.


def _multiply_add_float16(a, b, c):
    """A float64 decides, and a float32 too, unless it is half-way between two, or subnormal."""
    product = rounding.from_float16(a) * rounding.from_float16(b)
    total = product.astype(f8) + rounding.from_float16(c).astype(f8)
    near = total.astype(f4)
    bits = np.asarray(rounding.to_half(near, "f16"))
    words = near.view(u4)
    again = (words & u4(0x1FFF)) == u4(0x1000)
    again |= (words & u4(0x7FFFFFFF)) - u4(1) < rounding.SUBNORMAL
    if again.any():
        bits[again] = rounding.to_half(total[again], "f16")
    return bits


def _multiply_add_bfloat16(a, b, c):
    """As a float32, which decides unless it is half-way between two bfloat16: then, to odd."""
    a, b, c = map(rounding.from_bfloat16, (a, b, c))
    near = (a.astype(f8) * b.astype(f8) + c.astype(f8)).astype(f4)
    bits = np.asarray(rounding.to_half(near, "bf16"))
    half_way = (near.view(u4) & u4(0xFFFF)) == u4(0x8000)
    if half_way.any():
        a, b, c = (np.broadcast_to(x, near.shape)[half_way].astype(f8) for x in (a, b, c))
        bits[half_way] = TO_BITS["bf16"](rounding.sum_to_odd(a * b, c))
    return bits


def negate(a, name, ftz):
    return _flushed(a, name, ftz) ^ SIGN


def magnitude(a, name, ftz):
    return _flushed(a, name, ftz) & MAGNITUDE


def extreme(a, b, name, ftz, larger: bool, nan: bool, xorsign: bool):
    """The smaller or larger; of a number and a NaN the number, or with `nan` a NaN."""
    choose = float32.maximum if larger else float32.minimum
    a, b = (np.asarray(numbers(x, name, ftz)) for x in (a, b))
    return TO_BITS[name](float32.extreme(choose, a, b, nan, xorsign))


def power(a, name, ftz):
    """2**a: that of float32, cut off."""
    value = special_functions.power(numbers(a, name, ftz).astype(f4)).astype(f8)
    bits = TO_BITS[name](value, "rz")
    return np.where(value >= TOO_LARGE[name], INFINITY[name], bits)


def tangent(a, name, ftz):
    return pattern(np.tanh(numbers(a, name)), name)


def _flushed(bits, name, ftz):
    if not ftz:
        return bits
    return np.where(np.abs(numbers(bits, name)) < SMALLEST_NORMAL[name], bits & SIGN, bits)
