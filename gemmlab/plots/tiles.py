"""Tiles in shared memory: how often a block reuses them, and what one thread reads of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from matplotlib.axes import Axes

from gemmlab.analysis.block_replay import NOTHING, Played
from gemmlab.analysis.thread_reads import ThreadReads
from gemmlab.kernel.trace import Trace
from gemmlab.plots import style
from gemmlab.plots.cells import CUT, bare, box, draw_grid, fill, rectangles, require_trace, write
from gemmlab.plots.page import Picture, draw_key, page, styled, write_notes
from gemmlab.plots.rows import note
from gemmlab.plots.style import ARRAYS, LINE, MARGIN, NORMAL, SMALL, WIDTH, plural
from ptxsim.architectures import WARP

MOST_HEIGHT = 4.4  # inches, of two matrices above each other
MOST_CELL = 0.16  # inches, of one element
GAP = 0.62  # inches between two panels: room for a name and column numbers
LEFT = MARGIN + 0.42  # room for row numbers
NOTES = 2.3  # room for notes at the right


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
    m, n, k = trace.m, trace.n, trace.k
    room = WIDTH - LEFT - MARGIN - GAP - NOTES
    side = min(MOST_CELL, room / (k + n), MOST_HEIGHT / (k + m))  # of a cell, in inches
    title = f"{trace.kernel_name}: what block {block} loads, and how often it reads it"
    height = 0.53 + (k + m) * side + GAP + 0.75
    fig = page(title, height, caption or _reuse_caption(played, counts))
    top, right = fig.top + 0.53, LEFT + k * side + GAP  # of B, and where B and C begin
    bottom = top + k * side + GAP
    axes = {}
    for name, shape, x, y in (
        ("A", (m, k), LEFT, bottom), ("B", (k, n), right, top), ("C", (m, n), right, bottom),
    ):  # fmt: skip
        rows, columns = shape
        ax = fig.add_axes_at(x, y, columns * side, rows * side, gid=f"map {name}")
        axes[name] = bare(ax, columns, rows)
        draw_grid(ax, range(rows), range(columns), shape, side, side)
        fig.text_at(x, y - 0.4, f"{name}, {rows} × {columns}", size=NORMAL, weight="bold")
    for name, (loaded, reads) in counts.items():
        _draw_tiles(axes[name], name, loaded, reads, trace.settings["BK"], side)
    mine = played.owner != NOTHING
    fill(axes["C"], mine, "block", facecolor=style.tint(style.GREEN, 0.35), edgecolor=style.GREEN)
    write_notes(fig, right + n * side + 1.05, top, _reuse_notes(played, counts))
    return fig


def _draw_tiles(
    ax: Axes, name: str, loaded: np.ndarray, reads: np.ndarray, step: int, side: float
) -> None:
    """The tiles along K, paler in turn, with their step and counts outside the matrix."""
    along = 1 if name == "A" else 0
    colour = style.ARRAYS[name]
    ks = loaded.shape[along]
    for number, first in enumerate(range(0, ks, step)):
        inside = np.zeros(loaded.shape, bool)
        inside[(slice(None), slice(first, first + step))[:: 1 if along else -1]] = True
        touched = inside & (loaded > 0)
        look = {"facecolor": style.tint(colour, 0.22 if number % 2 else 0.45), "edgecolor": colour}
        fill(ax, touched, f"{name} step {number}", linewidth=1.2, **look)
        words = f"step {number}\nloaded {_span(loaded[touched])}\nread {_span(reads[touched])}"
        middle = min(first + step / 2, (first + ks) / 2)
        room = step * side
        if along and room > style.widest([words], SMALL):
            at, shift, look = (middle, loaded.shape[0]), (0, -5), {"ha": "center", "va": "top"}
        elif not along and room > 3 * SMALL * LINE / 72:
            at, shift, look = (loaded.shape[1], middle), (6, 0), {"va": "center"}
        else:
            continue
        note(ax, words, at, shift, linespacing=LINE, **look)
    if side >= max(style.text_width(str(reads.max()), SMALL) + 0.03, SMALL / 72):
        for row, column in np.argwhere(reads > 0):
            gid = f"count {name} {row} {column}"
            write(ax, column + 0.5, row + 0.53, str(reads[row, column]), gid=gid)


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


# ---- what a thread reads -------------------------------------------------------------------------

TILE = 0.7  # inches along K, of the tiles of A and B
STRIP = 0.55  # room for the lanes beside A
THREAD_GAP, NAME = 0.42, 0.6  # between A and C, for row numbers; above C, for a name and numbers
THREAD_NOTES = 1.85  # for notes at the right
C_LEFT = MARGIN + STRIP + TILE + THREAD_GAP
C_WIDTH = WIDTH - C_LEFT - THREAD_NOTES - 0.25 - MARGIN
MOST_ELEMENT, MOST_ROWS = 0.3, 3.0  # inches: of an element of C, and of the warp's rows of it
LINE_HEIGHT = SMALL * LINE / 72
INSET = 1.25  # the longer side of the block
PALE, LATER = 0.2, 0.45  # of a matrix's colour


@styled
def thread_tile(
    trace: Trace,
    *,
    thread: int | tuple[int, int, int] = 0,
    block: tuple[int, int, int] = (0, 0, 0),
    caption: str | None = None,
) -> Picture:
    """Which elements of C each lane of a thread's warp owns, and what the thread reads for them.

    The numbers are lanes: in C of those that own an element, beside A and B of those that read a
    row or a column of the tile for the first k. The tiles are those of the first step along K,
    drawn as the pieces of A and B that they hold, wherever these lie in shared memory. Dark is what
    the thread owns, and reads for the first k; hatched what it reads in the rest of the step. Where
    the warp lies in the block is at the right.

    Raises TypeError for anything but a trace, LaunchError for a block that is not there, and
    ValueError for a thread that is not there or owns nothing, or a kernel without shared memory.
    """
    require_trace(trace, "thread_tile")
    reads = ThreadReads.of(trace, tuple(block), thread, "thread_tile")
    panels = _Panels.of(reads)
    title = f"{trace.kernel_name}: what each lane of warp {reads.warp} owns of C, and reads for it"
    height = max(panels.bottom, panels.head + 4.35) - 0.27
    fig = page(title, height, caption or _caption(reads))
    for name, ax in panels.draw(fig).items():
        _draw_warp(ax, name, reads, panels)
    right = WIDTH - MARGIN - THREAD_NOTES
    key = [
        (f"lane {reads.lane}; of A and B at k = 0", {"facecolor": style.FAINT}),
        ("read later in this step", {"facecolor": style.tint(style.FAINT, LATER), "hatch": "////",
                                     "edgecolor": "white", "linewidth": 0}),
        ("the other lanes", {"facecolor": style.tint(style.FAINT, PALE)}),
        ("the matrix goes on", {"color": style.INK, "linewidth": 1.0, "linestyle": CUT}),
    ]  # fmt: skip
    top = draw_key(fig, key, 0.5, right, right)
    top = write_notes(fig, right, top + 0.1, _notes(reads))
    _draw_block(fig, reads, right, top + 0.05)
    return fig


@dataclass(frozen=True)
class _Panels:
    """A at the left, B above, C where they meet: the rows and columns of one warp."""

    reads: ThreadReads
    rows: range
    columns: range
    width: float  # of an element of C, in inches
    height: float
    above: list[tuple[range, str]]  # columns of B, and the lanes that read them
    beside: list[tuple[range, str]]  # rows of A

    @classmethod
    def of(cls, reads: ThreadReads) -> _Panels:
        rows, columns = (
            range(where.min(), where.max() + 1) for where in np.nonzero(reads.lanes != NOTHING)
        )
        readers = reads.readers(0)
        width = min(MOST_ELEMENT, C_WIDTH / len(columns))
        height = min(MOST_ELEMENT, MOST_ROWS / len(rows))
        above = [(some, "\n".join(_listed(lanes))) for some, lanes in _runs(readers["B"])]
        beside = [(some, _in_a_line(lanes)) for some, lanes in _runs(readers["A"])]
        return cls(reads, rows, columns, width, height, above, beside)

    @property
    def head(self) -> float:
        """Inches above B: for the title, and B's name and lanes."""
        lines = max(words.count("\n") + 1 for _, words in self.above)
        return 0.62 + lines * LINE_HEIGHT

    @property
    def c_top(self) -> float:
        return self.head + TILE + NAME

    @property
    def bottom(self) -> float:
        return self.c_top + len(self.rows) * self.height

    def draw(self, fig: Picture) -> dict[str, Axes]:
        trace, ks = self.reads.trace, self.reads.ks
        along = TILE / len(ks)
        frames = {  # rows, columns, shape, left, top, width and height of an element, name
            "A": (self.rows, ks, (trace.m, trace.k), MARGIN + STRIP, self.c_top, along, self.height,
                  "A's tile"),
            "B": (ks, self.columns, (trace.k, trace.n), C_LEFT, self.head, self.width, along,
                  "B's tile"),
            "C": (self.rows, self.columns, (trace.m, trace.n), C_LEFT, self.c_top, self.width,
                  self.height, f"C, the elements of warp {self.reads.warp}"),
        }  # fmt: skip
        axes = {}
        for name, (down, across, shape, left, top, width, height, words) in frames.items():
            size = (len(across) * width, len(down) * height)
            ax = fig.add_axes_at(left, top, *size, gid=f"map {name}")
            axes[name] = bare(ax, len(across), len(down))
            draw_grid(ax, down, across, shape, width, height)
            above = self.head - 0.45 if name == "B" else 0.4
            fig.text_at(left, top - above, words, size=NORMAL, weight="bold")
        for name in "AB":  # rows are numbered at C, and columns
            axes[name].set(xticks=[], yticks=[])
        words = f"k = {ks[0]} to {ks[-1]}"
        fig.text_at(MARGIN + STRIP, self.c_top - 0.17, words, size=SMALL)
        middle = self.head + TILE / 2
        fig.text_at(C_LEFT - 0.06, middle, words, size=SMALL, ha="right", va="center")
        self._draw_readers(fig, axes)
        return axes

    def _draw_readers(self, fig: Picture, axes: dict[str, Axes]) -> None:
        """Beside A and above B the lanes that read a row or a column for the first k."""
        for x, top in ((MARGIN + STRIP - 0.06, self.c_top), (C_LEFT - 0.06, self.head)):
            fig.text_at(x, top - 0.17, "lanes", size=SMALL, ha="right")
        rows, columns = (np.flatnonzero(self.reads.owned.any(axis=axis)) for axis in (1, 0))
        for run, words in _that_fit(self.beside, self.height, LINE_HEIGHT, rows):
            at, look = (0, _middle(run, self.rows)), {"ha": "right", "va": "center"}
            note(axes["A"], words, at, (-5, 0), gid=f"readers A {run[0]}", **look)
        needed = style.widest((words for _, words in self.above), SMALL) + 0.03
        for run, words in _that_fit(self.above, self.width, needed, columns):
            at, look = (_middle(run, self.columns), 0), {"ha": "center", "va": "bottom"}
            gid = f"readers B {run[0]}"
            note(axes["B"], words, at, (0, 3), gid=gid, linespacing=LINE, **look)
        edge = {"color": "white", "linewidth": 1.0, "zorder": 1.3}
        firsts = [run[0] - self.rows[0] for run, _ in self.beside[1:]]
        axes["A"].hlines(firsts, 0, len(self.reads.ks), **edge)
        firsts = [run[0] - self.columns[0] for run, _ in self.above[1:]]
        axes["B"].vlines(firsts, 0, len(self.reads.ks), **edge)


def _runs(readers: Sequence[frozenset[int]]) -> list[tuple[range, frozenset[int]]]:
    """Neighbouring rows or columns that the same lanes read; those that nobody reads left out."""
    runs = []
    for lanes, neighbours in groupby(range(len(readers)), key=lambda at: readers[at]):
        indices = list(neighbours)
        if lanes:
            runs.append((range(indices[0], indices[-1] + 1), lanes))
    return runs


def _listed(lanes: frozenset[int]) -> list[str]:
    """Up to four pieces: ["0–15"], ["0", "16"], or how many lanes they are."""
    pieces = []
    for _, neighbours in groupby(enumerate(sorted(lanes)), key=lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in neighbours]
        pieces.append(f"{numbers[0]}" + (f"–{numbers[-1]}" if len(numbers) > 1 else ""))
    return pieces if len(pieces) <= 4 else [f"{len(lanes)}"]


def _in_a_line(lanes: frozenset[int]) -> str:
    words = ", ".join(_listed(lanes))
    fits = style.text_width(words, SMALL) < STRIP - 0.08
    return words if fits else plural(len(lanes), "lane")


def _that_fit(
    runs: list[tuple[range, str]], cell: float, needed: float, mine: np.ndarray
) -> list[tuple[range, str]]:
    """Every label, or every 2nd, 4th, ... of them, so that each has the inches it needs.

    The first run that has some of the rows or columns `mine` keeps its label.
    """
    step = 1
    while step < len(runs) and step * min(len(run) for run, _ in runs) * cell < needed:
        step *= 2
    kept = next(at for at, (run, _) in enumerate(runs) if set(run) & set(mine.tolist()))
    return runs[kept % step :: step]


def _middle(run: range, shown: range) -> float:
    return run[0] + len(run) / 2 - shown[0]


def _draw_warp(ax: Axes, name: str, reads: ThreadReads, panels: _Panels) -> None:
    """What the warp touches of a matrix pale, what the thread touches dark or hatched."""
    colour = ARRAYS[name]
    if name == "C":
        window = np.ix_(panels.rows, panels.columns)
        _draw_lanes(ax, reads, reads.lanes[window], panels)
        now = reads.owned[window]
    else:
        of_warp, step = (reads.read_by(lanes)[name] for lanes in (slice(None), reads.lane))
        first = np.zeros_like(step)
        first[(slice(None), 0) if name == "A" else 0] = True
        sides = (panels.rows, reads.ks) if name == "A" else (reads.ks, panels.columns)
        window = np.ix_(*sides)
        now = (step & first)[window]
        look = {"facecolor": style.tint(colour, PALE), "edgecolor": "none"}
        fill(ax, of_warp[window], f"warp {name}", **look)
        look = {"facecolor": style.tint(colour, LATER), "edgecolor": "white", "hatch": "////"}
        fill(ax, (step & ~first)[window], f"step {name}", zorder=1.2, linewidth=0, **look)
    edge = 0.4 if name == "C" else 0  # none between cells that are thinner than it
    look = {"facecolor": colour, "linewidth": edge, "zorder": 1.4, "gid": f"thread {name}"}
    for row, column in np.argwhere(now):
        box(ax, column, row, 1, 1, **look)


def _draw_lanes(ax: Axes, reads: ThreadReads, lanes: np.ndarray, panels: _Panels) -> None:
    """The elements of each lane, with its number where it fits; of narrow ones every second."""
    ground = {"facecolor": ARRAYS["C"], "edgecolor": "none", "pad": 0.5}
    mine = {"color": "white", "weight": "bold", "bbox": ground}
    look = {"facecolor": style.tint(ARRAYS["C"], PALE), "linewidth": 1.2, "zorder": 1}
    for lane in range(WARP):
        for x, y, across, down in rectangles(lanes == lane):
            box(ax, x, y, across, down, gid=f"lane {lane}", **look)
            width, height = across * panels.width, down * panels.height
            needed = style.text_width(str(WARP - 1), SMALL)
            every = 1 if width >= needed + 0.05 else 2
            if width < needed - 0.03 or height < SMALL / 72 or (lane - reads.lane) % every:
                continue
            middle = x + across / 2, y + down / 2
            text = {"zorder": 2, "gid": f"number {lane}", **(mine if lane == reads.lane else {})}
            write(ax, *middle, str(lane), **text)


def _draw_block(fig: Picture, reads: ThreadReads, left: float, top: float) -> None:
    """Where in the block the warp lies."""
    rows, columns = reads.played.frame()
    words = f"warp {reads.warp} in the block's {len(rows)} × {len(columns)}"
    fig.text_at(left, top, words, size=SMALL)
    side = INSET / max(len(rows), len(columns))
    size = (len(columns) * side, len(rows) * side)
    ax = fig.add_axes_at(left + 0.02, top + 0.22, *size, gid="map block")
    ax.set(xlim=(0, len(columns)), ylim=(len(rows), 0), xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color=style.INK)
    window = np.ix_(rows, columns)
    colour = ARRAYS["C"]
    warp = (reads.lanes != NOTHING)[window]
    fill(ax, warp, "warp", facecolor=style.tint(colour, LATER), edgecolor="none")
    fill(ax, reads.owned[window], "thread", zorder=2, facecolor=colour, edgecolor="none")


def _extent(cells: np.ndarray, axis: int, name: str) -> str:
    """ "row 3", "rows 0 to 15", or how many where they are not neighbours."""
    indices = np.flatnonzero(cells.any(axis=1 - axis))
    first, last = indices[0], indices[-1]
    if first == last:
        return f"{name} {first}"
    if last - first + 1 == len(indices):
        return f"{name}s {first} to {last}"
    return f"{len(indices)} {name}s from {first} to {last}"


def _counted(reads: ThreadReads) -> tuple[dict[str, int], dict[str, int], int]:
    """Elements of A and B that the thread reads for the first k and in the step; of C it owns."""
    step = reads.read_by(reads.lane)
    now = {"A": int(step["A"][:, 0].sum()), "B": int(step["B"][0].sum())}
    return now, {name: int(cells.sum()) for name, cells in step.items()}, int(reads.owned.sum())


def _notes(reads: ThreadReads) -> dict[str, list[str]]:
    x, y, _ = reads.trace.block
    index = (reads.thread % x, reads.thread // x % y, reads.thread // (x * y))
    now, step, owned = _counted(reads)
    return {
        f"thread {reads.thread}": [
            f"threadIdx {index}",
            f"warp {reads.warp}, lane {reads.lane}",
        ],
        f"C: {plural(owned, 'element')}": [
            f"{_extent(reads.owned, 0, 'row')}, {_extent(reads.owned, 1, 'column')}"
        ],
        "For each k": [
            f"{now['A']} + {now['B']} elements feed {plural(owned, 'multiply-add')}",
        ],
        f"In the step of {len(reads.ks)}": [
            f"{plural(len(reads.loads), 'load instruction')} bring {sum(step.values()):,} elements",
        ],
    }  # fmt: skip


def _caption(reads: ThreadReads) -> str:
    now, _, owned = _counted(reads)
    return (
        f"Numbers are lanes of warp {reads.warp} in block {reads.played.block} of "
        f"{reads.trace.kernel_name}. Lane {reads.lane}, thread {reads.thread}, owns "
        f"{plural(owned, 'element')} of C. For each k it reads {plural(now['A'], 'element')} of "
        f"A's tile and {now['B']} of B's from shared memory, for {plural(owned, 'multiply-add')}. "
        f"All of it is traced: stores of C, and loads in the first step along K."
    )
