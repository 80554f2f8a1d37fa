"""Tiles in shared memory: how often a block reuses them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from gemmlab.analysis.block_replay import NOTHING, Played
from gemmlab.kernel.trace import Trace
from gemmlab.plots import style
from gemmlab.plots.matrix import draw_grid, require_trace
from gemmlab.plots.memory.blocks import rectangles
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LINE, MARGIN, NORMAL, SMALL, WIDTH, styled

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
    side: float  # of a cell, in inches

    @classmethod
    def of(cls, rows: range, ks: range, columns: range) -> _Panels:
        room = WIDTH - LEFT - MARGIN - GAP - NOTES
        width = room / (len(ks) + len(columns))
        height = MOST_HEIGHT / (len(ks) + len(rows))
        return cls(rows, ks, columns, min(MOST_CELL, width, height))

    @property
    def top(self) -> float:
        """The inches that B takes, with the room below it."""
        return len(self.ks) * self.side + GAP

    @property
    def left(self) -> float:
        """The inches that A takes, with the room beside it."""
        return len(self.ks) * self.side + GAP

    @property
    def right(self) -> float:
        """Where notes begin, in inches from the left of the page."""
        return LEFT + self.left + len(self.columns) * self.side + 0.25

    @property
    def bottom(self) -> float:
        return HEAD + self.top + len(self.rows) * self.side

    def draw(self, fig: Picture, trace: Trace, names: Iterable[str]) -> dict[str, Axes]:
        frames = {
            "A": (self.rows, self.ks, (trace.m, trace.k), LEFT, HEAD + self.top),
            "B": (self.ks, self.columns, (trace.k, trace.n), LEFT + self.left, HEAD),
            "C": (self.rows, self.columns, (trace.m, trace.n), LEFT + self.left, HEAD + self.top),
        }
        axes = {}
        for (name, (down, across, shape, x, y)), words in zip(frames.items(), names, strict=True):
            size = (len(across) * self.side, len(down) * self.side)
            ax = fig.add_axes_at(x, y, *size, gid=f"map {name}")
            ax.set(xlim=(0, len(across)), ylim=(len(down), 0))
            ax.spines[:].set_visible(False)
            draw_grid(ax, down, across, shape, self.side, self.side)
            fig.text_at(x, y - 0.4, words, size=NORMAL, weight="bold")
            axes[name] = ax
        return axes


def fill(ax: Axes, cells: np.ndarray, gid: str, *, zorder: float = 1, **look: object) -> None:
    """The True cells of a bool array as few rectangles."""
    found = {(int(row), int(column)) for row, column in np.argwhere(cells)}
    for x, y, across, down in rectangles(found):
        ax.add_patch(Rectangle((x, y), across, down, gid=gid, zorder=zorder, **look))


def write_notes(fig: Picture, left: float, top: float, notes: Mapping[str, Sequence[str]]) -> float:
    """Lines of words, each under its heading; where they end, in inches from the top."""
    for heading, lines in notes.items():
        fig.text_at(left, top, heading, size=NORMAL, weight="bold")
        top += NORMAL * LINE / 72 + 0.03
        for line in lines:
            for part in style.wrap(line, WIDTH - MARGIN - left, SMALL):
                fig.text_at(left, top, part, size=SMALL)
                top += SMALL * LINE / 72
            top += 0.03
        top += 0.06
    return top


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
    panels = _Panels.of(range(trace.m), range(trace.k), range(trace.n))
    fig = style.page(panels.bottom + 0.75, caption or _reuse_caption(played, counts))
    title = f"{trace.kernel_name}: what block {block} loads, and how often it reads it"
    fig.text_at(MARGIN, 0.12, title, size=style.LARGE, weight="bold")
    names = (f"A, {trace.m} × {trace.k}", f"B, {trace.k} × {trace.n}", f"C, {trace.m} × {trace.n}")
    axes = panels.draw(fig, trace, names)
    for name, (loaded, reads) in counts.items():
        _draw_tiles(axes[name], name, loaded, reads, trace.settings["BK"], panels)
    mine = played.owner != NOTHING
    fill(axes["C"], mine, "block", facecolor=style.tint(style.GREEN, 0.35), edgecolor=style.GREEN)
    write_notes(fig, panels.right + 0.8, HEAD, _reuse_notes(played, counts))
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
        room = step * panels.side
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
    if panels.side >= max(widest, SMALL / 72):
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
