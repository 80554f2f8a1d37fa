"""Tiles in shared memory: how often a block reuses them, and what one thread reads of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from gemmlab.analysis.block_replay import NOTHING, Played
from gemmlab.cuda.architectures import WARP
from gemmlab.kernel.trace import Trace
from gemmlab.plots import style
from gemmlab.plots.matrix import draw_grid, require_trace
from gemmlab.plots.memory.blocks import rectangles
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LINE, MARGIN, NORMAL, SMALL, WIDTH, plural, styled

MOST_HEIGHT = 4.4  # inches, of two matrices above each other
MOST_CELL = 0.16  # inches, of one element
GAP = 0.62  # inches between two panels: room for a name and column numbers
LEFT = MARGIN + 0.42  # room for row numbers
HEAD = 0.95  # room for the title, a name and column numbers
NOTES = 2.3  # room for notes at the right


@dataclass(frozen=True)
class _Panels:
    """A at the left, B above, C where they meet: one piece of each, in cells of one size."""

    rows: range
    ks: range
    columns: range
    width: float  # of a cell, in inches
    height: float

    @classmethod
    def of(cls, rows: range, ks: range, columns: range, square: bool) -> _Panels:
        room = WIDTH - LEFT - MARGIN - GAP - NOTES
        width = min(MOST_CELL, room / (len(ks) + len(columns)))
        height = min(MOST_CELL, MOST_HEIGHT / (len(ks) + len(rows)))
        if square:
            width = height = min(width, height)
        return cls(rows, ks, columns, width, height)

    @property
    def top(self) -> float:
        """The inches that B takes, with the room below it."""
        return len(self.ks) * self.height + GAP

    @property
    def left(self) -> float:
        """The inches that A takes, with the room beside it."""
        return len(self.ks) * self.width + GAP

    @property
    def right(self) -> float:
        """Where notes begin, in inches from the left of the page."""
        return LEFT + self.left + len(self.columns) * self.width + 0.25

    @property
    def bottom(self) -> float:
        return HEAD + self.top + len(self.rows) * self.height

    def draw(self, fig: Picture, trace: Trace, names: Iterable[str]) -> dict[str, Axes]:
        frames = {
            "A": (self.rows, self.ks, (trace.m, trace.k), LEFT, HEAD + self.top),
            "B": (self.ks, self.columns, (trace.k, trace.n), LEFT + self.left, HEAD),
            "C": (self.rows, self.columns, (trace.m, trace.n), LEFT + self.left, HEAD + self.top),
        }
        axes = {}
        for (name, (down, across, shape, x, y)), words in zip(frames.items(), names, strict=True):
            size = (len(across) * self.width, len(down) * self.height)
            ax = fig.add_axes_at(x, y, *size, gid=f"map {name}")
            ax.set(xlim=(0, len(across)), ylim=(len(down), 0))
            ax.spines[:].set_visible(False)
            draw_grid(ax, down, across, shape, self.width, self.height)
            fig.text_at(x, y - 0.4, words, size=NORMAL, weight="bold")
            axes[name] = ax
        return axes


def fill(ax: Axes, cells: np.ndarray, gid: str, *, zorder: float = 1, **look: object) -> None:
    """The True cells of a bool array as few rectangles."""
    found = {(int(row), int(column)) for row, column in np.argwhere(cells)}
    for x, y, across, down in rectangles(found):
        ax.add_patch(Rectangle((x, y), across, down, gid=gid, zorder=zorder, **look))


def _notes(fig: Picture, left: float, top: float, notes: Mapping[str, Sequence[str]]) -> None:
    """Lines of words, each under its heading."""
    for heading, lines in notes.items():
        fig.text_at(left, top, heading, size=NORMAL, weight="bold")
        top += NORMAL * LINE / 72 + 0.03
        for line in lines:
            for part in style.wrap(line, WIDTH - MARGIN - left, SMALL):
                fig.text_at(left, top, part, size=SMALL)
                top += SMALL * LINE / 72
            top += 0.03
        top += 0.06


# ---- a tile's reuse ------------------------------------------------------------------------------


@styled
def tile_reuse(
    trace: Trace, *, block: tuple[int, int, int] = (0, 0, 0), caption: str | None = None
) -> Picture:
    """How often one block loads each element from global memory and reads it from shared memory.

    A lies at the left of C and B above it, so that a row of A and a column of B meet in their
    element of C. Coloured is what the block touches, tile by tile along K; each element carries
    how often threads read it from shared memory, where the number fits.

    Raises TypeError for anything but a trace, LaunchError for a block that is not there, and
    ValueError for a kernel without shared memory.
    """
    require_trace(trace, "tile_reuse")
    block = tuple(block)
    played = Played.of(trace, block)
    played.require_reads("tile_reuse")
    read = played.matrices(np.concatenate([one.elements.ravel() for one in played.reads]))
    counts = dict(zip("AB", zip(played.split(played.loaded), read, strict=True), strict=True))
    panels = _Panels.of(range(trace.m), range(trace.k), range(trace.n), square=True)
    fig = style.page(panels.bottom + 0.75, caption or _reuse_caption(played, counts))
    title = f"{trace.kernel_name}: what block {block} loads, and how often it reads it"
    fig.text_at(MARGIN, 0.12, title, size=style.LARGE, weight="bold")
    names = (f"A, {trace.m} × {trace.k}", f"B, {trace.k} × {trace.n}", f"C, {trace.m} × {trace.n}")
    axes = panels.draw(fig, trace, names)
    for name, (loaded, reads) in counts.items():
        _draw_tiles(axes[name], name, loaded, reads, trace.settings["BK"], panels)
    mine = played.owner != NOTHING
    fill(axes["C"], mine, "block", facecolor=style.tint(style.GREEN, 0.35), edgecolor=style.GREEN)
    _notes(fig, panels.right + 0.8, HEAD, _reuse_notes(played, counts))
    return fig


def _draw_tiles(
    ax: Axes, name: str, loaded: np.ndarray, reads: np.ndarray, step: int, panels: _Panels
) -> None:
    """The tiles along K, paler in turn, with their step and counts outside the matrix."""
    along = 1 if name == "A" else 0
    colour = style.ARRAYS[name]
    ks = loaded.shape[along]
    for number, first in enumerate(range(0, ks, step)):
        inside = np.zeros(loaded.shape, bool)
        inside[(slice(None), slice(first, first + step))[:: 1 if along else -1]] = True
        touched = inside & (loaded > 0)
        share = 0.45 if number % 2 == 0 else 0.22
        fill(
            ax, touched, f"{name} step {number}", facecolor=style.tint(colour, share),
            edgecolor=colour, linewidth=1.2,
        )  # fmt: skip
        words = f"step {number}\nloaded {_span(loaded[touched])}\nread {_span(reads[touched])}"
        middle = min(first + step / 2, (first + ks) / 2)
        room = step * (panels.width if along else panels.height)
        if along and room > max(style.text_width(line, SMALL) for line in words.split("\n")):
            ax.annotate(
                words, (middle, loaded.shape[0]), (0, -5), textcoords="offset points", size=SMALL,
                ha="center", va="top", linespacing=LINE, annotation_clip=False,
            )  # fmt: skip
        elif not along and room > 3 * SMALL * LINE / 72:
            ax.annotate(
                words, (loaded.shape[1], middle), (6, 0), textcoords="offset points", size=SMALL,
                ha="left", va="center", linespacing=LINE, annotation_clip=False,
            )  # fmt: skip
    widest = style.text_width(str(reads.max()), SMALL) + 0.03
    if panels.width >= widest and panels.height >= SMALL / 72:
        for row, column in np.argwhere(reads > 0):
            ax.text(
                column + 0.5, row + 0.53, str(reads[row, column]), size=SMALL, ha="center",
                va="center_baseline", gid=f"count {name} {row} {column}",
            )  # fmt: skip


def _span(counts: np.ndarray) -> str:
    """ "32×", or "20 to 32×" where not all are the same."""
    low, high = int(counts.min()), int(counts.max())
    return f"{high}×" if low == high else f"{low} to {high}×"


def _reuse_notes(played: Played, counts: dict) -> dict[str, list[str]]:
    threads = math.prod(played.trace.block)
    elements = int((played.owner != NOTHING).sum())
    notes = {f"{threads:,} threads": [f"compute {elements:,} elements of C"]}
    for name, (loaded, reads) in counts.items():
        notes[name] = [
            f"{loaded.sum():,} loads of elements from global memory",
            f"{reads.sum():,} reads by threads from shared memory",
        ]
    return notes


def _reuse_caption(played: Played, counts: dict) -> str:
    parts = []
    for name, (loaded, reads) in counts.items():
        touched = loaded > 0
        parts.append(
            f"each of the {touched.sum():,} elements of {name} {_span(loaded[touched])} from "
            f"global memory and reads it {_span(reads[touched])} from shared memory"
        )
    return (
        f"Block {played.block} of {played.trace.kernel_name} at "
        f"{style.shape_label(played.trace.m, played.trace.n, played.trace.k)} loads "
        f"{style.listed(parts)}. Counted element by element from the traced addresses."
    )


# ---- what one thread reads -----------------------------------------------------------------------


@styled
def thread_tile(
    trace: Trace,
    *,
    thread: int | tuple[int, int, int] = 0,
    block: tuple[int, int, int] = (0, 0, 0),
    caption: str | None = None,
) -> Picture:
    """Which elements of C one thread owns, and what it reads of the tiles for them.

    The tiles are those of the first step along K, drawn as the pieces of A and B that they hold,
    wherever these lie in shared memory. Dark is what the thread reads for the first k, hatched for
    the rest of the step, pale what its warp reads.

    Raises TypeError for anything but a trace, LaunchError for a block that is not there, and
    ValueError for a thread that is not there or owns nothing, or a kernel without shared memory.
    """
    require_trace(trace, "thread_tile")
    block = tuple(block)
    number = _thread_number(trace, thread)
    played = Played.of(trace, block)
    played.require_reads("thread_tile")
    own = _Own.of(played, number)
    rows, columns = played.frame()
    ks = range(min(trace.settings["BK"], trace.k))
    panels = _Panels.of(rows, ks, columns, square=False)
    fig = style.page(max(panels.bottom, HEAD + 3.2) + 0.2, caption or _thread_caption(played, own))
    title = f"{trace.kernel_name}: block {block}, thread {number}"
    fig.text_at(MARGIN, 0.12, title, size=style.LARGE, weight="bold")
    axes = panels.draw(fig, trace, ("A's tile", "B's tile", "the block's elements of C"))
    edge = min(0.5, 6 * panels.height)  # points: thin between thin cells
    windows = {"A": (rows, ks), "B": (ks, columns), "C": (rows, columns)}
    for name, (down, across) in windows.items():
        window = np.ix_(down, across)
        colour = style.ARRAYS[name]
        fill(
            axes[name], own.warp[name][window], f"warp {name}", zorder=1,
            facecolor=style.tint(colour, 0.2), edgecolor="none",
        )  # fmt: skip
        fill(
            axes[name], own.step[name][window] & ~own.now[name][window], f"step {name}", zorder=1.2,
            facecolor=style.tint(colour, 0.45), edgecolor="white", hatch="////", linewidth=0,
        )  # fmt: skip
        for row, column in np.argwhere(own.now[name][window]):
            axes[name].add_patch(
                Rectangle(
                    (column, row), 1, 1, facecolor=colour, edgecolor="white", linewidth=edge,
                    zorder=1.4, gid=f"thread {name}",
                )
            )  # fmt: skip
    top = _thread_key(fig, panels.right, HEAD)
    _notes(fig, panels.right, top + 0.12, _thread_notes(played, own))
    return fig


@dataclass(frozen=True)
class _Own:
    """What one thread stores in C, and reads of A and B in the first step along K.

    `now`, `step` and `warp`: for "A", "B" and "C" a bool for each element: read for the first k
    (or owned), in the whole step, and by any lane of the warp. `loads`: how many instructions.
    """

    thread: int
    now: dict[str, np.ndarray]
    step: dict[str, np.ndarray]
    warp: dict[str, np.ndarray]
    loads: int

    @classmethod
    def of(cls, played: Played, thread: int) -> _Own:
        trace = played.trace
        warp, lane = divmod(thread, WARP)
        owned = played.owner == thread
        if not owned.any():
            raise ValueError(
                f"thread_tile: thread {thread} of block {played.block} stores nothing in C."
            )
        ks = np.arange(trace.k) < trace.settings["BK"]
        in_step = np.concatenate([np.tile(ks, trace.m), np.repeat(ks, trace.n)])
        reads = [read.elements for read in played.reads if read.warp == warp]
        reads = [one for one in reads if in_step[one[lane]].all() and (one[lane] != NOTHING).all()]

        def of_lanes(lanes: object) -> dict[str, np.ndarray]:
            both = played.matrices(np.concatenate([one[lanes].ravel() for one in reads]))
            first = played.split(in_step)
            return {name: (m > 0) & s for name, m, s in zip("AB", both, first, strict=True)}

        step, whole = of_lanes(lane), of_lanes(slice(None))
        now = {name: cells.copy() for name, cells in step.items()}
        now["A"][:, 1:] = False
        now["B"][1:] = False
        of_warp = played.owner // WARP == warp
        return cls(
            thread, now | {"C": owned}, step | {"C": owned}, whole | {"C": of_warp}, len(reads)
        )


def _thread_number(trace: Trace, thread: int | tuple[int, int, int]) -> int:
    """A thread by its number in the block, or by its threadIdx."""
    x, y, z = trace.block
    if isinstance(thread, int):
        there = 0 <= thread < x * y * z
        number = thread
    else:
        there = all(0 <= i < size for i, size in zip(thread, trace.block, strict=True))
        number = thread[0] + x * (thread[1] + y * thread[2])
    if not there:
        raise ValueError(
            f"thread_tile: there is no thread {thread}; a block of {trace.kernel_name} has "
            f"{x} × {y} × {z} threads."
        )
    return number


def _thread_key(fig: Picture, left: float, top: float) -> float:
    across, down = fig.get_size_inches()
    looks = (
        ("owned; read for the first k", {"facecolor": style.FAINT}),
        ("read later in this step", {"facecolor": style.tint(style.FAINT, 0.45), "hatch": "////"}),
        ("by the rest of its warp", {"facecolor": style.tint(style.FAINT, 0.2)}),
    )
    for words, look in looks:
        corner = (left / across, 1 - (top + 0.145) / down)
        fig.add_artist(
            Rectangle(corner, 0.22 / across, 0.14 / down, edgecolor="white", linewidth=0, **look)
        )
        fig.text_at(left + 0.3, top, words, size=SMALL)
        top += 0.2
    return top


def _extent(cells: np.ndarray, axis: int, name: str) -> str:
    """ "row 3", "rows 0 to 15", or how many where they are not neighbours."""
    found = np.flatnonzero(cells.any(axis=1 - axis))
    if len(found) == 1:
        return f"{name} {found[0]}"
    if found[-1] - found[0] + 1 == len(found):
        return f"{name}s {found[0]} to {found[-1]}"
    return f"{len(found)} {name}s from {found[0]} to {found[-1]}"


def _thread_notes(played: Played, own: _Own) -> dict[str, list[str]]:
    x, y, _ = played.trace.block
    index = (own.thread % x, own.thread // x % y, own.thread // (x * y))
    ks = min(played.trace.settings["BK"], played.trace.k)
    a, b, products = (int(own.now[name].sum()) for name in "ABC")
    in_step = {name: int(own.step[name].sum()) for name in "AB"}
    return {
        f"thread {own.thread}": [
            f"threadIdx {index}; warp {own.thread // WARP}, lane {own.thread % WARP}"
        ],
        f"C: {plural(products, 'element')}": [
            f"{_extent(own.now['C'], 0, 'row')}, {_extent(own.now['C'], 1, 'column')}"
        ],
        f"A: {a} for each k": [f"{in_step['A']:,} in the step of {ks}"],
        f"B: {b} for each k": [f"{in_step['B']:,} in the step of {ks}"],
        "Together": [
            f"{a} + {b} elements feed {plural(products, 'multiply-add')}; "
            f"{plural(own.loads, 'load instruction')} bring the {sum(in_step.values()):,} "
            "of the step"
        ],
    }


def _thread_caption(played: Played, own: _Own) -> str:
    a, b, c = (int(own.now[name].sum()) for name in "ABC")
    return (
        f"Thread {own.thread} of block {played.block} of {played.trace.kernel_name} owns "
        f"{plural(c, 'element')} of C. For each k it reads {plural(a, 'element')} of A's tile and "
        f"{b} of B's from shared memory, for {plural(c, 'multiply-add')}. All of it is traced: "
        f"stores of C, and loads from shared memory in the first step along K."
    )
