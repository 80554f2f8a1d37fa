"""The approximate functions of a GPU's special function unit, as the instructions use them.

The unit knows eight functions of a float32. Four are bit for bit: 1/x, 1/√x, √x and 2**x; the other
four are here the exact value rounded to nearest, which the hardware's result is near: how near
stands in docs/instructions.md. Without `ftz`, the instructions are what the GPU's compiler makes of
them, step by step.

The unit cuts a function's range into 64 or 128 equal pieces and evaluates a quadratic polynomial in
each, in integers (Oberman and Siu, "A high-performance area-efficient multifunction interpolator",
IEEE Symposium on Computer Arithmetic, 2005). The position x in a piece is the lower 16 or 17 bits
of the mantissa, as a fraction of the piece. Of its square only the 15 highest bits are kept:
partial products below them are never formed, so no carry comes out of them. The result is

    floor(c0 / 4 + bias + c1 / 2 * x + c2 / 2 * x²)

in units of its last place. The coefficients in special_tables.csv were found from the results of an
NVIDIA H200 for all 2**23 mantissas: they are integers that meet every one of them. Subnormal
operands and results are zeros of the same sign.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from ptxsim.arithmetic.float32 import flush
from ptxsim.arithmetic.rounding import round_float32

f4, f8, i4, i8, u8 = np.float32, np.float64, np.int32, np.int64, np.uint64

TABLES = Path(__file__).with_name("special_tables.csv")  # function, c0, c1, c2, for each piece
MANTISSA = 23  # bits
SQUARE_BITS = 15  # that are kept
BIASES = {"reciprocal": 0.061755, "power": 0.1866}
ROOT_BIAS = -4e-6  # of all others
TURN = f4(0.15915493667125702)  # 1 / 2π
SMALL, LARGE = f4(2.0**-126), f4(2.0**126)


def reciprocal(x, ftz: bool = True):
    if not ftz:
        large = np.where(np.abs(x) > LARGE, f4(0.25), f4(1))
        scale = np.where(np.abs(x) < SMALL, f4(2.0**24), large)
        return scale * reciprocal(x * scale)
    x, exponent, mantissa = _parts(x)
    value = np.ldexp(_look_up("reciprocal", mantissa), -24 - exponent)
    value = np.where(x == 0, np.inf, np.where(np.isinf(x), 0.0, value))
    return _result(np.where(np.isnan(x), x, np.copysign(value, x)))


def reciprocal_root(x, ftz: bool = True):
    if not ftz:
        return _scaled(reciprocal_root, x, f4(2.0**12))
    x, exponent, mantissa = _parts(x)
    value = _look_up_root("reciprocal root", exponent, mantissa)
    power_of_4 = ((exponent & 1) == 0) & (mantissa == 0)
    value = np.where(power_of_4, 2.0**24, value)  # exactly
    value = np.ldexp(value, -24 - (exponent >> 1))
    value = np.where(x == np.inf, 0.0, np.where(x < 0, np.nan, value))
    return _result(np.where(x == 0, np.copysign(np.inf, x), np.where(np.isnan(x), x, value)))


def root(x, ftz: bool = True):
    if not ftz:
        return _scaled(root, x, f4(2.0**-12))
    x, exponent, mantissa = _parts(x)
    value = np.ldexp(_look_up_root("root", exponent, mantissa), -23 + (exponent >> 1))
    value = np.where(x < 0, np.nan, value)
    return _result(np.where((x == 0) | np.isnan(x) | (x == np.inf), x, value))


def power(x, ftz: bool = True):
    """2**x for float32 x, cut to 23 bits; if they are inexact, a negative x has them inverted."""
    if not ftz:
        low = x < f4(-126)
        result = power(np.where(low, x * f4(0.5), x))
        return np.where(low, result * result, result)
    x = flush(x)
    inside = np.clip(np.where(np.isnan(x), f4(0), x), f4(-200), f4(200)).astype(f8)
    fixed = np.floor(np.abs(inside) * 2.0**MANTISSA).astype(i8)
    whole = (fixed & i8(2**MANTISSA - 1)) == 0
    fixed = np.where(inside < 0, np.where(whole, -fixed, ~fixed), fixed)
    value = _look_up("power", (fixed & i8(2**MANTISSA - 1)).astype(i4))
    value = np.ldexp(value, (fixed >> i8(MANTISSA)).astype(i4) - MANTISSA)
    return _result(np.where(np.isnan(x), x, value))


def _scaled(function, x, back):
    small = np.abs(x) < SMALL
    result = function(np.where(small, x * f4(2.0**24), x))
    return np.where(small, result * back, result)


def _parts(x):
    """(x without subnormals, its exponent, its mantissa (int32))."""
    x = np.asarray(flush(x))
    bits = x.view(i4)
    return x, ((bits >> i4(MANTISSA)) & i4(0xFF)) - i4(127), bits & i4(2**MANTISSA - 1)


def _result(value):
    with np.errstate(all="ignore"):
        return round_float32(value, "rn", ftz=True)


def _look_up_root(name: str, exponent, mantissa):
    """As `_look_up`, of numbers from 1 to 2 where the exponent is even, from 2 to 4 where odd."""
    odd, even = (_look_up(f"{name} from {begin}", mantissa) for begin in (2, 1))
    return np.where((exponent & 1) == 1, odd, even)


def _look_up(name: str, mantissa):
    """The polynomial's value, an integer in float64."""
    c0, c1, c2, bits, squares = _table(name)
    piece, position = mantissa >> i4(bits), mantissa & i4(2**bits - 1)
    return np.floor(c0[piece] + c1[piece] * position + c2[piece] * squares[position])


@lru_cache
def _table(name: str):
    """(c0, c1, c2, bits of a position, squares), for positions and squares as integers."""
    rows = (line.split(",") for line in TABLES.read_text(encoding="utf-8").splitlines())
    c0, c1, c2 = np.array([numbers for function, *numbers in rows if function == name], f8).T
    bits = MANTISSA - (len(c0).bit_length() - 1)
    scale, bias = 2.0**bits, BIASES.get(name, ROOT_BIAS)
    return c0 / 4 + bias, c1 / 2 / scale, c2 / 2 / scale**2, bits, _truncated_squares(bits)


@lru_cache
def _truncated_squares(bits: int) -> np.ndarray:
    """(2**bits,) float64: the squares of all positions, without the lower partial products."""
    x = np.arange(2**bits)
    lowest = 2 * bits - SQUARE_BITS
    square = np.zeros_like(x)
    for i in range(bits):
        for j in range(i, bits):
            place = 2 * i if i == j else i + j + 1
            if place >= lowest:
                square += ((x >> i) & (x >> j) & 1) << place
    return square.astype(f8)


# --- made of these, or near the hardware's --------------------------------------------------------


def logarithm(x, ftz: bool):
    """lg2.approx.f32: the logarithm to base 2."""
    if ftz:
        return _rounded(np.log2, x)
    small = np.abs(x) < SMALL
    result = _rounded(np.log2, np.where(small, x * f4(2.0**24), x))
    return np.where(small, result - f4(24), result)


def tangent(x, ftz: bool):
    return _rounded(np.tanh, x)


def sine(x, ftz: bool):
    return _rounded(lambda turns: np.sin(2 * np.pi * (turns - np.rint(turns))), _turns(x))


def cosine(x, ftz: bool):
    return _rounded(lambda turns: np.cos(2 * np.pi * (turns - np.rint(turns))), _turns(x))


def _turns(x):
    return round_float32(x.astype(f8) * f8(TURN), "rz")


def _rounded(function, x):
    """`function` of float64, of float32 x: subnormal operands and results are zeros."""
    return round_float32(function(flush(x).astype(f8)), "rn", ftz=True)


def divide_approximately(a, b, full: bool, ftz: bool):
    """div.approx.f32 and div.full.f32: a times the reciprocal of b."""
    if ftz:
        a, b = flush(a), flush(b)
    scale = np.full(np.shape(b), f4(1))
    if full:
        scale = np.where(np.abs(b) > LARGE, f4(0.25), scale)
    if not ftz:
        scale = np.where(np.abs(b) < SMALL, f4(2.0**24), scale)
    exact = (a * scale).astype(f8) * reciprocal(b * scale).astype(f8)
    return round_float32(exact, "rn", ftz)


def reciprocal_root_double(x):
    return 1.0 / np.sqrt(x)


def reciprocal_high(x):
    """rcp.approx.ftz.f64: of the upper word of float64 x, an upper word; the lower one is 0."""
    return _upper_word(1.0 / _upper_word(x))


def reciprocal_root_high(x):
    """rsqrt.approx.ftz.f64, on upper words alone."""
    return _upper_word(1.0 / np.sqrt(_upper_word(x)))


def _upper_word(x):
    """float64 x without its lower 32 bits, and without subnormals."""
    cut = (np.asarray(x).view(u8) & u8(0xFFFF_FFFF_0000_0000)).view(f8)
    return np.where(np.abs(cut) < 2.0**-1022, np.copysign(0.0, cut), cut)
