"""Loads of 4 and of 16 bytes, and where four neighbours of A go in a transposed tile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from gemmlab.kernel.trace import Access, Trace
from gemmlab.plots import style
from gemmlab.plots.cells import (
    SECTOR_BYTES,
    bare,
    box,
    number_above,
    number_banks,
    require_access,
    require_trace,
    write,
)
from gemmlab.plots.maps import lanes_in_words
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, WIDTH, plural
from ptxsim import WarpAccess
from ptxsim.architectures import WARP

LINE_BYTES = 128  # a line of the L1 cache; shared memory delivers as much in one wavefront
WORD = 4
BANKS = LINE_BYTES // WORD
MOST_LINES = 16
SHARED = "shared memory"


# ---- one load, 4 or 16 bytes wide ----------------------------------------------------------------


@styled
def access_widths(accesses: Mapping[str, Access]) -> Picture:
    """What one warp asks of global memory in one instruction, for each named access.

    Memory is drawn in lines of 128 bytes, those that the access touches, each of four sectors.
    Every box is what one lane asks for, with the lane's number.

    Raises TypeError for anything but accesses, as trace.warp_access(...) returns them, and
    ValueError for none of them, or for one whose lanes share elements or touch over 16 lines.
    """
    if not accesses:
        raise ValueError("access_widths takes one access or more, by name.")
    for access in accesses.values():
        require_access(access, "access_widths")
        if len(set(access.addresses.tolist())) < len(access.lanes):
            raise ValueError(
                f"access_widths: lanes share elements in this {access.op} of {access.array}; "
                "warp_map shows such accesses."
            )
        if len(_lines(access)) > MOST_LINES:
            raise ValueError(
                f"access_widths: the {access.op} of {access.array} touches {len(_lines(access))} "
                f"lines of {LINE_BYTES} bytes; at most {MOST_LINES} can be drawn."
            )
    left, row, head, gap = MARGIN + 0.85, 0.24, 0.62, 0.18
    height = sum(head + row * len(_lines(access)) + gap for access in accesses.values())
    words = "each row a line of 128 bytes, in four sectors; each box what one lane asks for"
    caption = _widths_caption(accesses)
    fig = page("One instruction of one warp", 0.03 + height, caption, key=[(words, None)])
    top = fig.top - 0.02
    for name, access in accesses.items():
        lines = _lines(access)
        fig.text_at(MARGIN, top + 0.08, f"{name}, line {access.line}", size=NORMAL, weight="bold")
        words = f"{access.op} of {access.array}, {access.width} bytes a lane: {_cost(access)}"
        fig.text_at(MARGIN, top + 0.28, words, size=NORMAL)
        size = (WIDTH - left - MARGIN, row * len(lines))
        ax = fig.add_axes_at(left, top + head - 0.1, *size, gid=f"lines {name}")
        _draw_lines(ax, access, lines)
        top += head + size[1] + gap
    return fig


def _lines(access: Access) -> list[int]:
    """The numbers of the lines of 128 bytes that an access touches. No lane straddles two."""
    return sorted({int(address) // LINE_BYTES for address in access.addresses})


def _cost(access: Access) -> str:
    return (
        f"{len(access.lanes) * access.width} bytes in {plural(access.requests, 'request')} "
        f"and {plural(access.sectors, 'sector')}"
    )


def _draw_lines(ax: Axes, access: Access, lines: list[int]) -> None:
    colour = style.ARRAYS[access.array]
    bare(ax, LINE_BYTES, len(lines))
    names = []
    for at, line in enumerate(lines):
        row, column = divmod(line * LINE_BYTES // WORD, access.shape[1])
        names.append(f"{access.array}[{row}, {column}]")
        look = {"facecolor": "white", "edgecolor": style.FAINT, "linewidth": 1.0, "clip_on": False}
        for sector in range(0, LINE_BYTES, SECTOR_BYTES):
            box(ax, sector, at, SECTOR_BYTES, 1, gid="sector", **look)
    ax.set_yticks([at + 0.5 for at in range(len(lines))], names)
    ax.tick_params(length=0)
    for lane, address in zip(access.lanes, access.addresses, strict=True):
        x, y = int(address) % LINE_BYTES + 0.15, lines.index(int(address) // LINE_BYTES) + 0.12
        look = {"facecolor": colour, "linewidth": 0, "gid": f"lane {lane}"}
        box(ax, x, y, access.width - 0.3, 0.76, str(lane), {"color": "white"}, **look)


def _widths_caption(accesses: Mapping[str, Access]) -> str:
    parts = [
        f"a {access.op} of {access.array} in {name} moves {_cost(access)}"
        for name, access in accesses.items()
    ]
    whole = all(
        access.sectors * SECTOR_BYTES == len(access.lanes) * access.width
        for access in accesses.values()
    )
    end = " Every byte of these sectors is used." if whole else ""
    return f"One instruction of one warp, traced: {style.listed(parts)}.{end}"


# ---- the transposed tile -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Staged:
    """One load of A by a warp, the four stores that keep it, and the first load of the tile."""

    load: Access
    stores: list[WarpAccess]
    read: WarpAccess

    @classmethod
    def of(cls, trace: Trace, block: tuple[int, int, int], warp: int) -> _Staged:
        load = trace.warp_access("A", block=block, warp=warp)
        shared = [a for a in trace.run.accesses(block, warp) if a.array == SHARED]
        stores = [a for a in shared if a.operation == "store" and a.size == WORD][:4]
        reads = [a for a in shared if a.operation == "load"]
        if load.width != 4 * WORD or len(stores) < 4 or not reads:
            raise ValueError(
                f"staging needs a kernel whose warps load 16 bytes of A and store them one by one; "
                f"{trace.kernel_name} at {style.shape_label(trace.m, trace.n, trace.k)} loads "
                f"{load.width} bytes."
            )
        return cls(load, stores, reads[0])

    @property
    def rows(self) -> list[int]:
        """The stretches of 128 bytes of shared memory that the four stores touch."""
        return sorted({byte // LINE_BYTES for byte in self.stored})

    @property
    def stored(self) -> set[int]:
        """The first bytes of the words that the four stores write."""
        return {int(a) for store in self.stores for a in store.addresses[store.active]}

    @property
    def words_of_banks(self) -> Counter[int]:
        """How many different words the first store writes in each bank that it falls into."""
        store = self.stores[0]
        words = {int(address) // WORD for address in store.addresses[store.active]}
        return Counter(word % BANKS for word in words)

    def column(self, row: int) -> str:
        """Which column of A stands in a stretch: the n-th store keeps the n-th of four neighbours.

        Empty where elements of several columns stand there.
        """
        columns = {
            int(self.load.elements[at][number][1])
            for number, store in enumerate(self.stores)
            for at, lane in enumerate(self.load.lanes)
            if store.active[lane] and int(store.addresses[lane]) // LINE_BYTES == row
        }
        return f"A[:, {columns.pop()}], " if len(columns) == 1 else ""

    def readers(self) -> dict[int, list[int]]:
        """First byte of a piece of 16 bytes: the lanes that the tile's first load gives it to.

        Of pieces that these four stores fill; what other warps store is not drawn.
        """
        stored = self.stored
        lanes: dict[int, list[int]] = {}
        for lane in range(WARP):
            first = int(self.read.addresses[lane])
            if self.read.active[lane] and stored.issuperset(range(first, first + 4 * WORD, WORD)):
                lanes.setdefault(first, []).append(lane)
        return lanes


@styled
def staging(trace: Trace, *, block: tuple[int, int, int] = (0, 0, 0), warp: int = 0) -> Picture:
    """Where four neighbours of a row of A go in shared memory, and what is read from there.

    Left: the elements of A that one warp brings with its first load, four for each lane. Right:
    shared memory in stretches of 128 bytes, a column for each bank, with the lanes that store
    there. Dark is what the first of the four stores writes. Outlined is what the warp's first load
    of the tile reads of it.

    Raises TypeError for anything but a trace, what Trace.warp_access raises for a block or warp
    that is not there, and ValueError for a kernel that does not load A 16 bytes at a time.
    """
    require_trace(trace, "staging")
    staged = _Staged.of(trace, tuple(block), warp)
    rows = staged.rows
    if len(rows) > MOST_LINES:
        raise ValueError(
            f"staging: the stores fall into {len(rows)} stretches of {LINE_BYTES} bytes; "
            f"at most {MOST_LINES} can be drawn."
        )
    head, cell, left = 0.5, 0.2, MARGIN + 0.3
    side = 1.75  # inches, of the piece of A
    x = left + side + 1.45  # room for the names of the rows
    down = _extent(staged.load)[0]
    key = [("the first store", _look(True)), ("the other three", _look(False))]
    if staged.readers():
        key.append(("read first", {"facecolor": "white", **OUTLINE}))
    height = head + cell * max(len(rows), down) + 0.3
    title = f"{trace.kernel_name}: block {tuple(block)}, warp {warp}"
    fig = page(title, height, _staging_caption(trace, staged, block, warp), key=key)
    top = fig.top + head
    for at, words in ((left, "A: one load"), (x, "shared memory: four stores, over the 32 banks")):
        fig.text_at(at, fig.top, words, size=NORMAL, weight="bold")
    _draw_piece(fig.add_axes_at(left, top, side, cell * down, gid="piece of A"), staged.load)
    size = (WIDTH - MARGIN - x, cell * len(rows))
    _draw_banks(fig.add_axes_at(x, top, *size, gid="banks"), staged, rows)
    return fig


OUTLINE = {"edgecolor": style.VERMILION, "linewidth": 2}


def _look(first: bool) -> dict:
    """Of an element that the first of the four stores writes, or another."""
    return {"facecolor": style.BLUE if first else style.tint(style.BLUE, 0.25), "linewidth": 0.5}


def _extent(load: Access) -> tuple[int, int]:
    """Rows and columns from the first to the last element that a load touches."""
    low, high = load.elements.min(axis=(0, 1)), load.elements.max(axis=(0, 1))
    return int(high[0] - low[0] + 1), int(high[1] - low[1] + 1)


def _draw_piece(ax: Axes, load: Access) -> None:
    """Each lane's four neighbours: the first dark, and the lane's number on the others."""
    top, left = (int(index) for index in load.elements.min(axis=(0, 1)))
    rows, columns = _extent(load)
    bare(ax, columns, rows)
    for lane, words in zip(load.lanes, load.elements, strict=True):
        for at, (row, column) in enumerate(words):
            box(ax, int(column) - left, int(row) - top, 1, 1, **_look(at == 0))
        row, column = int(words[0][0]) - top, int(words[0][1]) - left
        box(ax, column, row, 4, 1, fill=False, edgecolor=style.INK, linewidth=0.9)
        write(ax, column + 2.5, row + 0.55, str(lane))
    ax.set_yticks([at + 0.5 for at in range(rows)], [str(top + at) for at in range(rows)])
    marks = range(0, columns, 4)
    ax.set_xticks([at + 0.5 for at in marks], [str(left + at) for at in marks])
    number_above(ax)


def _draw_banks(ax: Axes, staged: _Staged, rows: list[int]) -> None:
    bare(ax, BANKS, len(rows))
    box(ax, 0, 0, BANKS, len(rows), facecolor="white", zorder=0)
    look = {"color": style.GRID, "linewidth": 0.5, "zorder": 0.5}
    ax.hlines(range(len(rows) + 1), 0, BANKS, **look)
    ax.vlines(range(BANKS + 1), 0, len(rows), **look)
    for number, store in enumerate(staged.stores):
        for lane in np.flatnonzero(store.active):
            line, byte = divmod(int(store.addresses[lane]), LINE_BYTES)
            text = {"color": "white" if number == 0 else style.INK}
            look = {"gid": f"store {number} lane {lane}", **_look(number == 0)}
            box(ax, byte // WORD, rows.index(line), 1, 1, str(lane), text, **look)
    _draw_readers(ax, staged, rows)
    names = [f"{staged.column(line)}byte {line * LINE_BYTES:,}" for line in rows]
    ax.set_yticks([at + 0.5 for at in range(len(rows))], names)
    number_banks(ax, BANKS)


def _draw_readers(ax: Axes, staged: _Staged, rows: list[int]) -> None:
    """Frames around what is read first, and the lanes that read it, right of what is stored."""
    readers = staged.readers()
    for address in readers:
        line, byte = divmod(address, LINE_BYTES)
        look = {"fill": False, "clip_on": False, "zorder": 4, **OUTLINE}
        box(ax, byte // WORD, rows.index(line), 4, 1, gid=f"read {address}", **look)
    if not readers:
        return
    words = f"read by {' and by '.join(map(lanes_in_words, readers.values()))}"
    line = min(readers) // LINE_BYTES
    end = 1 + max(byte for byte in staged.stored if byte // LINE_BYTES == line) % LINE_BYTES // WORD
    if style.text_width(words, SMALL) < (BANKS - end - 1) * 0.16:
        write(ax, end + 0.5, rows.index(line) + 0.55, words, ha="left")


def _staging_caption(trace: Trace, staged: _Staged, block: tuple, warp: int) -> str:
    read = "".join(
        f" The 16 bytes outlined are what {lanes_in_words(lanes)} ask for in the warp's first load "
        "of the tile."
        for lanes in staged.readers().values()
    )
    banks = staged.words_of_banks
    return (
        f"Warp {warp} of block {tuple(block)} of {trace.kernel_name} at its first load of A. "
        "Numbers are lanes. Each lane brings four neighbours of a row and stores them one by one. "
        f"Each row of shared memory is {BANKS} words, one in each bank. The first of the four "
        f"stores, dark, falls into {plural(len(banks), 'bank')} of {BANKS} and takes "
        f"{plural(max(banks.values()), 'wavefront')}.{read}"
    )
