"""Common parts of pictures of matrices and of memory: boxes and cells."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from gemmlab.plots import style
from gemmlab.plots.page import Picture
from gemmlab.plots.style import NORMAL, SMALL, Look

SECTOR_BYTES = 32
CUT = (0, (1, 2))  # the line style where a piece ends and its matrix goes on


def box(
    ax: Axes, x: float, y: float, width: float, height: float, words: str = "",
    text: Mapping[str, Any] | None = None, **look: Any,
) -> None:  # fmt: skip
    """A rectangle from its upper left corner, white around it, with words in its middle.

    text: how the words look; look: how the rectangle does.
    """
    look = {"edgecolor": "white", "linewidth": 0.8, **look}
    ax.add_patch(Rectangle((x, y), width, height, **look))
    if words:
        write(ax, x + width / 2, y + height / 2, words, **(text or {}))


def write(ax: Axes, x: float, y: float, words: str, **look: Any) -> None:
    """Small text with its middle at a place of the axes."""
    ax.text(x, y, words, **{"size": SMALL, "ha": "center", "va": "center_baseline", **look})


def name_above(ax: Axes, words: str, up: float) -> None:
    """Bold words above the upper left corner of axes, `up` points away from it."""
    look: Look = {"xycoords": "axes fraction", "textcoords": "offset points", "weight": "bold"}
    ax.annotate(words, (0, 1), (0, up), size=NORMAL, annotation_clip=False, **look)


def plate(pad: float = 1.0, alpha: float = 0.85) -> dict[str, Any]:
    """What lies behind words that stand on lines or hatches, as `bbox`."""
    return {"facecolor": "white", "edgecolor": "none", "pad": pad, "alpha": alpha}


def product_axes(
    fig: Picture, left: float, top: float, along: tuple[float, float], c: tuple[float, float],
    gap: tuple[float, float], gid: str = "map",
) -> dict[str, Axes]:  # fmt: skip
    """Axes for A at the left, B above, and C where they meet, all in inches.

    along: K to the right, in A, and downwards, in B; c: the width and the height of C; gap: to the
    right of A, and below B.
    """
    right, below = left + along[0] + gap[0], top + along[1] + gap[1]
    places = {
        "A": (left, below, along[0], c[1]), "B": (right, top, c[0], along[1]),
        "C": (right, below, *c),
    }  # fmt: skip
    return {name: fig.add_axes_at(*place, gid=f"{gid} {name}") for name, place in places.items()}


def bare(ax: Axes, columns: float, rows: float) -> Axes:
    """The axes for so many cells from the upper left corner on, without ticks and frame."""
    ax.set(xlim=(0, columns), ylim=(rows, 0), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    return ax


def number_above(ax: Axes, **pads: float) -> None:
    """Numbers above the axes instead of below them, and no ticks."""
    look: Look = {"length": 0, "pad": 2, "top": False, "labeltop": True, "bottom": False}
    ax.tick_params(**{**look, "labelbottom": False, **pads})


def number_banks(ax: Axes, banks: int) -> None:
    """The number of every fourth bank above the axes, which are as many wide, and of the last."""
    marks = [*range(0, banks, 4), banks - 1]
    ax.set_xticks([bank + 0.5 for bank in marks], [str(bank) for bank in marks])
    number_above(ax)


def draw_grid(
    ax: Axes, rows: range, columns: range, shape: tuple, width: float, height: float
) -> None:
    """The cells of a piece of a matrix, its true edges solid and cut edges dotted, and indices."""
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
        look: Look = {"linestyle": "-" if is_edge else CUT}
        ax.plot(x, y, color=style.INK, linewidth=1.0, clip_on=False, zorder=3, **look)
    row_ticks = _ticks(rows, SMALL * 1.6 / 72 / height)
    column_ticks = _ticks(columns, (style.text_width(str(columns[-1]), SMALL) + 0.08) / width)
    ax.set_yticks([row - rows[0] + 0.5 for row in row_ticks], map(str, row_ticks))
    ax.set_xticks([column - columns[0] + 0.5 for column in column_ticks], map(str, column_ticks))
    number_above(ax)


def _ticks(indices: range, room: float) -> list[int]:
    """The first index, and every 1st, 2nd, 4th ... as far apart as a label needs (in cells)."""
    step = 1
    while step < room:
        step *= 2
    return [indices[0], *(i for i in indices if i % step == 0 and i - indices[0] >= room)]


def fill(ax: Axes, cells: np.ndarray, *, zorder: float = 1, **look: Any) -> None:
    """The True cells of a bool array as few rectangles."""
    for x, y, across, down in rectangles(cells):
        ax.add_patch(Rectangle((x, y), across, down, zorder=zorder, **look))


def extent(cells: np.ndarray) -> str:
    """ "row 3, columns 0 to 15", or how many where they are not neighbours."""
    spans = []
    for name, indices in zip(("row", "column"), map(np.unique, np.nonzero(cells)), strict=True):
        first, last, count = indices[0], indices[-1], len(indices)
        if last - first + 1 > count:
            spans.append(f"{count} {name}s from {first} to {last}")
        else:
            spans.append(f"{name} {first}" if count == 1 else f"{name}s {first} to {last}")
    return ", ".join(spans)


def rectangles(cells: np.ndarray) -> list[tuple[int, int, int, int]]:
    """The True cells as few rectangles (x, y, width, height): equal runs of rows, stacked."""
    done: list[tuple[int, int, int, int]] = []
    growing: dict[tuple[int, int], int] = {}  # (first column, its end): first row
    for row, line in enumerate(np.pad(cells, ((0, 1), (1, 1)))):
        edges = np.flatnonzero(np.diff(line.astype(np.int8))).tolist()
        runs = set(zip(edges[::2], edges[1::2], strict=True))
        for run in growing.keys() - runs:
            first = growing.pop(run)
            done.append((run[0], first, run[1] - run[0], row - first))
        for run in runs:
            growing.setdefault(run, row)
    return sorted(done)
