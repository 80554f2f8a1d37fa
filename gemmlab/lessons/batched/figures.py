"""Figures of this lesson: the time of one product of a batch, and where copies go."""

from collections.abc import Mapping

import numpy as np
import pandas
from matplotlib.axes import Axes

from gemmlab.lessons.batched import measure as ways
from gemmlab.lessons.batched.tables import BANKS, WORD_BYTES, Copy
from gemmlab.plots import style
from gemmlab.plots.cells import SECTOR_BYTES, bare, box
from gemmlab.plots.charts import Curve, draw_curves, note, room_for
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.style import LARGE, LINE, MARGIN, NORMAL, SMALL, WIDTH, plural
from ptxsim.architectures import WARP

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
        f"13 in one launch, in percent of the speed of cuBLAS's batched call. From "
        f"{rows['batch'].min()} product to {rows['batch'].max():,}: {'; '.join(parts)}."
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
    rows = table[table["way"].isin(LOOKS) & (table["m"] == table["n"]) & (table["n"] == table["k"])]
    rows = rows.assign(product_us=1e3 * rows["time_ms"] / rows["batch"])
    sizes = sorted(set(rows["m"]))
    key = [(way, look) for way, look in LOOKS.items() if way in set(rows["way"])]
    title = "What one product takes, over the number of products"
    # What the ways take at the largest batch that all have.
    shown = [
        way for way in (ways.ONE, ways.CUBLAS, ways.GRAPH, ways.LOOP) if way in set(rows["way"])
    ]
    most = rows[rows["way"].isin(shown)].groupby("way")["batch"].max().min()
    at_most = rows[rows["batch"] == most].set_index(["way", "m"])["product_us"]
    parts = []
    for way in shown:
        times = [style.digits(at_most[way, size]) for size in sizes if (way, size) in at_most]
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
        given = [
            Curve(way, list(curve["batch"]), list(curve["product_us"]), look)
            for way, look in LOOKS.items()
            if len(curve := of_size[of_size["way"] == way])
        ]  # fmt: skip
        draw_curves(ax, given, named=False)
        ax.set(ylim=limits, xlabel="products of the batch")
        if at == 0:
            ax.set_ylabel("µs for one product")
        else:
            ax.tick_params(labelleft=False)
    return fig


# ---- copies --------------------------------------------------------------------------------------

NAMES, PANEL_GAP, ARROW = 0.42, 0.42, 0.34  # inches; ARROW is room for one
LEAST_ROWS = 8  # of stretches of shared memory that are drawn
PALEST, DARKEST = 0.25, 1.0  # of a matrix's colour: lane 0, lane 31


@styled
def copies(by_name: Mapping[str, Copy]) -> Picture:
    """One copy of a warp from each of some matrices, beside each other.

    Above, the piece of the matrix as it is stored: a box is what one lane copies, paler for lane 0,
    darker for lane 31. Below, shared memory in rows of 32 words, one a bank, with the same boxes.

    by_name: by name, what tables.copy_of(trace, array) gives, one to four.
    """
    pitch = (WIDTH - 2 * MARGIN) / max(3, len(by_name))
    # Of each copy, the rows and columns that are drawn of the matrix, and the rows of banks.
    pieces, stretches = {}, {}
    for name, copy in by_name.items():
        last = copy.access.elements.max(axis=(0, 1)) + 1
        pieces[name] = np.minimum(copy.access.shape, np.maximum(BANKS, last))
        first = copy.words.min() // BANKS  # the row of banks that is drawn first
        stretches[name] = first, max(LEAST_ROWS, 1 + copy.words.max() // BANKS - first)
    cell = (pitch - ARROW - 0.15) / max(BANKS, *(columns for _, columns in pieces.values()))
    above = max(rows for rows, _ in pieces.values()) * cell
    below = max(rows for _, rows in stretches.values()) * cell
    down = NAMES + above + PANEL_GAP + below + 0.22
    height = down + 3 * SMALL * LINE / 72 + 0.15
    shades = [{"facecolor": _shade(style.FAINT, lane)} for lane in range(0, WARP, 10)]
    key = [("a box is what one lane copies, from lane 0 (pale) to lane 31", shades)]
    costs = {
        name: f"{copy.access.width} bytes a lane, {plural(copy.access.sectors, 'sector')}"
        for name, copy in by_name.items()
    }
    parts = [f"{name}, {costs[name]} and {_banks_in_words(copy)}" for name, copy in by_name.items()]
    caption = (
        f"One copy of warp 0 from the matrix above into shared memory below, traced: "
        f"{'; '.join(parts)}. Lines in the matrix part sectors of {SECTOR_BYTES} bytes."
    )
    fig = page("One copy of one warp", height, caption, key=key)
    for at, (name, copy) in enumerate(by_name.items()):
        x, (rows, columns) = MARGIN + at * pitch + ARROW, pieces[name]
        first, banks = stretches[name]
        fig.text_at(x, fig.top, name, size=NORMAL, weight="bold")
        top = fig.top + NAMES
        ax = fig.add_axes_at(x, top, columns * cell, rows * cell)
        _draw_lanes(ax, copy, rows, columns, copy.access.elements[:, 0])
        sectors = range(SECTOR_BYTES // WORD_BYTES, columns, SECTOR_BYTES // WORD_BYTES)
        ax.vlines(sectors, 0, rows, color=style.FAINT, linewidth=0.6, zorder=2)
        _draw_arrow(ax, copy)
        top += above + PANEL_GAP
        fig.text_at(x, top - 0.22, "shared memory, 32 banks", size=SMALL)
        ax = fig.add_axes_at(x, top, BANKS * cell, banks * cell)
        row, bank = np.divmod(copy.words[:, 0], BANKS)
        _draw_lanes(ax, copy, banks, BANKS, np.stack([row - first, bank], axis=1))
        ax.set_xticks([0.5, BANKS - 0.5], ["0", str(BANKS - 1)])
        ax.tick_params(length=0, pad=1)
        notes = (
            costs[name],
            _banks_in_words(copy),
            f"{copy.requests} {'copy' if copy.requests == 1 else 'copies'} for the block's tile",
        )
        fig.text_at(x, fig.top + down, "\n".join(notes), size=SMALL, linespacing=LINE)
    return fig


def _shade(colour: str, lane: int) -> tuple[float, float, float]:
    return style.tint(colour, PALEST + (DARKEST - PALEST) * lane / (WARP - 1))


def _draw_lanes(ax: Axes, copy: Copy, rows: int, columns: int, places: np.ndarray) -> None:
    """Cells in a frame, and in them what each lane copies, from its row and column in places on."""
    bare(ax, columns, rows)
    box(ax, 0, 0, columns, rows, facecolor="white", edgecolor=style.FAINT, clip_on=False, zorder=0)
    look = {"color": style.GRID, "linewidth": 0.4, "zorder": 0.5}
    ax.hlines(range(1, rows), 0, columns, **look)
    ax.vlines(range(1, columns), 0, rows, **look)
    for lane, (row, column) in zip(copy.access.lanes.tolist(), places.tolist(), strict=True):
        colour = _shade(style.ARRAYS[copy.access.array], lane)
        box(ax, column, row, copy.words.shape[1], 1, zorder=1, facecolor=colour, linewidth=0.4)


def _draw_arrow(ax: Axes, copy: Copy) -> None:
    """Which way K goes through the stored matrix: an arrow of eleven of its elements."""
    begin, end, ha, va = (0, -1.4), (11, -1.4), "left", "center"
    if not copy.along_k:
        begin, end, ha, va = (-1.7, 0), (-1.7, 11), "center", "top"
    arrow = {"arrowstyle": "<|-", "color": style.INK, "linewidth": 1.2, "shrinkB": 0}
    note(ax, "K", begin, end, textcoords="data", weight="bold", ha=ha, va=va, arrowprops=arrow)


def _banks_in_words(copy: Copy) -> str:
    used = copy.banks[copy.banks > 0]
    alike = "" if (used == used[0]).all() else "up to "
    return f"{alike}{plural(int(used.max()), 'word')} in each of {len(used)} banks"
