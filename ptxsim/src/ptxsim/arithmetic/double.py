"""Arithmetic of float64 that NumPy has not: fused multiply-add, and other directions of rounding.

There is no wider type to compute in, so the exact result is a fraction of Python's integers. That
is slow, and rare in the kernels of this kind, except for the fused multiply-add to nearest: that
one is done in float64 wherever no part of it can overflow or underflow (Boldo and Melquiond, as for
float32 in multiply_add.py).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import wraps

import numpy as np

from ptxsim.arithmetic.rounding import sum_to_odd, two_sum

f8 = np.float64
SPLIT = f8(2**27 + 1)
SAFE = 2.0**400  # products and sums of numbers between 1 / SAFE and SAFE do not leave float64


def _on_arrays(function):
    """`function` takes single numbers and a direction; the result, arrays and a direction."""

    @wraps(function)
    def of_arrays(*operands):
        *arrays, direction = operands
        each = np.frompyfunc(lambda *xs: function(*map(float, xs), direction), len(arrays), 1)
        return np.asarray(each(*arrays), f8)

    return of_arrays


def double_fma(a, b, c, direction: str = "rn"):
    """float64 a * b + c, rounded once."""
    a, b, c = np.broadcast_arrays(a, b, c)
    if direction != "rn":
        return _exact_fma(a, b, c, direction)
    high = a * b
    low = _product_error(a, b, high)
    upper, upper_error = two_sum(high, c)
    result = upper + sum_to_odd(upper_error, low)
    result = np.where(upper_error + low == 0, high + c, result)  # keeps the sign of a zero
    unsafe = ~(_safe(a) & _safe(b) & _safe(c))
    if unsafe.any():
        result = np.array(result)
        result[unsafe] = _exact_fma(a[unsafe], b[unsafe], c[unsafe], direction)
    return result


def double_add(a, b, direction: str):
    return _exact_fma(a, f8(1), b, direction)


@_on_arrays
def double_multiply(a, b, direction):
    if not (math.isfinite(a) and math.isfinite(b)) or a == 0 or b == 0:
        return float(f8(a) * f8(b))
    return _rounded(Fraction(a) * Fraction(b), direction)


@_on_arrays
def double_divide(a, b, direction):
    """float64 a / b."""
    if not (math.isfinite(a) and math.isfinite(b)) or a == 0 or b == 0:
        return float(f8(a) / f8(b))
    return _rounded(Fraction(a) / Fraction(b), direction)


@_on_arrays
def double_square_root(x, direction):
    if not math.isfinite(x) or x <= 0:
        return float(np.sqrt(f8(x)))
    exact = Fraction(x)
    # x = n / 4**shift with n of 160 bits or more: its root has enough bits, and one for the rest.
    shift = 160 + exact.denominator.bit_length()
    n = exact.numerator * 4**shift // exact.denominator
    root = math.isqrt(n)
    return _rounded(Fraction(2 * root + (root * root != n), 2 ** (shift + 1)), direction)


@_on_arrays
def _exact_fma(a, b, c, direction):
    if not (math.isfinite(a) and math.isfinite(b)):
        return float(f8(a) * f8(b) + f8(c))
    if not math.isfinite(c):  # whether or not a * b is too large for a float64
        return c
    total = Fraction(a) * Fraction(b) + Fraction(c)
    if total == 0:
        negative = math.copysign(1, a) * math.copysign(1, b) < 0
        if (math.copysign(1, c) < 0) == negative and (a == 0 or b == 0):
            return c  # zeros of like signs
        return -0.0 if direction == "rm" else 0.0
    return _rounded(total, direction)


def _safe(x):
    magnitude = np.abs(x)
    return (magnitude == 0) | ((magnitude > 1 / SAFE) & (magnitude < SAFE))


def _product_error(a, b, product):
    """a * b - product, exactly (Dekker and Veltkamp)."""

    def halves(x):
        scaled = SPLIT * x
        high = scaled - (scaled - x)
        return high, x - high

    (ah, al), (bh, bl) = halves(a), halves(b)
    return ((ah * bh - product) + ah * bl + al * bh) + al * bl


def _rounded(x: Fraction, direction: str) -> float:
    """The float64 next to `x`, which is not 0."""
    magnitude = abs(x)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= magnitude < Fraction(2) ** exponent
    step = Fraction(2) ** (max(exponent, -1022) - 52)
    steps = magnitude / step
    away = (x < 0) == (direction == "rm") if direction in ("rm", "rp") else False
    count = round(steps) if direction == "rn" else math.ceil(steps) if away else math.floor(steps)
    if count * step >= Fraction(2) ** 1024:
        value = math.inf if direction == "rn" or away else float(np.finfo(f8).max)
    else:
        value = float(count * step)
    return -value if x < 0 else value
