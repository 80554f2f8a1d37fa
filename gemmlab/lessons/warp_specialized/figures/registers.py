"""The registers of an SM, divided among producer and consumers before and after setmaxnreg."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from gemmlab.lessons.warp_specialized.tables import Share
from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LARGE, MARGIN, NORMAL, SMALL, WIDTH, styled
from ptxsim.architectures import REGISTERS_PER_SM

COLOURS = {"producer": style.ORANGE, "consumers": style.SKY}
ROW, BAR = 0.55, 0.4  # inches
WHEN = {"at_launch": "at the launch", "then": "after setmaxnreg"}


@styled
def register_budget(shares: Sequence[Share], *, caption: str | None = None) -> Picture:
    """A bar of all registers of an SM at the launch of a block, and one for what it has then.

    shares: as analysis.register_budget.of(kernel) gives. Raises TypeError for anything else.
    """
    if not shares or not all(isinstance(one, Share) for one in shares):
        raise TypeError(
            f"register_budget takes what analysis.register_budget.of(kernel) gives, not {shares!r}."
        )
    top = 0.5
    fig = style.page(top + ROW * len(WHEN) + 0.55, caption or _caption(shares))
    title = "Registers go from the warpgroup that copies to those that multiply"
    fig.text_at(MARGIN, 0.12, title, size=LARGE, weight="bold")
    left = MARGIN + max(style.text_width(words, NORMAL) for words in WHEN.values()) + 0.15
    ax = fig.add_axes_at(left, top, WIDTH - MARGIN - 0.1 - left, ROW * len(WHEN), gid="registers")
    for row, when in enumerate(WHEN):
        _draw(ax, row, shares, when)
    ax.axvline(REGISTERS_PER_SM, color=style.BLACK, linestyle="--", linewidth=1.2)
    ax.set(xlim=(0, 1.01 * REGISTERS_PER_SM), ylim=(len(WHEN), 0))
    ax.set_yticks([row + 0.5 for row in range(len(WHEN))], list(WHEN.values()))
    ax.tick_params(axis="y", length=0, labelsize=NORMAL)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.set_xlabel("registers of 32 bits; dashed: all that an SM has")
    return fig


def _draw(ax: Axes, row: int, shares: Sequence[Share], when: str) -> None:
    at = 0
    for one in shares:
        each = getattr(one, when)
        wide, colour = one.threads * each, COLOURS[one.role]
        ax.add_patch(
            Rectangle((at, row + (1 - BAR / ROW) / 2), wide, BAR / ROW, edgecolor=colour,
                      facecolor=style.tint(colour, 0.5), linewidth=0.8, gid=f"{one.role} {when}")
        )  # fmt: skip
        full = f"{one.role}: {one.threads} threads × {each}"
        short = f"{one.threads} × {each}"
        room = wide / REGISTERS_PER_SM * (WIDTH - 2)
        words = full if style.text_width(full, NORMAL) < room else short
        size = NORMAL if style.text_width(words, NORMAL) < room - 0.1 else SMALL
        ax.text(
            at + wide / 2, row + 0.5, words, size=size, ha="center", va="center_baseline",
            gid=f"words {one.role} {when}",
        )  # fmt: skip
        at += wide


def _caption(shares: Sequence[Share]) -> str:
    took, then = (
        sum(one.threads * getattr(one, when) for one in shares) for when in ("at_launch", "then")
    )
    told = [f"{one.role} {one.then} in place of {one.at_launch}" for one in shares]
    return (
        f"A block begins with {took:,} registers, the same number for each thread, and has "
        f"{then:,} once they have moved. A thread has then: {style.listed(told)}."
    )
