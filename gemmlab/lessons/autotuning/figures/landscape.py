"""The landscape of settings: how many are good, and where going to faster neighbours ends."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from gemmlab.lessons.autotuning import space as found
from gemmlab.lessons.autotuning.space import Landscape, Recorded
from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import (
    BLUE,
    FAINT,
    LARGE,
    MARGIN,
    NORMAL,
    ORANGE,
    SMALL,
    VERMILION,
    WIDTH,
    styled,
)

HIGH = 3.0  # inches
MARKS = (98, 90)  # percent of the fastest


@styled
def landscape(
    land: Landscape, beside: Recorded | None = None, *, caption: str | None = None
) -> Picture:
    """Left, all settings from the fastest on; right, a column for each valley with those that end
    there.

    beside: the same rung at another shape, drawn into the left panel too.
    """
    known = land.known
    every = [known] if beside is None else [known, beside]
    fig = style.page(HIGH + 1.1, caption or _caption(land, every), known.source)
    title = f"{len(known.times_ms)} legal settings of {known.space.rung.name}: few are near the top"
    fig.text_at(MARGIN, 0.12, title, size=LARGE, weight="bold")
    left = fig.add_axes_at(0.6, 0.65, 3.1, HIGH, gid="settings in order")
    _draw_order(left, every)
    right = fig.add_axes_at(4.25, 0.65, WIDTH - 4.25 - MARGIN, HIGH, gid="valleys")
    _draw_valleys(right, land)
    return fig


def _draw_order(ax: Axes, every: Sequence[Recorded]) -> None:
    for known, colour, line in zip(every, (BLUE, VERMILION), ("-", "--"), strict=False):
        shares = [100 * share for share in found.shares(known)]
        ax.plot(range(1, len(shares) + 1), shares, line, color=colour, label=str(known.space.problem))  # fmt: skip # noqa: E501
    for mark in MARKS:
        count = sum(100 * share >= mark for share in found.shares(every[0]))
        ax.axhline(mark, color=FAINT, linewidth=0.6, linestyle=":")
        ax.annotate(f"{count} reach {mark} %", (1, mark), (0, -3), va="top", ha="right",
                    xycoords=("axes fraction", "data"), textcoords="offset points", size=SMALL)  # fmt: skip # noqa: E501
    ax.set(xlabel="settings, the fastest first", ylabel="% of the fastest", ylim=(0, 103))
    ax.set_title("Every setting", loc="left", size=NORMAL, weight="bold")
    ax.legend(loc="lower left", frameon=False, fontsize=SMALL)


def _draw_valleys(ax: Axes, land: Landscape) -> None:
    known = land.known
    lowest = 100.0
    for column, valley in enumerate(land.valleys):
        own = sorted((p for p, end in land.ends.items() if end == valley), key=known.share)
        place = {point: _beside(at) + column for at, point in enumerate(reversed(own))}
        place[valley] = column
        for point in own:
            down = min((point, *land.neighbours[point]), key=known.times_ms.__getitem__)
            ends = place[point], place.get(down, column)
            heights = 100 * known.share(point), 100 * known.share(down)
            ax.plot(ends, heights, color=style.tint(BLUE, 0.35), linewidth=0.6, zorder=1)
            ax.plot(*zip((ends[0], heights[0]), strict=True), "o", color=BLUE, markersize=2.6)
            lowest = min(lowest, heights[0])
        best = 100 * known.share(valley)
        ax.plot([column], [best], "^", color=ORANGE, markersize=8, zorder=3,
                markeredgecolor=style.BLACK, markeredgewidth=0.6)  # fmt: skip
        ax.annotate(f"{best:.1f} %\n{land.basin(valley)}", (column, 100), (0, 8),
                    textcoords="offset points", ha="center", va="bottom", size=SMALL)  # fmt: skip
    ax.set(xlim=(-0.5, len(land.valleys) - 0.5), ylim=(lowest - 3, 113))
    ax.set_xticks([])
    ax.set_yticks(range(40, 101, 10))
    ax.set_title(
        "Where going to the fastest neighbour ends",
        loc="left",
        size=NORMAL,
        weight="bold",
    )


def _beside(at: int) -> float:
    """Where in its column the at-th point stands, so that few hide others."""
    return ((at * 7) % 11 - 5) * 0.07


def _caption(land: Landscape, every: Sequence[Recorded]) -> str:
    return (
        f"Left: the share of the fastest's speed at {style.listed([str(one.space.problem) for one in every])}. "  # noqa: E501
        f"Right, at {land.known.space.problem}: a dot is a setting, a line leads to the fastest of its "  # noqa: E501
        f"neighbours, which differ in one parameter by one value. Triangles: {len(land.valleys)} "
        "settings that no neighbour beats, above them their share and how many settings end there."
    )
