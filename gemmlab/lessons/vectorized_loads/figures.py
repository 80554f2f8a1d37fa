"""Where four neighbours of a row of A go in a transposed tile."""

from collections import Counter

import numpy as np
from matplotlib.axes import Axes

from gemmlab.kernel.trace import Access, Trace
from gemmlab.plots import style
from gemmlab.plots.cells import bare, box, number_above, number_banks, write
from gemmlab.plots.maps import lanes_in_words
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.style import MARGIN, NORMAL, WIDTH, plural
from ptxsim import WarpAccess

LINE_BYTES = 128  # a line of the L1 cache; shared memory delivers as much in one wavefront
WORD = 4
BANKS = LINE_BYTES // WORD
SHARED = "shared memory"


BLOCK, WARP = (0, 0, 0), 0
OUTLINE = {"edgecolor": style.VERMILION, "linewidth": 2}


@styled
def staging(trace: Trace) -> Picture:
    """Where four neighbours of a row of A go in shared memory, and what is read from there.

    Left: the elements of A that warp 0 of the first block loads first, four for each lane. Right:
    shared memory in stretches of 128 bytes, a column for each bank, with the lanes that store
    there. Dark is what the first of the four stores writes. Outlined is what the warp's first load
    of the tile reads of it.

    trace: of a kernel that loads A 16 bytes at a time, and keeps a column in 128 bytes.
    """
    load = trace.warp_access("A", block=BLOCK, warp=WARP)
    shared = [a for a in trace.run.accesses(BLOCK, WARP) if a.array == SHARED]
    stores = [a for a in shared if a.operation == "store" and a.size == WORD][:4]
    read = next(a for a in shared if a.operation == "load")
    stored = {int(a) for store in stores for a in store.addresses[store.active]}
    address, readers = _readers(read, stored)
    lines = sorted({byte // LINE_BYTES for byte in stored})
    head, cell, left = 0.5, 0.2, MARGIN + 0.3
    side = 1.75  # inches, of the piece of A
    x = left + side + 1.45  # room for the names of the rows
    down = int(np.ptp(load.elements[..., 0])) + 1
    key = [
        ("the first store", _look(True)), ("the other three", _look(False)),
        ("read first", {"facecolor": "white", **OUTLINE}),
    ]  # fmt: skip
    height = head + cell * max(len(lines), down) + 0.3
    title = f"{trace.kernel_name}: block {BLOCK}, warp {WARP}"
    first = stores[0].addresses[stores[0].active] // WORD
    banks = Counter((np.unique(first) % BANKS).tolist())
    caption = (
        f"Warp {WARP} of block {BLOCK} of {trace.kernel_name} at its first load of A. "
        "Numbers are lanes. Each lane loads four neighbours of a row and stores them one by one. "
        f"Each row drawn of shared memory is {BANKS} words, one in each bank. "
        f"The first of the four stores, dark, falls into {plural(len(banks), 'bank')} of {BANKS} "
        f"and takes {plural(max(banks.values()), 'wavefront')}. "
        f"The 16 bytes outlined are what {lanes_in_words(readers)} read in the warp's first load "
        "of the tile."
    )
    fig = page(title, height, caption, key=key)
    top = fig.top + head
    for at, words in ((left, "A: one load"), (x, "shared memory: four stores, over the 32 banks")):
        fig.text_at(at, fig.top, words, size=NORMAL, weight="bold")
    _draw_piece(fig.add_axes_at(left, top, side, cell * down), load)
    ax = fig.add_axes_at(x, top, WIDTH - MARGIN - x, cell * len(lines))
    _draw_banks(ax, stores, lines)
    names = [f"A[:, {_column(load, stores, line)}], byte {line * LINE_BYTES:,}" for line in lines]
    ax.set_yticks([at + 0.5 for at in range(len(lines))], names)
    line, byte = divmod(address, LINE_BYTES)
    look = {"fill": False, "clip_on": False, "zorder": 4, **OUTLINE}
    box(ax, byte // WORD, lines.index(line), 4, 1, **look)
    end = 1 + max(byte for byte in stored if byte // LINE_BYTES == line) % LINE_BYTES // WORD
    words = f"read by {lanes_in_words(readers)}"
    write(ax, end + 0.5, lines.index(line) + 0.55, words, ha="left")
    return fig


def _readers(read: WarpAccess, stored: set[int]) -> tuple[int, list[int]]:
    """First byte of the 16 that the four stores fill, of what the tile's first load reads, and the
    lanes that get them."""
    firsts = read.addresses[read.active].tolist()
    first = next(at for at in firsts if stored.issuperset(range(at, at + 4 * WORD, WORD)))
    return first, np.flatnonzero(read.active & (read.addresses == first)).tolist()


def _column(load: Access, stores: list[WarpAccess], line: int) -> int:
    """Which column of A stands in a stretch: the n-th store keeps the n-th of four neighbours."""
    (column,) = {
        int(load.elements[at][number][1])
        for number, store in enumerate(stores)
        for at, lane in enumerate(load.lanes)
        if store.active[lane] and int(store.addresses[lane]) // LINE_BYTES == line
    }
    return column


def _look(first: bool) -> dict:
    """Of an element that the first of the four stores writes, or another."""
    return {"facecolor": style.BLUE if first else style.tint(style.BLUE, 0.25), "linewidth": 0.5}


def _draw_piece(ax: Axes, load: Access) -> None:
    """Each lane's four neighbours: the first dark, and the lane's number on the others."""
    top, left = load.elements.min(axis=(0, 1)).tolist()
    rows, columns = (1 + np.ptp(load.elements, axis=(0, 1))).tolist()
    bare(ax, columns, rows)
    for lane, words in zip(load.lanes, load.elements - (top, left), strict=True):
        for at, (row, column) in enumerate(words.tolist()):
            box(ax, column, row, 1, 1, **_look(at == 0))
        row, column = words[0].tolist()
        box(ax, column, row, 4, 1, fill=False, edgecolor=style.INK, linewidth=0.9)
        write(ax, column + 2.5, row + 0.55, str(lane))
    ax.set_yticks([at + 0.5 for at in range(rows)], range(top, top + rows))
    marks = range(0, columns, 4)
    ax.set_xticks([at + 0.5 for at in marks], [left + at for at in marks])
    number_above(ax)


def _draw_banks(ax: Axes, stores: list[WarpAccess], lines: list[int]) -> None:
    bare(ax, BANKS, len(lines))
    box(ax, 0, 0, BANKS, len(lines), facecolor="white", zorder=0)
    look = {"color": style.GRID, "linewidth": 0.5, "zorder": 0.5}
    ax.hlines(range(len(lines) + 1), 0, BANKS, **look)
    ax.vlines(range(BANKS + 1), 0, len(lines), **look)
    for number, store in enumerate(stores):
        for lane in np.flatnonzero(store.active):
            line, byte = divmod(int(store.addresses[lane]), LINE_BYTES)
            text = {"color": "white" if number == 0 else style.INK}
            box(ax, byte // WORD, lines.index(line), 1, 1, str(lane), text, **_look(number == 0))
    number_banks(ax, BANKS)
