"""The types of A, B, C and the sums, scales of 8-bit floats, and how many errors sums make.

The bounds are derived in gemmlab.kernel.bounds, where their sources are named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from gemmlab.ladder.element_types import (
    BFLOAT16,
    E4M3,
    E5M2,
    FLOAT16,
    FLOAT32,
    INT8,
    INT32,
    ElementType,
)

if TYPE_CHECKING:
    from gemmlab.ladder.problem import Problem

CUT = 2.0**-10  # the largest relative error of a float32 of which 10 bits of the fraction are kept
PROMOTED = 128  # products of one sum of the tensor cores, where CUTLASS and cuBLASLt promote it
FP8_SUM = 2.0**-12  # twice the unit of a sum with 13 bits of the fraction, for it is cut off

BLOCK = 128


@dataclass(frozen=True)
class Scales:
    """One factor for `rows` of A, or `columns` of B, along so many of k; 0 stands for all.

    They lie in float32 arrays: (1,) for a whole matrix; (M,) and (N,) for rows of A and columns of
    B; (M / rows, K / depth) and (N / columns, K / depth), rounded up, where they change along k.
    """

    name: str
    rows: int
    columns: int
    depth: int = 0

    def __str__(self) -> str:
        """What an array of scales is, for a message."""
        if not self.depth:
            return "one for each row of A, and of op(B).T" if self.rows else "one number each"
        return f"one for each {self.rows}×{self.depth} of A, {self.columns}×{self.depth} of op(B).T"

    def shape_of_a(self, problem: Problem) -> tuple[int, ...]:
        return self._shape(problem.m, self.rows, problem.k)

    def shape_of_b(self, problem: Problem) -> tuple[int, ...]:
        return self._shape(problem.n, self.columns, problem.k)

    def _shape(self, lines: int, together: int, k: int) -> tuple[int, ...]:
        count = -(-lines // together) if together else 1
        return (count, -(-k // self.depth)) if self.depth else (count,)

    def spread_over_a(self, scale: Any, problem: Problem) -> Any:
        """float64, to be multiplied with op(A), (M, K)."""
        return self._spread(scale, self.rows, problem.m, problem.k)

    def spread_over_b(self, scale: Any, problem: Problem) -> Any:
        """float64, to be multiplied with op(B), (K, N)."""
        return self._spread(scale, self.columns, problem.n, problem.k).T

    def _spread(self, scale: Any, together: int, lines: int, k: int) -> Any:
        wide = scale.astype("float64").reshape(len(scale), -1)
        if together > 1:
            wide = wide.repeat(together, axis=0)[:lines]
        return wide.repeat(self.depth, axis=1)[:, :k] if self.depth else wide


OF_TENSORS = Scales("tensors", 0, 0)
OF_ROWS = Scales("rows", 1, 1)
OF_BLOCKS = Scales("blocks", 1, BLOCK, BLOCK)


@dataclass(frozen=True)
class Precision:
    """What a kernel takes and gives, and what stands beside it.

    `name`: in records, tables and messages. `a`, `b`, `c`: element types of the matrices;
    `accumulate`: of the sums; factors and bias are float32. `errors`: how many relative errors, and
    of what size each, K products and their sums make at most, before alpha, beta and a bias.
    `on_tensor_cores`: which roof it stands under, and which counter tells its multiply-adds.
    `scales`: which elements of A and of B share a factor; None where they have none. `promoted`: of
    8-bit floats by wgmma, whose sums keep 13 bits of the fraction, the number of products after
    which a sum is added in float32, 0 for all; None of others.
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


@cache
def by_warpgroups(
    a: ElementType, b: ElementType, c: ElementType, scales: Scales, promoted: int
) -> Precision:
    """Of 8-bit floats with scales, by wgmma. What its sums lose is in gemmlab.kernel.bounds.

    Here are the roundings to float32: one for each sum that is promoted, and five for scales and
    what they multiply.
    """
    types = a.name if a is b else f"{a.name} × {b.name}"
    name = f"{types} to {c.name}, scales of {scales.name}"
    if promoted != PROMOTED:
        name += f", sums of {promoted}" if promoted else ", one sum"

    def errors(k: int) -> tuple[float, float]:
        return (-(-k // promoted) if promoted else 1) + 5, FLOAT32.unit_roundoff

    return Precision(
        name, a, b, c, FLOAT32, errors, on_tensor_cores=True, scales=scales, promoted=promoted
    )


PRECISIONS = {
    precision.name: precision
    for precision in (
        SINGLE, HALF, BRAIN, TF32, INTEGER, FP8_E4M3, FP8_E5M2, HALF_TO_SINGLE, BRAIN_TO_SINGLE,
    )
}  # fmt: skip
