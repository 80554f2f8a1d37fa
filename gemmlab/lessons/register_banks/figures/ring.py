"""The places of a ring in shared memory: which tile lies in which, who fills it and who reads."""

from __future__ import annotations

from itertools import cycle

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from gemmlab.lessons.register_banks import ring as rings
from gemmlab.lessons.register_banks.ring import Event, Ring
from gemmlab.plots import style
from gemmlab.plots.memory.timeline import TILE_COLOURS
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, WIDTH, plural, styled

# Of a column; those of mbarriers are narrow.
WIDTHS = {rings.READS: 3.0, rings.COPIES: 1.2, rings.STORES: 1.2}
NARROW = 0.6
MOST = 70.0  # columns' widths in all: more would be too narrow for a number
ROW, GAP = 0.42, 0.2  # inches: a place of the ring, the room below it
LEFT = 0.78
NO_TILE = style.INK  # in the key, which is of all tiles
HATCH = "////"
ARRIVALS = {rings.LEAVES_FULL: "^", rings.ARRIVES_EMPTY: "v"}
WAITS = {rings.AWAITS_FULL: "-", rings.AWAITS_EMPTY: ":"}
KEY = (  # in rows: kind, words
    ((rings.COPIES, "starts its copies of a tile"), ("way", "they are on their way"),
     (rings.READS, "reads the tile, and multiplies")),
    ((rings.LEAVES_FULL, "leaves its arrival at full with the copies"),
     (rings.AWAITS_FULL, "waits until full"),
     (rings.ARRIVES_EMPTY, "has read: arrives at empty"),
     (rings.AWAITS_EMPTY, "waits until empty")),
)  # fmt: skip
COLOURS = "neighbouring tiles have different colours"
STORED = (rings.STORES, "stores its part of C")


@styled
def ring(found: Ring, caption: str | None = None) -> Picture:
    """The places of a ring of tiles, one below the other, as one warp fills and reads them.

    found: as analysis.traced.ring.of(trace) gives. Left to right is the order in which the warp
    does it, not time; a cell has the number of its tile. Of a batch, a colour is a product, tiles
    are counted in each, and a row below shows when C is stored. Raises TypeError for anything else,
    and ValueError for more than fits.
    """
    if not isinstance(found, Ring):
        raise TypeError(f"ring takes what analysis.traced.ring.of(trace) gives, not {found!r}.")
    starts, end = _columns(found.events)
    if end > MOST:
        raise ValueError(
            f"ring: {plural(1 + max(one.tile for one in found.events), 'tile')} do not fit; trace "
            "a product with a smaller K."
        )
    batch = found.trace.batch > 1
    rows = found.places + batch  # the last one for C
    top, height = 0.95 + 0.22 * batch, rows * (ROW + GAP)
    fig = style.page(top + height + 0.1, caption or _caption(found))
    words = f"The ring of {found.trace.kernel_name}, in the order of execution of one warp"
    fig.text_at(MARGIN, 0.12, words, size=style.LARGE, weight="bold")
    _draw_key(fig, found)
    ax = fig.add_axes_at(LEFT, top, WIDTH - MARGIN - LEFT, height, gid="ring")
    ax.set(xlim=(-0.1, end + 0.1), ylim=(height, 0), xticks=[])
    for row in range(rows):
        y = row * (ROW + GAP)
        frame = Rectangle((0, y), end, ROW, facecolor="none", edgecolor=style.GRID, zorder=0)
        ax.add_patch(frame)
        name = f"place {row}" if row < found.places else "C"
        fig.text_at(MARGIN, top + y + ROW / 2, name, size=NORMAL, va="center")
    for event, x in zip(found.events, starts, strict=True):
        _draw(ax, found, event, x)
    for event, x in zip(found.events, starts, strict=True):
        if event.kind == rings.COPIES:
            _draw_flight(ax, found, starts, event, x)
    ax.set_yticks([])
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    return fig


def _columns(events: tuple[Event, ...]) -> tuple[list[float], float]:
    """Where the column of each event begins, and where the last one ends."""
    starts, x = [], 0.0
    for event in events:
        starts.append(x)
        x += WIDTHS.get(event.kind, NARROW)
    return starts, x


def _top(found: Ring, event: Event) -> float:
    return (found.places if event.kind == rings.STORES else event.place) * (ROW + GAP)


def _colours(found: Ring) -> dict[int, str]:
    """Of each product of the batch that the block computes, in its order."""
    products = dict.fromkeys(found.product(event.tile)[0] for event in found.events)
    return dict(zip(products, cycle(TILE_COLOURS), strict=False))


def _colour(found: Ring, tile: int) -> str:
    if found.trace.batch > 1:
        return _colours(found)[found.product(tile)[0]]
    return TILE_COLOURS[tile % len(TILE_COLOURS)]


def _look(kind: str, colour: str) -> dict:
    if kind == rings.COPIES:
        return {"facecolor": style.tint(colour, 0.12), "edgecolor": colour, "hatch": HATCH}
    return {"facecolor": style.tint(colour, 0.5), "edgecolor": colour}


def _draw(ax: Axes, found: Ring, event: Event, x: float) -> None:
    gid = f"{event.kind} {event.tile}"
    top, middle = _top(found, event), x + NARROW / 2
    if event.kind in WIDTHS:
        wide = WIDTHS[event.kind]
        look = _look(event.kind, _colour(found, event.tile))
        ax.add_patch(Rectangle((x, top), wide, ROW, linewidth=0.8, gid=gid, **look))
        if event.kind == rings.STORES:
            return
        _, number = found.product(event.tile)
        ax.text(
            x + wide / 2, top + ROW / 2, str(number), size=NORMAL, ha="center",
            va="center_baseline", zorder=4,
            bbox={"facecolor": style.GROUND, "edgecolor": "none", "pad": 1.0, "alpha": 0.85},
        )  # fmt: skip
    elif event.kind in WAITS:
        ax.plot(
            [middle] * 2, [top - 0.05, top + ROW + 0.05], color=style.BLACK, linewidth=2.0,
            linestyle=WAITS[event.kind], gid=gid, zorder=3,
        )  # fmt: skip
    else:
        ax.plot(
            middle, top + ROW / 2, ARRIVALS[event.kind], color=style.BLACK, markersize=5.5,
            gid=gid, zorder=3,
        )  # fmt: skip


def _draw_flight(ax: Axes, found: Ring, starts, event: Event, x: float) -> None:
    """From the copies of a tile to the wait after which it is read."""
    wait = next(
        (at for one, at in zip(found.events, starts, strict=True)
         if (one.kind, one.tile) == (rings.AWAITS_FULL, event.tile)), None,
    )  # fmt: skip
    if wait is not None:
        y = _top(found, event) + ROW / 2
        ax.plot(
            [x + WIDTHS[event.kind] + NARROW, wait + NARROW / 2], [y, y], linewidth=2.0,
            color=_colour(found, event.tile), linestyle=(0, (2, 1)), zorder=2,
            gid=f"way {event.tile}",
        )  # fmt: skip


def _draw_key(fig: Picture, found: Ring) -> None:
    across, down = fig.get_size_inches()
    batch = found.trace.batch > 1
    for row, entries in enumerate((*KEY, (STORED,)) if batch else KEY):
        x, y = MARGIN, 0.4 + 0.22 * row
        level = 1 - (y + 0.07) / down
        for kind, words in entries:
            if kind in WIDTHS:
                box = (x / across, 1 - (y + 0.14) / down)
                fig.add_artist(
                    Rectangle(box, 0.2 / across, 0.14 / down, linewidth=0.8,
                              **_look(kind, NO_TILE))
                )  # fmt: skip
            elif kind in ARRIVALS:
                fig.add_artist(
                    Line2D([(x + 0.1) / across], [level], marker=ARRIVALS[kind], markersize=5.5,
                           color=style.BLACK, linestyle="")
                )  # fmt: skip
            elif kind in WAITS:
                fig.add_artist(
                    Line2D([(x + 0.1) / across] * 2, [level - 0.09 / down, level + 0.09 / down],
                           color=style.BLACK, linewidth=2.0, linestyle=WAITS[kind])
                )  # fmt: skip
            else:
                fig.add_artist(
                    Line2D([x / across, (x + 0.2) / across], [level] * 2, color=NO_TILE,
                           linewidth=2.0, linestyle=(0, (2, 1)))
                )  # fmt: skip
            fig.text_at(x + 0.28, y, words, size=SMALL)
            x += 0.28 + style.text_width(words, SMALL) + 0.3
        if row == 0 and not batch:
            fig.text_at(x, y, COLOURS, size=SMALL)
    for product, colour in _colours(found).items() if batch else ():
        box = (x / across, 1 - (y + 0.14) / down)
        fig.add_artist(Rectangle(box, 0.2 / across, 0.14 / down, **_look("", colour)))
        fig.text_at(x + 0.28, y, f"product {product}", size=SMALL)
        x += 0.28 + style.text_width(f"product {product}", SMALL) + 0.2


def _caption(found: Ring) -> str:
    trace = found.trace
    who = "all" if found.alike == found.warps else str(found.alike)
    shape = style.shape_label(trace.m, trace.n, trace.k)
    where, what = shape, "a tile"
    if trace.batch > 1:
        where, what = f"a batch of {trace.batch}, {shape}", "a tile in its product,"
    return (
        f"What warp {found.warp} of block {found.block} does with the "
        f"{plural(found.places, 'place')} of the ring at {where}, from the trace: an order, not "
        f"times. A number is that of {what} of {trace.settings['BK']} steps along K; a column is a "
        "run of instructions of one kind. "
        f"Of the {found.elements:,} elements of a tile this warp copies "
        f"{found.copied:,} and reads {found.read:,}. Of the block's {plural(found.warps, 'warp')} "
        f"{who} do the same in this order, each at its own time."
    )
