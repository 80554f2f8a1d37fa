"""Figures of this lesson: what every SM computes, all cycles, and loads that are under way."""

from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise
from statistics import median

import pandas
from matplotlib.axes import Axes

from gemmlab.lessons.fp32_summit import hazards
from gemmlab.lessons.fp32_summit.measure import LARGE
from gemmlab.lessons.fp32_summit.sharing import shared_tiles
from gemmlab.lessons.split_k.work import Work
from gemmlab.plots import style
from gemmlab.plots.cells import box
from gemmlab.plots.charts import at_edge, bar, rows_of
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, WIDTH
from gemmlab.sass.inner_loop import MULTIPLY_ADD, Loop, class_of

ROW, LEAST = 0.0145, 1.0  # inches: of an SM, and of a panel
TITLE, GAP, LEFT = 0.26, 0.42, 0.75
OVER = 1.4  # rows: a part's height, of which the next row covers the rest; else lines stay between
MARKED = 4  # SMs that have a tick
WHOLE, BEGINS, GOES_ON = "whole", "begins", "goes on"
LOOKS = {  # a part's colour and what it is; neighbours of one SM differ in their shade
    WHOLE: (style.BLUE, "a whole tile"),
    BEGINS: (style.GREEN, "the first part of a tile: its block adds the others"),
    GOES_ON: (style.ORANGE, "a later part: stored to the workspace"),
}
SHADES = (0.35, 0.6)
IDLE = {"facecolor": style.GROUND, "edgecolor": style.FAINT, "linewidth": 0.8}


@styled
def sharing(*works: tuple[str, Work], caption: str) -> Picture:
    """A panel for each way to spread a product over all SMs, a thin row for each SM.

    works: (name, sharing.sharing(kernel, m, n, k, sm_count)) each, of one sm_count.
    """
    longest = max(work.length for _, work in works)
    height = max(LEAST, ROW * works[0][1].sm_count)
    key = [
        (words, {"facecolor": style.tint(colour, SHADES[-1])}) for colour, words in LOOKS.values()
    ]
    title = "What every SM does, from the first stage to the last"
    body = len(works) * (TITLE + height + GAP) + 0.02
    fig = page(title, body, caption, key=[*key, ("nothing to do", IDLE)])
    top = fig.top
    for name, work in works:
        words = f"{name}: {work.length} stages, SMs idle in {100 * (1 - work.busy):.1f} % of it"
        fig.text_at(MARGIN, top, words, size=NORMAL, weight="bold")
        top += TITLE
        ax = fig.add_axes_at(LEFT, top, WIDTH - LEFT - MARGIN, height)
        _draw(ax, work)
        ax.set(xlim=(0, longest), ylim=(work.sm_count, 0))
        ax.set_xlabel("stages along K, one after the other", size=SMALL)
        top += height + GAP
    return fig


def _draw(ax: Axes, work: Work) -> None:
    shared = shared_tiles(work)
    begun: dict[int, int] = defaultdict(int)  # parts of an SM so far
    box(ax, 0, 0, work.length, work.sm_count, **IDLE)
    for part in sorted(work.parts, key=lambda part: part.sm):
        kind = WHOLE if part.tile not in shared else GOES_ON if part.first else BEGINS
        colour = style.tint(LOOKS[kind][0], SHADES[begun[part.sm] % len(SHADES)])
        begun[part.sm] += 1
        look = {"facecolor": colour, "linewidth": 0, "antialiased": False}
        box(ax, part.start, part.sm, part.end - part.first, OVER, **look)
    step = max(1, work.sm_count // MARKED)
    marked = [*range(0, work.sm_count - 1 - step // 2, step), work.sm_count - 1]
    ax.set_yticks([sm + 0.5 for sm in marked], [f"SM {sm}" for sm in marked])
    ax.tick_params(axis="y", length=0, labelsize=SMALL)
    ax.spines[:].set_visible(False)


# ---- all cycles --------------------------------------------------------------------------------

OF_ALL = {  # rows of tables.cycles that make up 100 %
    "multiply-adds": swatch(style.PURPLE, 0.6),
    "other instructions": swatch(style.BLUE),
    "nothing to start": swatch(style.FAINT, 0.3),
    "no work": swatch(style.ORANGE),
}
ENDS_BELOW = 4.0  # percent: a part that is too narrow for its number


@styled
def all_cycles(table: pandas.DataFrame) -> Picture:
    """Where the cycles of all SMs went, a bar for each rung. table: as tables.cycles gives it."""
    parts = [
        f"{name}: {style.listed([f'{what} {column[what]:.1f}' for what in OF_ALL])}"
        for name, column in table.items()
    ]
    caption = (
        f"At M=N=K={LARGE}, in percent of the cycles of all SMs. {'; '.join(parts)}. No work: by "
        "the schedule, with all stages equally long. The others: recorded counters."
    )
    title = "Where the cycles of all SMs went"
    pitch = 0.55
    fig = page(title, pitch * len(table.columns) + 0.55, caption, key=[*OF_ALL.items()])
    ax = rows_of(
        fig, list(table), fig.top + 0.05, pitch, right=WIDTH - MARGIN - 0.4, xlim=(0, 100),
        xlabel="% of all cycles",
    )  # fmt: skip
    for row, name in enumerate(table):
        start = 0.0
        for what, look in OF_ALL.items():
            share = table.loc[what, name]
            words = f"{share:.1f}" if share >= ENDS_BELOW else ""
            bar(ax, row, start, start + share, words, gid=f"{name} {what}", **look)
            start += share
        if (idle := table.loc["no work", name]) < ENDS_BELOW:
            at_edge(ax, row, f"{idle:.1f}", size=SMALL)
    return fig


# ---- loads under way -----------------------------------------------------------------------------

SLOTS = 400  # that are shown, from the trip's first on
LANES = 6  # lines on which loads follow one another
LANE, BETWEEN = 0.1, 0.5  # inches: of a line, and between two loops


@styled
def loads_under_way(loops: Mapping[str, Loop]) -> Picture:
    """The first SLOTS issue slots of one trip through each loop, by its control bits.

    A bar is a load from shared memory: from its issue to the instruction that waits for its
    barrier. Below it stand the slots of multiply-adds, so that loads among them are gaps. Loops
    have loads, and control bits.
    """
    left = MARGIN + style.widest(loops) + 0.15
    height = LANES * LANE + 0.2
    load = swatch(style.GREEN)
    key = [("a load, until an instruction waits for it", load),
           ("slots with a multiply-add", {"facecolor": style.BLUE})]  # fmt: skip
    flights = {name: hazards.flights(loop.instructions) for name, loop in loops.items()}
    parts = []
    for name, spans in flights.items():
        apart = median(b[0] - a[0] for a, b in pairwise(spans))
        under_way = median(end - start for start, end in spans)
        parts.append(f"{name}: {apart:g} slots to the next load, {under_way:g} under way")
    caption = f"In the middle of all loads of a trip, {'; '.join(parts)}."
    title = "How long a load from shared memory is under way before an instruction waits for it"
    fig = page(title, len(loops) * (height + BETWEEN) + 0.2, caption, "sm_90a", key=key)
    for at, (name, loop) in enumerate(loops.items()):
        top = fig.top + 0.1 + at * (height + BETWEEN)
        ax = fig.add_axes_at(left, top, WIDTH - left - MARGIN, height)
        ax.set(xlim=(0, SLOTS), ylim=(height, 0), yticks=[])
        fig.text_at(left - 0.12, top + height / 2, name, size=NORMAL, ha="right", va="center")
        for order, (start, end) in enumerate(flights[name]):
            if start < SLOTS:
                y = order % LANES * LANE + 0.02
                box(ax, start, y, min(end, SLOTS) - start, LANE - 0.03, **load)
        shown = loop.instructions[:SLOTS]
        adds = [slot for slot, line in enumerate(shown) if class_of(line) == MULTIPLY_ADD]
        ax.bar(adds, 0.12, 1.0, LANES * LANE + 0.04, align="edge", color=style.BLUE, linewidth=0)
    ax.set_xlabel("issue slot of the trip")
    return fig
