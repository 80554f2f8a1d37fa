"""Block, warp, lane: who owns which part of C, and which lanes of a warp read the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from gemmlab.analysis.block_replay import NOTHING, Played
from gemmlab.kernel.trace import Trace
from gemmlab.plots import style
from gemmlab.plots.cells import bare, box, draw_grid, fill, number_above
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.style import ARRAYS, LINE, MARGIN, NORMAL, SMALL, WIDTH
from ptxsim.architectures import WARP

SIDE = 3.3  # inches, the longer side of the block's tile
HEAD = 0.58  # room for a name and numbers
LEFT = MARGIN + 0.35
BETWEEN = 1.25  # room for the rows of A
STRIP, STRIP_GAP = 0.24, 0.1  # inches: the pieces of A and of B beside the lanes that read them
MOST_PIECE = 0.62  # inches, the height of a lane's cell
FLOATS = 4  # that a lane gets with a load of 16 bytes
TOGETHER = 8  # lanes that a load of 16 bytes serves at a time
LOOKS = {
    name: {"facecolor": style.tint(style.GREEN, share)}
    for name, share in (("block", 0.12), ("warp", 0.4), ("lane", 1.0))
}
# Of the warp, eight lanes each; none has a matrix's colour.
QUARTERS = tuple(
    style.tint(colour, share) for colour in (style.PURPLE, style.FAINT) for share in (0.25, 0.55)
)


@dataclass(frozen=True)
class _Levels:
    """One block, one of its warps and one of its lanes.

    `pieces`: of A and of B, what each lane gets with the warp's first load: int (32,), the first of
    four rows of A, or four columns of B.
    """

    played: Played
    warp: int
    lane: int
    pieces: dict[str, np.ndarray]

    @classmethod
    def of(cls, trace: Trace, warp: int, lane: int) -> _Levels:
        played = Played.of(trace, (0, 0, 0))
        played.require_reads("levels")
        pieces: dict[str, np.ndarray] = {}
        for read in played.reads:
            if read.warp == warp:
                name, of_lanes = _piece(trace, read.elements)
                pieces.setdefault(name, of_lanes)
        return cls(played, warp, lane, pieces)

    def different(self, name: str) -> list[int]:
        return np.unique(self.pieces[name]).tolist()


def _piece(trace: Trace, elements: np.ndarray) -> tuple[str, np.ndarray]:
    """Of which matrix a load's elements are, and the first row or column of each lane."""
    m, n, k = trace.m, trace.n, trace.k
    if (elements < m * k).all():
        return "A", elements[:, 0] // k
    return "B", (elements[:, 0] - m * k) % n


@styled
def levels(trace: Trace, *, warp: int, lane: int, caption: str) -> Picture:
    """The three levels of a tile of C, and which lanes of a warp read the same 16 bytes.

    Left: the first block's tile of C, the part of each warp outlined, that of one warp coloured,
    the elements of one lane dark; from the stores of C. Right: the lanes of the warp, each in the
    row of the piece of A and in the column of the piece of B that it reads with its first loads of
    both tiles. The pieces stand at the left and above. Thick lines go around each four lanes.

    trace: of a kernel whose lanes read 16 bytes of both tiles, for one k.
    """
    parts = _Levels.of(trace, warp, lane)
    rows, columns = parts.played.frame()
    cell = SIDE / max(len(rows), len(columns))
    a, b = map(parts.different, "AB")
    x = LEFT + cell * len(columns) + BETWEEN
    width = min(0.45, (WIDTH - MARGIN - x) / len(b))
    notes = _notes(parts)
    text = len(notes) * SMALL * LINE / 72
    strips = STRIP + STRIP_GAP
    # The cells of lanes are as high as C's tile, with what stands above and below them.
    piece = min((cell * len(rows) - strips - 0.2 - text) / len(a), MOST_PIECE)
    title = f"{trace.kernel_name}: block {parts.played.block}, warp {warp}, lane {lane}"
    edge = {"edgecolor": style.INK, "linewidth": 0.6}
    key = [(f"of the {name}", {**look, **edge}) for name, look in LOOKS.items()]
    fig = page(title, HEAD + cell * len(rows) + 0.2, caption, key=key)
    top, names_at = fig.top + HEAD, x - strips - 0.55
    y = top + strips
    fig.text_at(LEFT, fig.top + 0.06, "C: the block's tile", size=NORMAL, weight="bold")
    ax = fig.add_axes_at(LEFT, top, cell * len(columns), cell * len(rows))
    _draw_tile(ax, parts, rows, columns, cell)
    heading = f"The {WARP} lanes of the warp, and what each reads"
    fig.text_at(names_at, fig.top + 0.06, heading, size=NORMAL, weight="bold")
    _draw_lanes(fig.add_axes_at(x, y, width * len(b), piece * len(a)), parts)
    ax = fig.add_axes_at(x - strips, y, STRIP, piece * len(a))
    _draw_pieces(ax, "A", a)
    _draw_pieces(fig.add_axes_at(x, top, width * len(b), STRIP), "B", b)
    for words, name, below in (("column of B", "B", top - 0.165), ("row of A", "A", y - 0.07)):
        fig.text_at(x - strips - 0.08, below, words, size=SMALL, ha="right", color=ARRAYS[name])
    below = y + piece * len(a) + 0.2
    fig.text_at(names_at, below, "\n".join(notes), size=SMALL, linespacing=LINE)
    return fig


def _draw_pieces(ax: Axes, name: str, pieces: list[int]) -> None:
    """The 16 bytes of A beside the rows of lanes that read them, or of B above the columns."""
    upright, many = name == "A", len(pieces)
    bare(ax, *((1, many) if upright else (many, 1)))
    for at in range(many):
        place = (0, at) if upright else (at, 0)
        box(ax, *place, 1, 1, facecolor=style.tint(ARRAYS[name], 0.45))
    (ax.set_yticks if upright else ax.set_xticks)(
        [at + 0.5 for at in range(many)], [f"{first}–{first + FLOATS - 1}" for first in pieces]
    )
    number_above(ax, pad=3)


def _draw_tile(ax: Axes, parts: _Levels, rows: range, columns: range, cell: float) -> None:
    owner = parts.played.owner[rows.start : rows.stop, columns.start : columns.stop]
    bare(ax, len(columns), len(rows))
    draw_grid(ax, rows, columns, parts.played.owner.shape, cell, cell)
    of_warp = np.where(owner == NOTHING, NOTHING, owner // WARP)
    mine = owner == parts.warp * WARP + parts.lane
    levels = {"block": owner != NOTHING, "warp": of_warp == parts.warp, "lane": mine}
    for order, (name, cells) in enumerate(levels.items()):
        fill(ax, cells, linewidth=0, zorder=1 + 0.1 * order, **LOOKS[name])
    look = {"colors": style.INK, "linewidths": 1.6, "zorder": 2}
    ax.add_collection(LineCollection(_boundaries(of_warp), **look), autolim=False)


def _boundaries(numbers: np.ndarray) -> list[list[tuple[int, int]]]:
    """Lines between cells of different numbers."""
    beside = np.argwhere(numbers[:, 1:] != numbers[:, :-1]).tolist()
    below = np.argwhere(numbers[1:] != numbers[:-1]).tolist()
    lines = [[(column + 1, row), (column + 1, row + 1)] for row, column in beside]
    return lines + [[(column, row + 1), (column + 1, row + 1)] for row, column in below]


def _draw_lanes(ax: Axes, parts: _Levels) -> None:
    (a, rows), (b, columns) = (np.unique(parts.pieces[of], return_inverse=True) for of in "AB")
    bare(ax, len(b), len(a))
    fours = np.full((len(a), len(b)), NOTHING)
    for lane, (y, x) in enumerate(zip(rows, columns, strict=True)):
        fours[y, x] = lane // 4
        box(ax, x, y, 1, 1, str(lane), {"size": NORMAL}, facecolor=QUARTERS[lane // TOGETHER])
    around = np.pad(fours, 1, constant_values=NOTHING)
    lines = [[(x - 1, y - 1) for x, y in line] for line in _boundaries(around)]
    look = {"colors": style.INK, "linewidths": 1.8, "zorder": 3, "clip_on": False}
    ax.add_collection(LineCollection(lines, **look), autolim=False)


def _notes(parts: _Levels) -> list[str]:
    lines = []
    for name, where in (("A", "left: four rows"), ("B", "above: four columns")):
        pieces, counts = np.unique(parts.pieces[name], return_counts=True)
        by = " or ".join(map(str, sorted(set(counts.tolist()))))
        lines.append(
            f"{name}, {where} of one k, 16 bytes; {len(pieces)} pieces, {by} lanes read each."
        )
    return [*lines, "Each colour is a quarter of the warp; thick lines enclose four lanes."]
