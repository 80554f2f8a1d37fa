"""Which elements of A, B and C one warp touches in one instruction."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import Rectangle

from gemmlab.kernel.trace import Access, Trace
from gemmlab.plots import style
from gemmlab.plots.matrix import SECTOR_BYTES, draw_grid, require_access, require_trace
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LINE, MARGIN, NORMAL, SMALL, WIDTH, plural, styled
from ptxsim.architectures import WARP

MOST_CELLS = 32  # rows and columns of a matrix that are shown at most
LEAST_CELLS = 16


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
    left, head = 0.42, 0.85  # room for the row numbers, and for the header and column numbers
    cell_width = (pitch - left - 0.12) / columns
    cell_height = min(4.2 / rows, 1.25 * cell_width)
    notes = {view.access.array: view.notes(rows, columns) for view in views}
    notes_height = max(map(len, notes.values())) * SMALL * LINE / 72
    body_height = head + rows * cell_height + 0.1 + notes_height + 0.2
    if caption is None:
        caption = _warp_caption(trace, accesses, block, warp)
    fig = style.page(body_height, caption)
    _warp_header(fig, f"{trace.kernel_name}: block {block}, warp {warp}")
    for at, view in enumerate(views):
        origin = MARGIN + at * pitch + left
        size = (columns * cell_width, rows * cell_height)
        ax = fig.add_axes_at(origin, head, *size, gid=f"map {view.access.array}")
        _Panel(ax, view, (rows, columns), cell_width, cell_height).draw()
        m, n = view.access.shape
        name = f"{view.access.array}, {m} × {n}"
        fig.text_at(origin, head - 0.43, name, size=NORMAL, weight="bold")
        fig.text_at(
            origin, head + size[1] + 0.1, "\n".join(notes[view.access.array]), size=SMALL,
            linespacing=LINE, gid=f"notes {view.access.array}",
        )  # fmt: skip
    return fig


def _warp_header(fig: Picture, title: str) -> None:
    """The title, and at the right what dark and pale cells mean."""
    fig.text_at(MARGIN, 0.12, title, size=style.LARGE, weight="bold")
    across, down = fig.get_size_inches()
    key = (("the rest of its 32-byte sector", 0.25), ("asked for by a lane", 1.0))
    right = WIDTH - MARGIN
    for words, share in key:
        right -= style.text_width(words, SMALL) + 0.05
        fig.text_at(right, 0.15, words, size=SMALL)
        right -= 0.2
        fig.add_artist(
            Rectangle(
                (right / across, 1 - 0.265 / down), 0.14 / across, 0.12 / down,
                facecolor=style.tint(style.FAINT, share), edgecolor=style.FAINT, linewidth=1,
            )
        )  # fmt: skip
        right -= 0.15


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
        self.ax.set(xlim=(0, self.frame_columns), ylim=(self.frame_rows, 0))
        self.ax.spines[:].set_visible(False)
        shape = self.view.access.shape
        draw_grid(self.ax, self.rows, self.columns, shape, self.width, self.height)
        for (sector, row), (first, last) in self.view.pieces.items():
            self._bar(row, first, last, facecolor=style.tint(self.colour, 0.25),
                      gid=f"sector {sector}")  # fmt: skip
        for row, column in self.view.lanes_of:
            self._bar(row, column, column, facecolor=self.colour, edgecolor="white",
                      linewidth=0.5, gid=f"cell {row} {column}")  # fmt: skip
        self._outline_sectors()
        self._write_lanes()

    def _bar(self, row: int, first: int, last: int, **look: Any) -> None:
        """Cells first to last of a row, as far as they are shown."""
        first, last = max(first, self.columns[0]), min(last, self.columns[-1])
        if row in self.rows and first <= last:
            at = (first - self.columns[0], row - self.rows[0])
            self.ax.add_patch(Rectangle(at, last - first + 1, 1, **look))

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
                self.ax.text(
                    column - self.columns[0] + 0.5, row - self.rows[0] + 0.53, str(lanes[0]),
                    size=SMALL, color="white", ha="center", va="center_baseline",
                )  # fmt: skip
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
            lines = label.split("\n")
            across = max(style.text_width(line, SMALL) for line in lines) / self.width
            down = len(lines) * SMALL * 1.15 / 72 / self.height
            left = x if ha == "left" else x - across / 2
            top = y if va == "top" else y - down / 2
            box = (left, top, left + across, top + down)
            inside = left >= 0 and box[2] <= self.frame_columns and box[3] <= self.frame_rows
            if inside and not any(style.overlap(box, other) for other in taken):
                taken.append(box)
                self.ax.text(
                    x, y, label, size=SMALL, ha=ha, va=va, linespacing=1.1,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
                )  # fmt: skip
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
