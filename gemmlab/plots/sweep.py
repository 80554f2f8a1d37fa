"""A sweep over the settings of a kernel: speed by two of its parameters."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pandas

from gemmlab.plots import style
from gemmlab.plots.cells import bare, box, number_above, write
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, WIDTH
from gemmlab.records import tuning

CELL_HEIGHT = 0.62  # inches
MOST_CELL_WIDTH = 2.1
PANEL_GAP = 0.2  # inches, between tables side by side
KEY = (0.5, 0.75, 0.9, 1.0)  # shares of the fastest whose shades the key shows
SETTING_LINES = 2  # of the settings that a cell names and has room for as it is
LINE_HEIGHT = 0.15  # inches, of each further one
INSET = 0.186  # inches, from the edge of a cell to the middle of its rate, and of its settings


@styled
def sweep(
    table: pandas.DataFrame,
    rows: str,
    columns: str,
    shape: tuple[int, int, int] = tuning.SHAPES[0],
    *,
    beside: str | None = None,
    caption: str | None = None,
) -> Picture:
    """The fastest recorded setting for each pair of values of two parameters, at one shape.

    table: as tuning.recorded gives. rows, columns: names of two parameters, such as "TM" and "TN".
    beside: a third one; each of its values gets a table of its own, side by side in one scale.
    Each cell has the rate of the best choice of all others that differ, and that choice. The best
    of all has a thick frame, and pairs that no legal setting has stay empty.

    Raises NoRecord for a shape that was not measured.
    """
    chosen = [rows, columns] if beside is None else [rows, columns, beside]
    names = list(table.columns[: list(table.columns).index("m")])  # all parameters of the sweep
    at = tuning.at(table, shape)  # the fastest first
    best = at.groupby(chosen, sort=True).first()
    downs, acrosses = sorted(set(table[rows])), sorted(set(table[columns]))
    panels = [()] if beside is None else [(value,) for value in sorted(set(table[beside]))]
    others = [name for name in names if name not in chosen and at[name].nunique() > 1]
    fastest = at.iloc[0]
    first = tuple(fastest[name] for name in chosen)

    left = MARGIN + style.text_width(f"{rows} = {downs[-1]}", NORMAL) + 0.15
    room = WIDTH - MARGIN - left - PANEL_GAP * (len(panels) - 1)
    cell = min(MOST_CELL_WIDTH, room / (len(panels) * len(acrosses)))
    settings = {
        place: _in_lines([f"{name} {row[name]:.0f}" for name in others], cell - 0.22)
        for place, row in best.iterrows()
    }
    most = max(text.count("\n") + 1 for text in settings.values())
    more = LINE_HEIGHT * max(0, most - SETTING_LINES)
    head, height = 0.2 + 0.25 * (beside is not None), CELL_HEIGHT + more
    caption = caption or _caption(fastest, at, names, chosen, shape)
    key = [
        ("the fastest" if share == 1 else f"{share:.0%} of it", _look(share, share == 1))
        for share in KEY
    ]
    title, footer = style.shape_label(*shape), style.provenance(at)
    fig = page(title, head + len(downs) * height + 0.12, caption, footer, key=key)
    for number, panel in enumerate(panels):
        x0, wide = left + number * (cell * len(acrosses) + PANEL_GAP), cell * len(acrosses)
        words = "".join(f"{beside} = {value}" for value in panel)
        fig.text_at(x0 + wide / 2, fig.top, words, size=NORMAL, ha="center", weight="bold")
        size, gid = (wide, height * len(downs)), f"sweep {words}".strip()
        ax = bare(fig.add_axes_at(x0, fig.top + head, *size, gid=gid), len(acrosses), len(downs))
        for (y, down), (x, across) in itertools.product(enumerate(downs), enumerate(acrosses)):
            place = (down, across, *panel)
            middle = x + 0.5
            if place not in best.index:
                box(ax, x + 0.03, y + 0.04, 0.94, 0.92, "not legal", {"color": style.FAINT},
                    **_look(None, False))  # fmt: skip
                continue
            rate = best.loc[place]["gflops"]
            look = _look(rate / fastest["gflops"], place == first)
            box(ax, x + 0.03, y + 0.04, 0.94, 0.92, **look)
            above, below = y + INSET / height, y + 1 - (INSET + more / 2) / height
            look = {"va": "center", "weight": "bold" if place == first else "normal"}
            write(ax, middle, above, style.rate(rate), size=NORMAL, **look)
            write(ax, middle, below, settings[place], va="center", linespacing=1.15)
        across = [f"{columns} = {value}" for value in acrosses]
        ax.set_xticks([x + 0.5 for x in range(len(acrosses))], across)
        down = [f"{rows} = {value}" if number == 0 else "" for value in downs]
        ax.set_yticks([y + 0.5 for y in range(len(downs))], down)
        number_above(ax, labelsize=NORMAL, pad=3.5)
    return fig


def _look(share: float | None, first: bool) -> style.Look:
    """Of a cell, darker the faster. Black text stays readable on the darkest."""
    face = style.GROUND if share is None else style.tint(style.SKY, max(0.0, share) ** 2)
    return {
        "facecolor": face, "edgecolor": style.BLACK if first else style.GRID,
        "linewidth": 2.2 if first else 0.8, "hatch": ".." if share is None else None,
    }  # fmt: skip


def _in_lines(words: list[str], width: float) -> str:
    """The settings in as many lines as they need in a cell, about as many in each."""
    parts: list[str] = []
    for lines in range(1, len(words) + 1):
        each = -(-len(words) // lines)
        parts = [" ".join(words[at : at + each]) for at in range(0, len(words), each)]
        if all(style.text_width(part, SMALL) <= width for part in parts):
            break
    return "\n".join(parts)


def _caption(
    fastest: pandas.Series, at: pandas.DataFrame, names: Sequence[str], chosen: Sequence[str],
    shape: tuple[int, int, int],
) -> str:  # fmt: skip
    setting = ", ".join(f"{name}={fastest[name]}" for name in names)
    slowest = at.iloc[-1]
    factor = fastest["gflops"] / slowest["gflops"]
    return (
        f"Every legal setting was measured at {style.shape_label(*shape)}: {len(at)} of them. Each "
        f"cell has the fastest for its {style.listed(chosen)}, and the other parameters that made "
        f"it so. The best is {setting} with {style.rate(fastest['gflops'])}, "
        f"{style.percent(fastest['pct_cublas'])} of cuBLAS and {style.digits(factor)} times the "
        "slowest setting."
    )
