"""The steps from one rung to the next, each as the difference that it made."""

from __future__ import annotations

import pandas
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LARGE, LINE, MARGIN, NORMAL, SMALL, WIDTH, styled

RATE, SHARE = "TFLOP/s", "% of cuBLAS"
QUARTILES = "from", "to"  # of the share
COLUMNS = ("step", "predicted", "taken", RATE, SHARE, "gpu", "recorded")
HEADS = {RATE: 0.65, "points": 0.6}  # of the numbers, and their widths in inches
WORDS, BAR, GAP = 3.6, 0.2, 0.14  # inches: what a step is called, a bar, the room between rows
TITLE, KEY = 0.12, 0.47  # inches from the top to the title, and to the key below it
ROOM = 0.06  # of the axis left free at either end, as a share of what is drawn
FASTER, SLOWER, NOT_TAKEN = "faster", "slower", "not taken"
LOOKS = {  # what came of a step: colour, hatch, words of the key
    FASTER: (style.SKY, "", "faster than the step before"),
    SLOWER: (style.ORANGE, "", "slower"),
    NOT_TAKEN: (style.FAINT, "///", "one thing changed at the end, not kept"),
}


@styled
def path(table: pandas.DataFrame, *, caption: str | None = None) -> Picture:
    """What each step changed, in points of cuBLAS's speed; below its name the prediction.

    table: as gl.path() gives. A bar goes from the share of cuBLAS of the step that was kept before
    to its own; where the table has columns from and to, a line over its end goes from one to the
    other. Hatched bars are roads not taken: each changes one thing in the last step kept, so their
    bars begin there. The dashed line is cuBLAS.

    Raises TypeError and ValueError for anything else, also where no step was kept.
    """
    style.require_table(table, COLUMNS, "path")
    style.require_positive(table.rename(columns={"step": "kernel"}), (RATE, SHARE), "path")
    if not table["taken"].any():
        raise ValueError("path: no step of the table was taken, so none has one before it.")
    rows = [
        (row, style.wrap(row["step"], WORDS, NORMAL), style.wrap(row["predicted"], WORDS, SMALL))
        for row in _with_differences(table)
    ]
    heights = [
        max(BAR, (len(name) * NORMAL + len(guess) * SMALL) * LINE / 72) + GAP
        for _, name, guess in rows
    ]
    left, top, height = MARGIN + WORDS + 0.15, KEY + 0.3, sum(heights)
    right = MARGIN + sum(HEADS.values())
    fig = style.page(top + height + 0.55, caption or _caption(table), style.provenance(table))
    fig.text_at(MARGIN, TITLE, _title(table), size=LARGE, weight="bold")
    ax = fig.add_axes_at(left, top, WIDTH - left - right, height, gid="path", ylim=(height, 0))
    with_quartiles = set(QUARTILES) <= set(table)
    ends = table[[SHARE, *QUARTILES] if with_quartiles else [SHARE]]
    low, high = min(ends.min(axis=None), 100.0), max(ends.max(axis=None), 100.0)
    spare = ROOM * (high - low or 1.0)
    ax.set(xlim=(low - spare, high + spare), xlabel=SHARE)
    ax.axvline(100, color=style.BLACK, linewidth=1.2, linestyle="--", gid="cuBLAS")
    edges = WIDTH - MARGIN - HEADS["points"], WIDTH - MARGIN  # of the numbers, on the right
    y = 0.0
    end = None  # of the step kept before: its share, how far down it is
    for (row, name, guess), tall in zip(rows, heights, strict=True):
        middle = y + tall / 2
        _draw_bar(ax, row, middle)
        if with_quartiles:
            ax.plot([row[name] for name in QUARTILES], [middle] * 2, color=style.BLACK,
                    linewidth=1.1, zorder=3, gid=f"quartiles {row['step']}")  # fmt: skip
        if end and end[0] == row["before"]:
            ax.plot([end[0]] * 2, [end[1], middle], color=style.FAINT, linewidth=0.7,
                    linestyle=":", zorder=1)  # fmt: skip
        if row["taken"]:
            end = row[SHARE], middle
        words = style.digits(row[RATE]), _signed(row["change"])
        for value, x in zip(words, edges, strict=True):
            fig.text_at(x, top + middle, value, size=NORMAL, ha="right", va="center")
        start = top + y + GAP / 2
        fig.text_at(MARGIN, start, "\n".join(name), size=NORMAL, linespacing=LINE)
        if guess:
            below = start + len(name) * NORMAL * LINE / 72
            fig.text_at(MARGIN, below, "\n".join(guess), size=SMALL, color=style.FAINT,
                        linespacing=LINE)  # fmt: skip
        y += tall
    ax.set_yticks([])
    ax.grid(axis="x")
    _draw_key(fig, [one for one in LOOKS if one in {row["came"] for row, *_ in rows}],
              with_quartiles)  # fmt: skip
    for head, x in zip(HEADS, edges, strict=True):
        fig.text_at(x, KEY, head, size=SMALL, ha="right")
    return fig


def _with_differences(table: pandas.DataFrame) -> list[dict]:
    """The rows, with `before`: the share it is held against, `change` from it, and what `came`.

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
    if row["change"] is None:
        ax.plot([row[SHARE]] * 2, [middle - BAR / 2, middle + BAR / 2], color=style.BLACK,
                linewidth=1.6, gid=f"step {row['step']}")  # fmt: skip
        return
    colour, hatch, _ = LOOKS[row["came"]]
    ax.barh(
        middle, row["change"], BAR, left=row["before"], facecolor=style.tint(colour, 0.45),
        edgecolor=colour, hatch=hatch, linewidth=0.8, zorder=2, gid=f"step {row['step']}",
    )  # fmt: skip


def _signed(change: float | None) -> str:
    if change is None:
        return ""
    return f"{change:+.1f}".replace("-", "−") if round(change, 1) else "0.0"


def _draw_key(fig: Picture, came: list[str], with_quartiles: bool) -> None:
    across, down = fig.get_size_inches()
    x = MARGIN
    for one in came:
        colour, hatch, name = LOOKS[one]
        patch = Rectangle(
            (x / across, 1 - (KEY + 0.13) / down), 0.2 / across, 0.13 / down, hatch=hatch,
            facecolor=style.tint(colour, 0.45), edgecolor=colour, transform=fig.transFigure,
        )  # fmt: skip
        fig.add_artist(patch)
        fig.text_at(x + 0.28, KEY, name, size=SMALL)
        x += 0.28 + style.text_width(name, SMALL) + 0.2
    lines = {"cuBLAS": "--", **({"quartiles": "-"} if with_quartiles else {})}
    for name, look in lines.items():
        line = [x / across, (x + 0.25) / across], [1 - (KEY + 0.065) / down] * 2
        fig.add_artist(Line2D(*line, color=style.BLACK, linewidth=1.2, linestyle=look))
        fig.text_at(x + 0.32, KEY, name, size=SMALL)
        x += 0.32 + style.text_width(name, SMALL) + 0.2


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
