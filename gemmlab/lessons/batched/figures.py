"""Figures of this lesson: the time of one product of a batch, and its share of cuBLAS."""

import pandas

from gemmlab.lessons.batched import measure as ways
from gemmlab.plots import style
from gemmlab.plots.charts import Curve, draw_curves, note, room_for
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.style import LARGE, MARGIN, NORMAL, WIDTH

OURS, THEIRS = style.kernel_style(ways.RUNG), style.kernel_style("cublas")
AT_ONCE, IN_A_GRAPH, IN_A_LOOP = "-", "--", ":"
LOOKS = {
    way: {"color": whose["color"], "marker": marker, "markersize": 5, "linewidth": 1.4,
          "linestyle": line}
    for way, whose, marker, line in (
        (ways.LOOP, OURS, "^", IN_A_LOOP), (ways.GRAPH, OURS, "o", IN_A_GRAPH),
        (ways.ONE, OURS, OURS["marker"], AT_ONCE),
        (ways.CUBLAS, THEIRS, THEIRS["marker"], AT_ONCE),
    )
}  # fmt: skip
"""Of each way: the colour says whose it is, marker and line how it is launched."""
LEFT, GAP, HEIGHT = 0.75, 0.3, 3.6  # inches
SIZES = {  # colour and marker of each size of products; none is a matrix's
    32: (style.PURPLE, "o"), 64: (style.ORANGE, "D"), 128: (style.SKY, "s"),
}  # fmt: skip


@styled
def shares(table: pandas.DataFrame) -> Picture:
    """The speed of 13 in one launch over the number of products, in percent of cuBLAS's batch.

    table: as measure.TABLE has it. A curve for each size of square products.
    """
    rows = table[table["way"] == ways.CUBLAS].sort_values("batch")
    rows = rows.assign(share=100 * rows["ratio"])  # its time in those of 13, measured in turn
    given, parts = [], []
    for size, (colour, marker) in SIZES.items():
        of_size = rows[rows["m"] == size]
        look = {"color": colour, "marker": marker}
        name = f"{size}×{size}×{size}"
        given.append(Curve(name, list(of_size["batch"]), list(of_size["share"]), look))
        first, last = of_size["share"].iloc[[0, -1]]
        parts.append(f"{name} from {first:.0f} to {last:.0f} %")
    caption = (
        f"13 in one launch, in percent of the speed of cuBLAS's batched call, in turn with it. "
        f"From {rows['batch'].min()} product to {rows['batch'].max():,}: {'; '.join(parts)}."
    )
    fig = page("Share of cuBLAS, over the number of products", 2.9 + 0.62, caption,
               style.provenance(rows))  # fmt: skip
    width = WIDTH - LEFT - MARGIN - room_for(curve.name for curve in given)
    ax = fig.add_axes_at(LEFT, fig.top, width, 2.9)
    draw_curves(ax, given, scale="linear")
    ax.axhline(100, color=style.BLACK, linestyle="--", linewidth=1.4)
    note(ax, "cuBLAS", (16, 100), (0, 4), size=NORMAL, va="bottom", ha="center")
    ax.set(xlabel="products of the batch", ylabel="% of cuBLAS")
    return fig


@styled
def batches(table: pandas.DataFrame) -> Picture:
    """The time of one product over the number of them, a panel for each size of square products.

    table: as measure.TABLE has it; of its ways those in LOOKS. Both axes are logarithmic.
    """
    rows = table[table["way"].isin(LOOKS)]
    rows = rows.assign(product_us=1e3 * rows["time_ms"] / rows["batch"])
    sizes, key = sorted(set(rows["m"])), [*LOOKS.items()]
    title = "What one product takes, over the number of products"
    # What the ways take at the largest batch that all have.
    most = rows.groupby("way")["batch"].max().min()
    at_most = rows[rows["batch"] == most].set_index(["way", "m"])["product_us"]
    parts = []
    for way in (ways.ONE, ways.CUBLAS, ways.GRAPH, ways.LOOP):
        times = [style.digits(at_most[way, size]) for size in sizes]
        parts.append(f"{style.listed(times)} µs by “{way}”")
    shapes = style.listed([f"{size}×{size}×{size}" for size in sizes])
    caption = f"One of {most:,} products of {shapes} takes {'; '.join(parts)}."
    fig = page(title, 0.24 + HEIGHT + 0.55, caption, style.provenance(rows), key=key)
    width = (WIDTH - LEFT - MARGIN - GAP * (len(sizes) - 1)) / len(sizes)
    limits = rows["product_us"].min() / 1.3, rows["product_us"].max() * 1.3
    for at, size in enumerate(sizes):
        x, of_size = LEFT + at * (width + GAP), rows[rows["m"] == size].sort_values("batch")
        fig.text_at(x, fig.top, f"{size}×{size}×{size}", size=LARGE, weight="bold")
        ax = fig.add_axes_at(x, fig.top + 0.24, width, HEIGHT)
        curves = ((way, look, of_size[of_size["way"] == way]) for way, look in LOOKS.items())
        given = [
            Curve(way, list(curve["batch"]), list(curve["product_us"]), look)
            for way, look, curve in curves
        ]
        draw_curves(ax, given, named=False)
        ax.set(ylim=limits, xlabel="products of the batch")
        if at == 0:
            ax.set_ylabel("µs for one product")
        else:
            ax.tick_params(labelleft=False)
    return fig
