"""Which lane holds what, and where chunks lie in shared memory."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes

from gemmlab.kernel.trace import Trace
from gemmlab.plots import style
from gemmlab.plots.cells import bare, box
from gemmlab.plots.charts import note
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import ARRAYS, MARGIN, NORMAL, SMALL, WIDTH
from ptxsim import WarpAccess

CELL = 0.155  # inches, of an element
SIDE, HALF = 16, 8  # rows and columns of A of an mma.sync; rows of a matrix of ldmatrix
LANE = 5  # that is followed
PALE, DARKER, CHOSEN = 0.1, 0.25, 0.8  # shares of a matrix's colour
CHUNK_BYTES, CHUNKS = 16, 8  # of a chunk, and chunks in a row of 128 bytes, all banks


def first_ldmatrix(trace: Trace) -> WarpAccess:
    """Of A, by warp 0 of block (0, 0, 0)."""
    accesses = trace.run.accesses((0, 0, 0), 0)
    return next(access for access in accesses if access.operation == "ldmatrix")


@styled
def registers(trace: Trace, held: Mapping[str, np.ndarray]) -> Picture:
    """One ldmatrix of A, and the registers of one mma.sync in FP16; what lane LANE has is dark.

    First which lane gives the address of each chunk of A, then which lane holds each element of A,
    B and C, two neighbours to a box, with the names of the registers above and below.

    trace: of 15_mma_sync without the swizzle, whose addresses are rows and chunks. held: as
    lanes.by_mma() gives.
    """
    addresses = first_ldmatrix(trace).addresses
    row, chunk = np.divmod(addresses // CHUNK_BYTES, CHUNKS)
    titles = {
        "rows": "A: who gives the address", "A": "A: who holds it", "B": "B, 16×8", "C": "C, 16×8",
    }  # fmt: skip
    widths = {"rows": SIDE, "A": SIDE, "B": HALF, "C": HALF}
    gap = (WIDTH - 2 * MARGIN - 0.3 - CELL * sum(widths.values())) / 3
    owners = {name: _owners(held[name]) for name in "ABC"}
    caption = (
        f"Numbers are lanes; dark is lane {LANE}. Left, the {SIDE}×{SIDE} elements of A that one "
        "ldmatrix reads from shared memory: a box is a chunk of 16 bytes, and the lane in it gives "
        "its address. Then what a lane holds of A, B and C for one mma.sync, two elements to a "
        "box. The names are those of registers: each holds a quarter of A, or half of B; of C a "
        "register has one element of the two."
    )
    height = 0.62 + CELL * SIDE + 0.32
    fig = page("One ldmatrix, and the registers of one mma.sync", height, caption)
    left, top = MARGIN + 0.3, fig.top + 0.62
    for name, columns in widths.items():
        fig.text_at(left, fig.top + 0.05, titles[name], size=NORMAL, weight="bold")
        ax = bare(fig.add_axes_at(left, top, CELL * columns, CELL * SIDE), columns, SIDE)
        if name == "rows":
            for lane in range(len(addresses)):
                _cell(ax, "A", lane, chunk[lane] * HALF, row[lane], HALF, 1)
        else:
            width, height = (1, 2) if name == "B" else (2, 1)
            for y in range(0, SIDE, height):
                for x in range(0, columns, width):
                    _cell(ax, name, owners[name][y, x], x, y, width, height)
        _name_registers(ax, name, columns)
        ax.hlines(HALF, 0, columns, color=style.INK, linewidth=1.2, zorder=3)
        if columns == SIDE:
            ax.vlines(HALF, 0, SIDE, color=style.INK, linewidth=1.2, zorder=3)
        for y in (0, 7, 8, 15) if name == "rows" else ():
            note(ax, str(y), (0, y + 0.5), (-4, 0), ha="right", va="center")
        left += CELL * columns + gap
    return fig


def _owners(held: np.ndarray) -> np.ndarray:
    """int (16, columns): the lane that holds each element, from one of the arrays of by_mma()."""
    lanes = np.zeros(held.reshape(-1, 2).max(axis=0) + 1, int)
    lanes[held[..., 0], held[..., 1]] = np.arange(len(held))[:, None]
    return lanes


def _cell(ax: Axes, array: str, lane: int, x: int, y: int, width: int, height: int) -> None:
    share = CHOSEN if lane == LANE else (DARKER, PALE)[(lane + lane // 4) % 2]
    text = {"zorder": 2, "weight": "bold" if lane == LANE else "normal"}
    look = {"facecolor": style.tint(ARRAYS[array], share), "linewidth": 0.5, "zorder": 1}
    box(ax, x, y, width, height, str(lane), text, **look)


def _name_registers(ax: Axes, name: str, columns: int) -> None:
    above, below = {
        "rows": (["lanes 0–7", "16–23"], ["lanes 8–15", "24–31"]),
        "A": (["a[0]", "a[2]"], ["a[1]", "a[3]"]),
        "B": (["b[0]"], ["b[1]"]),
        "C": (["c[0], c[1]"], ["c[2], c[3]"]),
    }[name]
    for names, y, shift, va in ((above, 0, 4, "bottom"), (below, SIDE, -4, "top")):
        for at, words in enumerate(names):
            x = (at + 0.5) * columns / len(names)
            note(ax, words, (x, y), (0, shift), ha="center", va=va, size=SMALL)


ROW, BANK = 0.26, 0.125  # inches: a row of a tile, a bank


@styled
def chunks(traces: Mapping[str, Trace]) -> Picture:
    """Where the chunks of eight rows of A's tile lie in the banks, and which eight lanes read.

    traces: by name, of 15_mma_sync with rows of 128 bytes, with the swizzle and without.
    """
    key = [
        ("a chunk, and its number in the row", swatch(ARRAYS["A"], PALE)),
        ("read by lanes 0 to 7 of the first ldmatrix", swatch(ARRAYS["A"], CHOSEN)),
    ]
    # Where lanes 0 to 7 read.
    places = {
        name: first_ldmatrix(trace).addresses[:HALF] // CHUNK_BYTES
        for name, trace in traces.items()
    }
    parts = [
        f"{style.plural(int(np.bincount(read % CHUNKS).max()), 'wavefront')} with {name}"
        for name, read in places.items()
    ]
    caption = (
        "The first eight rows of A's tile in shared memory, each 128 bytes: all 32 banks, four for "
        "a chunk of 16 bytes. Lanes 0 to 7 of an ldmatrix read chunk 0 of each row, which takes "
        f"{style.listed(parts)}."
    )
    fig = page("Where the chunks of a tile lie", 0.62 + ROW * HALF + 0.1, caption, key=key)
    width = 32 * BANK * 0.9
    for at, (name, trace) in enumerate(traces.items()):
        left = MARGIN + 0.42 + at * (WIDTH - 2 * MARGIN) / 2
        fig.text_at(left, fig.top + 0.05, name, size=NORMAL, weight="bold")
        ax = bare(fig.add_axes_at(left, fig.top + 0.55, width, ROW * HALF), CHUNKS, HALF)
        for place, number in enumerate(_stored(trace)):
            y, x = divmod(place, CHUNKS)
            is_read = place in places[name]
            text = {"weight": "bold" if is_read else "normal"}
            look = swatch(ARRAYS["A"], CHOSEN if is_read else PALE)
            box(ax, x + 0.03, y + 0.06, 0.94, 0.88, str(number), text, **look)
        for y in range(HALF):
            note(ax, f"row {y}", (0, y + 0.5), (-4, 0), ha="right", va="center")
        note(ax, "banks", (0, 0), (-4, 3), ha="right", va="bottom")
        for x in range(CHUNKS):
            note(ax, f"{4 * x}–{4 * x + 3}", (x + 0.5, 0), (0, 3), ha="center", va="bottom")
    return fig


def _stored(trace: Trace) -> np.ndarray:
    """int (64,): of A's first eight rows, which chunk each place has, by the copies."""
    places = np.full(HALF * CHUNKS, -1)
    row_bytes = CHUNKS * CHUNK_BYTES
    accesses = sorted(trace.run.accesses((0, 0, 0)), key=lambda access: access.warp)
    for load, to in pairwise(accesses):
        if load.array == "A" and to.operation == "copy":
            row, byte = np.divmod(load.addresses, row_bytes)
            inside = load.active & (row < HALF)
            places[to.addresses[inside] // CHUNK_BYTES] = byte[inside] // CHUNK_BYTES
    return places
