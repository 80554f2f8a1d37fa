"""What one product of a batch takes, in one launch, in graphs and in loops of launches."""

from __future__ import annotations

import pandas
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from gemmlab.lessons.batched.measure import (
    BRANCHED,
    CUBLAS,
    CUBLAS_GRAPH,
    CUBLAS_LOOP,
    GRAPH,
    LOOP,
    ONE,
    RUNG,
)
from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LARGE, MARGIN, SMALL, WIDTH, styled

COLUMNS = ("way", "m", "n", "k", "batch", "time_ms", "gpu", "recorded")
OURS, THEIRS = style.kernel_style(RUNG), style.kernel_style("cublas")
AT_ONCE, IN_A_GRAPH, IN_BRANCHES, IN_A_LOOP = "-", "--", (0, (3, 1, 1, 1)), ":"
LOOKS = {  # whose, and how it is launched
    LOOP: (OURS, IN_A_LOOP), GRAPH: (OURS, IN_A_GRAPH), BRANCHED: (OURS, IN_BRANCHES),
    ONE: (OURS, AT_ONCE), CUBLAS_LOOP: (THEIRS, IN_A_LOOP), CUBLAS_GRAPH: (THEIRS, IN_A_GRAPH),
    CUBLAS: (THEIRS, AT_ONCE),
}  # fmt: skip
LEFT, GAP, TOP, HEIGHT = 0.75, 0.3, 1.2, 3.6  # inches
MARKER = 4.5  # points


@styled
def batches(table: pandas.DataFrame, *, caption: str | None = None) -> Picture:
    """The time of one product over the number of them, a panel for each size of square products.

    table: as records.experiments.batches.batches() gives; of its ways those in LOOKS. Both axes
    are logarithmic. Raises TypeError and ValueError for anything else.
    """
    style.require_table(table, COLUMNS, "batches")
    rows = table[table["way"].isin(LOOKS) & (table["m"] == table["n"]) & (table["n"] == table["k"])]
    if rows.empty:
        raise ValueError("batches: the table has no square products in one of the ways it draws.")
    style.require_positive(rows.rename(columns={"way": "kernel"}), ("time_ms",), "batches")
    rows = rows.assign(product_us=1e3 * rows["time_ms"] / rows["batch"])
    sizes = sorted(set(rows["m"]))
    fig = style.page(TOP + HEIGHT + 0.7, caption or _caption(rows), style.provenance(rows))
    title = "What one product takes, over the number of products"
    fig.text_at(MARGIN, 0.12, title, size=LARGE, weight="bold")
    _draw_key(fig, [way for way in LOOKS if way in set(rows["way"])])
    width = (WIDTH - LEFT - MARGIN - GAP * (len(sizes) - 1)) / len(sizes)
    low, high = rows["product_us"].min() / 1.3, rows["product_us"].max() * 1.3
    for at, size in enumerate(sizes):
        x = LEFT + at * (width + GAP)
        fig.text_at(x, TOP - 0.24, f"{size}×{size}×{size}", size=LARGE, weight="bold")
        ax = fig.add_axes_at(x, TOP, width, HEIGHT, gid=f"size {size}")
        ax.set(xscale="log", yscale="log", ylim=(low, high), xlabel="products of the batch")
        own = rows[rows["m"] == size]
        ticks = sorted(set(own["batch"]))
        ax.set_xticks(ticks, [str(batch) for batch in ticks], rotation=60)
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlim(ticks[0] / 1.5, ticks[-1] * 1.5)
        style.plain_log_ticks(ax.yaxis)
        ax.grid(axis="y")
        for way, (whose, line) in LOOKS.items():
            curve = own[own["way"] == way].sort_values("batch")
            ax.plot(
                curve["batch"], curve["product_us"], linestyle=line, color=whose["color"],
                marker=whose["marker"], markersize=MARKER, linewidth=1.4, gid=f"{way} {size}",
            )  # fmt: skip
        if at == 0:
            ax.set_ylabel("µs for one product")
        else:
            ax.tick_params(labelleft=False)
    return fig


def _draw_key(fig: Picture, ways: list[str]) -> None:
    across, down = fig.get_size_inches()
    x, y = MARGIN, 0.42
    for way in ways:
        whose, line = LOOKS[way]
        if x + 0.42 + style.text_width(way, SMALL) > WIDTH - MARGIN:
            x, y = MARGIN, y + 0.22
        fig.add_artist(
            Line2D(
                [x / across, (x + 0.17) / across, (x + 0.34) / across], [1 - (y + 0.08) / down] * 3,
                color=whose["color"], linestyle=line, marker=whose["marker"], markevery=[1],
                markersize=MARKER, linewidth=1.4,
            )
        )  # fmt: skip
        fig.text_at(x + 0.42, y, way, size=SMALL)
        x += 0.42 + style.text_width(way, SMALL) + 0.25


def _caption(rows: pandas.DataFrame) -> str:
    """What the ways take at the largest batch that all have: at once, and a launch for each."""
    shown = [way for way in (ONE, CUBLAS, GRAPH, LOOP) if way in set(rows["way"])]
    most = rows[rows["way"].isin(shown)].groupby("way")["batch"].max().min()
    parts = []
    for size, own in rows[rows["batch"] == most].groupby("m"):
        us = own.set_index("way")["product_us"]
        times = [style.digits(us[way]) for way in shown if way in us]
        parts.append(f"{style.listed(times)} µs at {style.shape_label(size, size, size)}")
    names = style.listed([f"“{way}”" for way in shown])
    return f"One of {most:,} products takes, by {names}: {'; '.join(parts)}."
