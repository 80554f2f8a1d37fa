"""Figures of this lesson: loads ahead of their use, FMAs in order, the pipeline."""

from itertools import accumulate, cycle, pairwise

import pandas

from gemmlab.lessons.register_banks import pipeline as stages
from gemmlab.lessons.register_banks import tables
from gemmlab.lessons.register_banks.pipeline import Pipeline
from gemmlab.loading import load
from gemmlab.plots import style
from gemmlab.plots.cells import bare, box, plate
from gemmlab.plots.charts import note
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, TILE_COLOURS, WIDTH, plural
from gemmlab.sass import loops
from gemmlab.sass.inner_loop import MULTIPLY_ADD, Loop
from ptxsim.architectures import SIMULATED_ARCH

MEASURED, ROOF = "measured TFLOP/s", "roof TFLOP/s"
LEFT = 0.62  # inches: axes from the left


# ---- one thread's loads and FMAs -----------------------------------------------------------------

FROM, UPTO = -64, 200  # FMAs around the change of tiles that are drawn
LANE, SOON = 0.085, 8  # inches, of a load; FMAs that hide little of its latency
HIDDEN: style.Look = {"color": style.SKY, "linewidth": 1.8, "marker": "|", "markersize": 5}
EXPOSED: style.Look = {"color": style.ORANGE, "marker": "X", "markersize": 7, "linestyle": ""}
CELL = 0.215  # inches, of a sum
TILE = 8, 16  # rows and columns of the sums of a thread
IN_TURN: style.Look = {"color": style.SKY, "linewidth": 2.0}
JUMP: style.Look = {"color": style.ORANGE, "linewidth": 1.4, "linestyle": (0, (3, 1))}


@styled
def loads_ahead(*names: str) -> Picture:
    """How long before its use a value is loaded from shared memory, in the machine code of rungs.

    A panel for each, all on one scale: lines from a load to the first instruction that needs it,
    over the FMAs of the warp, around the place where it goes on to the next tiles.
    """
    trips = {name: loops.loop(load(name), SIMULATED_ARCH) for name in names}
    shown = {name: _around_the_change(loop) for name, loop in trips.items()}
    parts = []
    for name, loop in trips.items():
        ahead = [used - issued for issued, used in tables.loads_ahead(loop)]
        parts.append(
            f"{name} has {len(ahead)} for {plural(loop.mix[MULTIPLY_ADD], 'FMA')}, the shortest "
            f"line {plural(min(ahead), 'FMA')} long"
        )
    caption = (
        "Loads from shared memory in the machine code of one warp, in their order, a line for "
        f"each. For a pair of tiles {'; '.join(parts)}."
    )
    key = [
        ("from a load to its first use", HIDDEN),
        (f"used within {SOON} FMAs: too soon to hide the load", EXPOSED),
    ]
    heights = {name: LANE * len(lines) + 0.1 for name, lines in shown.items()}
    title = "How far ahead of its use a value is loaded"
    fig = page(title, sum(heights.values()) + 0.36 * len(shown) + 0.42, caption, key=key)
    top = fig.top
    for name, lines in shown.items():
        fig.text_at(MARGIN, top, name, size=NORMAL, weight="bold")
        ax = fig.add_axes_at(MARGIN + 0.1, top + 0.24, WIDTH - 2 * MARGIN - 0.2, heights[name])
        ax.set(xlim=(FROM, UPTO), ylim=(heights[name] / LANE, 0), yticks=[])
        ax.spines["left"].set_visible(False)
        ax.axvline(0, color=style.BLACK, linewidth=1.2)
        note(ax, "the tiles change", (0, 0), (4, 1), va="bottom")
        ax.tick_params(labelbottom=name == names[-1])
        ax.grid(axis="x")
        for lane, (issued, used) in enumerate(lines):
            exposed = used - issued < SOON
            ax.plot([issued, used], [lane + 1] * 2, **HIDDEN)
            ax.plot([issued] * exposed, [lane + 1] * exposed, **EXPOSED, zorder=3)
        top += heights[name] + 0.36
    ax.set_xlabel("FMAs of the warp, from the change of tiles on")
    return fig


def _around_the_change(loop: Loop) -> list[tuple[int, int]]:
    """(issued, used) of the loads that are drawn, counted from the change of tiles."""
    change, trip = tables.change_of_tiles(loop), loop.mix[MULTIPLY_ADD]
    shifts = [trips * trip - change for trips in (-2, -1, 0, 1)]
    lines = [(a + by, b + by) for a, b in tables.loads_ahead(loop) for by in shifts]
    return sorted((issued, used) for issued, used in lines if used > FROM and issued <= UPTO)


@styled
def orders(table: pandas.DataFrame) -> Picture:
    """Two orders of the FMAs of an outer product: a line through the sums of a thread, in turn.

    table: as measure.fma_order() gives, for the speeds, in the order of the source.
    """
    rows, columns = TILE
    tile = f"{rows}×{columns}"
    measured = table.query("tile == @tile").set_index("order")
    parts, panels = [], {}
    for order in (tables.BY_ROWS, tables.SNAKING):
        kept, speed = tables.kept(order, rows, columns), style.rate(1e3 * measured[MEASURED][order])
        panels[order] = f"{order}: {speed}"
        parts.append(f"{order}, {kept} of {rows * columns} FMAs, and {speed} without loads")
    caption = (
        f"The {tile} sums of a thread. An FMA that shares an operand with the one before: "
        f"{'; '.join(parts)}, where the roof is {style.rate(1e3 * measured[ROOF].max())}."
    )
    key = [("one operand stays", IN_TURN), ("both change", JUMP)]
    title, height = "In which order a thread adds to its sums", rows * CELL + 0.7
    fig = page(title, height, caption, style.provenance(table), key=key)
    pitch = (WIDTH - MARGIN - LEFT) / len(panels)
    for at, (order, words) in enumerate(panels.items()):
        left = LEFT + at * pitch
        fig.text_at(left, fig.top, words, size=NORMAL, weight="bold")
        ax = fig.add_axes_at(left, fig.top + 0.5, columns * CELL, rows * CELL)
        bare(ax, columns, rows)
        for row, column in tables.places(order, *TILE):
            box(ax, column, row, 1, 1, facecolor=style.tint(style.ARRAYS["C"], 0.2))
        look: style.Look = {"size": SMALL, "ha": "center", "va": "center"}
        ax.text(columns / 2, -0.75, f"{columns} elements of B", color=style.ARRAYS["B"], **look)
        look |= {"color": style.ARRAYS["A"], "rotation": 90}
        ax.text(-0.75, rows / 2, f"{rows} elements of A", **look)
        for (row, column), (next_row, next_column) in pairwise(tables.places(order, *TILE)):
            stays = row == next_row or column == next_column
            across, down = [column + 0.5, next_column + 0.5], [row + 0.5, next_row + 0.5]
            ax.plot(across, down, **(IN_TURN if stays else JUMP), zorder=3)
    return fig


# ---- the pipeline --------------------------------------------------------------------------------

# Of a column; those of mbarriers are narrow.
WIDTHS = {stages.READS: 3.0, stages.COPIES: 1.2, stages.STORES: 1.2}
NARROW = 0.6
ROW, GAP = 0.42, 0.2  # inches: a stage of the pipeline, the room below it
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
    """The stages of a pipeline of tiles, one below the other, as one warp fills and reads them.

    traced: as pipeline.of(trace) gives. Left to right is the order in which the warp does it, not
    time; a cell has the number of its tile. Of a batch, a colour is a product, tiles are counted in
    each, and a row below shows when C is stored.
    """
    widths = [WIDTHS.get(event.kind, NARROW) for event in traced.events]
    starts, end = list(accumulate(widths, initial=0.0)), sum(widths)
    batch = traced.trace.batch > 1
    rows = traced.places + batch  # the last one for C
    height = rows * (ROW + GAP)
    title = f"The stages of {traced.trace.kernel_name}, as one warp fills and reads them"
    products = dict.fromkeys(traced.product(event.tile)[0] for event in traced.events)
    colours = dict(zip(products, cycle(TILE_COLOURS), strict=False))
    key = [
        ("starts its copies of a tile", _look(stages.COPIES, NO_TILE)),
        ("they are on their way", {"color": NO_TILE, **ON_ITS_WAY}),
        ("reads the tile, and multiplies", _look(stages.READS, NO_TILE)),
        ("orders its arrival at full, done when they have landed", MBARRIERS[stages.LEAVES_FULL]),
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
        name = f"stage {row}" if row < traced.places else "C"
        fig.text_at(MARGIN, top + y + ROW / 2, name, size=NORMAL, va="center")
    read_from = {
        event.tile: x + NARROW / 2
        for event, x in zip(traced.events, starts, strict=False)
        if event.kind == stages.AWAITS_FULL
    }
    for event, x in zip(traced.events, starts, strict=False):
        product, number = traced.product(event.tile)
        colour = colours[product] if batch else style.tile_colour(event.tile)
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
    if trace.batch == 1:
        return (
            f"What warp 0 of a block does with the {plural(traced.places, 'stage')} at "
            f"{shape}, in the order of the trace; widths are not times. A number is that of a pair "
            f"of tiles of A and B, {trace.settings['BK']} steps along K. Of its "
            f"{traced.elements:,} elements this warp copies {traced.copied:,} and reads "
            f"{traced.read:,}. {who.capitalize()} of the block's {plural(traced.warps, 'warp')} do "
            "the same in this order, each at its own time."
        )
    where, what = f"a batch of {trace.batch}, {shape}", "a tile in its product,"
    return (
        "What warp 0 of block (0, 0, 0) does with the "
        f"{plural(traced.places, 'stage')} of the pipeline at {where}, from the trace: an order, "
        f"not times. A number is that of {what} of {trace.settings['BK']} steps along K; a column "
        "is a run of instructions of one kind. "
        f"Of the {traced.elements:,} elements of a tile this warp copies "
        f"{traced.copied:,} and reads {traced.read:,}. Of the block's "
        f"{plural(traced.warps, 'warp')} {who} do the same in this order, each at its own time."
    )
