"""How wrong products of 8-bit floats are: by type, kind of scales, promotion interval and K.

    python -m gemmlab record 19_errors

quantizes random matrices with 19_quantize.cu, multiplies them with rung 19, and compares
with float64; results/<gpu>/fp8_errors.csv holds it (see gemmlab.records.registry). The simulator
has the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmlab import ladder
from gemmlab.cuda.device import require_gpu
from gemmlab.kernel.fingerprint import Fingerprint, of_rung
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import Operands, random_values
from gemmlab.ladder import Problem, Settings, Target
from gemmlab.lessons.fp8.quantize import quantize
from gemmlab.lessons.fp8.rung import FACTORS, SCALES
from gemmlab.lessons.fp8.rung import RUNG as FP8
from gemmlab.measure.timing import now
from gemmlab.records.registry import DATE, NUMBER, SIZE, TEXT, WHOLE, Say, Table

if TYPE_CHECKING:
    import pandas

NAME = "19_errors"
SIDE = 128  # rows of A, and of B
DEPTHS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)  # K
DATA = ("even", "uneven")
INTERVALS = (128, 256, 512, 0)
TYPES = ("E4M3", "A in E5M2", "B in E5M2")  # by the value of DTYPE
SEED = 190
SPREAD = 1.5  # of uneven data, powers of ten up and down
BLOCK = 128
COLUMNS = {
    **TEXT("data", "types", "scales"), **WHOLE("promote"), **SIZE("k"),
    **NUMBER("sum_error", "whole_error"), **TEXT("settings", "code", "gpu"), **DATE("recorded"),
}  # fmt: skip


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


def cases() -> list[Case]:
    """All that go together: scales of blocks have one interval."""
    return [
        Case(data, dtype, scales, promote, k)
        for data in DATA for dtype in range(len(FACTORS)) for scales in range(len(SCALES))
        for promote in INTERVALS if not SCALES[scales].depth or promote == BLOCK for k in DEPTHS
    ]  # fmt: skip


def matrices(data: str, k: int) -> tuple[np.ndarray, np.ndarray]:
    """A (SIDE, k) and B (SIDE, k), float32.

    Uneven: rows of A and B, and blocks of 128 of k, are up to 10**SPREAD times as large or small;
    where a block of A is large, that of B is small, so that each counts in the sum.
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
    """Those of rung 19: see errors_of."""
    given = operands_of(case)
    return errors_of(case, given, kernel(given.A, given.B, scales=given.scales))


def errors_of(case: Case, given: Operands, C: np.ndarray) -> tuple[float, float]:
    """Root mean squares, over C, of errors as shares of |A| @ |B|.T: of the sums, and of all.

    The first is against float64 on the same 8-bit numbers; the second on what they were made from.
    given: as operands_of makes them; C: their product, (SIDE, SIDE).
    """
    C = C.astype(np.float64)
    wide_a, wide_b, _ = given.numbers()
    A, B = (one.astype(np.float64) for one in matrices(case.data, case.k))
    size = abs(A) @ abs(B).T
    by_sums, by_all = (C - wide_a @ wide_b) / size, (C - A @ B.T) / size
    return float(np.sqrt(np.mean(by_sums**2))), float(np.sqrt(np.mean(by_all**2)))


def record(say: Say) -> Path:
    """Compute all cases on the GPU here; returns the file. Raises NoGpu."""
    import pandas

    here = require_gpu("Measuring errors")
    kernels: dict[str, Kernel] = {}
    rows = []
    for case in cases():
        name = ladder.written(case.settings)
        if name not in kernels:
            kernels[name] = Kernel(FP8, case.settings, None, FP8.path)
        by_sums, by_all = errors(case, kernels[name])
        rows.append({
            "data": case.data, "types": TYPES[case.dtype], "scales": SCALES[case.scales].name,
            "promote": case.promote, "k": case.k, "sum_error": by_sums, "whole_error": by_all,
            "settings": name, "gpu": here.name,
            "recorded": now(),
        })  # fmt: skip
    say(f"{NAME}: {len(rows)} cases")
    return EVIDENCE.write(pandas.DataFrame(rows), here.slug)


def fingerprint_of(row: Any, on: Target) -> Fingerprint:
    """Of what a row of a case is measured with."""
    settings = ladder.read_settings(row.settings)
    problem = Problem(SIDE, SIDE, int(row.k), 1, FP8.ops(settings))
    return of_rung(FP8, settings, [problem], on)


EVIDENCE = Table(
    name=NAME, file="fp8_errors.csv", remake=record,
    key=("data", "types", "scales", "promote", "k", "settings"), columns=COLUMNS,
    fingerprint_of=fingerprint_of,
)  # fmt: skip


def recorded_errors() -> pandas.DataFrame:
    """A row for each case, with the columns of COLUMNS. Raises what registry.Table.read raises."""
    return EVIDENCE.read()
