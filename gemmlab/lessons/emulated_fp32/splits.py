"""How far a product of parts may be from float64; docs/bounds.md derives it, and names sources.

`v`, `rest` and `dropped` below are of float32 that are split by rounding to the nearest: part i + 1
is what part i left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from gemmlab.kernel import bounds
from gemmlab.kernel.bounds import OF_16_BITS
from gemmlab.ladder.precision import FLOAT32, SINGLE, Precision
from gemmlab.lessons.emulated_fp32.model import WAYS, Way

# An instruction's loss as a share of the sizes of all that it adds: 17 terms and their sum.
A_STEP = (OF_16_BITS.depth + 1) * OF_16_BITS.aligned + OF_16_BITS.kept
LEAST = 2.0**-102  # 24 bits above what is taken for 0
SLACK = 1.02  # for products of what is small with what is small


@dataclass(frozen=True)
class Split:
    """As shares of a number: `v`, the largest second part, and `rest`, what no part has; as a share
    of a product, `dropped`, products of parts that are not computed.

    They hold from `least` on, of FP16 a share of the row's largest number; of smaller numbers they
    are shares of that.
    """

    v: float
    rest: float
    dropped: float
    least: float


SPLITS = {
    "BF16×6": Split(2.0**-8, 2.0**-24, 2 * 2.0**-25 + 2.0**-34, LEAST),
    "FP16×3": Split(2.0**-11, 2.0**-23, 2.0**-22, 2.0**-27),
    "BF16×3": Split(2.0**-8, 2.0**-17, 2.0**-16, LEAST),
    "BF16×9": Split(2.0**-8, 2.0**-24, 0.0, LEAST),
}


@cache
def precision_of(way: int, promote: int) -> Precision:
    """float32 by the way of this number in WAYS, sums promoted after so many of K, 0 for never."""

    def errors(k: int) -> tuple[float, float]:
        """Roundings to float32: a promotion each, the corrections, and their scale."""
        return SLACK * (-(-k // (promote or k or 1)) + 2), FLOAT32.unit_roundoff

    return replace(
        SINGLE, errors=errors, on_tensor_cores=True, lost=partial(lost, WAYS[way], promote)
    )


def lost(how: Way, promote: int, A: Any, B: Any) -> Any:
    """What each element of A @ B may lose by parts that are left out and by sums of the tensor
    cores, float64 (M, N). `A`: (M, K), `B`: (K, N), float64, NumPy or CuPy."""
    k, split = A.shape[-1], SPLITS[how.name]
    if not k:
        return 0.0
    least_a, least_b = (_least(how, split, abs(X), axis) for X, axis in ((A, -1), (B, -2)))
    magnitude = np.maximum(abs(A), least_a) @ np.maximum(abs(B), least_b)
    parts = 2 * split.rest + split.dropped
    first = bounds.lost(A, B, promote, (least_a, least_b), OF_16_BITS)
    steps = -(-min(promote or k, k) // OF_16_BITS.depth)  # of a sum of first parts
    corrections = len(how.corrections) * -(-k // OF_16_BITS.depth)
    return SLACK * (first + (parts + (steps + corrections) * A_STEP * 2 * split.v) * magnitude)


def _least(how: Way, split: Split, sizes: Any, axis: int) -> Any:
    """The number from which `split` holds: for all, or for each row of A or column of B."""
    if not how.scales:
        return LEAST
    return np.maximum(split.least * sizes.max(axis=axis, keepdims=True), LEAST)
