"""Which lane of a warp holds which element of the pieces that tensor cores multiply."""

from collections.abc import Mapping
from itertools import product

import numpy as np
from matplotlib.axes import Axes

from gemmlab.lessons.wmma.fragments import PIECE, lanes_of
from gemmlab.plots import style
from gemmlab.plots.cells import box, draw_grid, name_above, product_axes
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.style import ARRAYS, NORMAL, WIDTH

SIDE, GAP, TOP = 3.1, 0.75, 0.55  # inches: of a matrix, between two, above the first
LANE = 0  # whose elements are dark
SHARES = (0.1, 0.3)  # of a matrix's colour, for lanes next to each other
CHOSEN = 0.8  # and for the lane that is looked at


@styled
def fragments(held: Mapping[str, np.ndarray]) -> Picture:
    """The lane that holds each element of A, B and C; those of lane 0 are dark.

    held: as fragments.by_wmma() gives, int (32, places) for "A", "B" and "C".
    """
    lanes = {name: lanes_of(np.asarray(held[name])) for name in "ABC"}
    parts = []
    for name, owner in lanes.items():
        rows, columns = np.nonzero(owner == LANE)
        parts.append(
            f"{len(rows)} of {name}, in {_some('row', rows)} and {_some('column', columns)}"
        )
    caption = (
        "The lane of the warp that holds each element, two neighbours to a number. "
        f"Lane {LANE} holds {'; '.join(parts)}."
    )
    fig = page("", TOP + 2 * SIDE + GAP + 0.03, caption)
    left = (WIDTH - 2 * SIDE - GAP) / 2
    axes = product_axes(fig, left, TOP, (SIDE, SIDE), (SIDE, SIDE), (GAP, GAP))
    for name, owner in lanes.items():
        name_above(axes[name], f"{name}, {PIECE} × {PIECE}", 26)
        _draw(axes[name], name, owner)
    fig.text_at(left, TOP, f"A number is a lane.\nDark: lane {LANE}.", size=NORMAL)
    return fig


def _draw(ax: Axes, name: str, owner: np.ndarray) -> None:
    ax.set(xlim=(0, PIECE), ylim=(PIECE, 0))
    draw_grid(ax, range(PIECE), range(PIECE), owner.shape, SIDE / PIECE, SIDE / PIECE)
    across = bool((owner[:, 0] == owner[:, 1]).all())  # neighbours of a row, or of a column
    width, height = (2, 1) if across else (1, 2)
    for row, column in product(range(0, PIECE, height), range(0, PIECE, width)):
        holder = int(owner[row, column])
        share = CHOSEN if holder == LANE else SHARES[(holder % 4 + holder // 4) % 2]
        look = {"facecolor": style.tint(ARRAYS[name], share), "edgecolor": style.GRID}
        text = {"zorder": 2, "weight": "bold" if holder == LANE else "normal"}
        box(ax, column, row, width, height, str(holder), text, zorder=1, linewidth=0.5, **look)


def _some(noun: str, numbers: np.ndarray) -> str:
    different = [str(number) for number in np.unique(numbers)]
    return f"{noun}{'s' if len(different) > 1 else ''} {style.listed(different)}"
