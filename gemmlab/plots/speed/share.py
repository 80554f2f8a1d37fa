"""The share of cuBLAS over sizes, on a linear scale: the chart of speed of every notebook."""

from __future__ import annotations

import pandas

from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.speed.speed import at_shape, draw_sizes, measured
from gemmlab.plots.style import MARGIN, percent, styled

HEIGHT = 2.9  # inches
TOP = 0.42


@styled
def cublas_share(
    table: pandas.DataFrame, *, since: int = 512, caption: str | None = None
) -> Picture:
    """The share of cuBLAS that kernels reach over the size of square products, from `since` on.

    table: as for gflops. Smaller products than `since` are left out: there the time of a launch
    decides. Raises TypeError and ValueError for anything else, also where nothing is left to draw.
    """
    rows = measured(table, "cublas_share")
    square = rows[(rows["m"] == rows["n"]) & (rows["n"] == rows["k"]) & (rows["m"] >= since)]
    ours = square[square["kernel"] != "cublas"]
    if ours.empty:
        raise ValueError(f"cublas_share: the table has no square product of {since} or more.")
    fig = style.page(TOP + HEIGHT + 0.62, caption or _caption(ours), style.provenance(ours))
    fig.text_at(MARGIN, 0.12, "Share of cuBLAS, square products", size=style.LARGE, weight="bold")
    near = ours["pct_cublas"].max() > 40  # else cuBLAS's line would press the kernels together
    most = 100.0 if near else 0.0
    ax = draw_sizes(fig, ours, TOP, HEIGHT, "linear", "pct_cublas", "% of cuBLAS", most)
    if near:
        ax.axhline(100, color=style.BLACK, linestyle="--", linewidth=1.4, gid="cublas")
        ax.annotate(
            "cuBLAS", (ours["m"].min(), 100), (0, 4), textcoords="offset points",
            size=style.NORMAL, va="bottom",
        )  # fmt: skip
    return fig


def _caption(rows: pandas.DataFrame) -> str:
    """The shares of all kernels at the largest size that all of them have."""
    sizes = rows.groupby("kernel")["m"].agg(set)
    common = set.intersection(*sizes)
    size = max(common) if common else max(set.union(*sizes))
    own = at_shape(rows, (size, size, size)).set_index("kernel")["pct_cublas"]
    parts = [f"{name} reaches {percent(own[name])}" for name in style.ladder_order(own.index)]
    return f"Of cuBLAS at {style.shape_label(size, size, size)}, {style.listed(parts)}."
