"""Figures of this lesson: the order of tiles, multicast copies, and changes of tiles."""

import itertools

import pandas
from matplotlib.axes import Axes

from gemmlab.lessons.persistent.schedule import Schedule
from gemmlab.plots import style
from gemmlab.plots.cells import bare, box, product_axes, write
from gemmlab.plots.charts import bar, rows_of
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import ARRAYS, MARGIN, NORMAL, SMALL, TILE_COLOURS, WIDTH
from ptxsim import BoxCopy

STRIP, GAP = 0.24, 0.07  # inches: of A and B beside C, to C
SHOWN = (0.55, 0.3)  # of C's colour, for the rounds whose blocks have numbers
LATER = (0.06, 0.12)  # ... and for those that follow, in turn
NEEDED, REST = 0.6, 0.08  # of the colours of A and B


@styled
def tile_order(*orders: tuple[str, Schedule]) -> Picture:
    """Which block computes which tile of C, in which round; what the first round needs is dark.

    orders: (name, schedule.schedule(kernel, m, n, k, sm_count)), one or two, of one shape.
    """
    room = (WIDTH - MARGIN) / 2 - 0.3
    side = room - STRIP - GAP
    down = max(
        order.tiles[0] * order.tile[0] / (order.tiles[1] * order.tile[1]) for _, order in orders
    )
    key = [
        (words, [{"facecolor": style.tint(ARRAYS[array], share)} for array in arrays])
        for arrays, share, words in (
            ("C", SHOWN[0], "wave 0, the first tile of every block: its number"),
            ("C", SHOWN[1], "wave 1"), ("C", LATER[1], "later waves"),
            ("AB", NEEDED, "loaded in wave 0"),
        )
    ]  # fmt: skip
    title = "Which block computes which tile of C, and when"
    _, first = orders[0]
    m, n, k = first.shape
    counts = [[len(order.brought(0, array)) for array in "AB"] for _, order in orders]
    needs = [f"{rows:,} rows of A and {columns:,} columns of B" for rows, columns in counts]
    named = [f"{name} {needed}" for (name, _), needed in zip(orders, needs, strict=True)]
    caption = (
        f"A product of {m}×{n}×{k} by {style.plural(first.blocks, 'persistent block')}, with tiles "
        f"of {first.tile[0]}×{first.tile[1]}, traced from the loads of their producers. "
        f"A block computes a tile in each of {style.plural(first.rounds, 'wave')}. The first "
        f"wave needs: {'; '.join(named)}."
    )
    fig = page(title, 0.44 + STRIP + GAP + side * min(1.0, down) + 0.12, caption, key=key)
    for at, (name, order) in enumerate(orders):
        left = MARGIN + at * (room + 0.45)
        fig.text_at(left, fig.top, name, size=NORMAL, weight="bold")
        fig.text_at(left, fig.top + 0.21, f"wave 0 needs {needs[at]}", size=SMALL)
        _draw(fig, order, left, fig.top + 0.44, side)
    return fig


def _draw(fig: Picture, order: Schedule, left: float, top: float, side: float) -> None:
    rows, columns = order.tiles
    cell = min(side / columns, side / rows)
    size = cell * columns, cell * rows
    axes = product_axes(fig, left, top, (STRIP, STRIP), size, (GAP, GAP))
    bare(axes["C"], columns, rows)
    for turn in order.turns:
        shown = turn.round < len(SHOWN)
        share = SHOWN[turn.round] if shown else LATER[turn.round % len(LATER)]
        words = str(turn.block) if shown and cell > style.text_width("00", SMALL) else ""
        box(axes["C"], turn.column, turn.row, 1, 1, words, facecolor=style.tint(ARRAYS["C"], share))
    for axis, array in enumerate("AB"):  # dark: the rows, or columns, that round 0 needs
        length = order.tile[axis]
        count = -(-order.shape[axis] // length)
        needed = {at // length for at in order.brought(0, array)}
        bare(axes[array], *((count, 1) if axis else (1, count)))
        for at in range(count):
            look = {"facecolor": style.tint(ARRAYS[array], NEEDED if at in needed else REST)}
            box(axes[array], *((at, 0) if axis else (0, at)), 1, 1, **look)
        look = {"transform": axes[array].transAxes, "weight": "bold", "va": "center"}
        write(axes[array], 0.5, 0.5, array, size=NORMAL, **look)


# ---- one step of a cluster -----------------------------------------------------------------------

SHARES = (0.55, 0.22)  # of a matrix's colour, for boxes that block 0 requests, and block 1
C_SHARES = (0.3, 0.12)
SIDE, APART = 1.75, 0.08  # inches: the larger side of C, to its factors
COLUMN, BETWEEN = 2.75, 0.3  # of a block's shared memory
KIB = 1024


@styled
def multicast(schedule: Schedule) -> Picture:
    """The first step along K of the first cluster: what its two blocks ask for, and what they get.

    schedule: schedule.schedule(kernel, m, n, k, sm_count) of a kernel that takes B
    as it is, in clusters of two that share it.
    """
    asked = [_first_step(schedule, block) for block in range(schedule.cluster)]
    key = [
        (
            f"loaded by block {block}",
            [{"facecolor": style.tint(ARRAYS[array], share)} for array in "AB"],
        )
        for block, share in enumerate(SHARES)
    ]
    title = "One step of a cluster: who loads which box, and who gets it"
    arrived = [_arrived(asked, block) for block in range(schedule.cluster)]
    asks = sum(_bytes(schedule, box) for boxes in asked for box in boxes)
    gets = sum(_bytes(schedule, box) for boxes in arrived for _, box in boxes)
    shared = [box for boxes in asked for box in boxes if len(box.ranks) > 1]
    caption = (
        f"The boxes of the first step along K, traced. Of B each block loads a part "
        f"and every part goes to both. The two load {asks // KIB} KiB and get {gets // KIB} "
        f"KiB; {len(shared)} boxes go to both."
    )
    fig = page(title, 0.22 + 0.45 + SIDE + 0.15, caption, key=key)
    _draw_matrices(fig, schedule, asked)
    for block, boxes in enumerate(arrived):
        left = WIDTH - MARGIN - (schedule.cluster - block) * COLUMN - (1 - block) * BETWEEN
        _draw_shared(fig, schedule, boxes, block, left)
    return fig


def _first_step(schedule: Schedule, block: int) -> list[BoxCopy]:
    (turn,) = (turn for turn in schedule.turns if (turn.block, turn.round) == (block, 0))
    return [box for box in turn.loads if box.corner[1 if box.array == "A" else 0] == 0]


def _bytes(schedule: Schedule, box: BoxCopy) -> int:
    return box.box[0] * box.box[1] * schedule.element_bytes


def _arrived(asked: list[list[BoxCopy]], block: int) -> list[tuple[int, BoxCopy]]:
    """(who loads it, box), in the order of their places in the block's shared memory."""
    boxes = [
        (asker, box)
        for asker, boxes in enumerate(asked)
        for box in boxes
        if block in (box.ranks or (asker,))
    ]
    return sorted(boxes, key=lambda pair: pair[1].place)


def _draw_matrices(fig: Picture, schedule: Schedule, asked: list[list[BoxCopy]]) -> None:
    """C of the cluster, the rows of A beside it and the columns of B above, in one scale."""
    rows, columns = schedule.tile[0] * schedule.cluster, schedule.tile[1]
    scale = SIDE / max(rows, columns)
    deep = asked[0][0].box[1]
    across, down = deep + APART / scale + columns, deep + APART / scale + rows
    size = across * scale, down * scale
    ax = bare(fig.add_axes_at(MARGIN + 0.05, fig.top + 0.22, *size), across, down)
    text = {"va": "center", "linespacing": 1.3}
    corner = deep + APART / scale
    for block, copies in enumerate(asked):
        top, tall = corner + block * schedule.tile[0], schedule.tile[0]
        look = {"facecolor": style.tint(ARRAYS["C"], C_SHARES[block]), "linewidth": 1}
        box(ax, corner, top, columns, tall, f"C of block {block}", text, **look)
        for copy in copies:
            (y, x), (tall, wide) = copy.corner, copy.box
            x, y = (0, corner + y) if copy.array == "A" else (corner + x, 0)
            look = {"facecolor": style.tint(ARRAYS[copy.array], SHARES[block]), "linewidth": 1}
            box(ax, x, y, wide, tall, copy.array, text, **look)


def _draw_shared(
    fig: Picture, schedule: Schedule, arrived: list[tuple[int, BoxCopy]], block: int, left: float
) -> None:
    total = sum(_bytes(schedule, copy) for _, copy in arrived)
    fig.text_at(left, fig.top, f"shared memory of block {block}", size=NORMAL, weight="bold")
    ax = bare(fig.add_axes_at(left, fig.top + 0.22, COLUMN, SIDE + 0.45), 1, total)
    first = arrived[0][1].place
    for asker, copy in arrived:
        axis, size = 0 if copy.array == "A" else 1, _bytes(schedule, copy)
        begin, end = copy.corner[axis], copy.corner[axis] + copy.box[axis] - 1
        side = "rows" if copy.array == "A" else "columns"
        words = f"{copy.array}, {side} {begin}–{end}: {size // KIB} KiB, loaded by {asker}"
        look = {"facecolor": style.tint(ARRAYS[copy.array], SHARES[asker]), "linewidth": 1}
        box(ax, 0, copy.place - first, 1, size, words, {"va": "center"}, **look)


# ---- between two tiles ---------------------------------------------------------------------------

ROW, BAR, BELOW = 0.3, 0.22, 0.62  # inches
EVENTS = {  # from one event to the next: words of the key, share of the tile's colour, hatch, size
    ("starts", "ends"): ("wgmma of a tile; producer: first load to last", 0.5, "", 1.0),
    ("sends", "sent"): ("epilogue: C is stored", 0.2, "///", 0.6),
    ("sent", "gone"): ("waits until C is in global memory", 0.2, "...", 0.6),
}
PRODUCER = "producer"
TURN = 2  # the tile whose end is shown
BEFORE, AFTER = 3000, 7000  # cycles around it


@styled
def tile_changes(marks: pandas.DataFrame) -> Picture:
    """Bars from one clock reading to the next around the end of a tile, a panel for each kernel.

    marks: as measure.tiles gives. In cycle 0 the last warpgroup has all products of tile TURN.
    """
    roles = list(dict.fromkeys(marks["role"]))
    panels = []  # the name of a kernel, its marks, and the cycles without products
    for kernel, rows in marks.groupby(["kernel", "how"], sort=False):
        end, gap = between_tiles(rows)
        columns = list(dict.fromkeys(itertools.chain(*EVENTS)))
        rows = rows.assign(**{name: rows[name] - end for name in columns})
        panels.append((", ".join(filter(None, kernel)), rows, gap))
    each = len(roles) * ROW + BELOW
    key = [
        (words, swatch(style.FAINT, share, hatch=hatch))
        for words, share, hatch, _ in EVENTS.values()
    ]
    gaps = [f"{name} {gap:,.0f}" for name, _, gap in panels]
    caption = (
        "One SM around the end of a tile, by readings of its clock. Cycles from the last wgmma of "
        f"tile {TURN} in either warpgroup to the first one of the next tile: {style.listed(gaps)}."
    )
    title = "Between two tiles of C on one SM"
    fig = page(title, len(panels) * each + 0.1, caption, key=key)
    top = fig.top
    for name, rows, gap in panels:
        words = f"{name}: {gap:,.0f} cycles without wgmma"
        fig.text_at(MARGIN, top, words, size=NORMAL, weight="bold")
        ax = rows_of(fig, roles, top + 0.22, ROW)
        _draw_changes(ax, rows, roles)
        top += each
    ax.set_xlabel("cycles of the SM's clock", size=SMALL)
    return fig


def between_tiles(marks: pandas.DataFrame) -> tuple[float, float]:
    """Of one kernel's marks: when the last warpgroup has the wgmma of tile TURN behind it, and how
    many cycles later the first one starts those of the next tile."""
    consumers = marks[marks["role"] != PRODUCER].groupby("turn")
    starts, ends = consumers["starts"].min(), consumers["ends"].max()
    return ends[TURN], max(0, starts[TURN + 1] - ends[TURN])


def _draw_changes(ax: Axes, rows: pandas.DataFrame, roles: list[str]) -> None:
    ax.set_xlim(-BEFORE, AFTER)
    for mark, (start, stop) in itertools.product(rows.itertuples(), EVENTS):
        low, high = max(getattr(mark, start), -BEFORE), min(getattr(mark, stop), AFTER)
        if not low < high:  # also where there is no such mark
            continue
        _, share, hatch, size = EVENTS[start, stop]
        at, look = roles.index(mark.role), swatch(TILE_COLOURS[mark.turn % 2], share, hatch=hatch)
        bar(ax, at, low, high, share=size * BAR / ROW, zorder=3 - size, **look)
        if start == "starts" and high - low > (BEFORE + AFTER) / 12:
            x, words = low + (BEFORE + AFTER) / 60, f"tile {mark.turn}"
            write(ax, x, at + 0.5, words, ha="left", zorder=4)
    ax.axvline(0, color=style.BLACK, linewidth=0.8, linestyle=":")
