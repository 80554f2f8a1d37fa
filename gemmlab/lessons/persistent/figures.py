"""The figure of this lesson: an SM between two tiles of C."""

import itertools

import pandas
from matplotlib.axes import Axes

from gemmlab.plots import style
from gemmlab.plots.cells import write
from gemmlab.plots.charts import bar, rows_of
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, TILE_COLOURS

ROW, BAR, BELOW = 0.3, 0.22, 0.62  # inches
EVENTS = {  # from one event to the next: words of the key, share of the tile's colour, hatch, size
    ("starts", "ends"): ("wgmma of a tile; producer: first load to last", 0.5, "", 1.0),
    ("sends", "sent"): ("epilogue: C is stored", 0.2, "///", 0.6),
    ("sent", "gone"): ("waits until C is in global memory", 0.2, "...", 0.6),
}
PRODUCER = "producer"
TURN = 2  # the tile whose end is shown
BEFORE, AFTER = 3000, 7000  # cycles around it


@styled
def tile_changes(marks: pandas.DataFrame) -> Picture:
    """Bars from one clock reading to the next around the end of a tile, a panel for each kernel.

    marks: as measure.tiles gives. In cycle 0 the last warpgroup has all products of tile TURN.
    """
    roles = list(dict.fromkeys(marks["role"]))
    panels = []  # the name of a kernel, its marks, and the cycles without products
    for kernel, rows in marks.groupby(["kernel", "how"], sort=False):
        end, gap = between_tiles(rows)
        columns = list(dict.fromkeys(itertools.chain(*EVENTS)))
        rows = rows.assign(**{name: rows[name] - end for name in columns})
        panels.append((", ".join(filter(None, kernel)), rows, gap))
    each = len(roles) * ROW + BELOW
    key = [
        (words, swatch(style.FAINT, share, hatch=hatch))
        for words, share, hatch, _ in EVENTS.values()
    ]
    gaps = [f"{name} {gap:,.0f}" for name, _, gap in panels]
    caption = (
        "One SM around the end of a tile, by readings of its clock. Cycles from the last wgmma of "
        f"tile {TURN} in either warpgroup to the first one of the next tile: {style.listed(gaps)}."
    )
    title = "Between two tiles of C on one SM"
    fig = page(title, len(panels) * each + 0.1, caption, key=key)
    top = fig.top
    for name, rows, gap in panels:
        words = f"{name}: {gap:,.0f} cycles without wgmma"
        fig.text_at(MARGIN, top, words, size=NORMAL, weight="bold")
        ax = rows_of(fig, roles, top + 0.22, ROW)
        _draw_changes(ax, rows, roles)
        top += each
    ax.set_xlabel("cycles of the SM's clock", size=SMALL)
    return fig


def between_tiles(marks: pandas.DataFrame) -> tuple[float, float]:
    """Of one kernel's marks: when the last warpgroup has the wgmma of tile TURN behind it, and how
    many cycles later the first one starts those of the next tile."""
    consumers = marks[marks["role"] != PRODUCER].groupby("turn")
    starts, ends = consumers["starts"].min(), consumers["ends"].max()
    return ends[TURN], max(0, starts[TURN + 1] - ends[TURN])


def _draw_changes(ax: Axes, rows: pandas.DataFrame, roles: list[str]) -> None:
    ax.set_xlim(-BEFORE, AFTER)
    for mark, (start, stop) in itertools.product(rows.itertuples(), EVENTS):
        low, high = max(getattr(mark, start), -BEFORE), min(getattr(mark, stop), AFTER)
        if not low < high:  # also where there is no such mark
            continue
        _, share, hatch, size = EVENTS[start, stop]
        at, look = roles.index(mark.role), swatch(TILE_COLOURS[mark.turn % 2], share, hatch=hatch)
        bar(ax, at, low, high, share=size * BAR / ROW, zorder=3 - size, **look)
        if start == "starts" and high - low > (BEFORE + AFTER) / 12:
            x, words = low + (BEFORE + AFTER) / 60, f"tile {mark.turn}"
            write(ax, x, at + 0.5, words, ha="left", zorder=4)
    ax.axvline(0, color=style.BLACK, linewidth=0.8, linestyle=":")
