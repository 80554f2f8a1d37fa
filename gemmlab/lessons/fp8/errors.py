"""How wrong products of 8-bit floats are: by type, kind of scales, promotion interval and K.

    python -m gemmlab record 19_cublas_errors

multiplies with rung 19 and with cuBLASLt, C in float32, and compares both with float64;
results/<gpu>/fp8_cublas_errors.csv.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmlab import ladder
from gemmlab.cuda.cublaslt import CublasLt, NoAlgorithm, ScaledProduct
from gemmlab.kernel.fingerprint import Fingerprint, of_rung
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import Operands, random_values
from gemmlab.ladder import Problem, Settings, Target
from gemmlab.lessons.fp8.quantize import quantize
from gemmlab.lessons.fp8.rung import FACTORS, SCALES
from gemmlab.lessons.fp8.rung import RUNG as FP8
from gemmlab.records.registry import NUMBER, SIZE, TEXT, Row, Say, Table, provenance

SIDE = 128  # rows of A, and of B
DEPTHS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)  # K
FEW = DEPTHS[:6]  # which a product of sliders has: well below a second
DATA = ("even", "uneven")
INTERVALS = (128, 256, 512, 0)
TYPES = ("E4M3", "A in E5M2", "B in E5M2")  # by the value of DTYPE
SEED = 190
SPREAD = 1.5  # of uneven data, powers of ten up and down
BLOCK = 128


def tiles_of(promote: int) -> Settings:
    """Tiles with room for two sums of so many products, where the default ones have none."""
    return {"BN": 64, "STAGES": 8} if promote == 512 else {}


@dataclass(frozen=True)
class Case:
    """`data`: "even", uniform in [-1, 1), or "uneven", sizes that differ by row and block of k."""

    data: str
    dtype: int
    scales: int
    promote: int
    k: int

    @property
    def settings(self) -> Settings:
        how = {"SCALES": self.scales, "PROMOTE": self.promote, "DTYPE": self.dtype, "OUT32": 1}
        return ladder.settings_for(FP8, {**how, **tiles_of(self.promote)})


CASES = [
    Case(data, dtype, scales, BLOCK, k)
    for data in DATA for dtype in range(len(FACTORS)) for scales in range(len(SCALES))
    for k in DEPTHS
]  # fmt: skip


def matrices(data: str, k: int) -> tuple[np.ndarray, np.ndarray]:
    """A (SIDE, k) and B (SIDE, k), float32.

    Uneven: rows, and blocks of 128 of k, are up to 10**SPREAD times as large or small; where a
    block of A is large, that of B is small, so that each counts in the sum.
    """
    A, B = (random_values(SIDE * k, SEED + i).reshape(SIDE, k) for i in (0, 1))
    if data == "uneven":
        of_a, of_b = (10.0 ** (SPREAD * random_values(SIDE, SEED + i)) for i in (2, 3))
        along = 10.0 ** (SPREAD * random_values(-(-k // BLOCK), SEED + 4).repeat(BLOCK)[:k])
        A, B = A * of_a[:, None] * along, B * of_b[:, None] / along
    return A.astype(np.float32), B.astype(np.float32)


def operands_of(case: Case) -> Operands:
    """The case's matrices, quantized, with their scales, and zeros as a C of float32."""
    A, B = matrices(case.data, case.k)
    precision = FP8.precision_of(case.settings)
    kind, (of_a, of_b) = precision.scales.name, FACTORS[case.dtype]
    (qa, scale_a), (qb, scale_b) = (
        quantize(A, kind, "A", element=of_a.name), quantize(B, kind, "B", element=of_b.name),
    )  # fmt: skip
    C = np.zeros((SIDE, SIDE), np.float32)
    problem = Problem(SIDE, SIDE, case.k, 1, FP8.ops(case.settings))
    return Operands(problem, precision, qa, qb, C, scale_a=scale_a, scale_b=scale_b)


def errors(case: Case, kernel: Kernel) -> tuple[float, float]:
    given = operands_of(case)
    return errors_of(case, given, kernel(given.A, given.B, scales=given.scales))


def errors_of(case: Case, given: Operands, C: np.ndarray) -> tuple[float, float]:
    """Root mean squares, over C, of errors as shares of |A| @ |B|.T: of the sums, and of all.

    From float64 on the same 8-bit numbers, and on what they were made from. C: (SIDE, SIDE).
    """
    C = C.astype(np.float64)
    wide_a, wide_b, _ = given.numbers()
    A, B = (matrix.astype(np.float64) for matrix in matrices(case.data, case.k))
    size = abs(A) @ abs(B).T
    by_sums, by_all = (C - wide_a @ wide_b) / size, (C - A @ B.T) / size
    return float(np.sqrt(np.mean(by_sums**2))), float(np.sqrt(np.mean(by_all**2)))


def _measure(say: Say) -> Iterator[Row]:
    """A case for which cuBLASLt has no algorithm is left out, and said."""
    for case in CASES:
        kernel = Kernel(FP8, case.settings, None, FP8.path)
        given, types, scales = operands_of(case), TYPES[case.dtype], SCALES[case.scales].name
        label = f"19_cublas_errors: {types}, scales of {scales}, K={case.k}"
        try:
            theirs = product_of_cublaslt(given)
        except NoAlgorithm as error:
            say(f"{label}: left out. {error}")
            continue
        ours = kernel(given.A, given.B, scales=given.scales)
        by_sums, by_all = errors_of(case, given, ours)
        their_sums, their_all = errors_of(case, given, theirs)
        say(f"{label}: {by_sums:.2e}, cuBLASLt {their_sums:.2e}")
        yield {
            "data": case.data, "types": types, "scales": scales, "k": case.k,
            "settings": ladder.written(case.settings), "sum_error": by_sums,
            "whole_error": by_all, "cublas_sum_error": their_sums, "cublas_whole_error": their_all,
        }  # fmt: skip


def product_of_cublaslt(given: Operands) -> np.ndarray:
    """C of cuBLASLt with the same kind of scales, NumPy. Raises NoAlgorithm."""
    import cupy

    precision, stream = given.precision, cupy.cuda.Stream(non_blocking=True)
    types = precision.a.name, precision.b.name, precision.c.name
    with stream, CublasLt(stream) as library:
        placed = given.changed(cupy.asarray)
        made = ScaledProduct(library, *given.problem.shape, types, precision.scales.name)
        made.launch(placed, 1.0, 0.0)
        return placed.C.get()


def _fingerprint_of(row: Any, on: Target) -> Fingerprint:
    settings = ladder.read_settings(row.settings)
    problem = Problem(SIDE, SIDE, int(row.k), 1, FP8.ops(settings))
    return of_rung(FP8, settings, [problem], on)


ERRORS = Table(
    name="19_cublas_errors", file="fp8_cublas_errors.csv",
    key=("data", "types", "scales", "k", "settings"),
    columns={
        **TEXT("data", "types", "scales"), **SIZE("k"),
        **NUMBER("sum_error", "whole_error", "cublas_sum_error", "cublas_whole_error"),
        **TEXT("settings"), **provenance("cublas"),
    },
    measure=_measure, fingerprint_of=_fingerprint_of,
)  # fmt: skip
