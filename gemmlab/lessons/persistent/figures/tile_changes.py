"""What an SM does between two tiles of C, by clock readings."""

from __future__ import annotations

from dataclasses import dataclass

import pandas
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from gemmlab.plots import style
from gemmlab.plots.memory.timeline import TILE_COLOURS
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, WIDTH, styled

ROW, BAR, HEAD, BELOW = 0.3, 0.22, 0.75, 0.62  # inches
KINDS = {  # from one event to the next: words of the key, share of the tile's colour, hatch, size
    ("starts", "ends"): ("copies asked for, or products", 0.5, "", 1.0),
    ("sends", "sent"): ("sums to shared memory and on to C", 0.2, "///", 0.6),
    ("sent", "gone"): ("waits until C is there", 0.2, "...", 0.6),
}
PRODUCER = "producer"


@dataclass(frozen=True)
class _Panel:
    """One kernel around the end of a tile: its rows, and the clock that counts as 0."""

    name: str
    rows: pandas.DataFrame
    zero: float
    gap: float  # cycles in which no warpgroup multiplies


@styled
def tile_changes(
    marks: pandas.DataFrame, *, turn: int = 2, before: int = 3000, after: int = 7000,
    caption: str | None = None,
) -> Picture:  # fmt: skip
    """Bars from one clock reading to the next around the end of a tile, a panel for each kernel.

    marks: as records.experiments.hopper_tiles.tiles gives. Cycle 0 is when the last warpgroup has
    all products of the tile number `turn`; shown are so many cycles `before` and `after`.
    Raises ValueError for a kernel without that tile and a next one.
    """
    panels = [_panel(one, rows, turn) for one, rows in marks.groupby(["kernel", "how"], sort=False)]
    roles = list(dict.fromkeys(marks["role"]))
    left = MARGIN + max(style.text_width(role, NORMAL) for role in roles) + 0.15
    each = len(roles) * ROW + BELOW
    fig = style.page(HEAD + len(panels) * each + 0.1, caption or _caption(panels))
    fig.text_at(MARGIN, 0.1, "Between two tiles of C on one SM", size=style.LARGE, weight="bold")
    _draw_key(fig)
    top = HEAD
    for panel in panels:
        words = f"{panel.name}: {panel.gap:,.0f} cycles without products"
        fig.text_at(MARGIN, top, words, size=NORMAL, weight="bold")
        ax = fig.add_axes_at(
            left, top + 0.22, WIDTH - MARGIN - left, len(roles) * ROW, gid=f"changes {panel.name}"
        )
        _draw(ax, panel, roles, before, after)
        top += each
    ax.set_xlabel("cycles of the SM's clock", size=SMALL)
    return fig


def _panel(one: tuple[str, str], rows: pandas.DataFrame, turn: int) -> _Panel:
    name = ", ".join(filter(None, one))
    consumers = rows[rows["role"] != PRODUCER].groupby("turn")
    starts, ends = consumers["starts"].min(), consumers["ends"].max()
    if not {turn, turn + 1} <= set(starts.index):
        raise ValueError(f"tile_changes: {name} has no tiles {turn} and {turn + 1}.")
    return _Panel(name, rows, ends[turn], max(0, starts[turn + 1] - ends[turn]))


def _colour(turn: int) -> str:
    return TILE_COLOURS[turn % 2]


def _draw(ax: Axes, panel: _Panel, roles: list[str], before: int, after: int) -> None:
    ax.set(xlim=(-before, after), ylim=(len(roles), 0))
    for at, role in enumerate(roles):
        for mark in panel.rows[panel.rows["role"] == role].itertuples():
            for (start, stop), (_, share, hatch, size) in KINDS.items():
                low, high = getattr(mark, start), getattr(mark, stop)
                if low != low or high != high:  # no such mark
                    continue
                low, high = max(low - panel.zero, -before), min(high - panel.zero, after)
                if high <= low:
                    continue
                ax.add_patch(
                    Rectangle((low, at + (1 - size * BAR / ROW) / 2), high - low,
                              size * BAR / ROW,
                              facecolor=style.tint(_colour(mark.turn), share), hatch=hatch,
                              edgecolor=_colour(mark.turn), linewidth=0.6, zorder=3 - size,
                              gid=f"{role} {start} {mark.turn}")
                )  # fmt: skip
                if start == "starts" and high - low > (before + after) / 12:
                    ax.text(low + (before + after) / 60, at + 0.5, f"tile {mark.turn}", size=SMALL,
                            va="center_baseline")  # fmt: skip
    ax.axvline(0, color=style.BLACK, linewidth=0.8, linestyle=":")
    ax.set_yticks([at + 0.5 for at in range(len(roles))], roles)
    ax.tick_params(axis="y", length=0, labelsize=NORMAL)
    ax.grid(axis="x")


def _draw_key(fig: Picture) -> None:
    across, down = fig.get_size_inches()
    x, y = MARGIN, 0.38
    for words, share, hatch, _ in KINDS.values():
        fig.add_artist(
            Rectangle((x / across, 1 - (y + 0.15) / down), 0.24 / across, 0.15 / down, hatch=hatch,
                      facecolor=style.tint(style.FAINT, share), edgecolor=style.FAINT,
                      linewidth=0.6)
        )  # fmt: skip
        fig.text_at(x + 0.32, y, words, size=SMALL)
        x += 0.32 + style.text_width(words, SMALL) + 0.3
    fig.text_at(x, y, "a colour is a tile", size=SMALL)


def _caption(panels: list[_Panel]) -> str:
    gaps = [f"{panel.name} {panel.gap:,.0f}" for panel in panels]
    return (
        "One SM around the end of a tile, by readings of its clock. Cycles from the end of a "
        f"tile's products to the begin of the next one's: {style.listed(gaps)}."
    )
