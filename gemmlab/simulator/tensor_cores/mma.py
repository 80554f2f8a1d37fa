"""Products of small matrices, as the tensor cores compute them.

Integers are exact. Of floats, an NVIDIA H200 adds the products of a group of k, up to 16 of them,
and the old sum at once, and does it so:

1. Products are exact. Each has the exponent of its factors together; that of a subnormal factor is
   the smallest there is. The old sum takes part as it is.
2. All are aligned to the largest exponent among them and cut off 25 bits below it: towards zero.
3. What is left is added exactly, and the sum cut off to float32, or rounded to the nearest float16.

The result is subnormal where it must be, infinite from 2**128 on, never -0, and a NaN has all bits
set but its sign. Every result recorded on the H200 is met bit for bit: see
tests/recorded/record_tensor.py. GPUs of other generations add smaller groups and keep fewer bits.

Factors of 8 bits become f16 there, for two products, as the GPU's assembler has it: of the elements
k with k % 4 < 2 from 0 on, then of the others onto that. The old sum is added last, and rounded.

Matrices are (rows, columns, warps) here: NumPy then works along the warps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from gemmlab.cuda.architectures import WARP
from gemmlab.simulator.arithmetic import rounding
from gemmlab.simulator.tensor_cores.fragments import Fragment

f2, f4, f8 = np.float16, np.float32, np.float64
i2, i4, i8, u2, u4, u8 = np.int16, np.int32, np.int64, np.uint16, np.uint32, np.uint64

KEPT_BITS = 25  # below the largest exponent
# type -> the exponent of its subnormal numbers
LOWEST = {"f16": -14, "bf16": -126, "tf32": -126, "f32": -126, "e4m3": -6, "e5m2": -14}
# type -> bits of an element
BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s32": 32,
    "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8,
}  # fmt: skip
OF_ZERO = -10000  # an exponent that no other is smaller than, also added to another
NAN = {"f32": u4(0x7FFFFFFF), "f16": u4(0x7FFF)}
LEAST = -100  # the lowest exponent of a product for which the quick way is taken
WARPS_AT_ONCE = 256  # whose sums fit into a processor's cache


@dataclass(frozen=True)
class Product:
    """d = a @ b + c for the warps that execute it.

    `types`: of d, a, b, c; `fragments`: theirs; `group`: how many products are added at once;
    `inner`: the type in which float sums are kept; `saturate`: whether integer sums stop at the
    ends of their range.
    """

    types: tuple[str, str, str, str]
    fragments: tuple[Fragment, Fragment, Fragment, Fragment]
    group: int
    inner: str
    saturate: bool = False

    def run(self, lanes, index: int, a, b, c, mask):
        """Registers of d. `a`, `b`, `c`: registers of all lanes."""
        check_whole_warps(lanes, index, mask)
        lanes.count_product(*self._work, mask)
        matrices = [
            fragment.matrix(to_columns(lanes, registers))
            for fragment, registers in zip(self.fragments[1:], (a, b, c), strict=True)
        ]
        compute = self._integers if self.types[0] == "s32" else self._floats
        result = np.concatenate(
            [
                compute(*(m[..., first : first + WARPS_AT_ONCE] for m in matrices))
                for first in range(0, matrices[0].shape[-1], WARPS_AT_ONCE)
            ],
            axis=-1,
        )
        return from_columns(lanes, self.fragments[0].fill(result))

    @cached_property
    def _work(self) -> tuple[int, int, int]:
        """Multiply-adds of a warp, and how many HMMA and IMMA do them: 16×8 sums each."""
        (m, n), k = self.fragments[0].shape, self.fragments[1].shape[1]
        if self.types[0] == "s32":
            return m * n * k, 0, max(1, m * n // 128)
        steps = 2 if BITS[self.types[1]] == 8 else -(-k // self.group)
        return m * n * k, m * n // 128 * steps, 0

    def _integers(self, a, b, c):
        a, b = (
            bits.astype(np.int8 if kind == "s8" else np.uint8).astype(i4)
            for bits, kind in zip((a, b), self.types[1:3], strict=True)
        )
        total = c.view(i4).astype(i8)
        for k in range(len(b)):
            total += a[:, k, None] * b[k]
        if self.saturate:
            limits = np.iinfo(i4)
            total = np.clip(total, limits.min, limits.max)
        return total.astype(i4).view(u4)

    def _floats(self, a, b, c):
        d_type, a_type, b_type, c_type = self.types
        c = numbers(c, c_type)
        if BITS[a_type] == 8:
            return self._of_eight_bits(a, b, c)
        a, a_exponents = decoded(a, a_type)
        b, b_exponents = decoded(b, b_type)
        for k in range(0, len(b), self.group):
            part = slice(k, k + self.group)
            factors = a[:, part], a_exponents[:, part], b[part], b_exponents[part]
            c = summed(factors, c, a_type, self.inner)
        return pattern(c if d_type == self.inner else _narrowed(c, d_type), d_type)

    def _of_eight_bits(self, a, b, c):
        d_type, a_type, b_type, _ = self.types
        a, b = numbers(a, a_type), numbers(b, b_type)
        k, total = np.arange(len(b)) % 4, np.zeros_like(c)
        for part in (k < 2, k >= 2):
            a_part, b_part = a[:, part], b[part]
            factors = (
                a_part.astype(f4), exponents(a_part, "f16"),
                b_part.astype(f4), exponents(b_part, "f16"),
            )  # fmt: skip
            total = summed(factors, total, "f16", d_type)
        return pattern((total + c).astype(f2 if d_type == "f16" else f4).astype(f8), d_type)


def summed(factors, c, ptx_type: str, to: str, kept: int = KEPT_BITS):
    """float64: the products of a group and `c` added as above, with the value of a `to`.

    `factors`: values of a (float32), their exponents (int16), the same of b, along k in the second
    axis of a and the first of b; `ptx_type`: of a. `kept`: bits below the largest exponent that are
    not cut off, and of the sum.
    """
    moderate = _is_moderate((factors[1], factors[3]), ptx_type) and np.isfinite(c).all()
    add = _add_moderate if moderate else _add
    total = add(*factors, c, exponents(c, to), kept)
    return _narrowed(total, to, kept) + 0.0  # a sum is never -0


def _add(a, a_exponents, b, b_exponents, c, c_exponents, kept: int):
    """float64: the products of a group and `c` added, each cut off below the largest exponent."""
    largest = _largest(a_exponents, b_exponents, c_exponents)
    # Where all is zero, or not finite, any scale will do.
    largest = np.where(np.abs(largest) > 600, 0, largest)
    scale = power_of_two(kept - largest)
    total = np.trunc(c * scale)
    for k in range(len(b)):
        term = a[:, k, None].astype(f8) * b[k].astype(f8)
        term *= scale
        total += np.trunc(term, out=term)
    return total * power_of_two(largest - kept)


def _add_moderate(a, a_exponents, b, b_exponents, c, c_exponents, kept: int):
    """As `_add`, where the products are moderate: four times as fast.

    A product has at most 22 bits, so it is exact in float32, also when it is cut off; and 16 of
    them, each below 4 * 2**KEPT_BITS, fit into int32, to which a conversion cuts off.
    """
    largest = _largest(a_exponents, b_exponents, c_exponents)
    largest = np.where(largest < 2 * LOWEST["f32"], 0, largest)  # all is zero
    # Below LEAST no product is other than zero.
    scale = power_of_two(kept - np.maximum(largest, LEAST)).astype(f4)
    total = np.zeros(scale.shape, i4)
    term, whole = np.empty(scale.shape, f4), np.empty(scale.shape, i4)
    for k in range(len(b)):
        np.multiply(a[:, k, None], b[k], out=term)
        np.multiply(term, scale, out=term)
        whole[...] = term
        total += whole
    exact = total + np.trunc(c * power_of_two(kept - largest))
    return exact * power_of_two(largest - kept)


def _largest(a_exponents, b_exponents, c_exponents):
    """int64: the largest exponent of the products of a group and of c."""
    largest, one = c_exponents.copy(), np.empty_like(c_exponents)
    for k in range(len(b_exponents)):
        np.add(a_exponents[:, k, None], b_exponents[k], out=one)
        np.maximum(largest, one, out=largest)
    return largest.astype(i8)


def _is_moderate(exponents_of, ptx_type: str) -> bool:
    """Whether products of numbers with these exponents are far from the ends of float32.

    Infinities and NaN have an exponent past all others.
    """
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
    if BITS[ptx_type] == 8:
        return rounding.from_eight_bits(bits, ptx_type)
    if ptx_type == "bf16":
        bits = bits << u4(16)
    elif ptx_type == "tf32":
        bits = bits & u4(0xFFFFE000)
    return bits.view(f4).astype(f8)


def exponents(values, ptx_type: str):
    """int16 exponents of numbers of this type, given as float64."""
    found = (values.view(i8) >> 52 & 0x7FF).astype(i2) - i2(1023)
    found = np.maximum(found, i2(LOWEST[ptx_type]))
    return np.where(values == 0, i2(OF_ZERO), found)


def power_of_two(exponent):
    """float64, of int64 in the normal range."""
    return (exponent + 1023 << 52).view(f8)


def _narrowed(values, ptx_type: str, kept: int = KEPT_BITS):
    """float64 with the value as a float32, cut off, or as the nearest float16."""
    if ptx_type == "f16":
        return values.astype(f2).astype(f8)
    cut = (values.view(u8) & ~u8((1 << 52 - min(kept, 23)) - 1)).view(f8)
    small = np.abs(values) < 2.0**-126
    if small.any():
        cut = np.where(small, np.trunc(values * 2.0**149) * 2.0**-149, cut)
    return cut.astype(f4).astype(f8)


def pattern(values, ptx_type: str):
    """float64 values of this type as uint32 patterns."""
    bits = (
        values.astype(f2).view(u2).astype(u4) if ptx_type == "f16" else values.astype(f4).view(u4)
    )
    return np.where(np.isnan(values), NAN[ptx_type], bits)


# --- lanes and warps ------------------------------------------------------------------------------


def to_columns(lanes, registers) -> np.ndarray:
    """uint32 (registers, 32, warps) from one array of all lanes for each register."""
    rows = [lanes.layout.to_warps(value) for value in registers]
    return np.stack([row.view(u4).T for row in rows])


def from_columns(lanes, registers: np.ndarray) -> list[np.ndarray]:
    """The reverse of `to_columns`, as int32."""
    return [lanes.layout.from_warps(column.T).view(i4) for column in registers]


def check_whole_warps(lanes, index: int, mask) -> None:
    """Find warps of which only a part executes an instruction that is `.aligned`."""
    if mask is True and lanes.layout.threads % WARP == 0:
        return
    rows = lanes.layout.to_warps(np.broadcast_to(mask, lanes.shape)).copy()
    spare = -lanes.layout.threads % WARP
    if spare:
        rows.reshape(lanes.layout.blocks, -1)[:, -spare:] = False
    part = rows & ~rows.all(axis=1, keepdims=True)
    if part.any():
        what = "only a part of the warp executes it, and all 32 lanes must"
        lanes.find("divergent warp", index, what, lanes.layout.from_warps(part))
