"""What a kernel of each precision takes and gives, is verified and held against.

The bounds are derived in gemmlab.kernel.bounds, where their sources are named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

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
from gemmlab.ladder.scales import Scales

CUT = 2.0**-10  # the largest relative error of a float32 of which 10 bits of the fraction are kept
PROMOTED = 128  # products of one sum of the tensor cores, where CUTLASS and cuBLASLt promote it
FP8_SUM = 2.0**-12  # twice the unit of a sum with 13 bits of the fraction, for it is cut off


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
    """Of 8-bit floats with scales, by wgmma. What its sums lose is in gemmlab.kernel.cut_sums.

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
    one.name: one
    for one in (
        SINGLE, HALF, BRAIN, TF32, INTEGER, FP8_E4M3, FP8_E5M2, HALF_TO_SINGLE, BRAIN_TO_SINGLE,
    )
}  # fmt: skip
