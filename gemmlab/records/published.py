"""What published ladders of the same kernels report, to stand beside our own numbers.

results/sources.csv holds it: the share of cuBLAS that a step reached, on which GPU and at which
shape. These two are all that is kept of a source, neither its name nor its address. Each compares
with cuBLAS on its own GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmlab.folders import RESULTS
from gemmlab.records.registry import POSITIVE, SIZE, TEXT, parsed, text_of

if TYPE_CHECKING:
    import pandas

PATH = RESULTS / "sources.csv"
COLUMNS = {**TEXT("rung", "step", "gpu"), **SIZE("m", "n", "k"), **POSITIVE("pct_cublas")}


def shares() -> pandas.DataFrame:
    """The shares that others report, a row for each step of each source.

    Columns: rung (the one of ours that takes the same step), step, gpu, m, n, k, pct_cublas, and
    source, which tells the sources apart: "RTX 4090, 1024×1024×512", the GPU and M×N×K.

    Raises NoRecord, BadRecord.
    """
    table = parsed(text_of(PATH), PATH, COLUMNS)
    return table.assign(
        source=[f"{row.gpu}, {row.m}×{row.n}×{row.k}" for row in table.itertuples()]
    )
