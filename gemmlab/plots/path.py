"""The steps from one rung to the next, each as the difference that it made."""

from __future__ import annotations

import pandas
from matplotlib.axes import Axes

from gemmlab.plots import style
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import LINE, MARGIN, NORMAL, SMALL, WIDTH

RATE, SHARE = "TFLOP/s", "% of cuBLAS"
QUARTILES = ["from", "to"]  # of the share
HEADS = {RATE: 0.65, "points": 0.6}  # of the numbers, and their widths in inches
WORDS, BAR, GAP = 3.6, 0.2, 0.14  # inches: what a step is called, a bar, the room between rows
ROOM = 0.06  # of the axis left free at either end, as a share of what is drawn
FASTER, SLOWER = "faster than the step before", "slower"
NOT_TAKEN = "one thing changed at the end, not kept"
LOOKS = {  # what came of a step
    FASTER: swatch(style.SKY),
    SLOWER: swatch(style.ORANGE),
    NOT_TAKEN: swatch(style.FAINT, hatch="///"),
}
LINE_OF_CUBLAS = {"color": style.BLACK, "linewidth": 1.2, "linestyle": "--"}
LINE_OF_QUARTILES = {"color": style.BLACK, "linewidth": 1.1}


@styled
def path(table: pandas.DataFrame) -> Picture:
    """What each step changed, in points of cuBLAS's speed; below its name the prediction.

    table: as gl.path() gives. A bar goes from the share of cuBLAS of the step that was kept before
    to its own; where the table has columns from and to, a line over its end goes from one to the
    other. Hatched bars are roads not taken: each changes one thing in the last step kept, so their
    bars begin there. The dashed line is cuBLAS.
    """
    rows = [
        (row, style.wrap(row["step"], WORDS, NORMAL), style.wrap(row["predicted"], WORDS, SMALL))
        for row in _with_differences(table)
    ]
    heights = [
        max(BAR, (len(name) * NORMAL + len(guess) * SMALL) * LINE / 72) + GAP
        for _, name, guess in rows
    ]
    quartiles = QUARTILES if set(QUARTILES) <= set(table) else []
    came = {row["came"] for row, *_ in rows}
    key = [(name, look) for name, look in LOOKS.items() if name in came]
    key.append(("cuBLAS", LINE_OF_CUBLAS))
    if quartiles:
        key.append(("quartiles", LINE_OF_QUARTILES))
    height = sum(heights)
    caption, footer = _caption(table), style.provenance(table)
    fig = page(_title(table), 0.25 + height + 0.55, caption, footer, key=key)
    left, top, right = MARGIN + WORDS + 0.15, fig.top + 0.25, MARGIN + sum(HEADS.values())
    ax = fig.add_axes_at(left, top, WIDTH - left - right, height, gid="path", ylim=(height, 0))
    ends = table[[SHARE, *quartiles]]
    low, high = min(ends.min(axis=None), 100.0), max(ends.max(axis=None), 100.0)
    spare = ROOM * (high - low or 1.0)
    ax.set(xlim=(low - spare, high + spare), xlabel=SHARE, yticks=[])
    ax.axvline(100, **LINE_OF_CUBLAS, gid="cuBLAS")
    ax.grid(axis="x")
    edges = WIDTH - MARGIN - HEADS["points"], WIDTH - MARGIN  # of the numbers, on the right
    for head, x in zip(HEADS, edges, strict=True):
        fig.text_at(x, fig.top, head, size=SMALL, ha="right")
    y = 0.0
    end = None  # of the step kept before: its share, how far down it is
    for (row, name, guess), tall in zip(rows, heights, strict=True):
        middle = y + tall / 2
        _draw_bar(ax, row, middle)
        if quartiles:
            gid = f"quartiles {row['step']}"
            span = [row[name] for name in quartiles]
            ax.plot(span, [middle] * 2, **LINE_OF_QUARTILES, zorder=3, gid=gid)
        if end and end[0] == row["before"]:
            look = {"color": style.FAINT, "linewidth": 0.7, "linestyle": ":", "zorder": 1}
            ax.plot([end[0]] * 2, [end[1], middle], **look)
        if row["taken"]:
            end = row[SHARE], middle
        numbers = style.digits(row[RATE]), _signed(row["change"])
        for value, x in zip(numbers, edges, strict=True):
            fig.text_at(x, top + middle, value, size=NORMAL, ha="right", va="center")
        start = top + y + GAP / 2
        fig.text_at(MARGIN, start, "\n".join(name), size=NORMAL, linespacing=LINE)
        below, look = start + len(name) * NORMAL * LINE / 72, {"color": style.FAINT}
        fig.text_at(MARGIN, below, "\n".join(guess), size=SMALL, linespacing=LINE, **look)
        y += tall
    return fig


def _with_differences(table: pandas.DataFrame) -> list[dict]:
    """The rows, with `before`: the share to compare it with, `change` from it, and what `came`.

    The first step has neither.
    """
    rows = table.to_dict("records")
    last = [row[SHARE] for row in rows if row["taken"]][-1]
    before = None
    for row in rows:
        row["before"] = before if row["taken"] else last
        row["change"] = None if row["before"] is None else row[SHARE] - row["before"]
        if not row["taken"]:
            row["came"] = NOT_TAKEN
        elif before is not None:
            row["came"] = SLOWER if row["change"] < 0 else FASTER
        else:
            row["came"] = ""
        if row["taken"]:
            before = row[SHARE]
    return rows


def _draw_bar(ax: Axes, row: dict, middle: float) -> None:
    gid = f"step {row['step']}"
    if row["change"] is None:
        at, ends = [row[SHARE]] * 2, [middle - BAR / 2, middle + BAR / 2]
        ax.plot(at, ends, color=style.BLACK, linewidth=1.6, gid=gid)
        return
    look = LOOKS[row["came"]]
    ax.barh(middle, row["change"], BAR, left=row["before"], zorder=2, gid=gid, **look)


def _signed(change: float | None) -> str:
    if change is None:
        return ""
    return f"{change:+.1f}".replace("-", "−") if round(change, 1) else "0.0"


def _title(table: pandas.DataFrame) -> str:
    what = "One change at a time" if _are_changes_of_one(table) else "What each step brings"
    return f"{what}, in points of cuBLAS's speed"


def _are_changes_of_one(table: pandas.DataFrame) -> bool:
    """Whether one step was taken, and the others each change something in it."""
    return len(table) > 1 and table["taken"].sum() == 1


def _caption(table: pandas.DataFrame) -> str:
    taken = table[table["taken"].astype(bool)]
    lost = len(table) - len(taken)
    if _are_changes_of_one(table):
        points = table.loc[~table["taken"].astype(bool), SHARE] - taken.iloc[0][SHARE]
        return (
            f"{style.plural(lost, 'change')}, each alone: from {_signed(points.min())} to "
            f"{_signed(points.max())} points of cuBLAS's speed, measured beside it, where "
            f"{style.rate(1e3 * taken.iloc[0][RATE])} are {taken.iloc[0][SHARE]:.1f} %."
        )
    change = taken.iloc[-1][SHARE] - taken.iloc[0][SHARE]
    words = (
        f"{style.plural(len(taken) - 1, 'step')} change the speed by {_signed(change)} points of "
        f"cuBLAS's, each measured beside it; together {style.rate(1e3 * taken.iloc[0][RATE])} "
        f"become {style.rate(1e3 * taken.iloc[-1][RATE])}"
    )
    return words + (f"; and {style.plural(lost, 'road')} not taken." if lost else ".")
