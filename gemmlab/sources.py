"""What published ladders of the same kernels report, to stand beside our own numbers.

results/sources.csv holds it: the share of cuBLAS that a step reached, and on which GPU at which
shape, which is all that tells the sources apart. Each compares with cuBLAS on its own GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmlab.ladder import RESULTS

if TYPE_CHECKING:
    import pandas

PATH = RESULTS / "sources.csv"


def shares() -> pandas.DataFrame:
    """Columns: rung (the one of ours that takes the same step), step, source, pct_cublas."""
    import pandas

    return pandas.read_csv(PATH, encoding="utf-8")
