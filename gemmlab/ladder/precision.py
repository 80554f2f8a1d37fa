"""How elements of A, B, C and the sums are stored, scales of 8-bit floats, and how many errors
sums make.

The bounds are derived in gemmlab.kernel.bounds, where their sources are named. `encode` and
`decode` take NumPy and CuPy arrays alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gemmlab.ladder.problem import Problem

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


# ---- what a kernel multiplies, and how exactly --------------------------------------------------

CUT = 2.0**-10  # the largest relative error of a float32 of which 10 bits of the fraction are kept
PROMOTED = 128  # products of one sum of the tensor cores, where CUTLASS and cuBLASLt promote it
FP8_SUM = 2.0**-12  # twice the unit of a sum with 13 bits of the fraction, for it is cut off

BLOCK = 128  # rows, columns or k of block scales


@dataclass(frozen=True)
class Scales:
    """One factor for `rows` of A, or `columns` of B, along so many of k; 0 stands for all.

    They lie in float32 arrays: (1,) for a whole matrix; (M,) and (N,) for rows of A and columns of
    B; (M / rows, K / depth) and (N / columns, K / depth), rounded up, where they change along k.
    Of a batch, those of each product follow one another. `by_columns`: those of A, one for each row
    here, are (K / depth, rows of all products).
    """

    name: str
    rows: int
    columns: int
    depth: int = 0
    element: ElementType = FLOAT32
    by_columns: bool = field(default=False, kw_only=True)

    def of_random(self, values: np.ndarray) -> np.ndarray:
        """Scales as stored, in [0.5, 2.5), of float32 in [-1, 1)."""
        return values + np.float32(1.5)

    def __str__(self) -> str:
        """What an array of scales is, for a message."""
        if not self.depth:
            return "one for each row of A, and of op(B).T" if self.rows else "one number each"
        of_a = f"{self.rows}×{self.depth} of A" + (", by columns" if self.by_columns else "")
        return f"one for each {of_a}, {self.columns}×{self.depth} of op(B).T"

    def shape_of_a(self, problem: Problem) -> tuple[int, ...]:
        if self.by_columns:
            return -(-problem.k // self.depth), problem.batch * problem.m
        return self._shape(problem.m, self.rows, problem)

    def shape_of_b(self, problem: Problem) -> tuple[int, ...]:
        return self._shape(problem.n, self.columns, problem)

    def _shape(self, lines: int, together: int, problem: Problem) -> tuple[int, ...]:
        count = -(-lines // together) if together else 1
        shape = (count, -(-problem.k // self.depth)) if self.depth else (count,)
        return shape if problem.batch == 1 else (problem.batch, *shape)

    def of_rows(self, scale: Any, rows: Any, problem: Problem) -> Any:
        """Scales of a product's A, of these rows alone."""
        return scale[:, rows] if self.by_columns else scale[rows]

    def by_rows(self, scale: Any, problem: Problem) -> Any:
        """Scales of A as they are without `by_columns`."""
        shape = self._shape(problem.m, self.rows, problem)
        return scale.T.reshape(shape) if self.by_columns else scale

    def spread(self, scale: Any, together: int, lines: int, k: int) -> Any:
        """float64 (lines, k), or broadcast to it: each factor of so many lines `together`."""
        wide = scale.astype("float64")
        wide = wide if self.depth else wide[..., None]
        if together > 1:
            wide = wide.repeat(together, axis=wide.ndim - 2)[..., :lines, :]
        return wide.repeat(self.depth, axis=wide.ndim - 1)[..., :k] if self.depth else wide


OF_TENSORS = Scales("tensors", 0, 0)
OF_ROWS = Scales("rows", 1, 1)
OF_BLOCKS = Scales("blocks", 1, BLOCK, BLOCK)
OF_BLOCKS_BY_COLUMNS = replace(OF_BLOCKS, by_columns=True)  # as cuBLASLt and PyTorch take them
SCALES = (OF_TENSORS, OF_ROWS, OF_BLOCKS)


@dataclass(frozen=True)
class Precision:
    """What a kernel takes and gives, and what stands beside it.

    `name`: in records, tables and messages. `a`, `b`, `c`: element types of the matrices;
    `accumulate`: of the sums; factors and bias are float32. `errors`: how many relative errors, and
    of what size each, K products and their sums make at most, before alpha, beta and a bias.
    `on_tensor_cores`: which roof it stands under, and which counter tells its multiply-adds.
    `scales`: which elements of A and of B share a factor; None where they have none. `promoted`: of
    8-bit floats by wgmma, whose sums keep 13 bits of the fraction, the number of products after
    which a sum is added in float32, 0 for all; None of others. `lost`: of A (M, K) and B (K, N),
    float64, the most that each element of A @ B loses besides, float64 (M, N).
    """

    name: str
    a: ElementType
    b: ElementType
    c: ElementType
    accumulate: ElementType
    errors: Callable[[int], tuple[float, float]]
    on_tensor_cores: bool = False
    scales: Scales | None = None
    promoted: int | None = None
    lost: Callable[[Array, Array], Array] | None = None


SINGLE = Precision(
    "float32", FLOAT32, FLOAT32, FLOAT32, FLOAT32,
    errors=lambda k: (k + 1, FLOAT32.unit_roundoff),
)  # fmt: skip


def _on_tensor_cores(k: int) -> tuple[float, float]:
    """Of K exact products, added in groups on tensor cores, with sums in float32."""
    return 1.5 * k + 3, 2 * FLOAT32.unit_roundoff


def _operands_cut(k: int) -> tuple[float, float]:
    """The same of products of two float32 whose last 13 bits are not looked at."""
    errors, size = _on_tensor_cores(k)
    return 2 + errors * size / CUT, CUT


def _sums_in_float32(name: str, element: ElementType, c: ElementType = FLOAT32) -> Precision:
    return Precision(name, element, element, c, FLOAT32, _on_tensor_cores, on_tensor_cores=True)


def of_cublaslt(precision: Precision) -> Precision:
    """As cuBLASLt on Hopper multiplies FP8; the same for whole numbers, which stay exact.

    Its instruction wgmma takes 32 products and keeps 13 bits of the fraction; four follow each
    other before a sum of 128 products is added in float32 (see the notebook 15_mma_sync). It takes
    no two matrices of E5M2: B is of E4M3.
    """
    if precision.accumulate is not FLOAT32:
        return precision

    def errors(k: int) -> tuple[float, float]:
        roundings, size = _on_tensor_cores(k)
        return 4 * (32 + 2) + roundings * size / FP8_SUM, FP8_SUM

    return replace(precision, b=E4M3, errors=errors)


HALF = _sums_in_float32("float16", FLOAT16, FLOAT16)
BRAIN = _sums_in_float32("bfloat16", BFLOAT16, BFLOAT16)
TF32 = Precision("tf32", FLOAT32, FLOAT32, FLOAT32, FLOAT32, _operands_cut, on_tensor_cores=True)
INTEGER = Precision("int8", INT8, INT8, INT32, INT32, lambda k: (0.0, 0.0), on_tensor_cores=True)
FP8_E4M3 = _sums_in_float32("float8_e4m3", E4M3)
FP8_E5M2 = _sums_in_float32("float8_e5m2", E5M2)
HALF_TO_SINGLE = _sums_in_float32("float16 to float32", FLOAT16)
BRAIN_TO_SINGLE = _sums_in_float32("bfloat16 to float32", BFLOAT16)


PRECISIONS = {
    precision.name: precision
    for precision in (
        SINGLE, HALF, BRAIN, TF32, INTEGER, FP8_E4M3, FP8_E5M2, HALF_TO_SINGLE, BRAIN_TO_SINGLE,
    )
}  # fmt: skip
