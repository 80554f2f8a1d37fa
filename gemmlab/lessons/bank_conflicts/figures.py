"""What a rung gains over the one before it."""

import pandas

from gemmlab.plots.page import Picture
from gemmlab.plots.speeds import cublas_share
from gemmlab.plots.style import percent, shape_label
from gemmlab.records.runs import LARGE


def gain(table: pandas.DataFrame, before: str, after: str) -> Picture:
    """The share of cuBLAS over sizes, and in words what two rungs reach at 4096³.

    table: runs of both, see naive.tables.benchmarks.
    """
    m, n, k = LARGE
    rows = table.query("m == @m and n == @n and k == @k").groupby("kernel").first()
    share, time = rows["pct_cublas"].map(percent), rows["time_ms"]
    caption = (
        f"At {shape_label(m, n, k)}: {before} reaches {share[before]} of cuBLAS and "
        f"{after} {share[after]}, {time[before] / time[after]:.2f} times as fast."
    )
    return cublas_share(table, caption=caption)
