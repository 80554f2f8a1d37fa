"""Sums of tcgen05.mma, after MMA-Sim's model of Blackwell's tensor cores (arXiv 2511.10909).

No such GPU was at hand: by the model, products are exact, those of one instruction and the old sum
are added at once (see adding.py), cut off 25 bits below the largest exponent among them, and the
sum is cut off to float32 or rounded to the nearest float16. Scales of kind mxf8f6f4 add to the
exponents of the products. Of the kinds mxf4 and mxf4nvf4, 16 products each are added exactly and
multiplied by the significands of their scales; these, and the old sum, are cut off 35 bits below
the largest exponent of scales and old sum. What the model does not say, the factor 2**-s of the
old sum, is taken as exact.
"""

from __future__ import annotations

import numpy as np

from ptxsim.blackwell import Form
from ptxsim.tensor_cores import adding
from ptxsim.tensor_cores.wgmma import SIGN, Rows, sum_of_integers

f4, f8, i4, i8, u1, u4 = np.float32, np.float64, np.int32, np.int64, np.uint8, np.uint32
SCALED_BITS, SCALED_GROUP = 35, 16  # kept of kinds mxf4 and mxf4nvf4; products added before
ZERO_EXPONENT = -21  # of a term that is zero, where sums are float16
SIGNS = SIGN | {"e2m3": 0x20, "e3m2": 0x20, "e2m1": 0x8}


def multiply(form: Form, a, b, c, scales=None, shift: int = 0) -> np.ndarray:
    """uint32 patterns (groups, m, n) of a b + c 2**-shift.

    `a` (groups, m, k), `b` (groups, n, k): uint32 patterns of elements; `c`: as the result.
    `scales`: patterns uint8 (groups, m, s) and (groups, n, s), of `s` in each row.
    """
    if form.kind == "i8":
        return sum_of_integers(form.types[1:], a, b, c, form.saturate)
    a, b = (
        x ^ u4(SIGNS[kind]) if sign < 0 else x
        for x, kind, sign in zip((a, b), form.types[1:], form.signs, strict=True)
    )
    to = form.types[0]
    old = adding.numbers(c, to) * 2.0**-shift
    if form.kind in ("mxf4", "mxf4nvf4"):
        total = _in_groups(form, a, b, old, scales)
    else:
        total = _at_once(form, a, b, old, to, scales)
    return adding.pattern(adding.narrowed(total, to) + 0.0, to)


def _at_once(form: Form, a, b, old, to: str, scales) -> np.ndarray:
    factors = Rows(*adding.decoded(a, form.types[1]), *adding.decoded(b, form.types[2]))
    exponents = adding.exponents(old, to)
    if to == "f16":
        is_zero = (factors.a == 0).any(axis=2)[:, :, None] | (factors.b == 0).any(axis=2)[:, None]
        floor = np.where(is_zero | (old == 0), ZERO_EXPONENT, adding.OF_ZERO)
        exponents = np.maximum(exponents, floor.astype(exponents.dtype))
    if scales is not None:  # one for each row, a power of two: the old sum is scaled instead
        power = sum_of_exponents(scales)
        exponents = np.where(old == 0, exponents, exponents - power)
        total = adding.add_any(factors, old * adding.power_of_two(-power), exponents, 25)
        total *= adding.power_of_two(power)
        return np.where(is_nan(scales), np.nan, total)
    return adding.add(factors, old, exponents, form.types[1:])


def sum_of_exponents(scales) -> np.ndarray:
    """int64 (groups, m, n) of ue8m0 scales, one in each row of A and column of B."""
    a, b = (s[..., 0].astype(i8) - 127 for s in scales)
    return a[:, :, None] + b[:, None, :]


def is_nan(scales) -> np.ndarray:
    a, b = (s[..., 0] == 0xFF for s in scales)
    return a[:, :, None] | b[:, None, :]


def _in_groups(form: Form, a, b, old, scales) -> np.ndarray:
    a, b = (adding.decoded(x, kind)[0] for x, kind in zip((a, b), form.types[1:], strict=True))
    steps = a.shape[2] // SCALED_GROUP
    spread = steps // scales[0].shape[2]
    values, powers = zip(*(_scales(s, form.scale_type) for s in scales), strict=True)
    terms, exponents = [], [adding.exponents(old, "f32").astype(i8)]
    for step in range(steps):
        k = slice(SCALED_GROUP * step, SCALED_GROUP * (step + 1))
        total = np.matmul(a[:, :, k], b[:, :, k].swapaxes(1, 2)).astype(f8)  # exact
        some = np.matmul(abs(a[:, :, k]), abs(b[:, :, k]).swapaxes(1, 2)) > 0
        at = step // spread
        value = values[0][:, :, None, at] * values[1][:, None, :, at]
        power = powers[0][:, :, None, at] + powers[1][:, None, :, at]
        terms.append(total * value)
        exponents.append(np.where(some & (value != 0), power, adding.OF_ZERO))
    scale = adding.power_of_two(SCALED_BITS - np.clip(np.max(exponents, axis=0), -600, 600))
    return sum((np.trunc(term * scale) for term in terms), np.trunc(old * scale)) / scale


def _scales(bits, scale_type: str):
    """float64 values and int64 exponents."""
    if scale_type == "ue8m0":
        power = bits.astype(i8) - 127
        return np.where(bits == 0xFF, np.nan, adding.power_of_two(power)), power
    values = adding.numbers((bits & 0x7F).astype(u4), "e4m3")
    return values, adding.exponents(values, "e4m3").astype(i8)
