"""In which order blocks compute the tiles of C, and what one round needs of A and B."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from gemmlab.lessons.persistent.schedule import Schedule
from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import ARRAYS, LARGE, MARGIN, NORMAL, SMALL, WIDTH, styled

STRIP, GAP, HEAD = 0.24, 0.07, 0.98  # inches: of A and B beside C, to C, above a panel
SHOWN = (0.55, 0.3)  # of C's colour, for the rounds whose blocks have numbers
LATER = (0.06, 0.12)  # ... and for those that follow, in turn
NEEDED, REST = 0.6, 0.08  # of the colours of A and B


@styled
def tile_order(*orders: tuple[str, Schedule], caption: str | None = None) -> Picture:
    """Which block computes which tile of C, in which round; what the first round needs is dark.

    orders: (name, analysis.traced.schedule.schedule(kernel, m, n, k, sm_count)), one or two, of one
    shape. Raises ValueError for another number of them.
    """
    if not 1 <= len(orders) <= 2:
        raise ValueError(f"tile_order draws one or two schedules, not {len(orders)}.")
    room = (WIDTH - MARGIN) / 2 - 0.3
    side = room - STRIP - GAP
    down = max(one.tiles[0] * one.tile[0] / (one.tiles[1] * one.tile[1]) for _, one in orders)
    height = HEAD + STRIP + GAP + side * min(1.0, down)
    fig = style.page(height + 0.12, caption or _caption(orders))
    fig.text_at(MARGIN, 0.1, "Which block computes which tile of C, and when", size=LARGE,
                weight="bold")  # fmt: skip
    _draw_key(fig)
    for at, (name, one) in enumerate(orders):
        left = MARGIN + at * (room + 0.45)
        fig.text_at(left, HEAD - 0.42, name, size=NORMAL, weight="bold")
        words = (
            f"round 0 needs {len(one.brought(0, 'A')):,} rows of A and "
            f"{len(one.brought(0, 'B')):,} columns of B"
        )
        fig.text_at(left, HEAD - 0.21, words, size=SMALL)
        _draw(fig, one, left, HEAD + 0.02, side)
    return fig


def _draw(fig: Picture, one: Schedule, left: float, top: float, side: float) -> None:
    rows, columns = one.tiles
    m, n, _ = one.shape
    cell = min(side / columns, side / rows)
    wide, tall = cell * columns, cell * rows
    ax = fig.add_axes_at(left + STRIP + GAP, top + STRIP + GAP, wide, tall, gid=f"C {one.settings}")
    ax.set(xlim=(0, columns), ylim=(rows, 0))
    for turn in one.turns:
        shown = turn.round < len(SHOWN)
        share = SHOWN[turn.round] if shown else LATER[turn.round % len(LATER)]
        ax.add_patch(
            Rectangle(
                (turn.column, turn.row), 1, 1, facecolor=style.tint(ARRAYS["C"], share),
                edgecolor="white", linewidth=0.8,
                gid=f"block {turn.block} round {turn.round}",
            )
        )  # fmt: skip
        if shown and cell > style.text_width("00", SMALL):
            ax.text(turn.column + 0.5, turn.row + 0.5, str(turn.block), size=SMALL, ha="center",
                    va="center_baseline")  # fmt: skip
    _bare(ax)
    _strip(fig, one, "A", left, top + STRIP + GAP, STRIP, tall, m)
    _strip(fig, one, "B", left + STRIP + GAP, top, wide, STRIP, n)


def _strip(
    fig: Picture, one: Schedule, array: str, left: float, top: float, wide: float, tall: float,
    end: int,
) -> None:  # fmt: skip
    """A beside C, or B above it: the rows, or columns, that round 0 needs are dark."""
    ax = fig.add_axes_at(left, top, wide, tall, gid=f"{array} {one.settings}")
    of_tile = one.tile[0 if array == "A" else 1]
    needed = {at // of_tile for at in one.brought(0, array)}
    for at in range(-(-end // of_tile)):
        share = NEEDED if at in needed else REST
        corner, size = ((0, at), (1, 1)) if array == "A" else ((at, 0), (1, 1))
        ax.add_patch(
            Rectangle(corner, *size, facecolor=style.tint(ARRAYS[array], share), edgecolor="white",
                      linewidth=0.8, gid=f"{array} {at} {'needed' if at in needed else ''}")
        )  # fmt: skip
    count = -(-end // of_tile)
    ax.set(xlim=(0, 1 if array == "A" else count), ylim=(count if array == "A" else 1, 0))
    _bare(ax)
    ax.text(0.5, 0.5, array, transform=ax.transAxes, size=NORMAL, weight="bold", ha="center",
            va="center")  # fmt: skip


def _bare(ax: Axes) -> None:
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)


def _draw_key(fig: Picture) -> None:
    across, down = fig.get_size_inches()
    x, y = MARGIN, 0.33
    looks = [
        (style.tint(ARRAYS["C"], SHOWN[0]), "round 0, the first tile of every block: its number"),
        (style.tint(ARRAYS["C"], SHOWN[1]), "round 1"),
        (style.tint(ARRAYS["C"], LATER[1]), "later rounds"),
        (style.tint(ARRAYS["A"], NEEDED), ""),
        (style.tint(ARRAYS["B"], NEEDED), "brought in round 0"),
    ]
    for colour, words in looks:
        fig.add_artist(
            Rectangle((x / across, 1 - (y + 0.14) / down), 0.16 / across, 0.14 / down,
                      facecolor=colour)
        )  # fmt: skip
        x += 0.21
        if words:
            fig.text_at(x, y, words, size=SMALL)
            x += style.text_width(words, SMALL) + 0.22


def _caption(orders) -> str:
    _, first = orders[0]
    m, n, k = first.shape
    needs = [
        f"{name} {len(one.brought(0, 'A')):,} rows of A and {len(one.brought(0, 'B')):,} columns "
        "of B"
        for name, one in orders
    ]
    return (
        f"A product of {m}×{n}×{k} by {style.plural(first.blocks, 'block')} that stay, with tiles "
        f"of {first.tile[0]}×{first.tile[1]}, as the copies tell that their threads ask for. "
        f"A block computes a tile in each of {style.plural(first.rounds, 'round')}. The first "
        f"round needs: {'; '.join(needs)}."
    )
