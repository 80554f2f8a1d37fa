"""The steps from one rung to the next, as far as each of them came."""

from __future__ import annotations

import pandas
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LINE, MARGIN, NORMAL, SMALL, WIDTH, styled

RATE, SHARE, CUBLAS = "TFLOP/s", "% of cuBLAS", "cuBLAS TFLOP/s"
OF_CUBLAS = "of cuBLAS"
HEADS = {RATE: 0.65, OF_CUBLAS: 0.75}  # of the numbers, and their widths in inches
COLUMNS = ("step", "predicted", "taken", RATE, SHARE, CUBLAS, "gpu", "recorded")
WORDS, BAR, GAP = 3.6, 0.24, 0.16  # inches: what a step is called, a bar, the room between rows
LOOKS = {  # whether a road was taken: colour, hatch, name in the key
    True: (style.BLUE, "", "kept"),
    False: (style.FAINT, "///", "not taken"),
}


@styled
def path(table: pandas.DataFrame, *, caption: str | None = None) -> Picture:
    """A bar for each step, with its speed and its share of cuBLAS; below its name the prediction.

    table: as gl.path() gives. Hatched bars are roads not taken; the line is cuBLAS, the median of
    its speeds beside all steps.

    Raises TypeError and ValueError for anything else.
    """
    style.require_table(table, COLUMNS, "path")
    names = table.rename(columns={"step": "kernel"})
    style.require_positive(names, (RATE, SHARE, CUBLAS), "path")
    rows = [
        (row, style.wrap(row["step"], WORDS, NORMAL), style.wrap(row["predicted"], WORDS, SMALL))
        for row in table.to_dict("records")
    ]
    heights = [
        max(BAR, (len(name) * NORMAL + len(guess) * SMALL) * LINE / 72) + GAP
        for _, name, guess in rows
    ]
    left, top, height = MARGIN + WORDS + 0.15, 0.45, sum(heights)
    right = MARGIN + sum(HEADS.values())
    fig = style.page(top + height + 0.55, caption or _caption(table), style.provenance(table))
    across = WIDTH - left - right
    ax = fig.add_axes_at(left, top, across, height, gid="path", ylim=(height, 0))
    cublas = table[CUBLAS].median()
    high = max(table[RATE].max(), cublas) * 1.03
    ax.set(xlim=(0, high), xlabel="TFLOP/s")
    ax.axvline(cublas, color=style.BLACK, linewidth=1.2, linestyle="--", gid="cuBLAS")
    edges = WIDTH - MARGIN - HEADS[OF_CUBLAS], WIDTH - MARGIN  # of the numbers, on the right
    y = 0.0
    for (row, name, guess), tall in zip(rows, heights, strict=True):
        middle = y + tall / 2
        colour, hatch, _ = LOOKS[bool(row["taken"])]
        ax.barh(
            middle, row[RATE], BAR, facecolor=style.tint(colour, 0.45), edgecolor=colour,
            hatch=hatch, linewidth=0.8, gid=f"step {row['step']}",
        )  # fmt: skip
        for value, x in zip(
            (style.digits(row[RATE]), style.percent(row[SHARE])), edges, strict=True
        ):
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
    _draw_key(fig, left, sorted(set(map(bool, table["taken"])), reverse=True))
    for head, x in zip(HEADS, edges, strict=True):
        fig.text_at(x, 0.15, head, size=SMALL, ha="right")
    return fig


def _draw_key(fig: Picture, x: float, taken: list[bool]) -> None:
    across, down = fig.get_size_inches()
    for one in taken:
        colour, hatch, name = LOOKS[one]
        patch = Rectangle(
            (x / across, 1 - 0.28 / down), 0.2 / across, 0.13 / down, hatch=hatch,
            facecolor=style.tint(colour, 0.45), edgecolor=colour, transform=fig.transFigure,
        )  # fmt: skip
        fig.add_artist(patch)
        fig.text_at(x + 0.28, 0.15, name, size=SMALL)
        x += 0.28 + style.text_width(name, SMALL) + 0.3
    line = [x / across, (x + 0.25) / across], [1 - 0.215 / down] * 2
    fig.add_artist(Line2D(*line, color=style.BLACK, linewidth=1.2, linestyle="--"))
    fig.text_at(x + 0.32, 0.15, "cuBLAS", size=SMALL)


def _caption(table: pandas.DataFrame) -> str:
    taken = table[table["taken"].astype(bool)]
    first, last = taken.iloc[0], taken.iloc[-1]
    words = (
        f"{style.plural(len(taken) - 1, 'step')} from {style.rate(1e3 * first[RATE])} to "
        f"{style.rate(1e3 * last[RATE])}, which is {style.percent(last[SHARE])} of cuBLAS beside it"
    )
    lost = len(table) - len(taken)
    return words + (f"; and {style.plural(lost, 'road')} not taken." if lost else ".")
