"""Figures of this lesson: who holds what, and what runs when."""

from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from gemmlab.lessons.multi_gpu.in_turn import COMES, HOLDS, holdings
from gemmlab.lessons.multi_gpu.schedules import Schedule
from gemmlab.lessons.multi_gpu.timeline import COLLECTIVE, PRODUCT, SUM, Ran, Timeline
from gemmlab.plots import style
from gemmlab.plots.cells import box, product_axes
from gemmlab.plots.charts import rows_of
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.style import ARRAYS, FAINT, INK, MARGIN, NORMAL, ORANGE, SKY, WIDTH

PALE = 0.28
HEAD, GAP, BETWEEN = 0.28, 0.07, 0.35  # inches
LARGEST = 2.6  # inches of a panel


@styled
def rank_holdings(schedule: Schedule) -> Picture:
    """A panel for each rank: A at the left, B above, C in the corner, as everywhere.

    Take a small product: it is traced element by element.
    """
    by_rank = holdings(schedule)
    problem = schedule.problem
    side = min(LARGEST, (WIDTH - 2 * MARGIN + BETWEEN) / len(by_rank) - BETWEEN)
    scale = (side - GAP) / max(problem.k + problem.n, problem.k + problem.m)
    key = []
    for share, names, words in (
        (1.0, "ABC", "holds: A and B at the beginning, C at the end"),
        (PALE, "AB", "comes from another rank"),
        (PALE, "C", "computes a part of the sum for another rank"),
    ):
        if share < 1 and not any((of[name] == COMES).any() for of in by_rank for name in names):
            continue
        tints = [style.tint(ARRAYS[name], share) for name in names]
        key.append((words, [{"facecolor": tint, "edgecolor": FAINT} for tint in tints]))
    title = f"Who holds what: {schedule.name}, {schedule.ranks} ranks"
    fig = page(title, HEAD + side + 0.2, _of_holdings(schedule, by_rank), key=key)
    for rank, holding in enumerate(by_rank):
        left, top = MARGIN + rank * (side + BETWEEN), fig.top
        fig.text_at(left, top, f"rank {rank}", size=NORMAL, weight="bold")
        sides = {name: [scale * n for n in of.shape[::-1]] for name, of in holding.items()}
        along = sides["A"][0], sides["B"][1]
        axes = product_axes(fig, left, top + HEAD, along, sides["C"], (GAP, GAP))
        for name, ax in axes.items():
            _draw(ax, name, holding[name])
    return fig


def _draw(ax: Axes, name: str, matrix: np.ndarray) -> None:
    pixels = np.ones((*matrix.shape, 3))
    pixels[matrix == COMES] = style.tint(ARRAYS[name], PALE)
    pixels[matrix == HOLDS] = style.tint(ARRAYS[name], 1.0)
    ax.imshow(pixels, interpolation="nearest", aspect="auto")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color=FAINT, linewidth=0.8)
    around = [withStroke(linewidth=2.5, foreground="white")]
    look = {"va": "top", "size": NORMAL, "weight": "bold", "path_effects": around}
    ax.text(0.06, 0.92, name, transform=ax.transAxes, **look)


def _of_holdings(schedule: Schedule, by_rank: list[dict[str, np.ndarray]]) -> str:
    """What rank 0 holds and gets, in shares of each matrix."""

    def of(what: int, names: str) -> str:
        shares = {name: np.mean(by_rank[0][name] == what) for name in names}
        parts = [f"{100 * share:.3g} % of {name}" for name, share in shares.items() if share]
        return style.listed(parts) if parts else "nothing"

    more = of(COMES, "C")
    besides = "" if more == "nothing" else f" It computes parts of the sums for {more} besides."
    return (
        f"{schedule.problem} by {schedule.ranks} ranks, {schedule.name}. Rank 0 holds "
        f"{of(HOLDS, 'AB')}; from others comes {of(COMES, 'AB')}. At the end it has "
        f"{of(HOLDS, 'C')}.{besides}"
    )


# ---- what runs when ------------------------------------------------------------------------------

LOOKS = {  # of a piece of time
    "product": {"facecolor": "#5B6C8A"},
    "moving, behind a product": {"facecolor": SKY},
    "moving, nothing to multiply": {"facecolor": ORANGE, "hatch": "///"},
    "adding the parts of a sum": {"facecolor": "#C9C9C4"},
}
MULTIPLIES, HIDDEN, OPEN, ADDS = LOOKS
LANE = 0.26  # inches
MOST_RANKS = 8
NUMBERED = 0.02  # of the axis: a narrower box has no number
TITLE = "What runs when"


@styled
def rank_timeline(
    timeline: Timeline, *, title: str = TITLE, until_ms: float | None = None
) -> Picture:
    """A row for each stream of each rank, of the first MOST_RANKS. The caption has the source.

    until_ms: where the axis ends, if not with the timeline, so that figures compare.
    """
    schedule = timeline.schedule
    streams, shown = schedule.streams, range(min(schedule.ranks, MOST_RANKS))
    pieces = [
        (rank * len(streams) + streams.index(ran.stream), *piece)
        for rank in shown
        for ran in timeline.of(rank)
        for piece in _pieces(ran, timeline.of(rank, PRODUCT))
    ]
    key = [
        (name, {"edgecolor": "white", **look})
        for name, look in LOOKS.items()
        if name in {name for *_, name, _ in pieces}
    ]
    names = [f"GPU {rank}, {stream}" for rank in shown for stream in streams]
    fig = page(title, LANE * len(names) + 0.6, _of_timeline(timeline), key=key)
    wide = until_ms or timeline.ms
    how = {"right": WIDTH - MARGIN - 0.1, "xlim": (0, wide), "xlabel": "milliseconds"}
    ax = rows_of(fig, names, fig.top + 0.05, LANE, **how)
    for row, start, end, name, number in pieces:
        words = number if end - start > NUMBERED * wide else ""
        text = {"color": "white" if name == MULTIPLIES else INK}
        box(ax, start, row + 0.1, end - start, 0.8, words, text, linewidth=0.7, **LOOKS[name])
    return fig


def _number(ran: Ran) -> str:
    """That of its chunk, with which its name may end."""
    last = ran.name.rpartition(" ")[2]
    return last if last.isdigit() else ""


def _pieces(ran: Ran, products: list[Ran]) -> list[tuple[float, float, str, str]]:
    """The time of a step, where it moves in the parts that are behind products, and others.

    The widest of them has its number.
    """
    if ran.kind != COLLECTIVE:
        return [(ran.start_ms, ran.end_ms, ADDS if ran.kind == SUM else MULTIPLIES, _number(ran))]
    ends = {time for product in products for time in (product.start_ms, product.end_ms)}
    cuts = {time for time in ends if ran.start_ms < time < ran.end_ms}
    pieces = []
    for start, end in pairwise(sorted({ran.start_ms, *cuts, ran.end_ms})):
        middle = (start + end) / 2
        behind = any(product.start_ms <= middle <= product.end_ms for product in products)
        pieces.append((start, end, HIDDEN if behind else OPEN))
    widest = max((end - start for start, end, _ in pieces), default=0)
    return [
        (start, end, name, _number(ran) if end - start == widest else "")
        for start, end, name in pieces
    ]


def _of_timeline(timeline: Timeline) -> str:
    schedule = timeline.schedule
    what = f"{schedule.problem} on {style.plural(schedule.ranks, 'GPU')}, {schedule.name}"
    took = f"{style.digits(timeline.ms)} ms"
    more = f" The first {MOST_RANKS} are shown." if schedule.ranks > MOST_RANKS else ""
    if schedule.ranks == 1:
        return f"{what}: {took}, and nothing is moved.{more} {timeline.source}."
    idle = f"for {timeline.idle_ms(0):.2f} ms GPU 0 multiplies nothing"
    return f"{what}: {took}; {idle}.{more} {timeline.source}."
