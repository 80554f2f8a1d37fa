"""What a kernel of each precision takes and gives, is verified and held against.

The bounds are derived in gemmlab.kernel.bounds, where their sources are named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

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

CUT = 2.0**-10  # the largest relative error of a float32 of which 10 bits of the fraction are kept
FP8_SUM = 2.0**-12  # twice the unit of a sum with 13 bits of the fraction, for it is cut off


@dataclass(frozen=True)
class Precision:
    """What a kernel takes and gives, and what stands beside it.

    `name`: in records, tables and messages. `a`, `b`, `c`: element types of the matrices;
    `accumulate`: of the sums; factors and bias are float32. `errors`: how many relative errors, and
    of what size each, K products and their sums make at most, before alpha, beta and a bias.
    `on_tensor_cores`: which roof it stands under, and which counter tells its multiply-adds.
    `scaled`: each row of A and each column of B has a float32 factor.
    """

    name: str
    a: ElementType
    b: ElementType
    c: ElementType
    accumulate: ElementType
    errors: Callable[[int], tuple[float, float]]
    on_tensor_cores: bool = False
    scaled: bool = False


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
    one.name: one
    for one in (
        SINGLE, HALF, BRAIN, TF32, INTEGER, FP8_E4M3, FP8_E5M2, HALF_TO_SINGLE, BRAIN_TO_SINGLE,
    )
}  # fmt: skip
