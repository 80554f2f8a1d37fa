"""Conversions of numbers: through float64, rounded once.

Narrow floats (float16 and bfloat16) come as float32, which holds them exactly, and go as their 16
bits.
"""

from __future__ import annotations

import numpy as np

from ptxsim.arithmetic import halves, rounding
from ptxsim.arithmetic.float32 import WHOLE

f8, u2, u4 = np.float64, np.uint16, np.uint32


def to_float(x, to: str, mode: str, limit: str | None, ftz: bool):
    """A number of any type to "f16" or "bf16" (16 bits), "f32" or "f64".

    `mode`: a direction, or one of WHOLE: round to an integer first. `limit`: "sat" or "relu".
    """
    exact = rounding.integer_to_odd(x) if x.dtype.kind in "iu" else x.astype(f8)
    if mode in WHOLE:
        exact, mode = WHOLE[mode](exact), "rn"
    if to in ("f16", "bf16"):
        if limit == "sat":
            exact = rounding.saturate(exact)
        return _narrow(exact, to, mode, limit)
    if to == "f32":
        result = rounding.round_float32(exact, mode, ftz)
    elif x.dtype.kind in "iu":
        result = _integer_to_double(x, mode)
    else:
        result = exact
    return rounding.saturate(result) if limit == "sat" else result


def _narrow(x, to: str, mode: str, limit: str | None):
    bits = halves.TO_BITS[to](x, mode)
    if limit == "relu":  # NaN stays NaN
        bits = np.where((bits >= halves.SIGN) & ~np.isnan(x), u2(0), bits)
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


def to_tf32(x, mode: str, relu: bool):
    bits = rounding.to_tf32(x, mode)
    return np.where((bits < 0) & ~np.isnan(x), np.int32(0), bits) if relu else bits


def pair_of_halves(high, low, name: str, mode: str, limit: str | None):
    """Two float32 as two narrow floats (uint32)."""
    high, low = (_narrow(x.astype(f8), name, mode, limit).astype(u4) for x in (high, low))
    return low | high << u4(16)


def pair_of_eight_bits(high, low, name: str, relu: bool):
    """Two floats as two of 8 bits (uint16)."""
    high, low = (
        rounding.to_eight_bits(np.where((x <= 0) & relu, 0.0, x.astype(f8)), name)
        for x in (high, low)
    )
    return low | high << u2(8)


def halves_of_eight_bits(bits, name: str, relu: bool):
    """Two floats of 8 bits (uint16) as two float16 (uint32)."""
    low, high = (
        _narrow(rounding.from_eight_bits(bits >> u2(s) & u2(0xFF), name), "f16", "rn",
                "relu" if relu else None).astype(u4)
        for s in (0, 8)
    )  # fmt: skip
    return low | high << u4(16)


def eight_bits_of_halves(bits, name: str, relu: bool):
    """Two float16 (uint32) as two floats of 8 bits (uint16)."""
    low, high = (rounding.from_float16((bits >> u4(s)).astype(u2)) for s in (0, 16))
    return pair_of_eight_bits(high, low, name, relu)
