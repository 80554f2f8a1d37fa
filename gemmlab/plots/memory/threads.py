"""Which elements each lane of a warp owns, and what one of its threads reads for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from gemmlab.analysis.block_replay import NOTHING
from gemmlab.analysis.thread_reads import ThreadReads
from gemmlab.kernel.trace import Trace
from gemmlab.plots import style
from gemmlab.plots.matrix import CUT, draw_grid, require_trace
from gemmlab.plots.memory.blocks import rectangles
from gemmlab.plots.memory.tiles import fill, write_notes
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import ARRAYS, LINE, MARGIN, NORMAL, SMALL, WIDTH, plural, styled
from ptxsim.architectures import WARP

TILE = 0.7  # inches along K, of the tiles of A and B
STRIP = 0.55  # room for the lanes beside A
GAP, NAME = 0.42, 0.6  # between A and C, for row numbers; above C, for a name and column numbers
NOTES = 1.85  # for notes at the right
C_LEFT = MARGIN + STRIP + TILE + GAP
C_WIDTH = WIDTH - C_LEFT - NOTES - 0.25 - MARGIN
MOST_CELL, MOST_HEIGHT = 0.3, 3.0  # of an element of C, and of the warp's rows of it
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
    fig = style.page(max(panels.bottom, panels.head + 4.25) + 0.15, caption or _caption(reads))
    title = f"{trace.kernel_name}: what each lane of warp {reads.warp} owns of C, and reads for it"
    fig.text_at(MARGIN, 0.12, title, size=style.LARGE, weight="bold")
    for name, ax in panels.draw(fig).items():
        _draw_warp(ax, name, reads, panels)
    right = WIDTH - MARGIN - NOTES
    top = _key(fig, reads, right, 0.5)
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
            range(found.min(), found.max() + 1) for found in np.nonzero(reads.lanes != NOTHING)
        )
        readers = reads.readers(0)
        width = min(MOST_CELL, C_WIDTH / len(columns))
        height = min(MOST_CELL, MOST_HEIGHT / len(rows))
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
            ax.set(xlim=(0, len(across)), ylim=(len(down), 0))
            ax.spines[:].set_visible(False)
            draw_grid(ax, down, across, shape, width, height)
            above = self.head - 0.45 if name == "B" else 0.4
            fig.text_at(left, top - above, words, size=NORMAL, weight="bold")
            axes[name] = ax
        for name in "AB":  # rows are numbered at C, and columns
            axes[name].set(xticks=[], yticks=[])
        some = f"k = {ks[0]} to {ks[-1]}"
        fig.text_at(MARGIN + STRIP, self.c_top - 0.17, some, size=SMALL)
        fig.text_at(C_LEFT - 0.06, self.head + TILE / 2, some, size=SMALL, ha="right", va="center")
        self._draw_readers(fig, axes)
        return axes

    def _draw_readers(self, fig: Picture, axes: dict[str, Axes]) -> None:
        """Beside A and above B the lanes that read a row or a column for the first k."""
        fig.text_at(MARGIN + STRIP - 0.06, self.c_top - 0.17, "lanes", size=SMALL, ha="right")
        fig.text_at(C_LEFT - 0.06, self.head - 0.17, "lanes", size=SMALL, ha="right")
        look = {"size": SMALL, "annotation_clip": False, "linespacing": LINE}
        mine = self.reads.owned
        rows, columns = np.flatnonzero(mine.any(axis=1)), np.flatnonzero(mine.any(axis=0))
        for some, words in _that_fit(self.beside, self.height, LINE_HEIGHT, rows):
            axes["A"].annotate(
                words, (0, _middle(some, self.rows)), (-5, 0), textcoords="offset points",
                ha="right", va="center", gid=f"readers A {some[0]}", **look,
            )  # fmt: skip
        widest = max(
            style.text_width(line, SMALL) for _, words in self.above for line in words.split("\n")
        )
        for some, words in _that_fit(self.above, self.width, widest + 0.03, columns):
            axes["B"].annotate(
                words, (_middle(some, self.columns), 0), (0, 3), textcoords="offset points",
                ha="center", va="bottom", gid=f"readers B {some[0]}", **look,
            )  # fmt: skip
        edge = {"color": "white", "linewidth": 1.0, "zorder": 1.3}
        axes["A"].hlines([some[0] - self.rows[0] for some, _ in self.beside[1:]], 0,
                         len(self.reads.ks), **edge)  # fmt: skip
        axes["B"].vlines([some[0] - self.columns[0] for some, _ in self.above[1:]], 0,
                         len(self.reads.ks), **edge)  # fmt: skip


def _runs(readers: Sequence[frozenset[int]]) -> list[tuple[range, frozenset[int]]]:
    """Neighbouring rows or columns that the same lanes read; those that nobody reads left out."""
    runs = []
    for lanes, some in groupby(range(len(readers)), key=lambda at: readers[at]):
        indices = list(some)
        if lanes:
            runs.append((range(indices[0], indices[-1] + 1), lanes))
    return runs


def _listed(lanes: frozenset[int]) -> list[str]:
    """Up to four pieces: ["0–15"], ["0", "16"], or how many lanes they are."""
    pieces = []
    for _, some in groupby(enumerate(sorted(lanes)), key=lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in some]
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
    while step < len(runs) and step * min(len(some) for some, _ in runs) * cell < needed:
        step *= 2
    own = next(at for at, (some, _) in enumerate(runs) if set(some) & set(mine.tolist()))
    return runs[own % step :: step]


def _middle(some: range, all_of_them: range) -> float:
    return some[0] + len(some) / 2 - all_of_them[0]


def _draw_warp(ax: Axes, name: str, reads: ThreadReads, panels: _Panels) -> None:
    """What the warp touches of a matrix pale, what the thread touches dark or hatched."""
    colour = ARRAYS[name]
    if name == "C":
        window = np.ix_(panels.rows, panels.columns)
        _draw_lanes(ax, reads, reads.lanes[window], panels)
        now = reads.owned[window]
    else:
        whole, step = (reads.read_by(lanes)[name] for lanes in (slice(None), reads.lane))
        first = np.zeros_like(step)
        first[(slice(None), 0) if name == "A" else 0] = True
        sides = (panels.rows, reads.ks) if name == "A" else (reads.ks, panels.columns)
        window = np.ix_(*sides)
        now = (step & first)[window]
        fill(
            ax, whole[window], f"warp {name}", zorder=1, facecolor=style.tint(colour, PALE),
            edgecolor="none",
        )  # fmt: skip
        fill(
            ax, (step & ~first)[window], f"step {name}", zorder=1.2, edgecolor="white",
            facecolor=style.tint(colour, LATER), hatch="////", linewidth=0,
        )  # fmt: skip
    edge = 0.4 if name == "C" else 0  # none between cells that are thinner than it
    for row, column in np.argwhere(now):
        ax.add_patch(
            Rectangle((column, row), 1, 1, facecolor=colour, edgecolor="white", linewidth=edge,
                      zorder=1.4, gid=f"thread {name}")
        )  # fmt: skip


def _draw_lanes(ax: Axes, reads: ThreadReads, lanes: np.ndarray, panels: _Panels) -> None:
    """The elements of each lane, with its number where it fits; of narrow ones every second."""
    mine = {"color": "white", "weight": "bold"}
    mine["bbox"] = {"facecolor": ARRAYS["C"], "edgecolor": "none", "pad": 0.5}
    for lane in range(WARP):
        found = {(int(row), int(column)) for row, column in np.argwhere(lanes == lane)}
        for x, y, across, down in rectangles(found):
            ax.add_patch(
                Rectangle((x, y), across, down, facecolor=style.tint(ARRAYS["C"], PALE),
                          edgecolor="white", linewidth=1.2, zorder=1, gid=f"lane {lane}")
            )  # fmt: skip
            width, height = across * panels.width, down * panels.height
            needed = style.text_width(str(WARP - 1), SMALL)
            every = 1 if width >= needed + 0.05 else 2
            if width < needed - 0.03 or height < SMALL / 72 or (lane - reads.lane) % every:
                continue
            ax.text(
                x + across / 2, y + down / 2, str(lane), size=SMALL,
                ha="center", va="center_baseline", zorder=2, gid=f"number {lane}",
                **(mine if lane == reads.lane else {}),
            )  # fmt: skip


def _key(fig: Picture, reads: ThreadReads, left: float, top: float) -> float:
    across, down = fig.get_size_inches()
    looks = (
        (f"lane {reads.lane}; of A and B at k = 0", {"facecolor": style.FAINT}),
        ("read later in this step", {"facecolor": style.tint(style.FAINT, LATER), "hatch": "////"}),
        ("the other lanes", {"facecolor": style.tint(style.FAINT, PALE)}),
    )
    for words, look in looks:
        corner = (left / across, 1 - (top + 0.145) / down)
        fig.add_artist(
            Rectangle(corner, 0.22 / across, 0.14 / down, edgecolor="white", linewidth=0, **look)
        )
        fig.text_at(left + 0.3, top, words, size=SMALL)
        top += 0.2
    x, y = left / across, 1 - (top + 0.075) / down
    cut = {"color": style.INK, "linewidth": 1.0, "linestyle": CUT}
    fig.add_artist(Line2D((x, x + 0.22 / across), (y, y), **cut))
    fig.text_at(left + 0.3, top, "the matrix goes on", size=SMALL)
    return top + 0.2


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
    found = np.flatnonzero(cells.any(axis=1 - axis))
    if len(found) == 1:
        return f"{name} {found[0]}"
    if found[-1] - found[0] + 1 == len(found):
        return f"{name}s {found[0]} to {found[-1]}"
    return f"{len(found)} {name}s from {found[0]} to {found[-1]}"


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
