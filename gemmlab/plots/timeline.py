"""The order of loads, stores, barriers and products of one warp, for kernels that step along K."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from gemmlab.kernel.trace import ELEMENT_BYTES, Trace
from gemmlab.plots import style
from gemmlab.plots.cells import bare, box, require_trace, write
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, TILE_COLOURS, WIDTH

MOST_COLUMNS = 80  # more would be too narrow for a number
ROW = 0.24  # inches
ROWS = ("start loading", "store", "multiply")
DARK, PALE = 0.45, 0.3  # of a tile's colour: where it is loaded and stored, and its product
LOAD, STORE, BARRIER, WAIT, PRODUCT = "load", "store", "barrier", "wait", "product"
OF_WARP, MBARRIER = "warp's barrier", "mbarrier"
LINES = {  # of what a warp waits for: words of the key, line style, width
    BARRIER: ("barrier of the block", "-", 1.6),
    OF_WARP: ("barrier of the warp", "-", 0.6),
    WAIT: ("wait for copies", ":", 1.6),
    MBARRIER: ("wait at an mbarrier", "--", 1.6),
}
ON_ITS_WAY = {"linestyle": (0, (2, 1)), "linewidth": 2.2}


@dataclass
class _Event:
    """Neighbouring instructions of one kind for one tile: a box of the figure, or a line.

    A product's event is of one k: loads from shared memory, then `fmas` multiply-adds.
    """

    kind: str
    tile: int = -1
    fmas: int = 0


@dataclass
class _Flight:
    """A tile on its way: from the column where its load starts to the one that first needs it."""

    tile: int
    start: int
    use: int
    fmas: int  # multiply-adds of each lane between the two


@dataclass
class _Order:
    name: str
    events: list[_Event]
    flights: list[_Flight]
    buffers: dict[int, int]  # tile -> which buffer it is kept in


@styled
def timeline(
    *traces: Trace,
    block: tuple[int, int, int] = (0, 0, 0),
    warp: int = 0,
    caption: str | None = None,
) -> Picture:
    """In what order one warp loads tiles, stores them, waits and multiplies; no times.

    traces: of kernels with a parameter BK that keep tiles of A and B in shared memory, of products
    with few steps along K, one panel for each. Drawn are the instructions as they were executed,
    neighbours of one kind as one box, or line, all of equal width. Raises TypeError and ValueError
    for anything else.
    """
    if not traces:
        raise ValueError("timeline takes one trace or more, as kernel.trace(m, n, k) gives.")
    for trace in traces:
        require_trace(trace, "timeline")
    orders = [
        _order(trace, name, block, warp) for trace, name in zip(traces, _names(traces), strict=True)
    ]
    most = max(len(order.events) for order in orders)
    if most > MOST_COLUMNS:
        raise ValueError(
            f"timeline: {most} columns are too many to read, at most {MOST_COLUMNS} fit; "
            "trace a product with a smaller K."
        )
    left = MARGIN + style.widest(ROWS, SMALL) + 0.1
    pitch = (WIDTH - MARGIN - left) / most
    lanes = [_lanes(order.flights) for order in orders]
    heights = [
        (max(rows.values()) + 1 + _has_stores(order) + 1) * ROW + 0.1
        for order, rows in zip(orders, lanes, strict=True)
    ]
    gap = 0.5
    caption = caption or _caption(orders, block, warp)
    tiles = 1 + max(event.tile for order in orders for event in order.events)
    key = [(str(at), swatch(colour, DARK)) for at, colour in enumerate(TILE_COLOURS[:tiles])]
    key += [
        ("a pair of tiles, of A and B, and its number", None),
        ("on its way until it is needed", {"color": TILE_COLOURS[0], **ON_ITS_WAY}),
    ]
    kinds = {event.kind for order in orders for event in order.events}
    key += [
        (words, {"color": style.BLACK, "linestyle": dashes, "linewidth": wide})
        for kind, (words, dashes, wide) in LINES.items()
        if kind in kinds
    ]
    title = "Order of execution, left to right"
    fig = page(title, sum(heights) + gap * len(orders), caption, key=key)
    top = fig.top
    for order, rows, height in zip(orders, lanes, heights, strict=True):
        fig.text_at(MARGIN, top, order.name, size=NORMAL, weight="bold")
        if order.flights:
            words = f"multiply-adds of a thread while a tile is on its way: {_meanwhile(order):,}"
            fig.text_at(WIDTH - MARGIN, top, words, size=NORMAL, ha="right")
        size = (pitch * len(order.events), height)
        ax = fig.add_axes_at(left, top + 0.24, *size, gid=f"order {order.name}")
        _draw(ax, order, rows, height)
        top += height + gap
    return fig


# ---- what was executed ---------------------------------------------------------------------------


def _names(traces: Sequence[Trace]) -> list[str]:
    """The kernels' names, with the settings that tell two traces of one kernel apart."""
    names = []
    for trace in traces:
        others = [other for other in traces if other.kernel_name == trace.kernel_name]
        telling = [
            f"{key}={value}"
            for key, value in trace.settings.items()
            if any(other.settings[key] != value for other in others)
        ]
        names.append(", ".join([trace.kernel_name, *telling]))
    return names


def _order(trace: Trace, name: str, block, warp: int) -> _Order:
    if "BK" not in trace.settings:
        raise ValueError(f"timeline: {trace.kernel_name} has no BK, so no tiles along K.")
    tiles, buffers = _tiles_of_accesses(trace, block)
    events: list[_Event] = []

    def put(kind: str, tile: int = -1) -> None:
        if not events or (events[-1].kind, events[-1].tile) != (kind, tile):
            events.append(_Event(kind, tile))

    for step in trace.run.instructions(block, warp):
        if any(access.array == "C" for access in step.accesses):
            break
        if step.opcode.startswith("bar.warp"):
            put(OF_WARP)
        elif step.opcode.startswith("bar"):
            put(BARRIER)
        elif step.opcode.startswith(("mbarrier.try_wait", "mbarrier.test_wait")):
            put(MBARRIER)
        elif step.opcode.startswith("cp.async.wait"):
            put(WAIT)
        elif step.opcode.startswith("fma") and events and events[-1].kind == PRODUCT:
            events[-1].fmas += 1
        for access in step.accesses:
            tile = tiles[id(access)]
            if (access.space, access.operation) == ("shared", "load"):
                if events and events[-1].kind == PRODUCT and events[-1].fmas:
                    events.append(_Event(PRODUCT, tile))
                put(PRODUCT, tile)
            elif access.operation == "store":
                put(STORE, tile)
            elif access.space == "global":
                put(LOAD, tile)
    flights = [_flight(events, tile) for tile in sorted(buffers)]
    return _Order(name, events, [flight for flight in flights if flight is not None], buffers)


def _tiles_of_accesses(trace: Trace, block) -> tuple[dict[int, int], dict[int, int]]:
    """{id of an access: its tile along K}, and {tile: buffer}, buffers in order of their address.

    A load from A or B tells its tile by its address. What a warp stores to shared memory is what it
    loaded last, and a load from there finds what was stored or copied there last.
    """
    tiles: dict[int, int] = {}
    loaded: dict[int, int] = {}  # warp -> the tile that it loaded last
    kept: dict[int, int] = {}  # word of shared memory -> tile
    lowest: dict[int, int] = {}
    for access in trace.run.accesses(block):
        where = access.addresses[access.active] // ELEMENT_BYTES
        if access.array in ("A", "B"):
            along = where % trace.k if access.array == "A" else where // trace.n
            loaded[access.warp] = int(along.min()) // trace.settings["BK"]
        elif access.space == "shared" and access.operation == "load":
            words = where[:, None] + np.arange(max(1, access.size // ELEMENT_BYTES))
            there = {kept.get(int(word), -1) for word in words.ravel()}
            if len(there) > 1:
                raise ValueError(f"timeline: line {access.line} reads several tiles at once.")
            tiles[id(access)] = there.pop()
            continue
        elif access.space == "shared":
            tile = loaded.get(access.warp, -1)
            for word in where:
                for w in range(max(1, access.size // ELEMENT_BYTES)):
                    kept[int(word) + w] = tile
            lowest[tile] = min(lowest.get(tile, int(where.min())), int(where.min()))
        tiles[id(access)] = loaded.get(access.warp, -1)
    places = sorted(set(lowest.values()))
    return tiles, {tile: places.index(low) for tile, low in lowest.items()}


def _flight(events: Sequence[_Event], tile: int) -> _Flight | None:
    """From the load of a tile to its store or, where it is copied past the registers, its use."""
    of_tile = [at for at, event in enumerate(events) if event.tile == tile]
    starts = [at for at in of_tile if events[at].kind == LOAD]
    uses = [at for at in of_tile if events[at].kind == STORE]
    uses = uses or [at for at in of_tile if events[at].kind == PRODUCT]
    if not starts or not uses:
        return None
    start, use = starts[0], uses[0]
    return _Flight(tile, start, use, sum(event.fmas for event in events[start:use]))


def _meanwhile(order: _Order) -> int:
    """Multiply-adds during the last tile's flight; the first ones have no product before them."""
    return order.flights[-1].fmas


# ---- drawing -------------------------------------------------------------------------------------


def _has_stores(order: _Order) -> bool:
    return any(event.kind == STORE for event in order.events)


def _lanes(flights: Sequence[_Flight]) -> dict[int, int]:
    """A lane for each tile, so that tiles on their way at the same time lie below each other."""
    lanes: dict[int, int] = {}
    ends: list[int] = []
    for flight in flights:
        lane = next((at for at, end in enumerate(ends) if end <= flight.start), len(ends))
        ends[lane : lane + 1] = [flight.use]
        lanes[flight.tile] = lane
    return lanes


def _colour(tile: int) -> str:
    return TILE_COLOURS[tile % len(TILE_COLOURS)]


def _draw(ax: Axes, order: _Order, lanes: dict[int, int], height: float) -> None:
    store_top = (max(lanes.values()) + 1) * ROW
    product_top = store_top + (ROW if _has_stores(order) else 0.0) + 0.05
    labels = {store_top / 2: ROWS[0], product_top + ROW / 2: ROWS[2]}
    if _has_stores(order):
        labels[store_top + ROW / 2] = ROWS[1]
    for flight in order.flights:
        look = {"color": _colour(flight.tile), "gid": f"flight {flight.tile}", **ON_ITS_WAY}
        middle = lanes[flight.tile] * ROW + ROW / 2
        ax.plot([flight.start + 1, flight.use], [middle, middle], zorder=2, **look)
    for at, event in enumerate(order.events):
        if event.kind in LINES:
            _, dashes, wide = LINES[event.kind]
            look = {"color": style.BLACK, "linewidth": wide, "linestyle": dashes, "zorder": 1}
            ax.axvline(at + 0.5, gid=event.kind, **look)
            continue
        top = {STORE: store_top, PRODUCT: product_top}.get(
            event.kind, lanes.get(event.tile, 0) * ROW
        )
        look = swatch(_colour(event.tile), PALE if event.kind == PRODUCT else DARK, zorder=2)
        if event.kind == PRODUCT:  # behind its words
            look["edgecolor"] = "white"
        words = "" if event.kind == PRODUCT else str(event.tile)
        gid = f"{event.kind} {event.tile}"
        box(ax, at, top + 0.02, 1, ROW - 0.04, words, {"zorder": 4}, gid=gid, **look)
    for tile in sorted(order.buffers):
        columns = [
            at
            for at, event in enumerate(order.events)
            if (event.kind, event.tile) == (PRODUCT, tile)
        ]
        if columns:
            words = f"{tile}, buffer {order.buffers[tile]}"
            write(ax, (columns[0] + columns[-1] + 1) / 2, product_top + ROW / 2, words, zorder=4)
    bare(ax, len(order.events), height).set_xlim(-0.05, len(order.events) + 0.05)
    ax.set_yticks(list(labels), list(labels.values()))
    ax.tick_params(axis="y", length=0)


def _caption(orders: Sequence[_Order], block, warp: int) -> str:
    between = style.listed(
        [f"{_meanwhile(order):,} in {order.name}" for order in orders if order.flights]
    )
    return (
        f"What warp {warp} of block {tuple(block)} executes, in the order of the compiled "
        "instructions (PTX, which machine code is made from). This is an order, not times: each "
        "box is a run of instructions of one kind, and a product has a box for each k. "
        "Multiply-adds of each thread between the start of the last tile's loads and their first "
        f"use: {between}."
    )
