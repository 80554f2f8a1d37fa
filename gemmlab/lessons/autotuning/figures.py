"""Figures of this lesson: the landscape of settings, and a search."""

from matplotlib.axes import Axes

from gemmlab.lessons.autotuning import space
from gemmlab.lessons.autotuning.space import Landscape, Recorded
from gemmlab.lessons.autotuning.tuner import NEAR, Search
from gemmlab.plots import style
from gemmlab.plots.charts import note
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, WIDTH

HIGH = 3.0  # inches
MARKS = (98, 90)  # percent of the fastest


# ---- all settings --------------------------------------------------------------------------------


@styled
def landscape(land: Landscape, beside: Recorded) -> Picture:
    """Left, all settings from the fastest on; right, a column for each valley and its members.

    beside: the same rung at another shape, drawn into the left panel too.
    """
    known = land.known
    title = f"{len(known.times_ms)} legal settings of {known.space.rung.name}: few are near the top"
    caption = (
        f"Left: speed as a share of the fastest's; {_near(known)} settings reach {MARKS[0]} % of "
        f"it at {known.space.problem}, {_near(beside)} at {beside.space.problem}. "
        f"Right, at {known.space.problem}: a dot is a setting, a line "
        "leads to the fastest of its neighbours, which differ in one parameter by one value. "
        f"Triangles: {len(land.valleys)} settings that no neighbour beats, above them their share "
        "and how many settings end there."
    )
    fig = page(title, HIGH + 0.68, caption, known.source)
    top = fig.top + 0.23
    ax = fig.add_axes_at(0.6, top, 3.1, HIGH)
    for recorded, colour, line in ((known, style.BLUE, "-"), (beside, style.VERMILION, "--")):
        shares = [100 * share for share in space.shares(recorded)]
        name = str(recorded.space.problem)
        ax.plot(range(1, len(shares) + 1), shares, line, color=colour, label=name)
    for mark in MARKS:
        ax.axhline(mark, color=style.FAINT, linewidth=0.6, linestyle=":")
        look = {"va": "top", "ha": "right", "xycoords": ("axes fraction", "data")}
        note(ax, f"{mark} %", (1, mark), (0, -3), **look)
    ax.set(xlabel="settings, the fastest first", ylabel="% of the fastest", ylim=(0, 103))
    ax.set_title("Every setting", loc="left", size=NORMAL, weight="bold")
    ax.legend(loc="lower left", frameon=False, fontsize=SMALL)
    _draw_valleys(fig.add_axes_at(4.25, top, WIDTH - 4.25 - MARGIN, HIGH), land)
    return fig


def _near(known: Recorded) -> int:
    """How many settings reach the first of MARKS."""
    return sum(100 * share >= MARKS[0] for share in space.shares(known))


def _draw_valleys(ax: Axes, land: Landscape) -> None:
    known = land.known
    lowest = 100.0
    for column, valley in enumerate(land.valleys):
        members = sorted((p for p, end in land.ends.items() if end == valley), key=known.share)
        # Beside each other in their column, so that few hide others.
        place = {
            point: ((at * 7) % 11 - 5) * 0.07 + column for at, point in enumerate(members[::-1])
        }
        place[valley] = column
        for point in members:
            down = min((point, *land.neighbours[point]), key=known.times_ms.__getitem__)
            ends = place[point], place.get(down, column)
            heights = 100 * known.share(point), 100 * known.share(down)
            ax.plot(ends, heights, color=style.tint(style.BLUE, 0.35), linewidth=0.6, zorder=1)
            ax.plot(ends[0], heights[0], "o", color=style.BLUE, markersize=2.6)
            lowest = min(lowest, heights[0])
        best = 100 * known.share(valley)
        look = {"markersize": 8, "markeredgecolor": style.BLACK, "markeredgewidth": 0.6}
        ax.plot(column, best, "^", color=style.ORANGE, zorder=3, **look)
        words = f"{best:.1f} %\n{len(members)}"
        note(ax, words, (column, 100), (0, 8), ha="center", va="bottom")
    ax.set(xlim=(-0.5, len(land.valleys) - 0.5), ylim=(lowest - 3, 113), xticks=[])
    ax.set_yticks(range(40, 101, 10))
    title = "Where going to the fastest neighbour ends"
    ax.set_title(title, loc="left", size=NORMAL, weight="bold")


# ---- searches ------------------------------------------------------------------------------------


@styled
def one_search(search: Search) -> Picture:
    """Every evaluation of one search, and the best so far, in percent of the fastest's speed."""
    known = search.known
    shares = [100 * known.share(point) for point in search.points]
    best = [100 * known.best_ms / time_ms for time_ms in search.best_so_far()]
    chosen = ", ".join(f"{name}={search.best[name]}" for name in known.space.names)
    caption = (
        f"A dot is a setting that the {search.strategy} search tried, the line the best so far: "
        f"{best[-1]:.1f} % after {len(best)} of {len(known.times_ms)} settings, with {chosen}."
    )
    title = f"One search, seed {search.seed}: {known.space.rung.name} at {known.space.problem}"
    fig = page(title, 2.7, caption, known.source)
    ax = fig.add_axes_at(0.6, fig.top + 0.08, WIDTH - 0.6 - MARGIN, 2.1)
    over = range(1, len(shares) + 1)
    ax.step(over, best, where="post", color=style.BLUE, linewidth=1.8)
    ax.plot(over, shares, "o", color=style.FAINT, markersize=4)
    ax.axhline(100 * NEAR, color=style.BLACK, linewidth=0.8, linestyle="--")
    ax.set(xlim=(0.5, max(len(shares), 10) + 0.5), ylim=(min(40, *shares) - 2, 102))
    ax.set(xlabel="evaluations", ylabel="% of the fastest")
    ax.grid(axis="y")
    return fig
