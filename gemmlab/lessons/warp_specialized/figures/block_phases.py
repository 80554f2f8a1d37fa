"""An SM's blocks one after the other, by readings of its clock, and what each phase takes."""

from __future__ import annotations

import pandas
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from gemmlab.lessons.tma_wgmma.tables import PHASES
from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LARGE, MARGIN, NORMAL, SMALL, WIDTH, styled

COLUMNS = ("kernel", "block", "sm", "began", "first", "summed", "stored")
STEPS = ("first", "summed")
LOOKS = dict(zip(PHASES, (style.ORANGE, style.SKY, style.PURPLE, style.GROUND), strict=True))
ROW, BAR = 0.4, 0.26  # inches
HEAD, KEY = 0.42, 0.3


@styled
def block_phases(
    blocks: pandas.DataFrame, means: pandas.DataFrame, full_rate: float, *, sm: int = 0,
    caption: str | None = None,
) -> Picture:  # fmt: skip
    """Above, one SM through a product, block by block; below, the mean cycles of a block's phases.

    blocks: as records.experiments.hopper_timeline.blocks() gives; means: as
    analysis.recorded.block_phases.phases() does of them; full_rate: the cycles in which the tensor
    cores can do the products, marked below. Raises TypeError and ValueError for anything else, also
    for an SM that ran no block.
    """
    style.require_table(blocks, COLUMNS, "block_phases")
    own = blocks[blocks["sm"] == sm]
    if own.empty:
        raise ValueError(f"block_phases: no blocks of SM {sm} are there.")
    kernels = list(means.index)
    high = ROW * len(kernels)
    top, second = HEAD + KEY, HEAD + KEY + 0.24 + high + 0.5
    fig = style.page(second + 0.24 + high + 0.55, caption or _caption(means, full_rate))
    fig.text_at(MARGIN, 0.12, "Where the time of a block goes", size=LARGE, weight="bold")
    _draw_key(fig)
    left = MARGIN + max(style.text_width(name, NORMAL) for name in kernels) + 0.15
    wide = WIDTH - MARGIN - 0.1 - left
    for words, at in ((f"SM {sm}, all of its blocks", top), ("the mean block", second)):
        fig.text_at(MARGIN, at, words, size=NORMAL, weight="bold")
    above = fig.add_axes_at(left, top + 0.24, wide, high, gid="an SM")
    for row, name in enumerate(kernels):
        _draw_blocks(above, row, own[own["kernel"] == name].sort_values("began"))
    below = fig.add_axes_at(left, second + 0.24, wide, high, gid="means")
    for row, name in enumerate(kernels):
        _draw_means(below, row, means.loc[name], full_rate)
    for ax, last in ((above, own["stored"].max()), (below, means["a block"].max())):
        ax.set(xlim=(0, 1.02 * last), ylim=(len(kernels), 0))
        ax.set_yticks([row + 0.5 for row in range(len(kernels))], kernels)
        ax.tick_params(axis="y", length=0, labelsize=NORMAL)
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        ax.grid(axis="x")
    below.set_xlabel(
        "cycles of the SM's clock; dashed: the steps at the full rate of the tensor cores"
    )
    return fig


def _box(ax: Axes, row: int, low: float, high: float, phase: tuple[str, str], gid: str) -> None:
    colour = LOOKS[phase]
    edge = style.FAINT if colour == style.GROUND else colour
    ax.add_patch(
        Rectangle((low, row + (1 - BAR / ROW) / 2), high - low, BAR / ROW, linewidth=0.6,
                  facecolor=style.tint(colour, 0.6), edgecolor=edge, gid=gid, zorder=2)
    )  # fmt: skip


def _draw_blocks(ax: Axes, row: int, own: pandas.DataFrame) -> None:
    began = [*list(own["began"])[1:], None]
    for block, after in zip(own.itertuples(), began, strict=True):
        for start, stop in PHASES:
            until = after if stop == "next" else getattr(block, stop)
            if until is not None:
                gid = f"{start} {block.block}"
                _box(ax, row, getattr(block, start), until, (start, stop), gid)
        ax.text(
            (block.first + block.summed) / 2, row + 0.5, f"block {block.block}", size=SMALL,
            ha="center", va="center_baseline", zorder=3,
        )  # fmt: skip


def _draw_means(ax: Axes, row: int, mean: pandas.Series, full_rate: float) -> None:
    at = 0.0
    for phase, name in PHASES.items():
        _box(ax, row, at, at + mean[name], phase, f"mean {name}")
        if phase == STEPS:
            ax.plot(
                [at + full_rate] * 2, [row + 0.06, row + 0.94], color=style.BLACK, linestyle="--",
                linewidth=1.2, zorder=4, gid="full rate",
            )  # fmt: skip
            ax.text(
                at + mean[name] / 2, row + 0.5, f"{mean[name]:,.0f}", size=SMALL, ha="center",
                va="center_baseline", zorder=3,
            )  # fmt: skip
        at += mean[name]


def _draw_key(fig: Picture) -> None:
    across, down = fig.get_size_inches()
    x = MARGIN
    for phase, words in PHASES.items():
        colour = LOOKS[phase]
        fig.add_artist(
            Rectangle(((x + 0.02) / across, 1 - (HEAD + 0.16) / down), 0.18 / across, 0.18 / down,
                      facecolor=style.tint(colour, 0.6), linewidth=0.8,
                      edgecolor=style.FAINT if colour == style.GROUND else colour)
        )  # fmt: skip
        fig.text_at(x + 0.28, HEAD, words, size=SMALL)
        x += 0.28 + style.text_width(words, SMALL) + 0.3


def _caption(means: pandas.DataFrame, full_rate: float) -> str:
    told = [
        f"{name} {row['a block']:,.0f} cycles, {row['a block'] - row['steps along K']:,.0f} of "
        "them outside of its steps"
        for name, row in means.iterrows()
    ]
    return (
        f"A block and the pause after it take {style.listed(told)}. At full rate the tensor cores "
        f"do the products of a block in {full_rate:,.0f} cycles. Four readings of the clock in "
        "each block, by one thread of its first warpgroup."
    )
