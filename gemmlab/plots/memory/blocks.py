"""Which elements of C each thread of a block computes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from gemmlab.kernel.trace import Trace, TraceError
from gemmlab.plots import style
from gemmlab.plots.matrix import draw_grid, require_access, require_trace
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import MARGIN, SMALL, plural, styled
from ptxsim.architectures import WARP

MOST_CELLS = 128  # rows and columns of C that are shown at most
SIDE = 4.5  # inches, of the map at most


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
    rows = range(top, min(bottom, top + MOST_CELLS - 1) + 1)
    columns = range(left, min(right, left + MOST_CELLS - 1) + 1)
    # Square where there is room, else up to a third of an inch in the shorter direction.
    square = min(SIDE / max(len(rows), len(columns)), 0.35)
    cell = (
        min(SIDE / len(columns), max(square, 0.3)),
        min(SIDE / len(rows), max(square, 0.3)),
    )
    width, height = len(columns) * cell[0], len(rows) * cell[1]

    x, head = MARGIN + 0.42, 0.85
    body_height = head + max(height, 2.0) + 0.25
    if caption is None:
        caption = _block_caption(trace, block, owner)
    fig = style.page(body_height, caption)
    title = f"{trace.kernel_name}: block {block} in C, {trace.m} × {trace.n}"
    fig.text_at(MARGIN, 0.12, title, size=style.LARGE, weight="bold")
    note = "each cell is an element, each pattern a warp"
    if rows[-1] < bottom or columns[-1] < right:
        note += f"; cropped to {len(rows)} × {len(columns)}"
    fig.text_at(x, head - 0.43, note, size=SMALL)
    ax = fig.add_axes_at(x, head, width, height, gid="map C")
    ax.set(xlim=(0, len(columns)), ylim=(len(rows), 0))
    ax.spines[:].set_visible(False)
    _draw_warps(ax, owner, rows, columns, cell)
    draw_grid(ax, rows, columns, (trace.m, trace.n), *cell)
    _thread_table(fig, trace, owner, x + width + 0.4, head)
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
            ax.add_patch(Rectangle((x, y), across, down, linewidth=0.8, gid=f"warp {warp}", **look))
        if warp or not numbers_fit:
            _label_warp(ax, warp, max(parts, key=lambda part: part[2] * part[3]), cell)
        if warp == 0 and not numbers_fit and len(parts) == 1:
            _number_ends(ax, parts[0], lanes[0][0], lanes[-1][0])
    if numbers_fit:
        for lane, (x, y, across, down) in lanes:
            ax.add_patch(
                Rectangle((x, y), across, down, fill=False, edgecolor="white", linewidth=0.5)
            )
            ax.text(
                x + across / 2, y + down / 2 + 0.03, str(lane), size=SMALL, color="white",
                ha="center", va="center_baseline",
            )  # fmt: skip


def rectangles(cells: set[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """Cells (row, column) as few rectangles (x, y, width, height): equal runs of rows, stacked."""
    done: list[tuple[int, int, int, int]] = []
    growing: dict[tuple[int, int], int] = {}  # (first column, width): first row
    rows = {row for row, _ in cells}
    for row in range(min(rows, default=0), max(rows, default=0) + 2):
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
                ax.text(
                    x + across / 2, y + down / 2, words, size=SMALL, rotation=rotation,
                    ha="center", va="center",
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4},
                )  # fmt: skip
                return


def _number_ends(ax: Axes, part: tuple[int, int, int, int], first: int, last: int) -> None:
    """The first and the last lane at the ends of a strip, where there is no room for all."""
    x, y, across, down = part
    if down > across:
        ends = (
            (x + across / 2, y, "center", "top"),
            (x + across / 2, y + down, "center", "bottom"),
        )
    else:
        ends = ((x, y + down / 2, "left", "center"), (x + across, y + down / 2, "right", "center"))
    shifts = ((0, -3), (0, 3)) if down > across else ((3, 0), (-3, 0))
    for lane, (at_x, at_y, ha, va), shift in zip((first, last), ends, shifts, strict=True):
        ax.annotate(
            f"lane {lane}" if across > down else str(lane), (at_x, at_y), shift, size=SMALL,
            textcoords="offset points", color="white", ha=ha, va=va,
        )  # fmt: skip


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
