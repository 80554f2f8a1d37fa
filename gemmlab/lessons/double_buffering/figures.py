"""The order of loads, stores, barriers and products of one warp."""

from collections import Counter
from dataclasses import dataclass

from matplotlib.axes import Axes

from gemmlab.analysis.block_replay import COPY, KEEP, WRITE, Played
from gemmlab.kernel.trace import Trace
from gemmlab.ladder import listed
from gemmlab.plots import style
from gemmlab.plots.cells import bare, box, write
from gemmlab.plots.charts import lanes_of
from gemmlab.plots.page import Entry, Picture, page, styled, swatch
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, TILE_COLOURS, WIDTH, tile_colour

ROW = 0.24  # inches
ROWS = ("start loading", "store", "multiply")
DARK, PALE = 0.45, 0.3  # of a tile's colour: where it is loaded and stored, and its product
LOAD, STORE, PRODUCT = "load", "store", "product"
WAITS: dict[str, tuple[str, str]] = {  # how opcodes begin, words of the key, line style
    "bar.sync": ("barrier of the block", "-"),
    "cp.async.wait": ("wait for copies", ":"),
}
BLOCK = (0, 0, 0)
GAP = 0.5  # inches, below a panel
ON_ITS_WAY = {"linestyle": (0, (2, 1)), "linewidth": 2.2}


@dataclass
class _Order:
    """What one warp executes.

    events: (kind, tile) of neighbouring instructions, a box of the figure, or (key of WAITS, None),
    a line, in a column of its own; a product's is of one k: loads from shared memory, then so many
    multiply-adds as `fmas` has for its column. flights: {tile: the column where its load starts,
    and the one that first needs it}. buffers: {tile: which buffer it is kept in}.
    """

    events: list[tuple[str, int | None]]
    fmas: Counter[int]
    flights: dict[int, tuple[int, int]]
    buffers: dict[int, int]

    @property
    def stores(self) -> bool:
        return any(kind == STORE for kind, _ in self.events)

    @property
    def height(self) -> float:
        return (max(lanes_of(self.flights).values()) + 1 + self.stores + 1) * ROW + 0.1

    @property
    def meanwhile(self) -> int:
        """Multiply-adds of a thread while the last tile is on its way; the first ones have none."""
        return sum(self.fmas[column] for column in range(*list(self.flights.values())[-1]))


@styled
def timeline(*traces: Trace) -> Picture:
    """In what order warp 0 of block 0 loads tiles, stores them, waits and multiplies; no times.

    traces: of 08 or 09, of products with few steps along K, one panel for each. Drawn are the
    instructions as they were executed, neighbours of one kind as one box, or line, all of equal
    width. Raises ValueError for a kernel without shared memory.
    """
    kernels = [trace.kernel_name for trace in traces]
    names = [
        f"{trace.kernel_name}, {listed({'STAGES': trace.settings['STAGES']})}"
        if kernels.count(trace.kernel_name) > 1 else trace.kernel_name
        for trace in traces
    ]  # fmt: skip
    orders = dict(zip(names, map(_order, traces), strict=True))
    left = MARGIN + style.widest(ROWS, SMALL) + 0.1
    pitch = (WIDTH - MARGIN - left) / max(len(order.events) for order in orders.values())
    between = style.listed([f"{order.meanwhile:,} in {name}" for name, order in orders.items()])
    caption = (
        f"What warp 0 of block {BLOCK} executes, in the order of the compiled "
        "instructions (PTX, which machine code is made from). This is an order, not times: each "
        "box is a run of instructions of one kind, and a product has a box for each k. "
        "Multiply-adds of each thread between the start of the last tile's loads and their first "
        f"use: {between}."
    )
    tiles = max(len(order.flights) for order in orders.values())
    kinds = {kind for order in orders.values() for kind, _ in order.events}
    key: list[Entry] = [
        (str(at), swatch(colour, DARK)) for at, colour in enumerate(TILE_COLOURS[:tiles])
    ]
    key += [
        ("a pair of tiles, of A and B, and its number", None),
        ("on its way until it is needed", {"color": TILE_COLOURS[0], **ON_ITS_WAY}),
    ]
    key += [
        (words, {"color": style.BLACK, "linestyle": dashes, "linewidth": 1.6})
        for kind, (words, dashes) in WAITS.items()
        if kind in kinds
    ]
    height = sum(order.height + GAP for order in orders.values())
    fig = page("Order of execution, left to right", height, caption, key=key)
    top = fig.top
    for name, order in orders.items():
        fig.text_at(MARGIN, top, name, size=NORMAL, weight="bold")
        words = f"multiply-adds of a thread while a tile is on its way: {order.meanwhile:,}"
        fig.text_at(WIDTH - MARGIN, top, words, size=NORMAL, ha="right")
        size = (pitch * len(order.events), order.height)
        _draw(fig.add_axes_at(left, top + 0.24, *size), order)
        top += order.height + GAP
    return fig


def _order(trace: Trace) -> _Order:
    played = Played.of(trace, BLOCK)
    played.require_reads("timeline")
    tiles: dict[int, int] = {}  # id of an access: its tile along K
    lowest: dict[int, int] = {}  # word of shared memory where a tile begins
    for move in played.moves:
        if move.kind != WRITE and move.moves_elements:
            tile = int(played.along(move.elements).max()) // trace.settings["BK"]
            tiles[id(move.access)] = tile
            if move.kind in (KEEP, COPY):
                begin = int(move.words[move.access.active].min())
                lowest[tile] = min(lowest.get(tile, begin), begin)
    events: list[tuple[str, int | None]] = []
    fmas: Counter[int] = Counter()
    for step in trace.run.instructions(BLOCK, 0):
        if any(access.array == "C" for access in step.accesses):
            break
        if step.opcode.startswith("fma") and events and events[-1][0] == PRODUCT:
            fmas[len(events) - 1] += 1
        happens: list[tuple[str, int | None]] = [
            (kind, None) for kind in WAITS if step.opcode.startswith(kind)
        ]
        for access in step.accesses:
            kind = STORE if access.operation == "store" else LOAD
            if (access.space, access.operation) == ("shared", "load"):
                kind = PRODUCT
            if kind != LOAD or access.space == "global":
                happens.append((kind, tiles[id(access)]))
        for event in happens:
            goes_on = events and events[-1] == event and not fmas[len(events) - 1]
            events += [] if goes_on else [event]
    flights = {}
    for tile in sorted(lowest):
        first = {kind: at for at, (kind, of) in reversed([*enumerate(events)]) if of == tile}
        # No store where it is copied past registers.
        flights[tile] = first[LOAD], first.get(STORE, first[PRODUCT])
    places = sorted(set(lowest.values()))  # buffers, in the order of their addresses
    return _Order(events, fmas, flights, {tile: places.index(low) for tile, low in lowest.items()})


def _draw(ax: Axes, order: _Order) -> None:
    lanes = lanes_of(order.flights)  # those on their way at the same time lie below each other
    store_top = (max(lanes.values()) + 1) * ROW
    product_top = store_top + ROW * order.stores + 0.05
    labels = {store_top / 2: ROWS[0], product_top + ROW / 2: ROWS[2]}
    if order.stores:
        labels[store_top + ROW / 2] = ROWS[1]
    for tile, (start, use) in order.flights.items():
        look: style.Look = {"color": tile_colour(tile), **ON_ITS_WAY}
        ax.plot([start + 1, use], [(lanes[tile] + 0.5) * ROW] * 2, zorder=2, **look)
    columns: dict[int, list[int]] = {}  # of each tile's products
    for at, (kind, tile) in enumerate(order.events):
        if tile is None:
            look = {"color": style.BLACK, "linewidth": 1.6, "linestyle": WAITS[kind][1]}
            ax.axvline(at + 0.5, zorder=1, **look)
            continue
        place, words = store_top if kind == STORE else lanes[tile] * ROW, str(tile)
        look = swatch(tile_colour(tile), DARK, zorder=2)
        if kind == PRODUCT:  # behind the words of all of its columns
            place, words = product_top, ""
            look |= {"facecolor": style.tint(tile_colour(tile), PALE), "edgecolor": "white"}
            columns.setdefault(tile, []).append(at)
        box(ax, at, place + 0.02, 1, ROW - 0.04, words, {"zorder": 4}, **look)
    for tile, places in columns.items():
        words = f"{tile}, buffer {order.buffers[tile]}"
        write(ax, (places[0] + places[-1] + 1) / 2, product_top + ROW / 2, words, zorder=4)
    bare(ax, len(order.events), order.height).set_xlim(-0.05, len(order.events) + 0.05)
    ax.set_yticks(list(labels), list(labels.values()))
    ax.tick_params(axis="y", length=0)
