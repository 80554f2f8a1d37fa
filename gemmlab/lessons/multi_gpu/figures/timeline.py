"""What each GPU multiplies and moves at which time, and what of moving is hidden."""

from __future__ import annotations

from itertools import pairwise

from matplotlib.patches import Rectangle

from gemmlab.lessons.multi_gpu.timeline import COLLECTIVE, PRODUCT, SUM, Ran, Timeline
from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import FAINT, LARGE, MARGIN, NORMAL, ORANGE, SKY, SMALL, WIDTH, styled

LOOKS = {  # of a piece of time: colour and hatch
    "product": ("#5B6C8A", ""),
    "moving, behind a product": (SKY, ""),
    "moving, nothing to multiply": (ORANGE, "///"),
    "adding the parts of a sum": ("#C9C9C4", ""),
}
MULTIPLIES, HIDDEN, OPEN, ADDS = LOOKS
LEFT, TOP, LANE, BETWEEN = 1.35, 0.85, 0.24, 0.16  # inches
MOST_RANKS = 8
TITLE = "What runs when, and what of moving is hidden"


@styled
def rank_timeline(timeline: Timeline, *, title: str = TITLE, caption: str | None = None) -> Picture:
    """A row for each stream of each rank, of the first MOST_RANKS. The caption has the source."""
    schedule = timeline.schedule
    shown = range(min(schedule.ranks, MOST_RANKS))
    streams = schedule.streams
    tall = len(streams) * LANE
    plot = len(shown) * tall + (len(shown) - 1) * BETWEEN
    fig = style.page(TOP + plot + 0.55, _caption(timeline) if caption is None else caption)
    fig.text_at(MARGIN, 0.12, title, size=LARGE, weight="bold")
    ax = fig.add_axes_at(LEFT, TOP, WIDTH - LEFT - MARGIN - 0.1, plot, gid="timeline")
    ax.set(xlim=(0, timeline.ms or 1), ylim=(plot, 0), yticks=[], xlabel="milliseconds")
    ax.spines["left"].set_visible(False)
    ax.grid(axis="x")
    for rank in shown:
        top = rank * (tall + BETWEEN)
        fig.text_at(MARGIN, TOP + top + tall / 2 - 0.07, f"GPU {rank}", size=NORMAL, weight="bold")
        products = timeline.of(rank, PRODUCT)
        for at, stream in enumerate(streams):
            y = top + at * LANE
            fig.text_at(LEFT - 0.08, TOP + y + 0.05, stream, size=SMALL, color=FAINT, ha="right")
            for one in timeline.of(rank):
                if one.stream == stream:
                    for start, end, look in _pieces(one, products):
                        _bar(ax, start, end, y, look)
    _draw_key(fig, {bar.get_gid() for bar in ax.patches})
    return fig


def _pieces(one: Ran, products: list[Ran]) -> list[tuple[float, float, str]]:
    """The time of a step, where it moves in the parts that are behind products, and others."""
    if one.kind != COLLECTIVE:
        return [(one.start_ms, one.end_ms, ADDS if one.kind == SUM else MULTIPLIES)]
    cuts = {one.start_ms, one.end_ms}
    for product in products:
        cuts |= {t for t in (product.start_ms, product.end_ms) if one.start_ms < t < one.end_ms}
    ordered = sorted(cuts)
    pieces = []
    for start, end in pairwise(ordered):
        middle = (start + end) / 2
        behind = any(product.start_ms <= middle <= product.end_ms for product in products)
        pieces.append((start, end, HIDDEN if behind else OPEN))
    return pieces


def _bar(ax, start: float, end: float, y: float, look: str) -> None:
    colour, hatch = LOOKS[look]
    ax.add_patch(
        Rectangle(
            (start, y + 0.03), end - start, LANE - 0.06, facecolor=colour, hatch=hatch,
            edgecolor="white", linewidth=0.7, gid=look,
        )
    )  # fmt: skip


def _draw_key(fig: Picture, there: set[str]) -> None:
    x, (across, down) = MARGIN, fig.get_size_inches()
    for words, (colour, hatch) in LOOKS.items():
        if words not in there:
            continue
        fig.add_artist(Rectangle(
            (x / across, 1 - 0.61 / down), 0.26 / across, 0.15 / down, facecolor=colour,
            hatch=hatch, edgecolor="white", linewidth=0.5,
        ))  # fmt: skip
        fig.text_at(x + 0.33, 0.46, words, size=SMALL)
        x += 0.33 + style.text_width(words, SMALL) + 0.28


def _caption(timeline: Timeline) -> str:
    schedule, hidden = timeline.schedule, timeline.hidden
    what = f"{schedule.problem} on {style.plural(schedule.ranks, 'GPU')}, {schedule.name}"
    took = f"{style.digits(timeline.ms)} ms"
    more = f" The first {MOST_RANKS} are shown." if schedule.ranks > MOST_RANKS else ""
    if hidden is None:
        return f"{what}: {took}, and nothing is moved.{more} {timeline.source}."
    share = f"{100 * hidden:.1f} % of moving is behind products"
    return f"{what}: {took}; {share}.{more} {timeline.source}."
