"""When the loads of an inner loop are started, and when somebody waits for them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from statistics import median

from matplotlib.patches import Rectangle

from gemmlab.lessons.fp32_summit import hazards
from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, WIDTH, styled
from gemmlab.sass.inner_loop import MULTIPLY_ADD, SHARED_LOAD, Loop, class_of

SLOTS = 400  # that are shown, from the trip's first on
LANES = 6  # lines on which loads follow one another
LANE, GAP = 0.1, 0.5  # inches: of a line, and between two loops


@styled
def loads_under_way(loops: Mapping[str, Loop], *, caption: str | None = None) -> Picture:
    """The first SLOTS issue slots of one trip through each loop, by its control bits.

    A bar is a load from shared memory: from its issue to the instruction that waits for its
    barrier. Below it stand the slots of multiply-adds, so that loads among them are gaps. Raises
    ValueError for no loops, and for those without loads or without control bits.
    """
    if not loops:
        raise ValueError("loads_under_way takes a loop or more, by name")
    for name, loop in loops.items():
        if any(one.control is None for one in loop.instructions):
            raise ValueError(f"the listing of {name} was made without control bits")
        if not loop.mix[SHARED_LOAD]:
            raise ValueError(f"{name} loads nothing from shared memory")
    left = MARGIN + max(style.text_width(name, NORMAL) for name in loops) + 0.15
    height, top = LANES * LANE + 0.2, 0.85
    fig = style.page(top + len(loops) * (height + GAP) + 0.2, caption or _caption(loops), "sm_90a")
    title = "How long a load from shared memory is under way before somebody waits for it"
    fig.text_at(MARGIN, 0.12, title, size=style.LARGE, weight="bold")
    _draw_key(fig)
    for at, (name, loop) in enumerate(loops.items()):
        ax = fig.add_axes_at(
            left, top + at * (height + GAP), WIDTH - left - MARGIN, height, gid=name
        )
        last = at == len(loops) - 1
        ax.set(xlim=(0, SLOTS), ylim=(height, 0), xlabel="issue slot of the trip" if last else "")
        ax.set_yticks([])
        ax.annotate(
            name, (0, 0.5), (-8, 0), xycoords="axes fraction", textcoords="offset points",
            ha="right", va="center", size=NORMAL, annotation_clip=False,
        )  # fmt: skip
        for which, (start, end) in enumerate(hazards.flights(loop.instructions)):
            if start < SLOTS:
                ax.add_patch(Rectangle(
                    (start, which % LANES * LANE + 0.02), min(end, SLOTS) - start, LANE - 0.03,
                    facecolor=style.tint(style.GREEN, 0.45), edgecolor=style.GREEN, linewidth=0.8,
                    gid=f"load at {start} of {name}",
                ))  # fmt: skip
        adds = [
            slot for slot, one in enumerate(loop.instructions[:SLOTS])
            if class_of(one) == MULTIPLY_ADD
        ]  # fmt: skip
        ax.bar(
            adds, 0.12, 1.0, LANES * LANE + 0.04, align="edge", color=style.BLUE, linewidth=0,
            gid=f"multiply-adds of {name}",
        )  # fmt: skip
    return fig


def _draw_key(fig: Picture) -> None:
    across, down = fig.get_size_inches()
    x = MARGIN
    for colour, words in (
        (style.tint(style.GREEN, 0.45), "a load, until an instruction waits for it"),
        (style.BLUE, "slots with a multiply-add"),
    ):
        fig.add_artist(Rectangle(
            (x / across, 1 - 0.63 / down), 0.2 / across, 0.13 / down, facecolor=colour,
            edgecolor=style.GREEN if colour != style.BLUE else colour, transform=fig.transFigure,
        ))  # fmt: skip
        fig.text_at(x + 0.28, 0.5, words, size=SMALL)
        x += 0.28 + style.text_width(words, SMALL) + 0.4


def _caption(loops: Mapping[str, Loop]) -> str:
    """Slots from a load to the next one, and to who waits, in the middle."""
    said = []
    for name, loop in loops.items():
        found = hazards.flights(loop.instructions)
        apart = median(b[0] - a[0] for a, b in pairwise(found))
        under_way = median(end - start for start, end in found)
        said.append(f"{name}: {apart:g} slots to the next load, {under_way:g} under way")
    return f"In the middle of all loads of a trip, {'; '.join(said)}."
