"""The steps from one rung to the next, each as the difference that it made."""

from __future__ import annotations

import pandas

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
LINE_OF_CUBLAS: style.Look = {"color": style.BLACK, "linewidth": 1.2, "linestyle": "--"}
LINE_OF_QUARTILES: style.Look = {"color": style.BLACK, "linewidth": 1.1}


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
        for row in _with_differences(table).to_dict("records")
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
    one_step = len(table) > 1 and table["taken"].sum() == 1  # the others each change it
    title = "One change at a time" if one_step else "What each step brings"
    title, caption = f"{title}, in points of cuBLAS's speed", _caption(table, one_step)
    fig = page(title, 0.25 + height + 0.55, caption, style.provenance(table), key=key)
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
        middle, gid, change = y + tall / 2, f"step {row['step']}", row["change"]
        if pandas.isna(change):
            at = [middle - BAR / 2, middle + BAR / 2]
            ax.plot([row[SHARE]] * 2, at, color=style.BLACK, linewidth=1.6, gid=gid)
        else:
            look = {"left": row["before"], "zorder": 2, "gid": gid, **LOOKS[row["came"]]}
            ax.barh(middle, change, BAR, **look)
        if quartiles:
            look = {"zorder": 3, "gid": f"quartiles {row['step']}", **LINE_OF_QUARTILES}
            ax.plot([row[name] for name in quartiles], [middle] * 2, **look)
        if end and end[0] == row["before"]:
            look = {"color": style.FAINT, "linewidth": 0.7, "linestyle": ":", "zorder": 1}
            ax.plot([end[0]] * 2, [end[1], middle], **look)
        if row["taken"]:
            end = row[SHARE], middle
        numbers = style.digits(row[RATE]), "" if pandas.isna(change) else _signed(change)
        for value, x in zip(numbers, edges, strict=True):
            fig.text_at(x, top + middle, value, size=NORMAL, ha="right", va="center")
        start = top + y + GAP / 2
        fig.text_at(MARGIN, start, "\n".join(name), size=NORMAL, linespacing=LINE)
        below, look = start + len(name) * NORMAL * LINE / 72, {"color": style.FAINT}
        fig.text_at(MARGIN, below, "\n".join(guess), size=SMALL, linespacing=LINE, **look)
        y += tall
    return fig


def _with_differences(table: pandas.DataFrame) -> pandas.DataFrame:
    """The rows, with `before`: the share to compare it with, `change` from it, and what `came`.

    Of the first step they are not known.
    """
    taken = table["taken"].astype(bool)
    kept = table[SHARE].where(taken).ffill()  # the share of the last step kept so far
    before = kept.shift().where(taken, kept.iloc[-1])
    change = table[SHARE] - before
    came = change.map(lambda points: SLOWER if points < 0 else FASTER).where(taken, NOT_TAKEN)
    return table.assign(before=before, change=change, came=came.where(change.notna()))


def _signed(change: float) -> str:
    return f"{change:+.1f}".replace("-", "−") if round(change, 1) else "0.0"


def _caption(table: pandas.DataFrame, one_step: bool) -> str:
    taken = table[table["taken"].astype(bool)]
    first, last, lost = taken.iloc[0], taken.iloc[-1], len(table) - len(taken)
    if one_step:
        points = table.loc[~table["taken"].astype(bool), SHARE] - first[SHARE]
        return (
            f"{style.plural(lost, 'change')}, each alone: from {_signed(points.min())} to "
            f"{_signed(points.max())} points of cuBLAS's speed, measured beside it, where "
            f"{style.rate(1e3 * first[RATE])} are {first[SHARE]:.1f} %."
        )
    words = (
        f"{style.plural(len(taken) - 1, 'step')} change the speed by "
        f"{_signed(last[SHARE] - first[SHARE])} points of cuBLAS's, each measured beside it; "
        f"together {style.rate(1e3 * first[RATE])} become {style.rate(1e3 * last[RATE])}"
    )
    return words + (f"; and {style.plural(lost, 'road')} not taken." if lost else ".")
