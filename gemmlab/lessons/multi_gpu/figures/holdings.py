"""What each rank holds of A, B and C, and what comes to it, traced through a schedule."""

from __future__ import annotations

import numpy as np
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from gemmlab.lessons.multi_gpu.in_turn import COMES, HOLDS, Holdings, holdings
from gemmlab.lessons.multi_gpu.schedule import Schedule
from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import ARRAYS, FAINT, LARGE, MARGIN, NORMAL, SMALL, WIDTH, styled

PALE = 0.28
TOP, HEAD, GAP, BETWEEN = 0.75, 0.28, 0.07, 0.35  # inches
MOST = 4  # panels beside one another
LARGEST = 2.0  # inches of a panel


@styled
def rank_holdings(schedule: Schedule, *, caption: str | None = None) -> Picture:
    """A panel for each rank: A at the left, B above, C in the corner, as everywhere.

    Take a small product: it is traced element by element.
    """
    found = holdings(schedule)
    problem = schedule.problem
    across = min(MOST, len(found))
    down = -(-len(found) // across)
    side = min(LARGEST, (WIDTH - 2 * MARGIN - BETWEEN * (across - 1)) / across)
    scale = (side - GAP) / max(problem.k + problem.n, problem.k + problem.m)
    height = TOP + down * (HEAD + side + 0.2)
    fig = style.page(height, _caption(schedule, found) if caption is None else caption)
    fig.text_at(
        MARGIN, 0.12, f"Who holds what: {schedule.name}, {schedule.ranks} ranks", size=LARGE,
        weight="bold",
    )  # fmt: skip
    _draw_key(fig)
    for rank, own in enumerate(found):
        row, column = divmod(rank, across)
        left = MARGIN + column * (side + BETWEEN)
        top = TOP + row * (HEAD + side + 0.2)
        fig.text_at(left, top, f"rank {rank}", size=NORMAL, weight="bold")
        _draw(fig, own, left, top + HEAD, scale, f"rank {rank}")
    return fig


def _draw(fig: Picture, own: Holdings, left: float, top: float, scale: float, gid: str) -> None:
    wide, tall = own.A.shape[1] * scale + GAP, own.B.shape[0] * scale + GAP
    for name, x, y in (("A", left, top + tall), ("B", left + wide, top), ("C", left + wide, top + tall)):  # fmt: skip # noqa: E501
        matrix = getattr(own, name)
        rows, columns = matrix.shape
        ax = fig.add_axes_at(x, y, columns * scale, rows * scale, gid=f"{gid} {name}")
        pixels = np.ones((rows, columns, 3))
        pixels[matrix == COMES] = style.tint(ARRAYS[name], PALE)
        pixels[matrix == HOLDS] = style.tint(ARRAYS[name], 1.0)
        ax.imshow(pixels, interpolation="nearest", aspect="auto")
        ax.set_xticks([])
        ax.set_yticks([])
        for spine in ax.spines.values():
            spine.set(visible=True, color=FAINT, linewidth=0.8)
        ax.text(
            0.06, 0.92, name, transform=ax.transAxes, va="top", size=NORMAL, weight="bold",
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )  # fmt: skip


def _draw_key(fig: Picture) -> None:
    x, (across, down) = MARGIN, fig.get_size_inches()
    for share, words in (
        (1.0, "holds: A and B at the beginning, C at the end"),
        (PALE, "A and B: comes from another rank; C: computes a part of the sum for another"),
    ):
        for at, name in enumerate("ABC"):
            fig.add_artist(Rectangle(
                ((x + 0.17 * at) / across, 1 - (0.43 + 0.13) / down), 0.14 / across, 0.13 / down,
                facecolor=style.tint(ARRAYS[name], share), edgecolor=FAINT, linewidth=0.5,
            ))  # fmt: skip
        fig.text_at(x + 0.56, 0.43, words, size=SMALL)
        x += 0.56 + style.text_width(words, SMALL) + 0.3


def _caption(schedule: Schedule, found: list[Holdings]) -> str:
    """What rank 0 holds and gets, in shares of each matrix."""
    own = found[0]

    def of(what: int, names: str) -> str:
        shares = {
            name: float((matrix == what).mean()) if matrix.size else 0.0
            for name in names
            for matrix in [getattr(own, name)]
        }
        said = [f"{100 * share:.3g} % of {name}" for name, share in shares.items() if share]
        return style.listed(said) or "nothing"

    more = of(COMES, "C")
    besides = "" if more == "nothing" else f" It computes parts of the sums for {more} besides."
    return (
        f"{schedule.problem} by {schedule.ranks} ranks, {schedule.name}. Rank 0 holds "
        f"{of(HOLDS, 'AB')}; from others comes {of(COMES, 'AB')}. At the end it has "
        f"{of(HOLDS, 'C')}.{besides}"
    )
