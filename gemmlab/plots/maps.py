"""Maps of what threads touch: a warp's elements, and what a block computes of C."""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from gemmlab.analysis.block_replay import NOTHING, Played
from gemmlab.kernel.trace import Access, Trace
from gemmlab.plots import cells, style
from gemmlab.plots.charts import note
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import LINE, MARGIN, NORMAL, SMALL, WIDTH, plural
from ptxsim.architectures import WARP

MOST_CELLS = 32  # rows and columns of a matrix that are shown at most in a warp's map
LEAST_CELLS = 16
MOST_OF_C = 128  # rows and columns of C that are shown at most in a block's map
SIDE = 4.48  # inches, of a block's map at most


# ---- elements of a warp --------------------------------------------------------------------------


@styled
def warp_map(trace: Trace) -> Picture:
    """Which elements of A, B and C the 32 lanes of the first warp touch in one instruction each.

    Dark cells are the elements that lanes request, with the lane's number where it fits; pale
    cells share a 32-byte sector with them. A and B are loads, C is a store.

    Raises LookupError for a warp that does not load A and B from global memory.
    """
    loads = [trace.warp_access("A"), trace.warp_access("B")]
    accesses = [*loads, trace.warp_access("C", op="store")]
    pieces = [_pieces(access) for access in accesses]
    rows = min(LEAST_CELLS, max(access.shape[0] for access in accesses))
    columns = LEAST_CELLS
    for of_access in pieces:
        touched = [row for _, row in of_access], [*itertools.chain(*of_access.values())]
        down, across = (min(MOST_CELLS, max(cells) - min(cells) + 1) for cells in touched)
        rows, columns = max(rows, down), max(columns, across)
    pitch = (WIDTH - 2 * MARGIN) / 3
    left, head = 0.42, 0.43  # room for the row numbers, and for a name and column numbers
    width = (pitch - left - 0.12) / columns  # of a cell, in inches
    height = min(4.2 / rows, 1.25 * width)
    size = (columns * width, rows * height)
    windows = [_window(*both, rows, columns) for both in zip(accesses, pieces, strict=True)]
    notes = [_notes(*each) for each in zip(accesses, windows, strict=True)]
    parts = [
        f"one {access.op} of {access.array} falls into {plural(access.sectors, 'sector')}"
        for access in accesses
    ]
    caption = (
        f"What warp 0 of block (0, 0, 0) touches in one instruction of {trace.kernel_name} "
        f"at M={trace.m}, N={trace.n}, K={trace.k}: {style.listed(parts)}. "
        "Each sector moves 32 bytes, whether one lane asks for a part of it or all do."
    )
    title = f"{trace.kernel_name}: block (0, 0, 0), warp 0"
    body = head + size[1] + max(map(len, notes)) * SMALL * LINE / 72 + 0.3
    asked, rest = swatch(style.FAINT, 1.0), swatch(style.FAINT, 0.25)
    key = [("asked for by a lane", asked), ("the rest of its 32-byte sector", rest)]
    fig = page(title, body, caption, key=key)
    for at, (access, of_access, window) in enumerate(zip(accesses, pieces, windows, strict=True)):
        (m, n), x = access.shape, MARGIN + at * pitch + left
        ax = fig.add_axes_at(x, fig.top + head, *size)
        cells.bare(ax, columns, rows)
        cells.draw_grid(ax, *window, access.shape, width, height)
        _draw_access(ax, access, of_access, window, (width, height))
        fig.text_at(x, fig.top, f"{access.array}, {m} × {n}", size=NORMAL, weight="bold")
        words = "\n".join(notes[at])
        below = fig.top + head + size[1] + 0.1
        fig.text_at(x, below, words, size=SMALL, linespacing=LINE)
    return fig


def _pieces(access: Access) -> dict[tuple[int, int], tuple[int, int]]:
    """{(sector, row of the matrix): its first column there, and its last}.

    A sector runs on into the next row where it does not divide the width.
    """
    height, width = access.shape
    each = access.sector_elements
    elements = access.elements.reshape(-1, 2) @ (width, 1)
    pieces: dict[tuple[int, int], tuple[int, int]] = {}
    for sector in np.unique(elements // each).tolist():
        for element in range(sector * each, min((sector + 1) * each, height * width)):
            row, column = divmod(element, width)
            first, _ = pieces.get((sector, row), (column, column))
            pieces[sector, row] = (first, column)
    return pieces


def _window(access: Access, pieces: dict, rows: int, columns: int) -> tuple[range, range]:
    """The rows and columns of a matrix that are shown: inside the matrix as far as they fit."""
    height, width = access.shape
    top = max(0, min(min(row for _, row in pieces), height - rows))
    left = max(0, min(min(first for first, _ in pieces.values()), width - columns))
    return range(top, min(top + rows, height)), range(left, min(left + columns, width))


def _notes(access: Access, window: tuple[range, range]) -> list[str]:
    """Lines below a panel: what is asked, what moves, and what the window leaves out."""
    rows, columns = window
    asked = len(access.lanes) * access.width
    lines = [
        f"{access.op}, line {access.line}: 1 request, {plural(access.sectors, 'sector')}",
        f"{asked:,} bytes asked, {access.sectors * cells.SECTOR_BYTES:,} moved",
    ]
    if (len(rows), len(columns)) != tuple(access.shape):
        lines.append(f"cropped to rows {rows[0]}–{rows[-1]}, columns {columns[0]}–{columns[-1]}")
    elements = set(map(tuple, access.elements.reshape(-1, 2).tolist()))
    seen = sum(row in rows and column in columns for row, column in elements)
    if seen < len(elements):
        lines.append(f"{seen} of {len(elements)} elements asked for are shown")
    return lines


def _draw_access(
    ax: Axes, access: Access, pieces: dict, window: tuple[range, range], cell: tuple[float, float]
) -> None:
    """Sectors pale, elements dark, and the lanes: in their cells, or beside or below a sector."""
    colour = style.ARRAYS[access.array]
    (top, *_), (left, *_) = window
    lanes_of: dict[tuple[int, int], list[int]] = defaultdict(list)
    for lane, elements in zip(access.lanes.tolist(), access.elements.tolist(), strict=True):
        for row, column in elements:
            lanes_of[row, column].append(lane)
    for (_, row), (first, last) in pieces.items():
        place = first - left, row - top, last + 1 - first, 1
        cells.box(ax, *place, facecolor=style.tint(colour, 0.25), linewidth=0)
        cells.box(ax, *place, fill=False, edgecolor=style.INK, linewidth=0.9, zorder=1.5)
    number_fits = cell[0] >= style.text_width("00", SMALL) and cell[1] >= SMALL / 72
    unnamed: dict[tuple[int, int], set[int]] = defaultdict(set)  # piece of a sector: its lanes
    for (row, column), lanes in lanes_of.items():
        if row not in window[0] or column not in window[1]:
            continue
        words = str(lanes[0]) if number_fits and len(lanes) == 1 else ""
        look = {"facecolor": colour, "linewidth": 0.5}
        text = {"color": "white", "zorder": 2}
        cells.box(ax, column - left, row - top, 1, 1, words, text, zorder=1.2, **look)
        if not words:
            sector = (row * access.shape[1] + column) // access.sector_elements
            unnamed[sector, row].update(lanes)
    in_row = Counter(row for _, row in pieces)
    for (sector, row), unnamed_lanes in unnamed.items():
        first, last = pieces[sector, row]
        words = lanes_in_words(sorted(unnamed_lanes))
        right = last + 1 - left + 0.06 / cell[0]
        look = {"linespacing": 1.1, "bbox": cells.plate(0.6, 1), "zorder": 3}
        room = (ax.get_xlim()[1] - right) * cell[0]
        if in_row[row] == 1 and style.text_width(words, SMALL) <= room:
            cells.write(ax, right, row - top + 0.5, words, ha="left", **look)
        elif row + 1 in window[0] and row + 1 not in in_row:
            stacked = words.replace(" ", "\n", 1)
            below = row - top + 1 + 0.04 / cell[1]
            cells.write(ax, (first + last + 1) / 2 - left, below, stacked, va="top", **look)


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
def block_map(trace: Trace, *, block: tuple[int, int, int] = (0, 0, 0)) -> Picture:
    """Which elements of C each thread of one block stores, coloured by warp.

    Warp 0 is dark, with the lane in each cell where it fits. Beside the map, the elements of a few
    threads in numbers.

    Raises LaunchError for a block that is not there.
    """
    played = Played.of(trace, block)
    owner = played.owner
    frame = played.frame()
    rows, columns = (indices[:MOST_OF_C] for indices in frame)
    # Square where there is room, else up to a third of an inch in the shorter direction.
    square = max(min(SIDE / max(len(rows), len(columns)), 0.35), 0.3)
    cell = min(SIDE / len(columns), square), min(SIDE / len(rows), square)
    width, height = len(columns) * cell[0], len(rows) * cell[1]
    x, head = MARGIN + 0.42, 0.43
    title = f"{trace.kernel_name}: block {block} in C, {trace.m} × {trace.n}"
    threads = math.prod(trace.block)
    warps = plural(math.ceil(threads / WARP), "warp")
    caption = (
        f"Block {block} of {trace.kernel_name} has {threads:,} threads in {warps} and computes "
        f"{cells.extent(owner != NOTHING)} of C."
    )
    first = (owner != NOTHING) & (owner < WARP)
    if first.any():
        caption += f" Warp 0, dark, computes {cells.extent(first)}."
    fig = page(title, head + max(height, 2.0) + 0.25, caption)
    words = "each cell is an element, each pattern a warp"
    if (len(rows), len(columns)) != tuple(map(len, frame)):
        words += f"; cropped to {len(rows)} × {len(columns)}"
    fig.text_at(x, fig.top, words, size=SMALL)
    ax = fig.add_axes_at(x, fig.top + head, width, height)
    cells.bare(ax, len(columns), len(rows))
    _draw_warps(ax, owner[np.ix_(rows, columns)], cell)
    cells.draw_grid(ax, rows, columns, (trace.m, trace.n), *cell)
    _thread_table(fig, trace, owner, x + width + 0.4, fig.top + head)
    return fig


def _draw_warps(ax: Axes, owner: np.ndarray, cell: tuple[float, float]) -> None:
    """Every warp a tint and a pattern, warp 0 dark; cells are so many inches wide and high."""
    lanes = [(lane, part) for lane in range(WARP) for part in cells.rectangles(owner == lane)]
    numbers_fit = all(
        across * cell[0] >= style.text_width(str(lane), SMALL) and down * cell[1] >= SMALL / 72
        for lane, (_, _, across, down) in lanes
    )
    for warp in np.unique(owner[owner != NOTHING] // WARP).tolist():
        look: style.Look = {"facecolor": style.BLUE, "edgecolor": "white"}
        if warp:
            colour = style.WARP_COLOURS[warp % len(style.WARP_COLOURS)]
            hatch = style.WARP_HATCHES[warp % len(style.WARP_HATCHES)]
            look = {"facecolor": style.tint(colour, 0.25), "edgecolor": style.tint(colour, 0.6)}
            look["hatch"] = hatch
        parts = cells.rectangles(owner // WARP == warp)
        for part in parts:
            cells.box(ax, *part, **look)
        if warp or not numbers_fit:
            _label_warp(ax, warp, max(parts, key=lambda part: part[2] * part[3]), cell)
        if warp == 0 and not numbers_fit and len(parts) == 1:
            _number_ends(ax, parts[0], lanes[0][0], lanes[-1][0])
    if numbers_fit:
        for lane, part in lanes:
            cells.box(ax, *part, str(lane), {"color": "white"}, fill=False, linewidth=0.5)


def _label_warp(
    ax: Axes, warp: int, part: tuple[int, int, int, int], cell: tuple[float, float]
) -> None:
    """The warp's number in the middle of a rectangle, lying or standing, where it fits."""
    x, y, across, down = part
    width, height = across * cell[0], down * cell[1]
    for words, rotation in itertools.product((f"warp {warp}", str(warp)), (0, 90)):
        long, high = (width, height) if rotation == 0 else (height, width)
        if long >= style.text_width(words, SMALL) + 0.04 and high >= SMALL / 72:
            look = {"rotation": rotation, "va": "center", "bbox": cells.plate(0.4, 1)}
            cells.write(ax, x + across / 2, y + down / 2, words, **look)
            return


def _number_ends(ax: Axes, part: tuple[int, int, int, int], first: int, last: int) -> None:
    """The first and the last lane at the ends of a strip, where there is no room for all."""
    x, y, across, down = part
    look: style.Look = {"color": "white", "ha": "center", "va": "center"}
    if down > across:
        middle = x + across / 2
        note(ax, f"{first}", (middle, y), (0, -3), **{**look, "va": "top"})
        note(ax, f"{last}", (middle, y + down), (0, 3), **{**look, "va": "bottom"})
    else:
        middle = y + down / 2
        note(ax, f"lane {first}", (x, middle), (3, 0), **{**look, "ha": "left"})
        note(ax, f"lane {last}", (x + across, middle), (-3, 0), **{**look, "ha": "right"})


def _thread_table(fig: Picture, trace: Trace, owner: np.ndarray, left: float, top: float) -> None:
    """A few threads in numbers: where they stand in the block, and what they store."""
    x, y, _ = trace.block
    lines = [("thread", "threadIdx", "warp, lane", "stores")]
    for thread in dict.fromkeys((0, 1, 2, 31, 32, 33, 63, 64, math.prod(trace.block) - 1)):
        if len(elements := np.argwhere(owner == thread)):
            (row, column), more = elements[0], len(elements) - 1
            stored = f"C[{row}, {column}]" + (f" and {more} more" if more else "")
            index = f"({thread % x}, {thread // x % y})"
            lines.append((str(thread), index, f"{thread // WARP}, {thread % WARP}", stored))
    for column in zip(*lines, strict=True):
        fig.text_at(left, top, column[0], size=SMALL, weight="bold")
        for at, words in enumerate(column[1:], 1):
            fig.text_at(left, top + at * 0.2, words, size=SMALL)
        left += style.widest(column, SMALL, "bold") + 0.16
