"""What pictures of memory accesses share: a piece of a matrix in cells, and checks of traces."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from gemmlab.plots import style
from gemmlab.plots.style import SMALL

SECTOR_BYTES = 32
CUT = (0, (1, 2))  # the line style where a piece ends and its matrix goes on


def require_trace(trace: Any, who: str) -> None:
    if not callable(getattr(trace, "warp_access", None)):
        raise TypeError(f"{who} takes a trace, as kernel.trace(m, n, k) gives, not {trace!r}.")


def require_access(access: Any, who: str) -> None:
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
        look = {"linestyle": "-" if is_edge else CUT}
        ax.plot(x, y, color=style.INK, linewidth=1.0, clip_on=False, zorder=3, **look)
    row_ticks = _ticks(rows, SMALL * 1.6 / 72 / height)
    column_ticks = _ticks(columns, (style.text_width(str(columns[-1]), SMALL) + 0.08) / width)
    ax.set_yticks([row - rows[0] + 0.5 for row in row_ticks], row_ticks)
    ax.set_xticks([column - columns[0] + 0.5 for column in column_ticks], column_ticks)
    ax.tick_params(length=0, pad=2, top=False, labeltop=True, bottom=False, labelbottom=False)


def _ticks(indices: range, room: float) -> list[int]:
    """The first index, and every 1st, 2nd, 4th ... as far apart as a label needs (in cells)."""
    step = 1
    while step < room:
        step *= 2
    return [indices[0], *(i for i in indices if i % step == 0 and i - indices[0] >= room)]
