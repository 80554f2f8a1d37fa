"""Pictures of memory accesses, drawn from the addresses that a compiled kernel touched."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gemmlab.plots import style
from gemmlab.plots.style import LINE, MARGIN, NORMAL, SMALL, WIDTH, plural, styled

if TYPE_CHECKING:
    import numpy

    from gemmlab.plots.picture import Picture
    from gemmlab.trace import Access, Trace

SECTOR_BYTES = 32
FLOAT_BYTES = 4
SECTOR_FLOATS = SECTOR_BYTES // FLOAT_BYTES
WARP_SIZE = 32

MOST_CELLS = 32  # rows and columns of a matrix that warp_map shows at most
LEAST_CELLS = 16
MOST_BLOCK_CELLS = 128  # rows and columns of C that block_map shows at most
MOST_OUTLINED = 128  # sectors that address_map spans with room for an outline around each


def _require_trace(trace: Any, who: str) -> None:
    if not callable(getattr(trace, "warp_access", None)):
        raise TypeError(f"{who} takes a trace, as kernel.trace(m, n, k) gives, not {trace!r}.")


def _require_access(access: Any, who: str) -> None:
    fields = ("array", "op", "shape", "lanes", "elements", "addresses", "width", "sectors")
    missing = [name for name in fields if not hasattr(access, name)]
    if missing:
        raise TypeError(
            f"{who} takes accesses, as trace.warp_access(...) gives, not {access!r} "
            f"(which has no {missing[0]})."
        )
    if len(access.lanes) == 0:
        raise ValueError(f"{who}: no lane is active in this {access.op} of {access.array}.")
    if len(access.elements) != len(access.lanes) or len(access.addresses) != len(access.lanes):
        raise ValueError(
            f"{who}: the {access.op} of {access.array} has {len(access.lanes)} lanes, "
            f"{len(access.elements)} entries of elements and {len(access.addresses)} addresses."
        )


def lanes_in_words(lanes: Sequence[int]) -> str:
    """ "lane 5", "lanes 0–7", "all 32 lanes", "lanes 0, 4, …, 28"."""
    lanes = sorted({int(lane) for lane in lanes})
    if len(lanes) == WARP_SIZE:
        return "all 32 lanes"
    if len(lanes) == 1:
        return f"lane {lanes[0]}"
    steps = {after - before for before, after in zip(lanes, lanes[1:], strict=False)}
    if steps == {1}:
        return f"lanes {lanes[0]}–{lanes[-1]}"  # noqa: RUF001
    if len(lanes) <= 3:
        return f"lanes {', '.join(map(str, lanes))}"
    if len(steps) == 1:
        return f"lanes {lanes[0]}, {lanes[1]}, …, {lanes[-1]}"
    return f"{len(lanes)} lanes"


# ---- which elements one warp touches -------------------------------------------------------------


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
    _require_trace(trace, "warp_map")
    where = {"block": block, "warp": warp}
    accesses = [
        trace.warp_access("A", op="load", occurrence=occurrence, **where),
        trace.warp_access("B", op="load", occurrence=occurrence, **where),
        trace.warp_access("C", op="store", **where),
    ]
    for access in accesses:
        _require_access(access, "warp_map")
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
    fig = style.page(body_height, caption or _warp_caption(trace, accesses, block, warp))
    _warp_header(fig, f"{trace.kernel_name}: block {block}, warp {warp}")
    for at, view in enumerate(views):
        origin = MARGIN + at * pitch + left
        size = (columns * cell_width, rows * cell_height)
        ax = fig.add_axes_at(origin, head, *size, gid=f"map {view.access.array}")
        view.draw(ax, rows, columns, cell_width, cell_height)
        m, n = view.access.shape
        name = f"{view.access.array}, {m} × {n}"  # noqa: RUF001
        fig.text_at(origin, head - 0.43, name, size=NORMAL, weight="bold")
        fig.text_at(
            origin, head + size[1] + 0.1, "\n".join(notes[view.access.array]), size=SMALL,
            linespacing=LINE, gid=f"notes {view.access.array}",
        )  # fmt: skip
    return fig


def _warp_header(fig: Picture, title: str) -> None:
    """The title, and at the right what dark and pale cells mean."""
    from matplotlib.patches import Rectangle

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
        lanes_of: dict[tuple[int, int], list[int]] = {}
        for lane, words in zip(access.lanes, access.elements, strict=True):
            for row, column in words:
                lanes_of.setdefault((int(row), int(column)), []).append(int(lane))
        pieces: dict[tuple[int, int], tuple[int, int]] = {}
        for sector in sorted({(r * width + c) // SECTOR_FLOATS for r, c in lanes_of}):
            # A sector runs on into the next row where the width is no multiple of eight.
            stop = min((sector + 1) * SECTOR_FLOATS, height * width)
            for element in range(sector * SECTOR_FLOATS, stop):
                row, column = divmod(element, width)
                first, _ = pieces.get((sector, row), (column, column))
                pieces[sector, row] = (first, column)
        touched = [pieces[(r * width + c) // SECTOR_FLOATS, r] for r, c in lanes_of]
        top, left = min(row for row, _ in lanes_of), min(first for first, _ in touched)
        rows = max(row for row, _ in lanes_of) - top + 1
        columns = max(last for _, last in touched) - left + 1
        return cls(
            access, lanes_of, pieces, top, left, min(rows, MOST_CELLS), min(columns, MOST_CELLS)
        )

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
                f"cropped to rows {shown_rows[0]}–{shown_rows[-1]}, "  # noqa: RUF001
                f"columns {shown_columns[0]}–{shown_columns[-1]}"  # noqa: RUF001
            )
        seen = sum(row in shown_rows and column in shown_columns for row, column in self.lanes_of)
        if seen < len(self.lanes_of):
            lines.append(f"{seen} of {len(self.lanes_of)} elements asked for are shown")
        return lines

    def draw(self, ax, rows: int, columns: int, cell_width: float, cell_height: float) -> None:
        """Draw into axes of rows × columns cells, each of that size in inches."""  # noqa: RUF002
        from matplotlib.patches import Rectangle

        shown_rows, shown_columns = self.window(rows, columns)
        ax.set(xlim=(0, columns), ylim=(rows, 0))
        ax.spines[:].set_visible(False)
        _grid(ax, shown_rows, shown_columns, self.access.shape, cell_width, cell_height)

        def cells(row: int, first: int, last: int, **look: Any) -> None:
            """A bar of cells, as far as it is shown."""
            first, last = max(first, shown_columns[0]), min(last, shown_columns[-1])
            if row in shown_rows and first <= last:
                at = (first - shown_columns[0], row - shown_rows[0])
                ax.add_patch(Rectangle(at, last - first + 1, 1, **look))

        colour = style.ARRAYS[self.access.array]
        for (sector, row), (first, last) in self.pieces.items():
            cells(row, first, last, facecolor=style.tint(colour, 0.25), gid=f"sector {sector}")
        for row, column in self.lanes_of:
            cells(row, column, column, facecolor=colour, edgecolor="white", linewidth=0.5,
                  gid=f"cell {row} {column}")  # fmt: skip
        for (sector, row), (first, last) in self.pieces.items():
            cells(row, first, last, fill=False, edgecolor=style.INK, linewidth=0.9,
                  gid=f"outline {sector}")  # fmt: skip
        self._write_lanes(ax, shown_rows, shown_columns, columns, rows, cell_width, cell_height)

    def _write_lanes(self, ax, shown_rows, shown_columns, columns, rows, width, height) -> None:
        """Lane numbers in the cells where they fit, else beside or below each piece of a sector."""
        number_fits = width >= style.text_width("00", SMALL) and height >= SMALL / 72
        runs: dict[tuple[int, int], set[int]] = {}  # (first column, row) of a piece: its lanes
        for (row, column), lanes in self.lanes_of.items():
            if row not in shown_rows or column not in shown_columns:
                continue
            if number_fits and len(lanes) == 1:
                ax.text(
                    column - shown_columns[0] + 0.5, row - shown_rows[0] + 0.53, str(lanes[0]),
                    size=SMALL, color="white", ha="center", va="center_baseline",
                )  # fmt: skip
            else:
                sector = (row * self.access.shape[1] + column) // SECTOR_FLOATS
                runs.setdefault((sector, row), set()).update(lanes)

        # Boxes are (left, top, right, bottom) in cells.
        taken = [
            (first - shown_columns[0], row - shown_rows[0],
             last + 1 - shown_columns[0], row + 1 - shown_rows[0])
            for (_, row), (first, last) in self.pieces.items()
        ]  # fmt: skip
        ends = list(runs)[:1] + list(runs)[:0:-1][:1]
        for key in [*ends, *(key for key in runs if key not in ends)]:
            first, last = self.pieces[key]
            row = key[1] - shown_rows[0] + 0.5
            words = lanes_in_words(runs[key])
            beside = (last + 1 - shown_columns[0] + 0.06 / width, row, words, "left", "center")
            centre = (first + last + 1) / 2 - shown_columns[0]
            below = (centre, row + 0.5 + 0.04 / height, words.replace(" ", "\n", 1), "center", "top")
            for x, y, label, ha, va in (beside, below):
                box = _box(x, y, label, ha, va, width, height)
                inside = box[0] >= 0 and box[2] <= columns and box[3] <= rows
                if inside and not any(_overlap(box, other) for other in taken):
                    taken.append(box)
                    ax.text(
                        x, y, label, size=SMALL, ha=ha, va=va, linespacing=1.1,
                        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
                    )  # fmt: skip
                    break


def _box(
    x: float, y: float, label: str, ha: str, va: str, width: float, height: float
) -> tuple[float, float, float, float]:
    """Where a label would stand: left, top, right and bottom in cells of that size in inches."""
    lines = label.split("\n")
    across = max(style.text_width(line, SMALL) for line in lines) / width
    down = len(lines) * SMALL * 1.15 / 72 / height
    left = x if ha == "left" else x - across / 2
    top = y if va == "top" else y - down / 2
    return left, top, left + across, top + down


def _overlap(one: tuple, other: tuple) -> bool:
    return (
        one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
    )


def _grid(ax, rows: range, columns: range, shape: tuple, width: float, height: float) -> None:
    """The cells of a piece of a matrix, its true edges solid and cut edges dotted, and indices."""
    from matplotlib.patches import Rectangle

    down, across = len(rows), len(columns)
    ax.add_patch(Rectangle((0, 0), across, down, facecolor="white", zorder=0))
    ax.hlines(range(1, down), 0, across, color=style.GRID, linewidth=0.5, zorder=0.5)
    ax.vlines(range(1, across), 0, down, color=style.GRID, linewidth=0.5, zorder=0.5)
    edges = (
        ((0, 0), (0, down), columns[0] == 0),
        ((across, across), (0, down), columns[-1] == shape[1] - 1),
        ((0, across), (0, 0), rows[0] == 0),
        ((0, across), (down, down), rows[-1] == shape[0] - 1),
    )
    for x, y, is_edge in edges:
        look = {"linestyle": "-"} if is_edge else {"linestyle": (0, (1, 2))}
        ax.plot(x, y, color=style.INK, linewidth=1.0, clip_on=False, zorder=3, **look)
    row_ticks = _ticks(rows, SMALL * 1.6 / 72 / height)
    column_ticks = _ticks(columns, (style.text_width(str(columns[-1]), SMALL) + 0.08) / width)
    ax.set_yticks([row - rows[0] + 0.5 for row in row_ticks], row_ticks)
    ax.set_xticks([column - columns[0] + 0.5 for column in column_ticks], column_ticks)
    ax.tick_params(length=0, pad=2, top=False, labeltop=True, bottom=False, labelbottom=False)


def _ticks(indices: range, room: float) -> list[int]:
    """Every 1st, 2nd, 4th, 8th ... index, as far apart as a label needs (in cells)."""
    step = 1
    while step < room:
        step *= 2
    return [index for index in indices if index % step == 0] or [indices[0]]


# ---- which element each thread of a block computes -----------------------------------------------


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
    _require_trace(trace, "block_map")
    owner = _owners(trace, block)
    top, left = (min(index) for index in zip(*owner, strict=True))
    bottom, right = (max(index) for index in zip(*owner, strict=True))
    rows = range(top, min(bottom, top + MOST_BLOCK_CELLS - 1) + 1)
    columns = range(left, min(right, left + MOST_BLOCK_CELLS - 1) + 1)
    cell = min(4.7 / max(len(rows), len(columns)), 0.35)

    x, head = MARGIN + 0.42, 0.85
    body_height = head + max(len(rows) * cell, 2.6) + 0.25
    fig = style.page(body_height, caption or _block_caption(trace, block, owner))
    title = f"{trace.kernel_name}: block {block} in C, {trace.m} × {trace.n}"
    fig.text_at(MARGIN, 0.12, title, size=style.LARGE, weight="bold")
    fig.text_at(x, head - 0.43, "each cell is an element, each pattern a warp", size=SMALL)
    ax = fig.add_axes_at(x, head, len(columns) * cell, len(rows) * cell, gid="map C")
    ax.set(xlim=(0, len(columns)), ylim=(len(rows), 0))
    ax.spines[:].set_visible(False)
    _draw_warps(ax, owner, rows, columns, cell)
    _grid(ax, rows, columns, (trace.m, trace.n), cell, cell)
    _thread_table(fig, trace, owner, x + len(columns) * cell + 0.45, head)
    return fig


def _owners(trace: Trace, block: tuple[int, int, int]) -> dict[tuple[int, int], int]:
    """Element of C: the thread of the block, numbered along x, then y, that stores it last."""
    warps = math.ceil(math.prod(trace.block) / WARP_SIZE)
    owner: dict[tuple[int, int], int] = {}
    for warp in range(warps):
        occurrence = 0
        while True:
            try:
                access = trace.warp_access(
                    "C", op="store", block=block, warp=warp, occurrence=occurrence
                )
            except LookupError:
                break
            _require_access(access, "block_map")
            for lane, words in zip(access.lanes, access.elements, strict=True):
                for row, column in words:
                    owner[int(row), int(column)] = warp * WARP_SIZE + int(lane)
            occurrence += 1
    if not owner:
        raise ValueError(f"block_map: block {block} of {trace.kernel_name} stores nothing in C.")
    return owner


def _draw_warps(ax, owner: dict, rows: range, columns: range, cell: float) -> None:
    from matplotlib.patches import Rectangle

    cells_of: dict[int, set[tuple[int, int]]] = {}
    for (row, column), thread in owner.items():
        if row in rows and column in columns:
            at = (row - rows[0], column - columns[0])
            cells_of.setdefault(thread // WARP_SIZE, set()).add(at)
    for warp, cells in sorted(cells_of.items()):
        look = {"facecolor": style.BLUE, "edgecolor": "white"}
        if warp:
            colour = style.WARP_COLOURS[warp % len(style.WARP_COLOURS)]
            hatch = style.WARP_HATCHES[warp % len(style.WARP_HATCHES)]
            look = {"facecolor": style.tint(colour, 0.25), "edgecolor": style.tint(colour, 0.6)}
            look["hatch"] = hatch
        parts = _rectangles(cells)
        for x, y, across, down in parts:
            ax.add_patch(Rectangle((x, y), across, down, linewidth=0.8, gid=f"warp {warp}", **look))
        if warp:
            _label_warp(ax, warp, max(parts, key=lambda part: part[2] * part[3]), cell)
    number_fits = cell >= style.text_width("00", SMALL)
    for (row, column), thread in owner.items():
        if number_fits and thread < WARP_SIZE and row in rows and column in columns:
            ax.text(
                column - columns[0] + 0.5, row - rows[0] + 0.53, str(thread), size=SMALL,
                color="white", ha="center", va="center_baseline",
            )  # fmt: skip


def _rectangles(cells: set[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """Cells (row, column) as few rectangles (x, y, width, height): equal runs of rows, stacked."""
    done: list[tuple[int, int, int, int]] = []
    growing: dict[tuple[int, int], int] = {}  # (first column, width): first row
    last_row = max(row for row, _ in cells)
    for row in range(min(row for row, _ in cells), last_row + 2):
        columns = sorted(column for at, column in cells if at == row)
        runs, start = set(), 0
        for at in range(1, len(columns) + 1):
            if at == len(columns) or columns[at] != columns[at - 1] + 1:
                runs.add((columns[start], at - start))
                start = at
        for run in [run for run in growing if run not in runs]:
            first = growing.pop(run)
            done.append((run[0], first, run[1], row - first))
        for run in runs:
            growing.setdefault(run, row)
    return sorted(done)


def _label_warp(ax, warp: int, part: tuple[int, int, int, int], cell: float) -> None:
    """The warp's number in the middle of a rectangle, lying or standing, where it fits."""
    x, y, across, down = part
    for words in (f"warp {warp}", str(warp)):
        long, high = style.text_width(words, SMALL) + 0.04, SMALL / 72
        for rotation, fits in (
            (0, across * cell >= long and down * cell >= high),
            (90, across * cell >= high and down * cell >= long),
        ):
            if fits:
                ax.text(
                    x + across / 2, y + down / 2, words, size=SMALL, rotation=rotation,
                    ha="center", va="center",
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4},
                )  # fmt: skip
                return


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
             f"{thread // WARP_SIZE}, {thread % WARP_SIZE}", stored)
        )  # fmt: skip
    for at, line in enumerate(lines):
        weight = "bold" if at == 0 else "normal"
        for words, offset in zip(line, (0.0, 0.62, 1.4, 2.2), strict=True):
            fig.text_at(left + offset, top + at * 0.2, words, size=SMALL, weight=weight)


def _block_caption(trace: Trace, block: tuple, owner: dict) -> str:
    def extent(elements: Sequence[tuple[int, int]]) -> str:
        spans = []
        for name, indices in zip(("row", "column"), zip(*elements, strict=True), strict=True):
            low, high = min(indices), max(indices)
            spans.append(f"{name} {low}" if low == high else f"{name}s {low} to {high}")
        return ", ".join(spans)

    threads = math.prod(trace.block)
    first = [element for element, thread in owner.items() if thread < WARP_SIZE]
    caption = (
        f"Block {block} of {trace.kernel_name} has {threads:,} threads in "
        f"{plural(math.ceil(threads / WARP_SIZE), 'warp')} and computes {extent(list(owner))} of C."
    )
    if first:
        caption += f" Warp 0, dark, computes {extent(first)}."
    return caption


# ---- the addresses of one warp -------------------------------------------------------------------


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
        _require_access(access, "address_map")
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
    fig = style.page(head + height + 0.65, caption or _address_caption(accesses))
    for at, (access, start) in enumerate(zip(accesses, starts, strict=True)):
        x = left + at * (width + gap)
        ax = fig.add_axes_at(x, head, width, height, gid=f"addresses {access.array}")
        _draw_addresses(ax, access, start, span)
        margin = span * 0.03
        ax.set(xlim=(-1, WARP_SIZE), ylim=(-margin, span + margin), xlabel="lane")
        ax.set_xticks([0, 8, 16, 24, 31])
        ticks = range(0, span + 1, step)
        ax.set_yticks(ticks, [f"{tick:,}" for tick in ticks] if at == 0 else [""] * len(ticks))
        if at == 0:
            ax.set_ylabel("bytes from the first sector touched")
        title = f"{access.array}: {access.op}, {plural(access.sectors, 'sector')}"
        fig.text_at(x, 0.15, title, size=style.LARGE, weight="bold")
        fig.text_at(x, 0.4, f"0 is byte {start:,} of {access.array}", size=SMALL)
    return fig


def _draw_addresses(ax, access: Access, start: int, span: int) -> None:
    from matplotlib.patches import Rectangle

    colour = style.ARRAYS[access.array]
    # Bands thinner than two dots have no outline: it would hide how thin they are.
    thin = span > MOST_OUTLINED * SECTOR_BYTES
    look = {"facecolor": style.tint(colour, 0.6 if thin else 0.22), "linewidth": 0 if thin else 0.6}
    width = access.shape[1]
    sectors = {
        (int(row) * width + int(column)) // SECTOR_FLOATS
        for words in access.elements
        for row, column in words
    }
    for sector in sorted(sectors):
        ax.add_patch(
            Rectangle(
                (-1, sector * SECTOR_BYTES - start), WARP_SIZE + 1, SECTOR_BYTES,
                edgecolor=style.tint(colour, 0.6), gid=f"sector {sector}", snap=not thin, **look,
            )
        )  # fmt: skip
    marker = style.ARRAY_MARKERS[access.array]
    ax.plot(
        access.lanes, access.addresses - start, marker, color=colour, markersize=4, clip_on=False
    )


def _address_caption(accesses: Sequence[Access]) -> str:
    def course(addresses: numpy.ndarray) -> str:
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


# ---- traffic by source line ----------------------------------------------------------------------

QUANTITIES = {
    "sectors_per_request": "sectors per request",
    "sectors": "sectors",
    "requests": "requests",
    "bytes_asked": "bytes asked for",
}


@dataclass(frozen=True)
class _Bar:
    trace: int  # which of the traces
    access: str  # "A load"
    line: int
    value: float


@styled
def traffic(
    *traces: Trace,
    quantity: str = "sectors_per_request",
    predicted: Mapping[str, float] | None = None,
    caption: str | None = None,
) -> Picture:
    """What every array's loads and stores cost, one bar for each trace and source line.

    quantity: one of the columns of trace.lines in QUANTITIES. predicted: what the reader expected
    of the one trace, such as {"A load": 32, "C store": 32}; it is drawn beside the count.

    Raises TypeError and ValueError for anything else, naming it.
    """
    bars = _traffic_bars(traces, quantity)
    predicted = dict(predicted or {})
    _require_predictions(predicted, traces, bars)
    groups = list(dict.fromkeys(bar.access for bar in bars))
    bar_height, pad = 0.22, 0.16
    height = len(bars) * bar_height + (len(groups) + 1) * pad
    left = MARGIN + max(style.text_width(group, NORMAL) for group in groups) + 0.15
    head = 0.62
    words = caption or _traffic_caption(traces, bars, QUANTITIES[quantity], predicted)
    fig = style.page(head + height + 0.6, words)
    _traffic_key(fig, traces, predicted)
    ax = fig.add_axes_at(left, head, WIDTH - MARGIN - left, height, gid="traffic")

    most = max([bar.value for bar in bars] + list(predicted.values()))
    y, middles = 0.0, []
    for group in groups:
        members = [bar for bar in bars if bar.access == group]
        y += pad
        middles.append(y + len(members) * bar_height / 2)
        for bar in members:
            _draw_bar(ax, bar, y + bar_height / 2, bar_height * 0.84, traces, predicted.get(group))
            y += bar_height
    # A third of the width is for the words at the end of the longest bar.
    ax.set(xlim=(0, most * 1.5 or 1), ylim=(height, 0), xlabel=QUANTITIES[quantity])
    ax.set_yticks(middles, groups)
    ax.tick_params(axis="y", length=0, labelsize=NORMAL)
    ax.xaxis.set_major_locator(_whole_numbers())
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.grid(axis="x")
    return fig


def _traffic_bars(traces: Sequence[Trace], quantity: str) -> list[_Bar]:
    """Bars by array, loads before stores, and within these by trace and line."""
    if not traces:
        raise ValueError("traffic takes one trace or more, as kernel.trace(m, n, k) gives.")
    if quantity not in QUANTITIES:
        raise ValueError(f"quantity is {quantity!r}; it must be one of {', '.join(QUANTITIES)}.")
    bars = []
    for at, trace in enumerate(traces):
        _require_trace(trace, "traffic")
        lines = style.require_table(trace.lines, ("line", "array", "op", quantity), "traffic")
        for row in lines.to_dict("records"):
            access = f"{row['array']} {row['op']}"
            bars.append(_Bar(at, access, int(row["line"]), float(row[quantity])))
    return sorted(bars, key=lambda bar: (bar.access, bar.trace, bar.line))


def _require_predictions(predicted: Mapping, traces: Sequence[Trace], bars: list[_Bar]) -> None:
    if predicted and len(traces) > 1:
        raise ValueError(f"predicted goes with one trace, not with {len(traces)}.")
    for key, value in predicted.items():
        matching = [bar for bar in bars if bar.access == key]
        if not matching:
            there = ", ".join(dict.fromkeys(bar.access for bar in bars))
            raise ValueError(f"predicted names {key!r}, which was not counted; counted are {there}.")
        if len(matching) > 1:
            raise ValueError(f"predicted names {key!r}, which stands in {len(matching)} lines.")
        if not (isinstance(value, int | float) and math.isfinite(value) and value >= 0):
            raise ValueError(f"predicted says {value!r} for {key!r}; it must be a number from 0 on.")


def _draw_bar(ax, bar: _Bar, y: float, height: float, traces, expected: float | None) -> None:
    look = style.kernel_style(traces[bar.trace].kernel_name)
    ax.barh(
        y, bar.value, height, facecolor=style.tint(look["color"], 0.5), edgecolor=look["color"],
        hatch=look["hatch"], gid=f"bar {bar.access}",
    )  # fmt: skip
    words, end = f"{_amount(bar.value)}  (line {bar.line})", bar.value
    if expected is not None:
        words = f"{_amount(bar.value)} counted, {_amount(expected)} predicted  (line {bar.line})"
        end = max(end, expected)
        ax.plot(
            expected, y, "D", markersize=7, markerfacecolor="white", markeredgecolor="black",
            zorder=4, clip_on=False, gid=f"predicted {bar.access}",
        )  # fmt: skip
    ax.annotate(
        words, (end, y), (8, 0), textcoords="offset points", size=SMALL, va="center",
        bbox={"facecolor": style.GROUND, "edgecolor": "none", "pad": 0.5},
    )  # fmt: skip


def _traffic_key(fig: Picture, traces: Sequence[Trace], predicted: Mapping) -> None:
    """One line above the bars: which kernel and shape each pattern is, and the prediction's mark."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    across, down = fig.get_size_inches()
    x = MARGIN
    for trace in traces:
        look = style.kernel_style(trace.kernel_name)
        fig.add_artist(
            Rectangle(
                (x / across, 1 - 0.33 / down), 0.3 / across, 0.16 / down,
                facecolor=style.tint(look["color"], 0.5), edgecolor=look["color"],
                hatch=look["hatch"],
            )
        )  # fmt: skip
        words = f"{trace.kernel_name} at M={trace.m}, N={trace.n}, K={trace.k}"
        fig.text_at(x + 0.38, 0.18, words, size=NORMAL)
        x += 0.38 + style.text_width(words, NORMAL) + 0.3
    if predicted:
        fig.add_artist(
            Line2D(
                [x / across], [1 - 0.25 / down], marker="D", markersize=7, markerfacecolor="white",
                markeredgecolor="black", linestyle="",
            )
        )  # fmt: skip
        fig.text_at(x + 0.12, 0.18, "predicted", size=NORMAL)


def _whole_numbers():
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=8, integer=True)


def _amount(value: float) -> str:
    """A count without decimals, a ratio with as many as it needs, at most two."""
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def _traffic_caption(
    traces: Sequence[Trace], bars: Sequence[_Bar], what: str, predicted: Mapping
) -> str:
    if predicted:
        wrong = [
            f"{bar.access} ({_amount(predicted[bar.access])} predicted, {_amount(bar.value)} counted)"
            for bar in bars
            if bar.access in predicted and predicted[bar.access] != bar.value
        ]
        verdict = f"off in {style.listed(wrong)}" if wrong else "right everywhere"
        return f"{what.capitalize()} of {traces[0].kernel_name}: the prediction is {verdict}."
    sentences = []
    for at, trace in enumerate(traces):
        parts = [f"{bar.access} {_amount(bar.value)}" for bar in bars if bar.trace == at]
        sentences.append(f"{trace.kernel_name}: {style.listed(parts)}.")
    return f"{what.capitalize()}, counted from the traced addresses. {' '.join(sentences)}"
