"""Figures of this lesson: landscapes of settings, searches, a model's predictions, rules."""

from collections.abc import Sequence
from math import ceil

from matplotlib.axes import Axes
from matplotlib.ticker import MultipleLocator

from gemmlab.ladder import Problem
from gemmlab.lessons.autotuning import cost_model, space
from gemmlab.lessons.autotuning.cost_model import Terms
from gemmlab.lessons.autotuning.shape_rule import Judged
from gemmlab.lessons.autotuning.space import Landscape, Point, Recorded
from gemmlab.lessons.autotuning.tuner import NEAR, Search, Trials
from gemmlab.plots import style
from gemmlab.plots.charts import line_of_cublas, note, rows_of
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, WIDTH

HIGH = 3.0  # inches
MARKS = (98, 90)  # percent of the fastest


def _line_of_near(ax: Axes) -> None:
    """Where a search has found what counts as the fastest."""
    ax.axhline(100 * NEAR, color=style.BLACK, linewidth=0.8, linestyle="--")


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

COLUMNS = 3
PANEL, GAP, LEFT, BESIDES = 1.75, 0.62, 0.65, 0.45  # inches
BESIDE = "random"  # the strategy that stands in every panel


@styled
def best_found(every: Sequence[Trials]) -> Picture:
    """The best found so far over evaluations: a panel for each strategy, its median and quartiles.

    every: trials of the same space.
    """
    known, rows = every[0].known, ceil(len(every) / COLUMNS)
    title = f"Evaluations are what a search pays: {known.space.rung.name} at {known.space.problem}"
    seeds = max(len(trials.shares) for trials in every)
    caption = (
        f"Blue: the best so far, the median of {seeds} seeds; pale: from the lower to the upper "
        f"quartile. Dotted: the median of the {BESIDE} search. Dashed: {100 * NEAR:.0f} % of the "
        "fastest's speed; what reaches it counts as found. The exhaustive search has no seeds."
    )
    fig = page(title, 0.33 + rows * (PANEL + GAP), caption, known.source)
    width = (WIDTH - MARGIN - LEFT - (COLUMNS - 1) * BESIDES) / COLUMNS
    (reference,) = (trials for trials in every if trials.strategy == BESIDE)
    lowest = min(float(trials.quartiles()[0][1:].min()) for trials in every)
    for at, trials in enumerate(every):
        down, across = divmod(at, COLUMNS)
        left, top = LEFT + across * (width + BESIDES), fig.top + 0.28 + down * (PANEL + GAP)
        ax = fig.add_axes_at(left, top, width, PANEL)
        low, middle, high = 100 * trials.quartiles()
        over = range(1, len(middle) + 1)
        if len(trials.shares) > 1:
            pale = style.tint(style.BLUE, 0.25)
            ax.fill_between(over, low, high, color=pale, linewidth=0, step="post")
        if trials is not reference:
            look = {"color": style.FAINT, "linewidth": 1.0, "linestyle": ":"}
            ax.step(over, 100 * reference.quartiles()[1], where="post", **look)
        ax.step(over, middle, where="post", color=style.BLUE, linewidth=1.8)
        _line_of_near(ax)
        ax.set_title(trials.strategy, loc="left", weight="bold", size=SMALL + 1)
        ax.set(xlim=(1, trials.shares.shape[1]), ylim=(100 * lowest - 1, 101))
        ax.xaxis.set_major_locator(MultipleLocator(20))
        ax.grid(axis="y")
        if across == 0:
            ax.set_ylabel("% of the fastest")
        if at >= len(every) - COLUMNS:
            ax.set_xlabel("evaluations")
    return fig


@styled
def one_search(search: Search, known: Recorded) -> Picture:
    """Every evaluation of one search, and the best so far, in percent of the fastest's speed."""
    shares = [0.0 if time is None else 100 * known.best_ms / time for _, time in search.evaluated]
    best = [100 * known.best_ms / time_ms for time_ms in search.best_so_far()]
    settings, _ = search.best
    chosen = ", ".join(f"{name}={settings[name]}" for name in known.space.names)
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
    _line_of_near(ax)
    ax.set(xlim=(0.5, max(len(shares), 10) + 0.5), ylim=(min(40, *shares) - 2, 102))
    ax.set(xlabel="evaluations", ylabel="% of the fastest")
    ax.grid(axis="y")
    return fig


# ---- predictions ---------------------------------------------------------------------------------

SIDE, BETWEEN = 2.55, 0.62  # inches: of a panel, between two
MOST = 40  # settings in the model's order that are shown
LONGEST = {  # term of a prediction: its name, colour and marker
    "issue": ("issue slots", style.BLUE, "o"),
    "shared memory": ("shared memory", style.VERMILION, "s"),
    "l2": ("L2", style.GREEN, "^"),
    "dram": ("DRAM", style.ORANGE, "D"),
    "more": ("your term", style.BLACK, "x"),
}
Predicted = dict[Point, Terms]


@styled
def predicted(every: Sequence[tuple[Recorded, Predicted]], beside: Trials) -> Picture:
    """A panel for each rung, predicted over measured time; and the best found in the model's order.

    every: what is recorded, and what the model predicts of it; the last panel is of the first of
    them, beside `beside`, trials of another strategy there.
    """
    longest = {terms.holds for _, predictions in every for terms in predictions.values()}
    key = [("the longest term:", None)] + [
        (name, {"color": colour, "marker": marker, "markersize": 4, "linestyle": ""})
        for term, (name, colour, marker) in LONGEST.items()
        if term in longest
    ]
    title = f"What counts predict, and what was measured, at {every[0][0].space.problem}"
    parts = []
    for recorded, predictions in every:
        judged = cost_model.judged(recorded, predictions)
        parts.append(
            f"of {recorded.space.rung.name} {judged.until_near} of {judged.settings} settings "
            f"(correlation of ranks {judged.correlation:.2f})"
        )
    caption = (
        "A dot is a setting; no axis begins at 0. Measured in the order of the predictions, "
        f"{style.listed(parts)} are enough for {100 * NEAR:.0f} % of the fastest's speed. Right: "
        "the best so far in that order."
    )
    source = every[0][0].source
    fig = page(title, 0.2 + SIDE + 0.5, caption, source, key=key)
    width = (WIDTH - MARGIN - LEFT - len(every) * BETWEEN) / (len(every) + 1)
    top = fig.top + 0.2
    for at, (known, predictions) in enumerate(every):
        left = LEFT + at * (width + BETWEEN)
        ax = fig.add_axes_at(left, top, width, SIDE)
        _draw_times(ax, known, predictions)
        if at == 0:
            ax.set_ylabel("predicted, ms")
    known, predictions = every[0]
    left = LEFT + len(every) * (width + BETWEEN)
    ax = fig.add_axes_at(left, top, width, SIDE)
    best = [100 * share for share in cost_model.judged(known, predictions).best_after][:MOST]
    middle = 100 * beside.quartiles()[1][:MOST]
    ax.step(range(1, MOST + 1), best, where="post", color=style.BLUE, linewidth=1.8)
    ax.step(range(1, MOST + 1), middle, where="post", color=style.FAINT, linestyle=":")
    look = {"xycoords": "axes fraction", "ha": "right"}
    note(ax, f"dotted: {beside.strategy}", (1, 0), (-4, 8), color=style.FAINT, **look)
    note(ax, "line: the model's order", (1, 0), (-4, 22), color=style.BLUE, **look)
    _line_of_near(ax)
    ax.set(xlim=(1, MOST), ylim=(min(*best, 88) - 1, 101), xlabel="settings measured")
    ax.set_ylabel("% of the fastest")
    ax.set_title(f"Best of {known.space.rung.name}", loc="left", size=NORMAL, weight="bold")
    ax.grid(axis="y")
    return fig


def _draw_times(ax: Axes, known: Recorded, predictions: Predicted) -> None:
    for term, (_, colour, marker) in LONGEST.items():
        points = [point for point, terms in predictions.items() if terms.holds == term]
        if points:
            measured = [known.times_ms[point] for point in points]
            times = [1e3 * predictions[point].seconds for point in points]
            look = {"color": colour, "markersize": 3.6, "linestyle": "none", "alpha": 0.8}
            ax.plot(measured, times, marker, **look)
    ax.set(xscale="log", xlabel="measured, ms")
    low, high = ax.get_xlim()
    ax.set_xlim(low * 0.97, high * 1.03)
    ax.set_ylim(bottom=0.97 * ax.get_ylim()[0])
    style.plain_log_ticks(ax.xaxis)
    ax.set_title(known.space.rung.name, loc="left", size=NORMAL, weight="bold")


# ---- rules ---------------------------------------------------------------------------------------

LOOKS = (style.FAINT, "x"), (style.VERMILION, "s"), (style.PURPLE, "^"), (style.BLUE, "o")


@styled
def rules(name: str, every: Sequence[Judged], source: str) -> Picture:
    """A row for each shape that was left out, a marker for each rule at its share of the best.

    every: as many rules as there are LOOKS at most.
    """
    shapes = list(every[0].shares)
    looks = [
        {"color": colour, "marker": marker, "markersize": 5, "linestyle": ""}
        for colour, marker in LOOKS[: len(every)]
    ]
    title = f"{name}: which settings for a shape that nobody measured"
    key = [(judged.rule, look) for judged, look in zip(every, looks, strict=True)]
    means = [f"{judged.rule} {100 * judged.mean:.1f} %" for judged in every]
    worst = min(every, key=lambda judged: min(judged.shares.values()))
    shape = min(worst.shares, key=worst.shares.__getitem__)
    caption = (
        "Each shape is left out in turn, and named from the others alone. Geometric means: "
        f"{style.listed(means)}. The worst single choice, {100 * worst.shares[shape]:.1f} % at "
        f"{Problem(*shape)}, is that of the {worst.rule}."
    )
    fig = page(title, 0.3 * len(shapes) + 0.6, caption, source, key=key)
    ax = rows_of(
        fig, [str(Problem(*shape)) for shape in shapes], fig.top, 0.3, right=WIDTH - 2 * MARGIN,
        xlim=(0, 103), xlabel="% of the speed of the fastest recorded settings at the shape",
    )  # fmt: skip
    ax.grid(visible=False)
    ax.hlines([row + 0.5 for row in range(len(shapes))], 0, 103, color=style.GRID, linewidth=0.6)
    for order, (judged, look) in enumerate(zip(every, looks, strict=True)):
        aside = 0.5 + (order - (len(every) - 1) / 2) * 0.16
        shares = [100 * judged.shares[shape] for shape in shapes]
        ax.plot(shares, [row + aside for row in range(len(shapes))], clip_on=False, **look)
    line_of_cublas(ax, linewidth=0.8)
    return fig
