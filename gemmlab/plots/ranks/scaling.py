"""How much of p GPUs a product uses, over p: by the model's clock, for several links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.ticker import NullLocator

from gemmlab.distributed.clock import Scaled
from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import (
    BLACK,
    BLUE,
    FAINT,
    LARGE,
    MARGIN,
    ORANGE,
    PURPLE,
    SKY,
    SMALL,
    WIDTH,
    styled,
)

LOOKS = ((BLACK, "o", "-"), (SKY, "s", "-"), (ORANGE, "^", "-"), (PURPLE, "D", "-"), (BLUE, "v", "-"))  # fmt: skip # noqa: E501
LEFT, GAP, TOP, HEIGHT = 0.7, 0.45, 1.0, 3.0  # inches

Curves = Mapping[str, Sequence[Scaled]]


@styled
def scaling(strong: Curves, weak: Curves, source: str, *, caption: str | None = None) -> Picture:
    """Two panels, of the same product on more GPUs and of more rows with more GPUs.

    A curve for each name, at most five. `source`: what stands below, such as the model's rates.
    Raises ValueError for none, or more.
    """
    if not 1 <= len(strong) <= len(LOOKS) or list(strong) != list(weak):
        raise ValueError(f"scaling takes one to {len(LOOKS)} curves, of the same names in both")
    fig = style.page(
        TOP + HEIGHT + 0.6, _caption(strong, weak) if caption is None else caption, source
    )
    fig.text_at(MARGIN, 0.12, "How much of p GPUs is used (a model, not measured)", size=LARGE,
                weight="bold")  # fmt: skip
    _draw_key(fig, list(strong))
    width = (WIDTH - LEFT - MARGIN - GAP) / 2
    for at, (title, curves) in enumerate(
        (("the same product on p GPUs", strong), ("p times the rows on p GPUs", weak))
    ):
        x = LEFT + at * (width + GAP)
        fig.text_at(x, TOP - 0.24, title, size=style.NORMAL, weight="bold")
        ax = fig.add_axes_at(x, TOP, width, HEIGHT, gid=title)
        ax.set(xscale="log", ylim=(0, 104), xlabel="GPUs")
        counts = sorted({one.ranks for curve in curves.values() for one in curve})
        ax.set_xticks(counts, [str(count) for count in counts])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.grid(axis="y")
        ax.axhline(100, color=FAINT, linewidth=0.8)
        for (name, curve), (colour, marker, line) in zip(curves.items(), LOOKS, strict=False):
            ax.plot(
                [one.ranks for one in curve], [100 * one.share for one in curve], color=colour,
                marker=marker, linestyle=line, markersize=4.5, linewidth=1.4, gid=name,
            )  # fmt: skip
        if at == 0:
            ax.set_ylabel("% of p times one GPU")
        else:
            ax.tick_params(labelleft=False)
    return fig


def _draw_key(fig: Picture, names: list[str]) -> None:
    from matplotlib.lines import Line2D

    x, (across, down) = MARGIN, fig.get_size_inches()
    for name, (colour, marker, line) in zip(names, LOOKS, strict=False):
        fig.add_artist(Line2D(
            [x / across, (x + 0.17) / across, (x + 0.34) / across], [1 - 0.5 / down] * 3,
            color=colour, linestyle=line, marker=marker, markevery=[1], markersize=4.5,
            linewidth=1.4,
        ))  # fmt: skip
        fig.text_at(x + 0.42, 0.42, name, size=SMALL)
        x += 0.42 + style.text_width(name, SMALL) + 0.3


def _caption(strong: Curves, weak: Curves) -> str:
    shares = [
        f"{name} {100 * curve[-1].share:.1f} and {100 * weak[name][-1].share:.1f} %"
        for name, curve in strong.items()
    ]
    most = next(iter(strong.values()))[-1].ranks
    return (
        f"Used of {most} GPUs by the model, with the same product and with {most} times the rows: "
        f"{style.listed(shares)}."
    )
