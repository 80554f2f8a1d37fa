"""MXFP8 and NVFP4: narrow elements with a scale for each block of neighbours along K.

MXFP8 is of the Open Compute Project, "Microscaling Formats (MX) v1.0": elements of E4M3, and for 32
of them a scale of E8M0, a power of two. NVFP4 is NVIDIA's: elements of E2M1, and for 16 of them a
scale of E4M3 without a sign; a factor for the whole matrix, in float32, comes on top.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gemmlab.ladder.precision import (
    E4M3,
    FLOAT16,
    HALF,
    ElementType,
    Precision,
    Scales,
)
from gemmlab.ladder.problem import Problem

STAGE_BYTES = 128  # of a row of A or B in a stage
ROWS = 128  # of an atom of scales, and of a tile
LANES, IN_A_WORD = 32, 4  # of an atom: rows that follow one another, scales of a row
HALF_ATOM = 256  # bytes, the longest row of a box
LARGEST_E4M3 = 448.0
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])  # by the three lower bits
# Between which magnitudes of E2M1 a number lies halfway; ties go to the even code.
HALFWAY = np.array(
    [0.25, np.nextafter(0.75, 0), 1.25, np.nextafter(1.75, 0), 2.5, np.nextafter(3.5, 0), 5]
)


def _to_e2m1(values: np.ndarray) -> np.ndarray:
    code = sum(np.abs(values) > halfway for halfway in HALFWAY)  # of NumPy and of CuPy
    return (code | np.signbit(values) << 3).astype(np.uint8)


def _from_e2m1(code: np.ndarray) -> np.ndarray:
    magnitude = sum(rise * ((code & 7) >= step) for step, rise in enumerate(np.diff(E2M1), 1))
    return magnitude * (1.0 - (code >> 3) * 2.0)  # no look-up: of NumPy and of CuPy


def _unpacked(pairs: np.ndarray) -> np.ndarray:
    """Two codes of 4 bits from each byte, the lower half first: (…, K) to (…, 2 · K)."""
    both = np.stack([pairs & 15, pairs >> 4], axis=-1)
    return both.reshape(*pairs.shape[:-1], 2 * pairs.shape[-1])


def _to_e4m3(values: np.ndarray) -> np.ndarray:
    return E4M3.encode(np.clip(values, -LARGEST_E4M3, LARGEST_E4M3), E4M3.storage)


def _to_e8m0(amax: np.ndarray) -> np.ndarray:
    """The power of two with which the largest element keeps E4M3's largest exponent, 8."""
    exponent = np.frexp(np.where(amax > 0, amax, 1.0))[1] - 1
    return np.clip(exponent - 8 + 127, 0, 254).astype(np.uint8)


def _from_e8m0(code: np.ndarray) -> np.ndarray:
    return np.ldexp(1.0, code.astype(int) - 127)


@dataclass(frozen=True)
class Format:
    """`number`: of the kernel's setting FORMAT. `block`: elements along K with one scale. `encode`,
    `decode`: of elements, float64 to codes of `bits` bits and back; `encode_scale`: the scale of
    blocks with these largest magnitudes."""

    name: str
    number: int
    bits: int
    block: int
    encode: Callable[[np.ndarray], np.ndarray]
    decode: Callable[[np.ndarray], np.ndarray]
    encode_scale: Callable[[np.ndarray], np.ndarray]
    decode_scale: Callable[[np.ndarray], np.ndarray]

    @property
    def stage(self) -> int:
        """Elements along K in a stage."""
        return 8 * STAGE_BYTES // self.bits

    @property
    def atoms(self) -> int:
        """Of scales, for 128 rows of a stage."""
        return self.stage // self.block // IN_A_WORD


MXFP8 = Format("MXFP8", 0, 8, 32, _to_e4m3, E4M3.decode, _to_e8m0, _from_e8m0)
NVFP4 = Format(
    "NVFP4", 1, 4, 16, _to_e2m1, _from_e2m1,
    lambda amax: np.maximum(_to_e4m3(amax / 6), np.uint8(amax > 0)), E4M3.decode,
)  # fmt: skip
FORMATS = (MXFP8, NVFP4)


@dataclass(frozen=True)
class Scaled:
    """A matrix of rows along K. `bytes`: uint8 (rows, K · bits / 8), the first of two elements in
    the lower half of a byte. `scales`: uint8 (rows, K / block). `factor`: of the whole matrix."""

    format: Format
    bytes: np.ndarray
    scales: np.ndarray
    factor: float = 1.0

    def numbers(self) -> np.ndarray:
        """float64 (rows, K)."""
        codes = self.bytes if self.format.bits == 8 else _unpacked(self.bytes)
        scales = np.repeat(self.format.decode_scale(self.scales), self.format.block, axis=1)
        return self.format.decode(codes) * scales * self.factor

    def in_atoms(self) -> np.ndarray:
        """The scales as the kernel's tensor map takes them: uint8 (half atoms, 256)."""
        wide = -(-self.bytes.shape[1] // STAGE_BYTES)
        return in_atoms(self.scales, wide * self.format.atoms * IN_A_WORD)


def in_atoms(scales: np.ndarray, blocks: int) -> np.ndarray:
    """(half atoms, 256), of the type of `scales`. The atoms of 128 rows along K, then those of the
    next 128; zeros where there are no rows, and up to so many blocks."""
    rows, there = scales.shape
    padded = np.pad(scales, ((0, -rows % ROWS), (0, blocks - there)))
    words = padded.reshape(-1, ROWS // LANES, LANES, blocks // IN_A_WORD, IN_A_WORD)
    return words.transpose(0, 3, 2, 1, 4).reshape(-1, HALF_ATOM)


def from_atoms(atoms: np.ndarray, rows: int) -> np.ndarray:
    """The scales of so many rows: uint8 (rows, blocks along K, with those that pad it)."""
    tall = -(-rows // ROWS)
    words = atoms.reshape(tall, -1, LANES, ROWS // LANES, IN_A_WORD).transpose(0, 3, 2, 1, 4)
    return words.reshape(tall * ROWS, -1)[:rows]


def quantized(values: np.ndarray, to: Format) -> Scaled:
    """float (rows, K) in blocks with a scale each; K is a multiple of 32. Where scales are E4M3 the
    matrix has a factor, with which the largest scale is the largest number of E4M3."""
    largest = float(np.abs(values).max(initial=0.0))
    factor = largest / (LARGEST_E4M3 * E2M1[-1]) if to is NVFP4 and largest else 1.0
    blocks = (values / factor).reshape(len(values), -1, to.block)
    scales = to.encode_scale(np.abs(blocks).max(axis=-1))
    factors = to.decode_scale(scales)[..., None]
    codes = to.encode(np.divide(blocks, factors, out=np.zeros_like(blocks), where=factors > 0))
    codes = codes.reshape(values.shape)
    if to.bits == 4:
        codes = codes[:, 0::2] | codes[:, 1::2] << 4
    return Scaled(to, codes, scales, factor)


# ---- as kernels take them ------------------------------------------------------------------------


@dataclass(frozen=True)
class InAtoms(Scales):
    """Scales of blocks along K, as Scaled.in_atoms has them. K counts bytes."""

    format: Format = MXFP8

    def _shape(self, lines: int, together: int, problem: Problem) -> tuple[int, ...]:
        stages = -(-problem.k // STAGE_BYTES)
        return -(-lines // ROWS) * stages * self.format.atoms * 2, HALF_ATOM

    def of_random(self, values: np.ndarray) -> np.ndarray:
        if self.format is MXFP8:
            return (126 + np.floor(values * np.float32(1.5) + np.float32(1.5))).astype(np.uint8)
        return E4M3.encode(values + np.float32(1.5), E4M3.storage)

    def of_rows(self, scale: np.ndarray, rows: np.ndarray, problem: Problem) -> np.ndarray:
        scales = from_atoms(scale, problem.m)[rows]
        return in_atoms(scales, scales.shape[1])

    def spread(self, scale: np.ndarray, together: int, lines: int, k: int) -> np.ndarray:
        factors = self.format.decode_scale(from_atoms(scale, lines))
        return factors.repeat(self.format.block, axis=1)[:, : k * 8 // self.format.bits]


def _pairs(values: np.ndarray, storage: str) -> np.ndarray:
    """The code of a number from -1 to 1, and above it that of six times the number."""
    return (_to_e2m1(values) | _to_e2m1(6 * values) << 4).astype(storage)


BYTE = ElementType("a scale of 8 bits", "uint8", 0.0, 1.0, 0)
E2M1_PAIR = ElementType(
    "two float4_e2m1", "uint8", 2.0**-2, 0.5, 0, lambda pairs: _from_e2m1(_unpacked(pairs)), _pairs
)


def _precision(format: Format, element: ElementType) -> Precision:
    scales = InAtoms(format.name, 1, 1, format.block, BYTE, format)
    name = format.name.lower()
    return replace(HALF, name=name, a=element, b=element, c=FLOAT16, scales=scales)


PRECISIONS = (_precision(MXFP8, E4M3), _precision(NVFP4, E2M1_PAIR))  # by the values of FORMAT
