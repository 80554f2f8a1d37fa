"""Sums of the tensor cores: formats of operands, alignment, truncation.

Of floats, an NVIDIA H200 adds the products of a group of k, up to 16 of them (32 of 8-bit floats),
and the old sum at once, and does it so:

1. Products are exact. Each has the exponent of its factors together; that of a subnormal factor is
   the smallest there is. The old sum takes part as it is.
2. All are aligned to the largest exponent among them and cut off 25 bits below it, or 13: towards
   zero.
3. What is left is added exactly, and the sum cut off to float32, or to 13 bits, or rounded to the
   nearest float16.

The result is subnormal where it must be, infinite from 2**128 on, never -0, and a NaN has all bits
set but its sign. Every result recorded on the H200 is met bit for bit: see
hardware/record_tensor.py and record_wgmma.py.

GPUs of other generations add smaller groups and keep fewer bits, by the model of MMA-Sim (Xie et
al., arXiv 2511.10909; package mmasim 2.1.1). In its words for mma.sync: `L_max` bytes of a row of A
are added at once, and `F` bits kept; tests/test_other_gpus.py has what it computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from ptxsim.arithmetic import rounding

f2, f4, f8 = np.float16, np.float32, np.float64
i2, i4, i8, u2, u4, u8 = np.int16, np.int32, np.int64, np.uint16, np.uint32, np.uint64

KEPT_BITS = 25  # below the largest exponent


@dataclass(frozen=True)
class Generation:
    """How its mma.sync adds: how many bytes of a row of A at once, and how many bits it keeps.

    `kept_of_eight`: of floats of 8 bits, if there is a rule for them.
    """

    name: str
    row_bytes: int
    kept: int
    kept_of_eight: int | None = None


AMPERE = Generation("Ampere", 16, 24)
GENERATIONS = {  # as MMA-Sim has them; the H200's are not among them
    "sm_75": Generation("Turing", 16, 24), "sm_80": AMPERE, "sm_86": AMPERE, "sm_87": AMPERE,
    "sm_89": Generation("Ada Lovelace", 16, 24, 13),
    "sm_100": Generation("Blackwell", 32, 25), "sm_120": Generation("RTX Blackwell", 32, 25, 25),
}  # fmt: skip
# type -> the exponent of its subnormal numbers
LOWEST = {
    "f16": -14, "bf16": -126, "tf32": -126, "f32": -126, "e4m3": -6, "e5m2": -14,
    "e2m3": 0, "e3m2": -2, "e2m1": 0,
}  # fmt: skip
# type -> bits of an element
BITS = {
    "f64": 64, "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s32": 32,
    "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4,
}  # fmt: skip
KINDS_OF_FLOATS = {"f16", "bf16", "tf32", "e4m3", "e5m2"}
OF_ZERO = -10000  # an exponent that no other is smaller than, also added to another
NAN = {"f32": u4(0x7FFFFFFF), "f16": u4(0x7FFF)}
LEAST = -100  # the lowest exponent of a product for which the quick way is taken


@dataclass(frozen=True)
class Factors:
    """Factors of the products that are added at once; later axes broadcast."""

    a: np.ndarray  # float32 (m, k, …)
    a_exponents: np.ndarray  # int16
    b: np.ndarray  # float32 (k, n, …)
    b_exponents: np.ndarray

    exponent_type: ClassVar[type[np.generic]] = i2

    @property
    def count(self) -> int:
        return len(self.b)

    def product(self, k: int, out) -> None:
        """The products of step k, as float32 or float64."""
        np.multiply(self.a[:, k, None], self.b[k], out=out, dtype=out.dtype)

    def exponent(self, k: int, out) -> None:
        np.add(self.a_exponents[:, k, None], self.b_exponents[k], out=out)


def summed(factors, c, ptx_type: str, to: str, kept: int = KEPT_BITS):
    """float64: the products of Factors and `c`, added as above to a `to`; `kept`: bits kept."""
    total = add(factors, c, exponents(c, to), (ptx_type,), kept)
    return narrowed(total, to, kept) + 0.0  # a sum is never -0


def add(factors: Factors, c, c_exponents, ptx_types, kept: int = KEPT_BITS):
    """float64: as `add_any`, the quicker way where all is moderate. `ptx_types`: of A and B."""
    moderate = all(is_moderate(factors, kind) for kind in ptx_types) and np.isfinite(c).all()
    return (add_moderate if moderate else add_any)(factors, c, c_exponents, kept)


def add_any(factors: Factors, c, c_exponents, kept: int):
    """float64: the products of a group and `c` added, each cut off below the largest exponent."""
    largest = _largest(factors, c_exponents)
    # Where all is zero, or not finite, any scale will do.
    scale = power_of_two(kept - np.clip(largest, -600, 600))
    total = np.trunc(c * scale)
    term = np.empty_like(total)
    for k in range(factors.count):
        factors.product(k, term)
        term *= scale
        total += np.trunc(term, out=term)
    return total / scale


def add_moderate(factors: Factors, c, c_exponents, kept: int):
    """As `add_any`, where the products are moderate: four times as fast.

    A product has at most 22 bits, so it is exact in float32, also when it is cut off; and 16 of
    them, each below 4 * 2**KEPT_BITS, fit into int32, to which a conversion cuts off.
    """
    largest = _largest(factors, c_exponents)
    of_sum = power_of_two(kept - np.maximum(largest, 2 * LOWEST["f32"]))
    # Below LEAST no product is other than zero.
    scale = np.minimum(of_sum, 2.0 ** (kept - LEAST)).astype(f4)
    total = np.zeros(scale.shape, i4 if factors.count <= 1 << 29 - kept else i8)
    term, whole = np.empty(scale.shape, f4), np.empty(scale.shape, i4)
    for k in range(factors.count):
        factors.product(k, term)
        np.multiply(term, scale, out=term)
        whole[...] = term
        total += whole
    exact = np.trunc(c * of_sum)
    exact += total
    return np.divide(exact, of_sum, out=exact)


def _largest(factors: Factors, c_exponents):
    largest = c_exponents.astype(factors.exponent_type)
    exponents = np.empty_like(largest)
    for k in range(factors.count):
        factors.exponent(k, exponents)
        np.maximum(largest, exponents, out=largest)
    return largest.astype(i8)


def is_moderate(factors: Factors, ptx_type: str) -> bool:
    """Whether the products are far from the ends of float32, infinities and NaN among these."""
    exponents_of = factors.a_exponents, factors.b_exponents
    if sum(int(e.max(initial=0)) for e in exponents_of) >= -LEAST:
        return False
    if 2 * LOWEST[ptx_type] > LEAST:
        return True
    return sum(int(e.min(where=e != OF_ZERO, initial=0)) for e in exponents_of) > LEAST


@cache
def _table(ptx_type: str):
    """Of all patterns of 8 or 16 bits: values (float32) and exponents (int16)."""
    values = numbers(np.arange(1 << BITS[ptx_type], dtype=u4), ptx_type)
    return values.astype(f4), exponents(values, ptx_type)


def decoded(bits, ptx_type: str):
    """float32 values and int16 exponents of patterns of floats of up to 16 bits, or of tf32."""
    if ptx_type == "tf32":
        values = numbers(bits, ptx_type)
        return values.astype(f4), exponents(values, ptx_type)
    values, powers = _table(ptx_type)
    return values.take(bits), powers.take(bits)


def numbers(bits, ptx_type: str):
    """uint32 patterns as float64. Of tf32 the lowest 13 bits do not count."""
    if ptx_type == "f16":
        return bits.astype(u2).view(f2).astype(f8)
    if ptx_type in rounding.FEW_BITS:
        return rounding.from_few_bits(bits, ptx_type)
    if ptx_type == "bf16":
        bits = bits << u4(16)
    elif ptx_type == "tf32":
        bits = bits & u4(0xFFFFE000)
    return bits.view(f4).astype(f8)


def exponents(values, ptx_type: str):
    """int16 exponents of numbers of this type, given as float64."""
    exponent = (values.view(i8) >> 52 & 0x7FF).astype(i2) - i2(1023)
    exponent = np.maximum(exponent, i2(LOWEST[ptx_type]))
    return np.where(values == 0, i2(OF_ZERO), exponent)


def power_of_two(exponent):
    return (exponent + 1023 << 52).view(f8)


def narrowed(values, ptx_type: str, kept: int = KEPT_BITS):
    """float64 with the value as a float32, cut off, or as the nearest float16."""
    if ptx_type == "f16":
        return values.astype(f2).astype(f8)
    cut = (values.view(u8) & ~u8((1 << 52 - min(kept, 23)) - 1)).view(f8)
    small = np.abs(values) < 2.0**-126
    if small.any():
        cut = np.where(small, np.trunc(values * 2.0**149) * 2.0**-149, cut)
    return cut.astype(f4).astype(f8)


def integers(bits, ptx_type: str):
    """uint32 patterns of "s8" or "u8" as float32, in which the sum of 32 products is exact."""
    return bits.astype(np.int8 if ptx_type == "s8" else np.uint8).astype(f4)


def integer_pattern(sums, saturate: bool):
    """int64 sums as uint32 patterns: modulo 2**32, or stopping at the ends of int32."""
    if saturate:
        limits = np.iinfo(i4)
        sums = np.clip(sums, limits.min, limits.max)
    return sums.astype(i4).view(u4)


def pattern(values, ptx_type: str):
    """float64 values of this type as uint32 patterns."""
    bits = (
        values.astype(f2).view(u2).astype(u4) if ptx_type == "f16" else values.astype(f4).view(u4)
    )
    return np.where(np.isnan(values), NAN[ptx_type], bits)
