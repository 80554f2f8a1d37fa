"""What the order of FMAs is worth, and what a load among them costs."""

from __future__ import annotations

import pandas
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from gemmlab.lessons.register_banks.measure import DEFAULT_LEVEL, KEEPS_ORDER, ORDERS
from gemmlab.lessons.register_banks.tables import uneven
from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LARGE, MARGIN, NORMAL, SMALL, WIDTH, styled

SLOTS, PREDICTED, MEASURED, ROOF = (
    "slots alone TFLOP/s", "predicted TFLOP/s", "measured TFLOP/s", "roof TFLOP/s",
)  # fmt: skip
COLUMNS = (
    "tile", "order", "loads", "ptxas", "FFMA", "issue slots", SLOTS, PREDICTED, MEASURED, ROOF,
    "issue active, %", "active, %", "gpu", "recorded",
)  # fmt: skip
DEFAULT, ORDERED = f"-O{DEFAULT_LEVEL}", f"-O{KEEPS_ORDER}"
LOOKS = {  # of an order: colour, which is none of a matrix, and marker
    ORDERS[0]: (style.ORANGE, "s"),
    ORDERS[1]: (style.SKY, "o"),
    ORDERS[2]: (style.PURPLE, "^"),
    ORDERS[3]: (style.FAINT, "D"),
    ORDERS[4]: (style.BLACK, "P"),
}
UNEVEN = "†"  # on the speed of a launch in which SMs took different times
LEFT, SPLIT, HEIGHT = 0.62, 5.0, 3.0  # inches: axes from the left, the second ones, their height
BAR = 0.8 / len(ORDERS)
PREDICTED_LOOK = {"marker": "v", "color": style.BLACK, "markeredgecolor": style.GROUND}


@styled
def fma_order(table: pandas.DataFrame, *, caption: str | None = None) -> Picture:
    """Outer products without loads by the order of their FMAs; and with loads among them.

    table: as gl.fma_order() gives. Left: a group of bars for each tile of sums, no loads, the
    assembler's default level; a triangle is what slots and waits for banks let expect. Right, of
    the tile that was measured with loads: filled marks with level 1, which keeps most of the
    source's order, hollow ones with the default; the line is what issue slots alone let expect.

    Raises TypeError and ValueError for anything else.
    """
    style.require_table(table, COLUMNS, "fma_order")
    unknown = sorted(set(table["order"]) - set(LOOKS))
    if unknown:
        raise ValueError(f"fma_order: {unknown[0]!r} is no order; there are {', '.join(LOOKS)}.")
    bare = table[(table["loads"] == 0) & (table["ptxas"] == DEFAULT)]
    loaded_tiles = set(table[table["loads"] > 0]["tile"])
    if bare.empty or len(loaded_tiles) != 1:
        raise ValueError(
            "fma_order needs rows without loads, and rows with loads of one tile, not of "
            f"{len(loaded_tiles)}."
        )
    (tile,) = loaded_tiles
    orders = set(table[table["loads"] > 0]["order"])
    loaded = table[(table["tile"] == tile) & table["order"].isin(orders)]

    top = 1.1
    fig = style.page(
        top + HEIGHT + 0.55, caption or _caption(bare, loaded, tile), style.provenance(table)
    )
    _draw_key(fig)
    high = 1.12 * table[ROOF].max()
    ax = fig.add_axes_at(LEFT, top, SPLIT - LEFT - 0.7, HEIGHT, gid="orders", ylim=(0, high))
    _draw_bars(ax, bare)
    fig.text_at(LEFT, top - 0.26, "no loads", size=LARGE, weight="bold")
    right = fig.add_axes_at(SPLIT, top, WIDTH - MARGIN - SPLIT, HEIGHT, gid="loads")
    fig.text_at(SPLIT, top - 0.26, f"with loads, {tile}", size=LARGE, weight="bold")
    _draw_loads(right, loaded, high)
    return fig


def _draw_roof(ax: Axes, roof: float) -> None:
    ax.axhline(roof, color=style.BLACK, linewidth=1.2, linestyle="--", gid="roof")
    ax.annotate(
        f"roof {style.digits(roof)}", (1, roof), (0, 3), xycoords=("axes fraction", "data"),
        textcoords="offset points", size=SMALL, ha="right", va="bottom",
    )  # fmt: skip


def _draw_bars(ax: Axes, bare: pandas.DataFrame) -> None:
    tiles = list(dict.fromkeys(bare["tile"]))
    marked = uneven(bare).index
    for at, row in bare.iterrows():
        colour, _ = LOOKS[row["order"]]
        x = tiles.index(row["tile"]) + (list(LOOKS).index(row["order"]) - 2) * BAR
        ax.bar(
            x, row[MEASURED], 0.9 * BAR, facecolor=style.tint(colour, 0.45), edgecolor=colour,
            linewidth=0.8, gid=f"{row['tile']} {row['order']}",
        )  # fmt: skip
        ax.plot(
            x, row[PREDICTED], **PREDICTED_LOOK, markersize=6, zorder=4,
            gid=f"predicted {row['tile']} {row['order']}",
        )  # fmt: skip
        ax.annotate(
            style.digits(row[MEASURED]), (x, 0), (0, 4), textcoords="offset points", size=SMALL,
            ha="center", va="bottom", rotation=90,
            bbox={"facecolor": style.GROUND, "edgecolor": "none", "pad": 1},
        )  # fmt: skip
        if at in marked:
            ax.annotate(
                UNEVEN, (x, row[MEASURED]), (0, -5), textcoords="offset points", ha="center",
                va="top", size=NORMAL, weight="bold", gid=f"uneven {row['tile']} {row['order']}",
            )  # fmt: skip
    _draw_roof(ax, bare[ROOF].max())
    ax.set_xticks(range(len(tiles)), [f"{tile} sums" for tile in tiles])
    ax.tick_params(axis="x", length=0, labelsize=NORMAL)
    ax.set_ylabel("TFLOP/s")
    ax.grid(axis="y")


def _draw_loads(ax: Axes, loaded: pandas.DataFrame, high: float) -> None:
    slots = loaded.groupby("loads")[SLOTS].max()
    ax.plot(slots.index, slots, color=style.BLACK, gid="slots alone")
    for (order, level), rows in loaded.groupby(["order", "ptxas"], sort=False):
        colour, marker = LOOKS[order]
        rows, ordered = rows.sort_values("loads"), level == ORDERED
        ax.plot(
            rows["loads"], rows[MEASURED], marker, color=colour, markersize=6.5, zorder=3,
            linestyle="-" if ordered else ":", linewidth=1.0,
            markerfacecolor=colour if ordered else style.GROUND, gid=f"loads {order} {level}",
        )  # fmt: skip
    _draw_roof(ax, loaded[ROOF].max())
    low = 0.94 * loaded[MEASURED].min()
    ax.set(ylim=(low, loaded[ROOF].max() + (loaded[ROOF].max() - low) * 0.12))
    ax.set_xticks(sorted(set(loaded["loads"])))
    ax.set_xlabel("16-byte loads from shared memory for each outer product")
    ax.set_ylabel("TFLOP/s, not from 0")
    ax.grid(axis="y")


def _draw_key(fig: Picture) -> None:
    across, down = fig.get_size_inches()

    def mark(x: float, y: float, **look) -> None:
        fig.add_artist(Line2D([(x + 0.1) / across], [1 - (y + 0.065) / down], **look))

    x = LEFT
    for order, (colour, marker) in LOOKS.items():
        patch = Rectangle(
            (x / across, 1 - 0.28 / down), 0.2 / across, 0.13 / down,
            facecolor=style.tint(colour, 0.45), edgecolor=colour, transform=fig.transFigure,
        )  # fmt: skip
        fig.add_artist(patch)
        mark(x + 0.25, 0.15, marker=marker, color=colour, markersize=6)
        fig.text_at(x + 0.5, 0.15, order, size=SMALL)
        x += 0.5 + style.text_width(order, SMALL) + 0.25
    mark(LEFT, 0.42, **PREDICTED_LOOK, markersize=6)
    fig.text_at(LEFT + 0.28, 0.42, "expected of slots and waits for register banks", size=SMALL)
    x = SPLIT - 0.6
    mark(x, 0.42, marker="o", color=style.INK, markersize=6)
    fig.text_at(x + 0.28, 0.42, f"ptxas {ORDERED}", size=SMALL)
    x += 1.1
    mark(x, 0.42, marker="o", color=style.INK, markerfacecolor=style.GROUND, markersize=6)
    fig.text_at(x + 0.28, 0.42, f"ptxas {DEFAULT}", size=SMALL)
    x += 1.1
    line = Line2D([x / across, (x + 0.25) / across], [1 - 0.485 / down] * 2, color=style.BLACK)
    fig.add_artist(line)
    fig.text_at(x + 0.32, 0.42, "expected of issue slots alone", size=SMALL)


def _caption(bare: pandas.DataFrame, loaded: pandas.DataFrame, tile: str) -> str:
    """How far orders lie apart, where most, and what the loads cost beyond their slots."""
    both = bare.groupby("tile")[MEASURED].agg(["min", "max"])
    widest = (both["max"] / both["min"]).idxmax()
    rows = bare[bare["tile"] == widest].set_index("order")[MEASURED]
    ordered = loaded[loaded["ptxas"] == ORDERED]
    most = ordered["loads"].max()
    best = ordered[ordered["loads"] == most].sort_values(MEASURED).iloc[-1]
    marked = len(uneven(bare))
    words = (
        f" In {marked} of the bars ({UNEVEN}) some SMs took longer than others for the same work, "
        "when it was timed or when it was counted; a launch ends with its slowest."
    )
    return (
        "The same outer products, the same number of instructions, another order: with "
        f"{widest} sums a thread does {style.rate(1e3 * rows.min())} {rows.idxmin()} and "
        f"{style.rate(1e3 * rows.max())} {_with(rows.idxmax())}. With {most} loads for each "
        f"{tile} outer product the fastest order reaches {style.rate(1e3 * best[MEASURED])}; "
        f"their issue slots alone would leave {style.rate(1e3 * best[SLOTS])}."
        + (words if marked else "")
    )


def _with(order: str) -> str:
    return order if order == ORDERS[0] else f"with {order}"
