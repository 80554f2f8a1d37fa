"""Figures of this lesson: the order of FMAs, issue slots, and the pipeline of tiles."""

from itertools import accumulate, cycle

import pandas
from matplotlib.axes import Axes

from gemmlab.lessons.register_banks import pipeline as stages
from gemmlab.lessons.register_banks.measure import DEFAULT_LEVEL, KEEPS_ORDER, ORDERS
from gemmlab.lessons.register_banks.pipeline import Pipeline
from gemmlab.lessons.register_banks.tables import uneven
from gemmlab.plots import style
from gemmlab.plots.cells import bare, box, plate
from gemmlab.plots.charts import at_edge, bar, note, rows_of
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import LARGE, MARGIN, NORMAL, TILE_COLOURS, WIDTH, percent, plural
from gemmlab.sass.inner_loop import ADDRESS, CONTROL, COPY, OTHER, SHARED_LOAD

SLOTS, PREDICTED, MEASURED, ROOF = (
    "slots alone TFLOP/s", "predicted TFLOP/s", "measured TFLOP/s", "roof TFLOP/s",
)  # fmt: skip
DEFAULT, ORDERED = f"-O{DEFAULT_LEVEL}", f"-O{KEEPS_ORDER}"
LOOKS = {  # of an order: its colour, which no matrix has, and its marker
    ORDERS[0]: (style.ORANGE, "s"),
    ORDERS[1]: (style.SKY, "o"),
    ORDERS[2]: (style.PURPLE, "^"),
    ORDERS[3]: (style.FAINT, "D"),
    ORDERS[4]: (style.BLACK, "P"),
}
UNEVEN = "†"  # on the speed of a launch in which SMs took different times
LEFT, SPLIT, HEIGHT = 0.62, 5.0, 3.0  # inches: axes from the left, the second ones, their height
BAR = 0.8 / len(ORDERS)
PREDICTED_LOOK = {
    "marker": "v", "color": style.BLACK, "markeredgecolor": style.GROUND, "linestyle": "",
}  # fmt: skip


@styled
def fma_order(table: pandas.DataFrame) -> Picture:
    """Outer products without loads by the order of their FMAs; and with loads among them.

    table: as measure.fma_order() gives. Left: a group of bars for each tile of sums, no loads, the
    assembler's default level; a triangle is what slots and waits for banks let expect. Right, of
    the tile that was measured with loads: filled marks with level 1, which keeps most of the
    source's order, hollow ones with the default; the line is what issue slots alone let expect.
    """
    bare = table[(table["loads"] == 0) & (table["ptxas"] == DEFAULT)]
    (tile,) = set(table[table["loads"] > 0]["tile"])
    orders = set(table[table["loads"] > 0]["order"])
    loaded = table[(table["tile"] == tile) & table["order"].isin(orders)]
    key = []
    for order, (colour, marker) in LOOKS.items():
        mark = {"color": colour, "marker": marker, "linestyle": ""}
        key.append((order, [swatch(colour), mark]))
    ink = {"color": style.INK, "marker": "o", "linestyle": ""}
    key += [
        ("expected of slots and waits for register banks", PREDICTED_LOOK),
        (f"ptxas {ORDERED}", ink),
        (f"ptxas {DEFAULT}", {**ink, "markerfacecolor": style.GROUND}),
        ("expected of issue slots alone", {"color": style.BLACK}),
    ]
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
    caption = (
        "The same outer products, the same number of instructions, another order: with "
        f"{widest} sums a thread does {style.rate(1e3 * rows.min())} {rows.idxmin()} and "
        f"{style.rate(1e3 * rows.max())} {_with(rows.idxmax())}. With {most} loads for each "
        f"{tile} outer product the fastest order reaches {style.rate(1e3 * best[MEASURED])}; "
        f"their issue slots alone would leave {style.rate(1e3 * best[SLOTS])}."
        + (words if marked else "")
    )
    source = style.provenance(table)
    title = "Outer products by the order of their FMAs"
    fig = page(title, 0.3 + HEIGHT + 0.5, caption, source, key=key)
    high, top = 1.12 * table[ROOF].max(), fig.top + 0.3
    size = (SPLIT - LEFT - 0.7, HEIGHT)
    _draw_bars(fig.add_axes_at(LEFT, top, *size, ylim=(0, high)), bare)
    fig.text_at(LEFT, fig.top, "no loads", size=LARGE, weight="bold")
    _draw_loads(fig.add_axes_at(SPLIT, top, WIDTH - MARGIN - SPLIT, HEIGHT), loaded)
    fig.text_at(SPLIT, fig.top, f"with loads, {tile}", size=LARGE, weight="bold")
    return fig


def _draw_roof(ax: Axes, roof: float) -> None:
    ax.axhline(roof, color=style.BLACK, linewidth=1.2, linestyle="--")
    look = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom"}
    note(ax, f"roof {style.digits(roof)}", (1, roof), (0, 3), **look)


def _draw_bars(ax: Axes, bare: pandas.DataFrame) -> None:
    tiles = list(dict.fromkeys(bare["tile"]))
    marked = uneven(bare).index
    for at, row in bare.iterrows():
        colour, _ = LOOKS[row["order"]]
        x = tiles.index(row["tile"]) + (list(LOOKS).index(row["order"]) - 2) * BAR
        ax.bar(x, row[MEASURED], 0.9 * BAR, **swatch(colour))
        ax.plot(x, row[PREDICTED], **PREDICTED_LOOK, zorder=4)
        look = {"ha": "center", "va": "bottom", "rotation": 90, "bbox": plate(1)}
        note(ax, style.digits(row[MEASURED]), (x, 0), (0, 4), **look)
        if at in marked:
            look = {"ha": "center", "va": "top", "size": NORMAL, "weight": "bold"}
            note(ax, UNEVEN, (x, row[MEASURED]), (0, -5), **look)
    _draw_roof(ax, bare[ROOF].max())
    ax.set_xticks(range(len(tiles)), [f"{tile} sums" for tile in tiles])
    ax.tick_params(axis="x", length=0, labelsize=NORMAL)
    ax.set_ylabel("TFLOP/s")
    ax.grid(axis="y")


def _draw_loads(ax: Axes, loaded: pandas.DataFrame) -> None:
    slots = loaded.groupby("loads")[SLOTS].max()
    ax.plot(slots.index, slots, color=style.BLACK)
    for (order, level), rows in loaded.groupby(["order", "ptxas"], sort=False):
        colour, marker = LOOKS[order]
        rows, ordered = rows.sort_values("loads"), level == ORDERED
        ax.plot(
            rows["loads"], rows[MEASURED], marker, color=colour, markersize=6.5, zorder=3,
            linestyle="-" if ordered else ":", linewidth=1.0,
            markerfacecolor=colour if ordered else style.GROUND,
        )  # fmt: skip
    _draw_roof(ax, loaded[ROOF].max())
    low = 0.94 * loaded[MEASURED].min()
    ax.set(ylim=(low, loaded[ROOF].max() + (loaded[ROOF].max() - low) * 0.12))
    ax.set_xticks(sorted(set(loaded["loads"])))
    ax.set_xlabel("16-byte loads from shared memory for each outer product")
    ax.set_ylabel("TFLOP/s, not from 0")
    ax.grid(axis="y")


def _with(order: str) -> str:
    return order if order == ORDERS[0] else f"with {order}"


# ---- issue slots ---------------------------------------------------------------------------------

MULTIPLY_ADD, WAITS, REST = "FFMA", "waits", "control and other"
SHARE_PREDICTED, SHARE_MEASURED = "predicted, % of roof", "measured, % of roof"
PARTS = {  # what a bar is made of, from the left: its name in the key, its look
    MULTIPLY_ADD: ("multiply-adds", swatch(style.BLUE)),
    SHARED_LOAD: ("shared loads", swatch(style.GREEN, hatch="///")),
    COPY: ("copies", swatch(style.ORANGE, hatch="...")),
    ADDRESS: ("addresses", swatch(style.PURPLE, hatch="\\\\\\")),
    REST: (REST, swatch(style.SKY, hatch="xxx")),
    WAITS: ("waits for register banks", swatch(style.VERMILION, hatch="---")),
}
MARKS = {
    SHARE_PREDICTED: {**PREDICTED_LOOK, "markersize": 7},
    SHARE_MEASURED: {**PREDICTED_LOOK, "marker": "D", "markersize": 7},
}


@styled
def issue_slots(table: pandas.DataFrame) -> Picture:
    """The cycles of one trip through each kernel's inner loop, by what the scheduler does in them.

    table: as gl.issue_slots() gives. A bar is a trip, a cycle for every issue slot and every wait.
    Two markers show shares of the arithmetic roof: where multiply-adds end, and the measured one.
    """
    both = zip(table["issue slots"], table[WAITS], strict=True)
    labels = ["slots + waits", *(f"{slots:,} + {lost:,}" for slots, lost in both)]
    right = WIDTH - MARGIN - style.widest(labels) - 0.15
    key = [*PARTS.values()]
    key += [(f"{name.split(',')[0]} share of the roof", look) for name, look in MARKS.items()]
    title = "One trip through the inner loop, cycle by cycle"
    rows = table.set_index("kernel")
    best = rows[SHARE_PREDICTED].idxmax()
    reached = rows[SHARE_MEASURED] / rows[SHARE_PREDICTED]
    nearest, most = reached.idxmax(), percent(100 * reached.max())
    caption = (
        f"Cycles of one trip through the inner loop, as the compiled code has them: {best} gives "
        f"multiply-adds {percent(rows[SHARE_PREDICTED][best])} of them, the largest share. The "
        f"measured speed of {nearest} comes nearest to its prediction, with {most} of it."
    )
    if over := list(reached.index[reached > 1]):
        caption += f" Faster than predicted: {style.listed(over)}."
    source = style.provenance(table)
    fig = page(title, 0.2 + 0.46 * len(table) + 0.6, caption, source, key=key)
    top, names = fig.top + 0.2, list(table["kernel"])
    ax = rows_of(fig, names, top, 0.46, right=right, xlim=(0, 100))
    ax.set_xlabel("share of the cycles, and of the roof, %")
    at_edge(ax, -0.75, labels[0])
    parts = table.assign(**{REST: table[CONTROL] + table[OTHER]})[list(PARTS)]
    shares = 100 * parts.div(parts.sum(axis=1), axis=0)
    for at in range(len(names)):
        start = 0.0
        for name, (_, look) in PARTS.items():
            end = start + shares[name].iloc[at]
            bar(ax, at, start, end, share=0.57, **look)
            start = end
        for name, look in MARKS.items():
            y = at + (0.11 if name == SHARE_PREDICTED else 0.5)
            ax.plot(table[name].iloc[at], y, zorder=3, clip_on=False, **look)
        at_edge(ax, at, labels[at + 1])
    return fig


# ---- the pipeline --------------------------------------------------------------------------------

# Of a column; those of mbarriers are narrow.
WIDTHS = {stages.READS: 3.0, stages.COPIES: 1.2, stages.STORES: 1.2}
NARROW = 0.6
MOST = 70.0  # columns' widths in all: more would be too narrow for a number
ROW, GAP = 0.42, 0.2  # inches: a place of the pipeline, the room below it
PIPELINE_LEFT = 0.78
NO_TILE = style.INK  # in the key, which is of all tiles
MBARRIERS = {  # what a warp does at one: how it looks
    stages.LEAVES_FULL: {"color": style.BLACK, "marker": "^", "markersize": 5.5, "linestyle": ""},
    stages.ARRIVES_EMPTY: {"color": style.BLACK, "marker": "v", "markersize": 5.5, "linestyle": ""},
    stages.AWAITS_FULL: {"color": style.BLACK, "linewidth": 2.0, "linestyle": "-"},
    stages.AWAITS_EMPTY: {"color": style.BLACK, "linewidth": 2.0, "linestyle": ":"},
}
ON_ITS_WAY = {"linewidth": 2.0, "linestyle": (0, (2, 1))}


@styled
def pipeline(traced: Pipeline) -> Picture:
    """The places of a pipeline of tiles, one below the other, as one warp fills and reads them.

    traced: as pipeline.of(trace) gives. Left to right is the order in which the warp does it, not
    time; a cell has the number of its tile. Of a batch, a colour is a product, tiles are counted in
    each, and a row below shows when C is stored. Raises ValueError for more than fits.
    """
    widths = [WIDTHS.get(event.kind, NARROW) for event in traced.events]
    starts, end = list(accumulate(widths, initial=0.0)), sum(widths)
    if end > MOST:
        tiles = 1 + max(event.tile for event in traced.events)
        raise ValueError(
            f"pipeline: {plural(tiles, 'tile')} do not fit; trace a product with a smaller K."
        )
    batch = traced.trace.batch > 1
    rows = traced.places + batch  # the last one for C
    height = rows * (ROW + GAP)
    title = f"The ring of {traced.trace.kernel_name}, in the order of execution of one warp"
    products = dict.fromkeys(traced.product(event.tile)[0] for event in traced.events)
    colours = dict(zip(products, cycle(TILE_COLOURS), strict=False))
    key = [
        ("starts its copies of a tile", _look(stages.COPIES, NO_TILE)),
        ("they are on their way", {"color": NO_TILE, **ON_ITS_WAY}),
        ("reads the tile, and multiplies", _look(stages.READS, NO_TILE)),
        ("leaves its arrival at full with the copies", MBARRIERS[stages.LEAVES_FULL]),
        ("waits until full", MBARRIERS[stages.AWAITS_FULL]),
        ("has read: arrives at empty", MBARRIERS[stages.ARRIVES_EMPTY]),
        ("waits until empty", MBARRIERS[stages.AWAITS_EMPTY]),
    ]
    if batch:
        key.append(("stores its part of C", _look(stages.STORES, NO_TILE)))
        key += [(f"product {at}", _look("", colour)) for at, colour in colours.items()]
    else:
        key.append(("neighbouring tiles have different colours", None))
    fig = page(title, 0.05 + height + 0.1, _of_pipeline(traced), key=key)
    top = fig.top + 0.05
    size = (WIDTH - MARGIN - PIPELINE_LEFT, height)
    ax = bare(fig.add_axes_at(PIPELINE_LEFT, top, *size), end, height)
    ax.set_xlim(-0.1, end + 0.1)
    for row in range(rows):
        y = row * (ROW + GAP)
        box(ax, 0, y, end, ROW, facecolor="none", edgecolor=style.GRID, zorder=0)
        name = f"place {row}" if row < traced.places else "C"
        fig.text_at(MARGIN, top + y + ROW / 2, name, size=NORMAL, va="center")
    read_from = {
        event.tile: x + NARROW / 2
        for event, x in zip(traced.events, starts, strict=False)
        if event.kind == stages.AWAITS_FULL
    }
    for event, x in zip(traced.events, starts, strict=False):
        product, number = traced.product(event.tile)
        colour = colours[product] if batch else TILE_COLOURS[event.tile % len(TILE_COLOURS)]
        y = (traced.places if event.kind == stages.STORES else event.place) * (ROW + GAP)
        if event.kind in WIDTHS:
            words = "" if event.kind == stages.STORES else str(number)
            text = {"size": NORMAL, "zorder": 4, "bbox": plate()}
            box(ax, x, y, WIDTHS[event.kind], ROW, words, text, **_look(event.kind, colour))
        elif "marker" in MBARRIERS[event.kind]:
            ax.plot(x + NARROW / 2, y + ROW / 2, zorder=3, **MBARRIERS[event.kind])
        else:
            ends = [y - 0.05, y + ROW + 0.05]
            ax.plot([x + NARROW / 2] * 2, ends, zorder=3, **MBARRIERS[event.kind])
        if event.kind == stages.COPIES and event.tile in read_from:
            ends = [x + WIDTHS[event.kind] + NARROW, read_from[event.tile]]
            ax.plot(ends, [y + ROW / 2] * 2, color=colour, zorder=2, **ON_ITS_WAY)
    return fig


def _look(kind: str, colour: str) -> dict:
    return swatch(colour, 0.12, hatch="////") if kind == stages.COPIES else swatch(colour, 0.5)


def _of_pipeline(traced: Pipeline) -> str:
    trace = traced.trace
    who = "all" if traced.alike == traced.warps else str(traced.alike)
    shape = style.shape_label(trace.m, trace.n, trace.k)
    where, what = shape, "a tile"
    if trace.batch > 1:
        where, what = f"a batch of {trace.batch}, {shape}", "a tile in its product,"
    return (
        f"What warp {traced.warp} of block {traced.block} does with the "
        f"{plural(traced.places, 'place')} of the ring at {where}, from the trace: an order, not "
        f"times. A number is that of {what} of {trace.settings['BK']} steps along K; a column is a "
        "run of instructions of one kind. "
        f"Of the {traced.elements:,} elements of a tile this warp copies "
        f"{traced.copied:,} and reads {traced.read:,}. Of the block's "
        f"{plural(traced.warps, 'warp')} {who} do the same in this order, each at its own time."
    )
