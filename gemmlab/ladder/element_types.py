"""How elements of matrices are stored, and which numbers their bits are: floats and integers.

`encode` and `decode` take NumPy and CuPy arrays alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any  # of NumPy or CuPy


def rounded(values: Array, storage: str) -> Array:
    """Values in the type `storage`, rounded to the nearest."""
    return values.astype(storage, copy=False)


@dataclass(frozen=True)
class ElementType:
    """How the elements of a matrix are stored.

    `storage`: the NumPy type of the arrays, of unsigned integers where NumPy lacks the type.
    `unit_roundoff`: the largest relative error of a rounding to it, 0 where it is exact.
    `smallest_subnormal`: its smallest positive number. `guard`: bits that no arithmetic makes, for
    the cells around a matrix; of integers, which have no such bits, far from what products of
    random numbers are. `decode`: stored numbers as float64; `encode`: float32 from -1 to 1 as
    stored, of integers multiplied by a scale.
    """

    name: str
    storage: str
    unit_roundoff: float
    smallest_subnormal: float
    guard: int
    decode: Callable[[Array], Array] = lambda stored: stored.astype(np.float64)
    encode: Callable[[Array, str], Array] = rounded

    @property
    def bytes(self) -> int:
        return np.dtype(self.storage).itemsize

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number with a whole fraction, of a float."""
        return self.smallest_subnormal / (2 * self.unit_roundoff)

    @property
    def bits(self) -> np.dtype:
        """Unsigned integers of the same size."""
        return np.dtype(f"u{self.bytes}")


def _to_bfloat16(values: Array, storage: str) -> Array:
    """The upper half of a float32, rounded to the nearest, ties to even."""
    bits = values.astype(np.float32).view(np.uint32)
    unit = np.uint32(1)
    return ((bits + (np.uint32(0x7FFF) + (bits >> 16 & unit))) >> 16).astype(storage)


def _from_bfloat16(stored: Array) -> Array:
    return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def _nearest(values: Array, fraction: int, least: int) -> Array:
    """Each with so many bits of the fraction, ties to even, and the exponent `least` or more."""
    exponent = np.maximum(np.frexp(values)[1] - 1, least) - fraction
    return np.ldexp(np.rint(np.ldexp(values.astype(np.float64), -exponent)), exponent)


# What E5M2 holds is a float16 whose last eight bits are 0. E4M3 has the bias 7 instead of 15: a
# number is 2**8 times the float16 with the same bits of exponent and fraction.


def _to_e5m2(values: Array, storage: str) -> Array:
    return (_nearest(values, 2, -14).astype(np.float16).view(np.uint16) >> 8).astype(storage)


def _from_e5m2(stored: Array) -> Array:
    return (stored.astype(np.uint16) << 8).view(np.float16).astype(np.float64)


def _to_e4m3(values: Array, storage: str) -> Array:
    bits = (_nearest(values, 3, -6) * 2.0**-8).astype(np.float16).view(np.uint16)
    return (bits >> 8 & 0x80 | bits >> 7 & 0x7F).astype(storage)


def _from_e4m3(stored: Array) -> Array:
    bits = stored.astype(np.uint16)
    halves = ((bits & 0x80) << 8 | (bits & 0x7F) << 7).view(np.float16)
    numbers = halves.astype(np.float64) * 2.0**8
    numbers[(bits & 0x7F) == 0x7F] = np.nan
    return numbers


def _whole(scale: float) -> Callable[[Array, str], Array]:
    """From [-1, 1) to whole numbers, from -scale to below scale."""
    return lambda values, storage: np.floor(values * np.float32(scale)).astype(storage)


FLOAT32 = ElementType("float32", "float32", 2.0**-24, 2.0**-149, 0x7FC0BEEF)
FLOAT16 = ElementType("float16", "float16", 2.0**-11, 2.0**-24, 0x7EEF)
BFLOAT16 = ElementType(
    "bfloat16", "uint16", 2.0**-8, 2.0**-133, 0x7FEF, _from_bfloat16, _to_bfloat16
)
E4M3 = ElementType("float8_e4m3", "uint8", 2.0**-4, 2.0**-9, 0x7F, _from_e4m3, _to_e4m3)
E5M2 = ElementType("float8_e5m2", "uint8", 2.0**-3, 2.0**-16, 0x7F, _from_e5m2, _to_e5m2)
INT8 = ElementType("int8", "int8", 0.0, 1.0, 0x7F, encode=_whole(2.0**7))
INT32 = ElementType("int32", "int32", 0.0, 1.0, 0x7EEFBEEF, encode=_whole(2.0**10))
