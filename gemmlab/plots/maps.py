"""Maps of what threads touch: a warp's elements and addresses, and what a block computes of C."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from gemmlab.kernel.trace import Access, Trace, TraceError
from gemmlab.plots import style
from gemmlab.plots.cells import (
    SECTOR_BYTES,
    bare,
    box,
    draw_grid,
    plate,
    rectangles,
    require_access,
    require_trace,
    write,
)
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.rows import note
from gemmlab.plots.style import LARGE, LINE, MARGIN, NORMAL, SMALL, WIDTH, plural
from ptxsim.architectures import WARP

MOST_CELLS = 32  # rows and columns of a matrix that are shown at most in a warp's map
LEAST_CELLS = 16
MOST_OUTLINED = 128  # sectors that a panel of addresses spans with room for an outline around each
MOST_OF_C = 128  # rows and columns of C that are shown at most in a block's map
SIDE = 4.5  # inches, of a block's map at most


# ---- addresses of a warp -------------------------------------------------------------------------


@styled
def address_map(*accesses: Access, caption: str | None = None) -> Picture:
    """Byte address over lane, one panel for each access: a staircase, a flat or a steep line.

    Every band is a 32-byte sector that the access touches. All panels span equally many bytes,
    counted from the first sector touched. Takes what trace.warp_access(...) returns, one to four.

    Raises TypeError for anything else, ValueError for none or for more than four.
    """
    if not 1 <= len(accesses) <= 4:
        raise ValueError(f"address_map takes one to four accesses, not {len(accesses)}.")
    for access in accesses:
        require_access(access, "address_map")
    starts = [int(access.addresses.min()) // SECTOR_BYTES * SECTOR_BYTES for access in accesses]
    span = max(
        int(access.addresses.max()) + access.width - start
        for access, start in zip(accesses, starts, strict=True)
    )
    span = math.ceil(span / SECTOR_BYTES) * SECTOR_BYTES
    step = SECTOR_BYTES
    while span / step > 8:
        step *= 2

    head, height, left, gap = 0.75, 2.7, 0.75, 0.3
    width = (WIDTH - MARGIN - left - gap * (len(accesses) - 1)) / len(accesses)
    fig = page("", head + height + 0.65 - 0.12, caption or _address_caption(accesses))
    for at, (access, start) in enumerate(zip(accesses, starts, strict=True)):
        x = left + at * (width + gap)
        ax = fig.add_axes_at(x, head, width, height, gid=f"addresses {access.array}")
        _draw_addresses(ax, access, start, span)
        margin = span * 0.03
        ax.set(xlim=(-1, WARP), ylim=(-margin, span + margin), xlabel="lane")
        ax.set_xticks([0, 8, 16, 24, 31])
        ticks = range(0, span + 1, step)
        ax.set_yticks(ticks, [f"{tick:,}" for tick in ticks] if at == 0 else [""] * len(ticks))
        if at == 0:
            ax.set_ylabel("bytes from the first sector touched")
        title = f"{access.array}: {access.op}, {plural(access.sectors, 'sector')}"
        fig.text_at(x, 0.15, title, size=LARGE, weight="bold")
        fig.text_at(x, 0.4, f"0 is byte {start:,} of {access.array}", size=SMALL)
    return fig


def _draw_addresses(ax: Axes, access: Access, start: int, span: int) -> None:
    colour = style.ARRAYS[access.array]
    # Bands thinner than two dots have no outline: it would hide how thin they are.
    thin = span > MOST_OUTLINED * SECTOR_BYTES
    look = {"facecolor": style.tint(colour, 0.6 if thin else 0.22), "linewidth": 0 if thin else 0.6,
            "edgecolor": style.tint(colour, 0.6), "snap": not thin}  # fmt: skip
    width = access.shape[1]
    sectors = {
        (int(row) * width + int(column)) // access.sector_elements
        for words in access.elements
        for row, column in words
    }
    for sector in sorted(sectors):
        y = sector * SECTOR_BYTES - start
        box(ax, -1, y, WARP + 1, SECTOR_BYTES, gid=f"sector {sector}", **look)
    look = {"color": colour, "markersize": 4, "clip_on": False}
    ax.plot(access.lanes, access.addresses - start, style.ARRAY_MARKERS[access.array], **look)


def _address_caption(accesses: Sequence[Access]) -> str:
    def course(addresses: np.ndarray) -> str:
        steps = set((addresses[1:] - addresses[:-1]).tolist())
        if steps <= {0}:
            return "stays at one address"
        if len(steps) == 1:
            step = steps.pop()
            return f"{'climbs' if step > 0 else 'falls'} {abs(step):,} bytes from lane to lane"
        return "jumps between lanes"

    parts = [
        f"the {access.op} of {access.array} {course(access.addresses)} "
        f"({plural(access.sectors, 'sector')})"
        for access in accesses
    ]
    return (
        f"Byte addresses of the lanes of one warp in one instruction: {style.listed(parts)}. "
        "Every band is a sector of 32 bytes that has to be moved."
    )


# ---- elements of a warp --------------------------------------------------------------------------


@styled
def warp_map(
    trace: Trace,
    *,
    block: tuple[int, int, int] = (0, 0, 0),
    warp: int = 0,
    occurrence: int = 0,
    caption: str | None = None,
) -> Picture:
    """Which elements of A, B and C the 32 lanes of one warp touch in one instruction.

    Dark cells are the elements that lanes ask for, with the lane's number where it fits; pale
    cells share a 32-byte sector with them. A and B are loads, C is a store; `occurrence` counts
    how often this warp has executed such an instruction before (0: the first time).

    Raises TypeError for anything but a trace, and what Trace.warp_access raises for a block,
    warp or occurrence that is not there.
    """
    require_trace(trace, "warp_map")
    where = {"block": block, "warp": warp}
    accesses = [
        trace.warp_access("A", op="load", occurrence=occurrence, **where),
        trace.warp_access("B", op="load", occurrence=occurrence, **where),
        trace.warp_access("C", op="store", **where),
    ]
    for access in accesses:
        require_access(access, "warp_map")
    views = [_View.of(access) for access in accesses]
    tallest = max(access.shape[0] for access in accesses)
    rows = max(min(LEAST_CELLS, tallest), *(view.rows for view in views))
    columns = max(LEAST_CELLS, *(view.columns for view in views))

    pitch = (WIDTH - 2 * MARGIN) / 3
    left, head = 0.42, 0.43  # room for the row numbers, and for a name and column numbers
    cell_width = (pitch - left - 0.12) / columns
    cell_height = min(4.2 / rows, 1.25 * cell_width)
    size = (columns * cell_width, rows * cell_height)
    notes = {view.access.array: view.notes(rows, columns) for view in views}
    notes_height = max(map(len, notes.values())) * SMALL * LINE / 72
    fig = page(
        f"{trace.kernel_name}: block {block}, warp {warp}", head + size[1] + notes_height + 0.3,
        caption or _warp_caption(trace, accesses, block, warp),
        key=[("asked for by a lane", swatch(style.FAINT, 1.0)),
             ("the rest of its 32-byte sector", swatch(style.FAINT, 0.25))],
    )  # fmt: skip
    for at, view in enumerate(views):
        array, (m, n) = view.access.array, view.access.shape
        origin, below = MARGIN + at * pitch + left, fig.top + head + size[1] + 0.1
        ax = fig.add_axes_at(origin, fig.top + head, *size, gid=f"map {array}")
        _Panel(ax, view, (rows, columns), cell_width, cell_height).draw()
        fig.text_at(origin, fig.top, f"{array}, {m} × {n}", size=NORMAL, weight="bold")
        words = "\n".join(notes[array])
        fig.text_at(origin, below, words, size=SMALL, linespacing=LINE, gid=f"notes {array}")
    return fig


def _warp_caption(trace: Trace, accesses: Sequence[Access], block: tuple, warp: int) -> str:
    parts = [
        f"one {access.op} of {access.array} falls into {plural(access.sectors, 'sector')}"
        for access in accesses
    ]
    return (
        f"What warp {warp} of block {block} touches in one instruction of {trace.kernel_name} "
        f"at M={trace.m}, N={trace.n}, K={trace.k}: {style.listed(parts)}. "
        "Each sector moves 32 bytes, whether one lane asks for a part of it or all do."
    )


@dataclass(frozen=True)
class _View:
    """What one access touches in its matrix, and the frame of rows and columns that shows it."""

    access: Access
    lanes_of: dict[tuple[int, int], list[int]]  # element: the lanes that touch it
    pieces: dict[tuple[int, int], tuple[int, int]]  # (sector, row): first and last column
    top: int  # first row and column of interest, and how many
    left: int
    rows: int
    columns: int

    @classmethod
    def of(cls, access: Access) -> _View:
        height, width = access.shape
        each = access.sector_elements
        lanes_of: dict[tuple[int, int], list[int]] = {}
        for lane, words in zip(access.lanes, access.elements, strict=True):
            for row, column in words:
                lanes_of.setdefault((int(row), int(column)), []).append(int(lane))
        pieces: dict[tuple[int, int], tuple[int, int]] = {}
        for sector in sorted({(r * width + c) // each for r, c in lanes_of}):
            # A sector runs on into the next row where it does not divide the width.
            stop = min((sector + 1) * each, height * width)
            for element in range(sector * each, stop):
                row, column = divmod(element, width)
                first, _ = pieces.get((sector, row), (column, column))
                pieces[sector, row] = (first, column)
        touched = [pieces[(r * width + c) // each, r] for r, c in lanes_of]
        top, left = min(row for row, _ in lanes_of), min(first for first, _ in touched)
        rows = max(row for row, _ in lanes_of) - top + 1
        columns = max(last for _, last in touched) - left + 1
        return cls(
            access, lanes_of, pieces, top, left, min(rows, MOST_CELLS), min(columns, MOST_CELLS)
        )

    def sector(self, row: int, column: int) -> int:
        """The number of the sector that an element lies in, from the matrix's start."""
        return (row * self.access.shape[1] + column) // self.access.sector_elements

    def window(self, rows: int, columns: int) -> tuple[range, range]:
        """The rows and columns that a frame of this size shows: inside the matrix if it fits."""
        height, width = self.access.shape
        top = max(0, min(self.top, height - rows))
        left = max(0, min(self.left, width - columns))
        return range(top, min(top + rows, height)), range(left, min(left + columns, width))

    def notes(self, rows: int, columns: int) -> list[str]:
        """Lines below the panel: what is asked, what moves, and what the frame leaves out."""
        access = self.access
        asked = len(access.lanes) * access.width
        lines = [
            f"{access.op}, line {access.line}: {plural(access.requests, 'request')}, "
            f"{plural(access.sectors, 'sector')}",
            f"{asked:,} bytes asked, {access.sectors * SECTOR_BYTES:,} moved",
        ]
        shown_rows, shown_columns = self.window(rows, columns)
        if (len(shown_rows), len(shown_columns)) != tuple(access.shape):
            lines.append(
                f"cropped to rows {shown_rows[0]}–{shown_rows[-1]}, "
                f"columns {shown_columns[0]}–{shown_columns[-1]}"
            )
        seen = sum(row in shown_rows and column in shown_columns for row, column in self.lanes_of)
        if seen < len(self.lanes_of):
            lines.append(f"{seen} of {len(self.lanes_of)} elements asked for are shown")
        return lines


class _Panel:
    """The axes that show one view: a frame of cells, `width` × `height` inches each."""

    def __init__(
        self, ax: Axes, view: _View, frame: tuple[int, int], width: float, height: float
    ) -> None:
        self.ax, self.view, self.width, self.height = ax, view, width, height
        self.frame_rows, self.frame_columns = frame
        self.rows, self.columns = view.window(*frame)
        self.colour = style.ARRAYS[view.access.array]

    def draw(self) -> None:
        bare(self.ax, self.frame_columns, self.frame_rows)
        shape = self.view.access.shape
        draw_grid(self.ax, self.rows, self.columns, shape, self.width, self.height)
        for (sector, row), (first, last) in self.view.pieces.items():
            look = {"facecolor": style.tint(self.colour, 0.25), "linewidth": 0}
            self._bar(row, first, last, gid=f"sector {sector}", **look)
        for row, column in self.view.lanes_of:
            look = {"facecolor": self.colour, "linewidth": 0.5}
            self._bar(row, column, column, gid=f"cell {row} {column}", **look)
        self._outline_sectors()
        self._write_lanes()

    def _bar(self, row: int, first: int, last: int, **look: Any) -> None:
        """Cells first to last of a row, as far as they are shown."""
        first, last = max(first, self.columns[0]), min(last, self.columns[-1])
        if row in self.rows and first <= last:
            x, y = first - self.columns[0], row - self.rows[0]
            box(self.ax, x, y, last - first + 1, 1, **look)

    def _outline_sectors(self) -> None:
        """Lines between cells of different sectors, so that one over several rows stays one."""
        lines = []
        for (sector, row), (first, last) in self.view.pieces.items():
            if row not in self.rows:
                continue
            y = row - self.rows[0]
            for x in (first - self.columns[0], last + 1 - self.columns[0]):
                if 0 <= x <= len(self.columns):
                    lines.append([(x, y), (x, y + 1)])
            for column in range(max(first, self.columns[0]), min(last, self.columns[-1]) + 1):
                x = column - self.columns[0]
                for beyond, edge in ((row - 1, y), (row + 1, y + 1)):
                    low, high = self.view.pieces.get((sector, beyond), (1, 0))
                    if not low <= column <= high:
                        lines.append([(x, edge), (x + 1, edge)])
        self.ax.add_collection(
            LineCollection(lines, colors=style.INK, linewidths=0.9, gid="outlines", zorder=1.5),
            autolim=False,
        )

    def _write_lanes(self) -> None:
        """Lane numbers in the cells where they fit, else beside or below each piece of a sector."""
        number_fits = self.width >= style.text_width("00", SMALL) and self.height >= SMALL / 72
        unnamed: dict[tuple[int, int], set[int]] = {}  # piece of a sector: lanes still to name
        for (row, column), lanes in self.view.lanes_of.items():
            if row not in self.rows or column not in self.columns:
                continue
            if number_fits and len(lanes) == 1:
                x, y = column - self.columns[0] + 0.5, row - self.rows[0] + 0.53
                write(self.ax, x, y, str(lanes[0]), color="white")
            else:
                unnamed.setdefault((self.view.sector(row, column), row), set()).update(lanes)

        taken = [
            (first - self.columns[0], row - self.rows[0],
             last + 1 - self.columns[0], row + 1 - self.rows[0])
            for (_, row), (first, last) in self.view.pieces.items()
        ]  # fmt: skip
        # The first and the last first: where there is no room for all, these say the most.
        order = list(unnamed)
        for piece in [*order[:1], *order[:0:-1][:1], *order[1:-1]]:
            self._name_piece(piece, lanes_in_words(unnamed[piece]), taken)

    def _name_piece(self, piece: tuple[int, int], words: str, taken: list[tuple]) -> None:
        """Words to the right of a piece of a sector, else below it, else none at all.

        `taken` are boxes (left, top, right, bottom), in cells, that have to stay free.
        """
        first, last = self.view.pieces[piece]
        middle = piece[1] - self.rows[0] + 0.5
        right, centre = last + 1 - self.columns[0], (first + last + 1) / 2 - self.columns[0]
        stacked = words.replace(" ", "\n", 1)
        for x, y, label, ha, va in (
            (right + 0.06 / self.width, middle, words, "left", "center"),
            (centre, middle + 0.5 + 0.04 / self.height, stacked, "center", "top"),
        ):
            across = style.widest([label], SMALL) / self.width
            down = (1 + label.count("\n")) * SMALL * 1.15 / 72 / self.height
            left = x if ha == "left" else x - across / 2
            top = y if va == "top" else y - down / 2
            place = (left, top, left + across, top + down)
            inside = left >= 0 and place[2] <= self.frame_columns and place[3] <= self.frame_rows
            if inside and not any(style.overlap(place, other) for other in taken):
                taken.append(place)
                look = {"ha": ha, "va": va, "linespacing": 1.1, "bbox": plate(0.6, 1)}
                write(self.ax, x, y, label, **look)
                return


def lanes_in_words(lanes: Sequence[int]) -> str:
    """ "lane 5", "lanes 0–7", "all 32 lanes", "lanes 0, 4, …, 28"."""
    lanes = sorted({int(lane) for lane in lanes})
    if len(lanes) == WARP:
        return "all 32 lanes"
    if len(lanes) == 1:
        return f"lane {lanes[0]}"
    steps = {after - before for before, after in itertools.pairwise(lanes)}
    if steps == {1}:
        return f"lanes {lanes[0]}–{lanes[-1]}"
    if len(lanes) <= 3:
        return f"lanes {', '.join(map(str, lanes))}"
    if len(steps) == 1:
        return f"lanes {lanes[0]}, {lanes[1]}, …, {lanes[-1]}"
    return f"{len(lanes)} lanes"


# ---- elements of C of a block --------------------------------------------------------------------


@styled
def block_map(
    trace: Trace, *, block: tuple[int, int, int] = (0, 0, 0), caption: str | None = None
) -> Picture:
    """Which elements of C each thread of one block stores, coloured by warp.

    Warp 0 is dark, with the lane in each cell where it fits. Beside the map, the elements of a few
    threads in numbers.

    Raises TypeError for anything but a trace, what Trace.warp_access raises for a block that is
    not there, and ValueError for a block that stores nothing.
    """
    require_trace(trace, "block_map")
    owner = _owners(trace, block)
    top, left = (min(index) for index in zip(*owner, strict=True))
    bottom, right = (max(index) for index in zip(*owner, strict=True))
    rows = range(top, min(bottom, top + MOST_OF_C - 1) + 1)
    columns = range(left, min(right, left + MOST_OF_C - 1) + 1)
    # Square where there is room, else up to a third of an inch in the shorter direction.
    square = min(SIDE / max(len(rows), len(columns)), 0.35)
    cell = (
        min(SIDE / len(columns), max(square, 0.3)),
        min(SIDE / len(rows), max(square, 0.3)),
    )
    width, height = len(columns) * cell[0], len(rows) * cell[1]

    x, head = MARGIN + 0.42, 0.43
    title = f"{trace.kernel_name}: block {block} in C, {trace.m} × {trace.n}"
    body = head + max(height, 2.0) + 0.25
    fig = page(title, body, caption or _block_caption(trace, block, owner))
    note = "each cell is an element, each pattern a warp"
    if rows[-1] < bottom or columns[-1] < right:
        note += f"; cropped to {len(rows)} × {len(columns)}"
    fig.text_at(x, fig.top, note, size=SMALL)
    ax = fig.add_axes_at(x, fig.top + head, width, height, gid="map C")
    bare(ax, len(columns), len(rows))
    _draw_warps(ax, owner, rows, columns, cell)
    draw_grid(ax, rows, columns, (trace.m, trace.n), *cell)
    _thread_table(fig, trace, owner, x + width + 0.4, fig.top + head)
    return fig


def _owners(trace: Trace, block: tuple[int, int, int]) -> dict[tuple[int, int], int]:
    """Element of C: the thread of the block, numbered along x, then y, that stores it last."""
    warps = math.ceil(math.prod(trace.block) / WARP)
    owner: dict[tuple[int, int], int] = {}
    for warp in range(warps):
        occurrence = 0
        while True:
            try:
                access = trace.warp_access(
                    "C", op="store", block=block, warp=warp, occurrence=occurrence
                )
            except TraceError:
                break
            require_access(access, "block_map")
            for lane, words in zip(access.lanes, access.elements, strict=True):
                for row, column in words:
                    owner[int(row), int(column)] = warp * WARP + int(lane)
            occurrence += 1
    if not owner:
        raise ValueError(f"block_map: block {block} of {trace.kernel_name} stores nothing in C.")
    return owner


def _draw_warps(
    ax: Axes, owner: dict, rows: range, columns: range, cell: tuple[float, float]
) -> None:
    """Every warp a tint and a pattern, warp 0 dark; cells are so many inches wide and high."""
    cells_of: dict[int, set[tuple[int, int]]] = {}  # thread: its cells
    for (row, column), thread in owner.items():
        if row in rows and column in columns:
            cells_of.setdefault(thread, set()).add((row - rows[0], column - columns[0]))
    warps: dict[int, set[tuple[int, int]]] = {}
    for thread, cells in cells_of.items():
        warps.setdefault(thread // WARP, set()).update(cells)
    lanes = [(lane, part) for lane in range(WARP) for part in rectangles(cells_of.get(lane, set()))]
    numbers_fit = all(
        across * cell[0] >= style.text_width(str(lane), SMALL) and down * cell[1] >= SMALL / 72
        for lane, (_, _, across, down) in lanes
    )
    for warp, cells in sorted(warps.items()):
        look = {"facecolor": style.BLUE, "edgecolor": "white"}
        if warp:
            colour = style.WARP_COLOURS[warp % len(style.WARP_COLOURS)]
            hatch = style.WARP_HATCHES[warp % len(style.WARP_HATCHES)]
            look = {"facecolor": style.tint(colour, 0.25), "edgecolor": style.tint(colour, 0.6)}
            look["hatch"] = hatch
        parts = rectangles(cells)
        for x, y, across, down in parts:
            box(ax, x, y, across, down, gid=f"warp {warp}", **look)
        if warp or not numbers_fit:
            _label_warp(ax, warp, max(parts, key=lambda part: part[2] * part[3]), cell)
        if warp == 0 and not numbers_fit and len(parts) == 1:
            _number_ends(ax, parts[0], lanes[0][0], lanes[-1][0])
    if numbers_fit:
        for lane, (x, y, across, down) in lanes:
            box(ax, x, y, across, down, str(lane), {"color": "white"}, fill=False, linewidth=0.5)


def _label_warp(
    ax: Axes, warp: int, part: tuple[int, int, int, int], cell: tuple[float, float]
) -> None:
    """The warp's number in the middle of a rectangle, lying or standing, where it fits."""
    x, y, across, down = part
    width, height = across * cell[0], down * cell[1]
    for words in (f"warp {warp}", str(warp)):
        long, high = style.text_width(words, SMALL) + 0.04, SMALL / 72
        for rotation, fits in (
            (0, width >= long and height >= high),
            (90, width >= high and height >= long),
        ):
            if fits:
                look = {"rotation": rotation, "va": "center", "bbox": plate(0.4, 1)}
                write(ax, x + across / 2, y + down / 2, words, **look)
                return


def _number_ends(ax: Axes, part: tuple[int, int, int, int], first: int, last: int) -> None:
    """The first and the last lane at the ends of a strip, where there is no room for all."""
    x, y, across, down = part
    upright = down > across
    middle = (x + across / 2) if upright else (y + down / 2)
    for lane, end, ha, va, sign in (
        (first, y if upright else x, "left", "top", 1),
        (last, y + down if upright else x + across, "right", "bottom", -1),
    ):
        at, shift = ((middle, end), (0, -3 * sign)) if upright else ((end, middle), (3 * sign, 0))
        look = {"ha": "center", "va": va} if upright else {"ha": ha, "va": "center"}
        note(ax, str(lane) if upright else f"lane {lane}", at, shift, color="white", **look)


def _thread_table(fig: Picture, trace: Trace, owner: dict, left: float, top: float) -> None:
    """A few threads in numbers: where they stand in the block, and what they store."""
    elements: dict[int, list[tuple[int, int]]] = {}
    for element, thread in sorted(owner.items()):
        elements.setdefault(thread, []).append(element)
    threads = math.prod(trace.block)
    chosen = [t for t in (0, 1, 2, 31, 32, 33, 63, 64, threads - 1) if t in elements]
    lines = [("thread", "threadIdx", "warp, lane", "stores")]
    for thread in dict.fromkeys(chosen):
        row, column = elements[thread][0]
        more = len(elements[thread]) - 1
        stored = f"C[{row}, {column}]" + (f" and {more} more" if more else "")
        index = (thread % trace.block[0], thread // trace.block[0] % trace.block[1])
        lines.append(
            (str(thread), f"({index[0]}, {index[1]})",
             f"{thread // WARP}, {thread % WARP}", stored)
        )  # fmt: skip
    for column in zip(*lines, strict=True):
        for at, words in enumerate(column):
            weight = "bold" if at == 0 else "normal"
            fig.text_at(left, top + at * 0.2, words, size=SMALL, weight=weight)
        left += max(style.text_width(words, SMALL, "bold") for words in column) + 0.16


def _block_caption(trace: Trace, block: tuple, owner: dict) -> str:
    def extent(elements: Sequence[tuple[int, int]]) -> str:
        spans = []
        for name, indices in zip(("row", "column"), zip(*elements, strict=True), strict=True):
            low, high = min(indices), max(indices)
            spans.append(f"{name} {low}" if low == high else f"{name}s {low} to {high}")
        return ", ".join(spans)

    threads = math.prod(trace.block)
    first = [element for element, thread in owner.items() if thread < WARP]
    caption = (
        f"Block {block} of {trace.kernel_name} has {threads:,} threads in "
        f"{plural(math.ceil(threads / WARP), 'warp')} and computes {extent(list(owner))} of C."
    )
    if first:
        caption += f" Warp 0, dark, computes {extent(first)}."
    return caption
