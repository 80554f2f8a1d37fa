"""Rules that name settings for a shape that nobody measured: what each loses."""

from __future__ import annotations

from collections.abc import Sequence

from gemmlab.ladder import Problem
from gemmlab.lessons.autotuning.shape_rule import Judged
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
    PURPLE,
    SMALL,
    VERMILION,
    WIDTH,
    styled,
)

ROW, LEFT = 0.3, 1.35  # inches
LOOKS = ((FAINT, "x"), (VERMILION, "s"), (PURPLE, "^"), (BLUE, "o"), (GREEN, "D"), (BLACK, "*"))


@styled
def rules(
    name: str, every: Sequence[Judged], source: str, *, caption: str | None = None
) -> Picture:
    """A row for each shape that was left out, a marker for each rule at its share of the best.

    Raises ValueError where there are no rules, or more than there are markers.
    """
    if not 0 < len(every) <= len(LOOKS):
        raise ValueError(f"rules draws 1 to {len(LOOKS)} rules, not {len(every)}.")
    shapes = list(every[0].shares)
    high = ROW * len(shapes)
    fig = style.page(high + 1.35, caption or _caption(every), source)
    title = f"{name}: which settings for a shape that nobody measured"
    fig.text_at(MARGIN, 0.12, title, size=LARGE, weight="bold")
    left = MARGIN
    for one, (colour, marker) in zip(every, LOOKS, strict=False):
        ax = fig.add_axes_at(left, 0.43, 0.14, 0.14)
        ax.plot([0], [0], marker, color=colour, markersize=5)
        ax.axis("off")
        fig.text_at(left + 0.2, 0.43, one.rule, size=SMALL)
        left += 0.2 + style.text_width(one.rule, SMALL) + 0.3
    ax = fig.add_axes_at(LEFT, 0.75, WIDTH - LEFT - 2 * MARGIN, high, gid="rules")
    for at, _ in enumerate(shapes):
        ax.axhline(at, color=style.GRID, linewidth=0.6)
    for order, (one, (colour, marker)) in enumerate(zip(every, LOOKS, strict=False)):
        aside = (order - (len(every) - 1) / 2) * 0.16
        ax.plot(
            [100 * one.shares[shape] for shape in shapes],
            [at + aside for at in range(len(shapes))],
            marker, color=colour, markersize=5, linestyle="none", clip_on=False,
        )  # fmt: skip
    ax.axvline(100, color=BLACK, linewidth=0.8, linestyle="--")
    ax.set(xlim=(0, 103), ylim=(len(shapes) - 0.5, -0.5))
    ax.set_xlabel("% of the speed of the fastest recorded settings at the shape")
    ax.set_yticks(range(len(shapes)), [str(Problem(*shape)) for shape in shapes], size=NORMAL)
    ax.tick_params(axis="y", length=0)
    return fig


def _caption(every: Sequence[Judged]) -> str:
    means = [f"{one.rule} {100 * one.mean:.1f} %" for one in every]
    worst = min(every, key=lambda one: min(one.shares.values()))
    shape = min(worst.shares, key=worst.shares.__getitem__)
    return (
        "Each shape is left out in turn, and named from the others alone. Geometric means: "
        f"{style.listed(means)}. The worst single choice, {100 * worst.shares[shape]:.1f} % at "
        f"{Problem(*shape)}, is that of the {worst.rule}."
    )
