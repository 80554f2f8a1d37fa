"""What strategies find: the best so far over evaluations, and a single search step by step."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from matplotlib.axes import Axes
from matplotlib.ticker import MultipleLocator

from gemmlab.lessons.autotuning.space import Recorded
from gemmlab.lessons.autotuning.tuner import NEAR, Search, Trials
from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import BLACK, BLUE, FAINT, LARGE, MARGIN, SMALL, WIDTH, styled

COLUMNS = 3
PANEL, GAP, LEFT, BESIDES = 1.75, 0.62, 0.65, 0.45  # inches
BESIDE = "random"  # the strategy that stands in every panel


@styled
def best_found(every: Sequence[Trials], *, caption: str | None = None) -> Picture:
    """The best found so far over evaluations: a panel for each strategy, its median and quartiles.

    every: trials of the same space. Raises ValueError where there are none.
    """
    if not every:
        raise ValueError("best_found was given no trials; there is nothing to draw.")
    known, rows = every[0].known, ceil(len(every) / COLUMNS)
    height = 0.75 + rows * (PANEL + GAP)
    fig = style.page(height, caption or _caption(every), known.source)
    title = f"Evaluations are what a search pays: {known.space.rung.name} at {known.space.problem}"
    fig.text_at(MARGIN, 0.12, title, size=LARGE, weight="bold")
    width = (WIDTH - MARGIN - LEFT - (COLUMNS - 1) * BESIDES) / COLUMNS
    reference = next((one for one in every if one.strategy == BESIDE), None)
    low = min(float(one.quartiles()[0][1:].min()) for one in every)
    for at, one in enumerate(every):
        down, across = divmod(at, COLUMNS)
        left, top = LEFT + across * (width + BESIDES), 0.7 + down * (PANEL + GAP)
        ax = fig.add_axes_at(left, top, width, PANEL, gid=f"strategy {one.strategy}")
        _draw_strategy(ax, one, reference if one is not reference else None)
        ax.set(xlim=(1, one.shares.shape[1]), ylim=(100 * low - 1, 101))
        ax.xaxis.set_major_locator(MultipleLocator(20))
        if across == 0:
            ax.set_ylabel("% of the fastest")
        if at >= len(every) - COLUMNS:
            ax.set_xlabel("evaluations")
    return fig


def _draw_strategy(ax: Axes, one: Trials, reference: Trials | None) -> None:
    low, middle, high = 100 * one.quartiles()
    over = range(1, len(middle) + 1)
    if len(one.shares) > 1:
        ax.fill_between(over, low, high, color=style.tint(BLUE, 0.25), linewidth=0, step="post")
    if reference is not None:
        ax.step(over, 100 * reference.quartiles()[1], where="post", color=FAINT, linewidth=1.0,
                linestyle=":")  # fmt: skip
    ax.step(over, middle, where="post", color=BLUE, linewidth=1.8)
    ax.axhline(100 * NEAR, color=BLACK, linewidth=0.8, linestyle="--")
    ax.set_title(one.strategy, loc="left", weight="bold", size=SMALL + 1)
    ax.grid(axis="y")


def _caption(every: Sequence[Trials]) -> str:
    seeds = max(len(one.shares) for one in every)
    return (
        f"Blue: the best so far, the median of {seeds} seeds; pale: from the lower to the upper "
        f"quartile. Dotted: the median of the {BESIDE} search. Dashed: {100 * NEAR:.0f} % of the "
        "fastest's speed; what reaches it counts as found. The exhaustive search has no seeds."
    )


@styled
def one_search(found: Search, known: Recorded, *, caption: str | None = None) -> Picture:
    """Every evaluation of one search, and the best so far, in percent of the fastest's speed."""
    shares = [0.0 if time is None else 100 * known.best_ms / time for _, time in found.evaluated]
    best = [100 * known.best_ms / time_ms for time_ms in found.best_so_far()]
    settings, _ = found.best
    caption = caption or (
        f"A dot is a setting that the {found.strategy} search tried, the line the best so far: "
        f"{best[-1]:.1f} % after {len(best)} of {len(known.times_ms)} settings, with "
        + ", ".join(f"{name}={settings[name]}" for name in known.space.names) + "."
    )  # fmt: skip
    fig = style.page(3.1, caption, known.source)
    title = f"One search, seed {found.seed}: {known.space.rung.name} at {known.space.problem}"
    fig.text_at(MARGIN, 0.12, title, size=LARGE, weight="bold")
    ax = fig.add_axes_at(0.6, 0.5, WIDTH - 0.6 - MARGIN, 2.1, gid="search")
    over = range(1, len(shares) + 1)
    ax.step(over, best, where="post", color=BLUE, linewidth=1.8)
    ax.plot(over, shares, "o", color=FAINT, markersize=4)
    ax.axhline(100 * NEAR, color=BLACK, linewidth=0.8, linestyle="--")
    ax.set(xlim=(0.5, max(len(shares), 10) + 0.5), ylim=(min(40, *shares) - 2, 102))
    ax.set(xlabel="evaluations", ylabel="% of the fastest")
    ax.grid(axis="y")
    return fig
