"""Element types, and what a kernel of each precision is verified and held against.

The bounds are derived in gemmlab.kernel.verify, where their sources are named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


def rounded(values: np.ndarray, storage: str) -> np.ndarray:
    """Values in the NumPy type `storage`, rounded to the nearest."""
    return values.astype(storage, copy=False)


@dataclass(frozen=True)
class ElementType:
    """How the elements of a matrix are stored.

    `storage`: the NumPy type of the arrays, of unsigned integers where NumPy lacks the type.
    `unit_roundoff`: the largest relative error of a rounding to it, 0 where it is exact.
    `smallest_subnormal`: its smallest positive number. `guard`: bits that no arithmetic makes, for
    the cells around a matrix. `decode`: stored numbers as float64; `encode`: numbers as stored.
    """

    name: str
    storage: str
    unit_roundoff: float
    smallest_subnormal: float
    guard: int
    decode: Callable[[np.ndarray], np.ndarray] = lambda stored: stored.astype(np.float64)
    encode: Callable[[np.ndarray, str], np.ndarray] = rounded

    @property
    def bytes(self) -> int:
        return np.dtype(self.storage).itemsize

    @property
    def bits(self) -> np.dtype:
        """Unsigned integers of the same size."""
        return np.dtype(f"u{self.bytes}")


FLOAT32 = ElementType("float32", "float32", 2.0**-24, 2.0**-149, 0x7FC0BEEF)
FLOAT16 = ElementType("float16", "float16", 2.0**-11, 2.0**-24, 0x7EEF)


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
HALF = Precision(
    "float16", FLOAT16, FLOAT16, FLOAT16, FLOAT32,
    errors=lambda k: (1.5 * k + 3, 2 * FLOAT32.unit_roundoff),
    on_tensor_cores=True,
)  # fmt: skip

PRECISIONS = {one.name: one for one in (SINGLE, HALF)}
