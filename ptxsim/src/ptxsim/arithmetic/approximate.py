"""The approximate functions of a GPU's special function unit, as the instructions use them.

The unit knows eight functions of a float32. Four are in special_functions.py, bit for bit; the
other four are here the exact value rounded to nearest, which the hardware's result is near: how
near stands in docs/instructions.md. The instructions are what the GPU's compiler makes of them,
step by step.
"""

from __future__ import annotations

import numpy as np

from ptxsim.arithmetic import special_functions
from ptxsim.arithmetic.float32 import flush
from ptxsim.arithmetic.rounding import round_float32

f4, f8, u8 = np.float32, np.float64, np.uint64

TURN = f4(0.15915493667125702)  # 1 / 2π
SMALL, LARGE = f4(2.0**-126), f4(2.0**126)


def reciprocal(x, ftz: bool):
    """rcp.approx.f32: operands that are too small or large are scaled by a power of two."""
    if ftz:
        return special_functions.reciprocal(x)
    scale = np.where(np.abs(x) > LARGE, f4(0.25), np.where(np.abs(x) < SMALL, f4(2.0**24), f4(1)))
    return scale * special_functions.reciprocal(x * scale)


def root(x, ftz: bool):
    return special_functions.root(x) if ftz else _scaled(special_functions.root, x, f4(2.0**-12))


def reciprocal_root(x, ftz: bool):
    function = special_functions.reciprocal_root
    return function(x) if ftz else _scaled(function, x, f4(2.0**12))


def _scaled(function, x, back):
    small = np.abs(x) < SMALL
    result = function(np.where(small, x * f4(2.0**24), x))
    return np.where(small, result * back, result)


def power(x, ftz: bool):
    """ex2.approx.f32: 2**x."""
    if ftz:
        return special_functions.power(x)
    low = x < f4(-126)
    result = special_functions.power(np.where(low, x * f4(0.5), x))
    return np.where(low, result * result, result)


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
    exact = (a * scale).astype(f8) * special_functions.reciprocal(b * scale).astype(f8)
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
