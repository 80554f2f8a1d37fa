"""How wrong cuBLASLt's products of 8-bit floats are, beside rung 19's of the same operands.

    python -m gemmlab record 19_cublas_errors

multiplies quantized matrices with both, C in float32, and compares with float64;
results/<gpu>/fp8_cublas_errors.csv holds it (see gemmlab.records.registry).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gemmlab import ladder
from gemmlab.cuda.cublaslt import CublasLt, NoAlgorithm, ScaledProduct
from gemmlab.cuda.device import require_gpu, software_versions
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import Operands
from gemmlab.lessons.fp8.errors import (
    BLOCK,
    DATA,
    DEPTHS,
    TYPES,
    Case,
    errors_of,
    fingerprint_of,
    operands_of,
)
from gemmlab.lessons.fp8.rung import RUNG as FP8
from gemmlab.lessons.fp8.rung import SCALES
from gemmlab.measure.timing import now
from gemmlab.records.registry import DATE, NUMBER, SIZE, TEXT, Say, Table

if TYPE_CHECKING:
    import pandas

NAME = "19_cublas_errors"
COLUMNS = {
    **TEXT("data", "types", "scales"), **SIZE("k"),
    **NUMBER("sum_error", "whole_error", "cublas_sum_error", "cublas_whole_error"),
    **TEXT("settings", "code", "gpu", "cublas"), **DATE("recorded"),
}  # fmt: skip
CASES = tuple(
    Case(data, dtype, scales, BLOCK, k)
    for data in DATA for dtype in range(len(TYPES)) for scales in range(len(SCALES)) for k in DEPTHS
)  # fmt: skip


def record(say: Say) -> Path:
    """Multiply all of CASES with both on the GPU here; returns the file. Raises NoGpu.

    A case for which cuBLASLt has no algorithm is left out, and said.
    """
    import pandas

    here, version = require_gpu("Measuring errors"), software_versions()["cublas"]
    rows = []
    for case in CASES:
        kernel = Kernel(FP8, case.settings, None, FP8.path)
        given = operands_of(case)
        what = f"{NAME}: {TYPES[case.dtype]}, scales of {SCALES[case.scales].name}, K={case.k}"
        try:
            theirs = product_of_cublaslt(given)
        except NoAlgorithm as error:
            say(f"{what}: left out. {error}")
            continue
        ours = kernel(given.A, given.B, scales=given.scales)
        by_sums, by_all = errors_of(case, given, ours)
        their_sums, their_all = errors_of(case, given, theirs)
        rows.append({
            "data": case.data, "types": TYPES[case.dtype], "scales": SCALES[case.scales].name,
            "k": case.k, "sum_error": by_sums, "whole_error": by_all,
            "cublas_sum_error": their_sums, "cublas_whole_error": their_all,
            "settings": ladder.written(case.settings), "gpu": here.name,
            "cublas": version, "recorded": now(),
        })  # fmt: skip
        say(f"{what}: {by_sums:.2e}, cuBLASLt {their_sums:.2e}")
    return EVIDENCE.write(pandas.DataFrame(rows), here.slug)


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


EVIDENCE = Table(
    name=NAME, file="fp8_cublas_errors.csv", remake=record,
    key=("data", "types", "scales", "k", "settings"),
    columns=COLUMNS, fingerprint_of=fingerprint_of,
)  # fmt: skip


def recorded_errors() -> pandas.DataFrame:
    """A row for each case, with the columns of COLUMNS. Raises what registry.Table.read raises."""
    return EVIDENCE.read()


def times_ours() -> pandas.DataFrame:
    """cuBLASLt's error of the sums over that of rung 19: above 1, cuBLASLt is the more wrong.

    A row for data, types and scales, a column for each K. Raises what registry.Table.read raises.
    """
    table = recorded_errors()
    ratio = table["cublas_sum_error"] / table["sum_error"]
    return table.assign(ratio=ratio).pivot(
        index=["data", "types", "scales"], columns="k", values="ratio"
    )


def by_scales() -> pandas.DataFrame:
    """How far the errors of the sums are from cuBLASLt's, a row for each kind of scales.

    Columns: cases; how many have the same error in all digits that are recorded; by how many
    percent of cuBLASLt's error ours is larger, and smaller, at most. Raises what
    registry.Table.read raises.
    """
    import pandas

    table = recorded_errors()
    apart = 100 * (table["sum_error"] / table["cublas_sum_error"] - 1)
    of_kind = apart.groupby(table["scales"], sort=False)
    return pandas.DataFrame({
        "cases": of_kind.size(), "the same": (apart == 0).groupby(table["scales"]).sum(),
        "ours larger by at most, %": of_kind.max().clip(lower=0),
        "ours smaller by at most, %": of_kind.min().clip(upper=0).abs(),
    })  # fmt: skip
