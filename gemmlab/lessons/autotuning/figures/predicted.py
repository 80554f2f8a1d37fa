"""What the cost model says beside what was measured, and what measuring in its order finds."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from gemmlab.lessons.autotuning import cost_model
from gemmlab.lessons.autotuning.cost_model import Terms
from gemmlab.lessons.autotuning.space import Point, Recorded
from gemmlab.lessons.autotuning.tuner import NEAR, Trials
from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import (
    BLACK,
    BLUE,
    FAINT,
    GREEN,
    LARGE,
    MARGIN,
    NORMAL,
    ORANGE,
    SMALL,
    VERMILION,
    WIDTH,
    styled,
)

SIDE = 2.55  # inches of a panel
LOOKS = {
    "issue": (BLUE, "o"), "shared memory": (VERMILION, "s"), "l2": (GREEN, "^"),
    "dram": (ORANGE, "D"), "more": (BLACK, "x"),
}  # fmt: skip
NAMES = {"issue": "issue slots", "l2": "L2", "dram": "DRAM", "more": "your term"}


@styled
def predicted(
    every: Sequence[tuple[Recorded, dict[Point, Terms]]],
    beside: Trials | None = None,
    *,
    caption: str | None = None,
) -> Picture:
    """A panel for each rung, predicted over measured time; and the best found in the model's order.

    every: what is recorded, and what the model predicts of it; the last panel is of the first of
    them, beside `beside`, trials of another strategy there.
    """
    fig = style.page(SIDE + 1.35, caption or _caption(every), every[0][0].source)
    title = f"What counts predict, and what was measured, at {every[0][0].space.problem}"
    fig.text_at(MARGIN, 0.12, title, size=LARGE, weight="bold")
    panels = len(every) + 1
    gap = 0.62
    width = (WIDTH - MARGIN - 0.65 - (panels - 1) * gap) / panels
    seen: dict[str, None] = {}
    for at, (known, said) in enumerate(every):
        ax = fig.add_axes_at(0.65 + at * (width + gap), 0.85, width, SIDE)
        ax.set_gid(f"model {known.space.rung.name}")
        seen |= dict.fromkeys(_draw_times(ax, known, said))
        if at == 0:
            ax.set_ylabel("predicted, ms")
    _draw_key(fig, list(seen))
    ax = fig.add_axes_at(0.65 + (panels - 1) * (width + gap), 0.85, width, SIDE, gid="in its order")
    _draw_order(ax, *every[0], beside)
    return fig


def _draw_times(ax: Axes, known: Recorded, predicted: dict[Point, Terms]) -> list[str]:
    held = []
    for what, (colour, marker) in LOOKS.items():
        points = [point for point, terms in predicted.items() if terms.holds == what]
        if points:
            held.append(what)
            ax.plot(
                [known.times_ms[p] for p in points], [1e3 * predicted[p].seconds for p in points],
                marker, color=colour, markersize=3.6, linestyle="none", alpha=0.8,
            )  # fmt: skip
    ax.set(xscale="log", xlabel="measured, ms")
    low, high = ax.get_xlim()
    ax.set_xlim(low * 0.97, high * 1.03)
    ax.set_ylim(bottom=0.97 * ax.get_ylim()[0])
    style.plain_log_ticks(ax.xaxis)
    ax.set_title(known.space.rung.name, loc="left", size=NORMAL, weight="bold")
    return held


def _draw_key(fig: Picture, held: Sequence[str]) -> None:
    left = MARGIN
    fig.text_at(left, 0.42, "the longest term:", size=SMALL)
    left += style.text_width("the longest term:", SMALL) + 0.15
    for what in held:
        colour, marker = LOOKS[what]
        ax = fig.add_axes_at(left, 0.41, 0.14, 0.14)
        ax.plot([0], [0], marker, color=colour, markersize=4)
        ax.axis("off")
        words = NAMES.get(what, what)
        fig.text_at(left + 0.18, 0.42, words, size=SMALL)
        left += 0.18 + style.text_width(words, SMALL) + 0.2


def _draw_order(
    ax: Axes, known: Recorded, predicted: dict[Point, Terms], beside: Trials | None
) -> None:
    best = [100 * share for share in cost_model.judged(known, predicted).best_after]
    most = 40
    ax.step(range(1, most + 1), best[:most], where="post", color=BLUE, linewidth=1.8)
    if beside is not None:
        middle = 100 * beside.quartiles()[1][:most]
        ax.step(range(1, len(middle) + 1), middle, where="post", color=FAINT, linestyle=":")
        ax.annotate(f"dotted: {beside.strategy}", (1, 0), (-4, 8), xycoords="axes fraction",
                    textcoords="offset points", ha="right", size=SMALL, color=FAINT)  # fmt: skip
    ax.annotate("line: the model's order", (1, 0), (-4, 22), xycoords="axes fraction",
                textcoords="offset points", ha="right", size=SMALL, color=BLUE)  # fmt: skip
    ax.axhline(100 * NEAR, color=BLACK, linewidth=0.8, linestyle="--")
    ax.set(xlim=(1, most), ylim=(min(*best[:most], 88) - 1, 101), xlabel="settings measured")
    ax.set_ylabel("% of the fastest")
    ax.set_title(f"Best of {known.space.rung.name}", loc="left", size=NORMAL, weight="bold")
    ax.grid(axis="y")


def _caption(every: Sequence[tuple[Recorded, dict[Point, Terms]]]) -> str:
    parts = []
    for known, said in every:
        judged = cost_model.judged(known, said)
        parts.append(
            f"of {known.space.rung.name} {judged.until_near} of {judged.settings} settings "
            f"(correlation of ranks {judged.correlation:.2f})"
        )
    return (
        "A dot is a setting; no axis begins at 0. Measured in the order of the predictions, "
        f"{style.listed(parts)} are enough for {100 * NEAR:.0f} % of the fastest's speed. Right: "
        "the best so far in that order."
    )
