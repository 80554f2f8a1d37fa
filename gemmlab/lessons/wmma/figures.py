"""Which lane of a warp holds which element of the pieces that tensor cores multiply."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np
from matplotlib.axes import Axes

from gemmlab.lessons.wmma.fragments import PIECE, lanes_of
from gemmlab.plots import style
from gemmlab.plots.cells import box, draw_grid
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.style import ARRAYS, LARGE, NORMAL, WIDTH
from ptxsim.architectures import WARP

SIDE, GAP, TOP = 3.1, 0.75, 0.55  # inches: of a matrix, between two, above the first
A_LEFT = (WIDTH - 2 * SIDE - GAP) / 2
C_LEFT, C_TOP = A_LEFT + SIDE + GAP, TOP + SIDE + GAP
PLACES = {"A": (A_LEFT, C_TOP), "B": (C_LEFT, TOP), "C": (C_LEFT, C_TOP)}  # as in the product
SHARES = (0.1, 0.3)  # of a matrix's colour, for lanes next to each other
CHOSEN = 0.8  # and for the lane that is looked at


@styled
def fragments(held: Mapping[str, np.ndarray], *, lane: int = 0) -> Picture:
    """The lane that holds each element of A, B and C; one lane's elements are dark.

    held: as fragments.by_wmma() gives, int (32, places) for "A", "B" and "C".
    Raises ValueError for a lane that a warp does not have, and for elements that no lane holds.
    """
    if isinstance(lane, bool) or not isinstance(lane, int) or not 0 <= lane < WARP:
        raise ValueError(f"lane is {lane!r}; a warp has lanes 0 to {WARP - 1}.")
    lanes = {name: lanes_of(np.asarray(held[name])) for name in "ABC"}
    for name, owner in lanes.items():
        if (owner < 0).any():
            raise ValueError(
                f"fragments: no lane holds {int((owner < 0).sum())} elements of {name}."
            )
    fig = page("", C_TOP + SIDE + 0.03, _caption(lanes, lane))
    for name, owner in lanes.items():
        left, top = PLACES[name]
        fig.text_at(left, top - 0.48, f"{name}, {PIECE} × {PIECE}", size=LARGE, weight="bold")
        ax = fig.add_axes_at(left, top, SIDE, SIDE, gid=f"held {name}")
        _draw(ax, name, owner, lane)
    fig.text_at(A_LEFT, TOP, f"A number is a lane.\nDark: lane {lane}.", size=NORMAL)
    return fig


def _draw(ax: Axes, name: str, owner: np.ndarray, lane: int) -> None:
    ax.set(xlim=(0, PIECE), ylim=(PIECE, 0))
    draw_grid(ax, range(PIECE), range(PIECE), owner.shape, SIDE / PIECE, SIDE / PIECE)
    across = bool((owner[:, 0] == owner[:, 1]).all())  # neighbours of a row, or of a column
    width, height = (2, 1) if across else (1, 2)
    for row, column in product(range(0, PIECE, height), range(0, PIECE, width)):
        holder = int(owner[row, column])
        share = CHOSEN if holder == lane else SHARES[(holder % 4 + holder // 4) % 2]
        look = {"facecolor": style.tint(ARRAYS[name], share), "edgecolor": style.GRID}
        text = {"zorder": 2, "weight": "bold" if holder == lane else "normal"}
        box(ax, column, row, width, height, str(holder), text, zorder=1, linewidth=0.5, **look)


def _caption(lanes: Mapping[str, np.ndarray], lane: int) -> str:
    parts = []
    for name, owner in lanes.items():
        rows, columns = np.nonzero(owner == lane)
        parts.append(
            f"{len(rows)} of {name}, in {_some('row', rows)} and {_some('column', columns)}"
        )
    return (
        "The lane of the warp that holds each element, two neighbours to a number. "
        f"Lane {lane} holds {'; '.join(parts)}."
    )


def _some(noun: str, numbers: np.ndarray) -> str:
    different = [str(number) for number in np.unique(numbers)]
    return f"{noun}{'s' if len(different) > 1 else ''} {style.listed(different)}"
