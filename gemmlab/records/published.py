"""What published ladders of the same kernels report, to stand beside our own numbers.

results/sources.csv holds it: the share of cuBLAS that a step reached, and on which GPU at which
shape, which is all that tells the sources apart. Each compares with cuBLAS on its own GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmlab.folders import RESULTS
from gemmlab.records.registry import POSITIVE, TEXT, parsed, text_of

if TYPE_CHECKING:
    import pandas

PATH = RESULTS / "sources.csv"
COLUMNS = {**TEXT("rung", "step", "source"), **POSITIVE("pct_cublas")}


def shares() -> pandas.DataFrame:
    """Columns: rung (the one of ours that takes the same step), step, source, pct_cublas.

    Raises NoRecord, BadRecord.
    """
    return parsed(text_of(PATH), PATH, COLUMNS)
