"""What every SM of a large GPU computes: whole tiles, parts of shared ones, nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from gemmlab.lessons.fp32_summit.sharing import shared_tiles
from gemmlab.lessons.split_k.work import Part, Work
from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, WIDTH, styled

ROW, LEAST = 0.0145, 1.0  # inches: of an SM, and of a panel
HEAD, TITLE, GAP = 0.72, 0.26, 0.42
LEFT = 0.75
OVER = 1.4  # rows: a part's height, of which the next row covers the rest; else lines stay between
MARKED = 4  # SMs that have a tick
WHOLE, BEGINS, GOES_ON, IDLE = "whole", "begins", "goes on", "idle"
LOOKS = {  # a part's colour and what it is; neighbours of one SM differ in their shade
    WHOLE: (style.BLUE, "a whole tile"),
    BEGINS: (style.GREEN, "the beginning of a tile: adds what others leave"),
    GOES_ON: (style.ORANGE, "the rest of one: left for it"),
    IDLE: (style.GROUND, "nothing to do"),
}
SHADES = (0.35, 0.6)


@styled
def sharing(*works: tuple[str, Work], caption: str | None = None) -> Picture:
    """A panel for each way to spread a product over all SMs, a thin row for each SM.

    works: (name, analysis.traced.sharing.sharing(kernel, m, n, k, sm_count)) each. All stages count
    as equally long. Raises ValueError without one, and for ways that have other SMs.
    """
    if not works:
        raise ValueError("sharing takes one (name, work) or more, of analysis.traced.sharing")
    sms = {one.sm_count for _, one in works}
    if len(sms) > 1:
        raise ValueError(f"sharing takes ways for as many SMs, not for {sorted(sms)}")
    longest = max(one.length for _, one in works)
    height = max(LEAST, ROW * sms.pop())
    fig = style.page(HEAD + len(works) * (TITLE + height + GAP) + 0.02, caption or _caption(works))
    title = "What every SM does, from the first stage to the last"
    fig.text_at(MARGIN, 0.12, title, size=style.LARGE, weight="bold")
    _draw_key(fig)
    top = HEAD
    for name, one in works:
        words = f"{name}: {one.length} stages, SMs idle in {100 * (1 - one.busy):.1f} % of it"
        fig.text_at(MARGIN, top, words, size=NORMAL, weight="bold")
        top += TITLE
        ax = fig.add_axes_at(LEFT, top, WIDTH - LEFT - MARGIN, height, gid=f"sharing {name}")
        _draw(ax, one)
        ax.set(xlim=(0, longest), ylim=(one.sm_count, 0))
        ax.set_xlabel("stages along K, one after the other", size=SMALL)
        top += height + GAP
    return fig


def _draw(ax: Axes, one: Work) -> None:
    shared = shared_tiles(one)
    begun: dict[int, int] = defaultdict(int)  # parts of an SM so far
    ax.add_patch(
        Rectangle((0, 0), one.length, one.sm_count, facecolor=style.GROUND, edgecolor=style.FAINT,
                  linewidth=0.8, gid="all SMs' time")
    )  # fmt: skip
    for part in sorted(one.parts, key=lambda part: part.sm):
        kind = _kind(part, shared)
        shade = SHADES[begun[part.sm] % len(SHADES)]
        begun[part.sm] += 1
        ax.add_patch(
            Rectangle((part.start, part.sm), part.end - part.first, OVER, linewidth=0,
                      facecolor=style.tint(LOOKS[kind][0], shade), antialiased=False,
                      gid=f"{kind} {part.tile} {part.first}")
        )  # fmt: skip
    step = max(1, one.sm_count // MARKED)
    marked = [*range(0, one.sm_count - 1 - step // 2, step), one.sm_count - 1]
    ax.set_yticks([sm + 0.5 for sm in marked], [f"SM {sm}" for sm in marked])
    ax.tick_params(axis="y", length=0, labelsize=SMALL)
    ax.spines[:].set_visible(False)


def _kind(part: Part, shared: dict[tuple[int, int], list[Part]]) -> str:
    if part.tile not in shared:
        return WHOLE
    return GOES_ON if part.first else BEGINS


def _draw_key(fig: Picture) -> None:
    across, down = fig.get_size_inches()
    x = MARGIN
    for colour, words in LOOKS.values():
        look = style.tint(colour, SHADES[-1]) if colour != style.GROUND else colour
        edge = style.FAINT if colour == style.GROUND else look
        fig.add_artist(Rectangle(
            (x / across, 1 - 0.57 / down), 0.2 / across, 0.13 / down, facecolor=look,
            edgecolor=edge, linewidth=0.8, transform=fig.transFigure,
        ))  # fmt: skip
        fig.text_at(x + 0.28, 0.44, words, size=SMALL)
        x += 0.28 + style.text_width(words, SMALL) + 0.3


def _caption(works: Sequence[tuple[str, Work]]) -> str:
    _, first = works[0]
    said = [
        f" In parts by {name}: {shared} of {one.tiles[0] * one.tiles[1]} tiles."
        for name, one in works
        if (shared := len(shared_tiles(one)))
    ]
    return (
        f"{style.shape_label(*first.shape)} on a GPU of {style.plural(first.sm_count, 'SM')}, by "
        "the schedule that the kernel computes. All stages count as equally long: these are no "
        f"times. Light and dark tell an SM's neighbouring tiles apart.{''.join(said)}"
    )
