"""What a bias and an activation cost in other ways, against rung 11 that fuses them."""

from itertools import pairwise

import pandas

from gemmlab.lessons.fused_epilogue import epilogues as ways
from gemmlab.plots import style
from gemmlab.plots.charts import Curve, draw_curves, note
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.style import LARGE, MARGIN, WIDTH

OF_10 = style.kernel_style(ways.PLAIN)
LOOKS = {
    way: {"color": colour, "marker": marker, "linestyle": line, "linewidth": 1.4,
          "markersize": size}
    for way, colour, marker, line, size in (
        (ways.SEPARATE, style.PURPLE, "^", "-", 5.5),
        (ways.ONE_KERNEL, style.ORANGE, "D", "-", 5.5),
        (ways.BY_FOUR, style.SKY, "o", "-", 5.5),
        (ways.OURS_BY_FOUR, OF_10["color"], OF_10["marker"], "-", 5.5),
        (ways.LT, style.FAINT, "s", "-", 5.5),
        (ways.CUBLAS, style.INK, "*", "--", 8),
        (ways.ALONE, OF_10["color"], OF_10["marker"], ":", 4),
    )
}  # fmt: skip
"""Of each way; no colour is a matrix's, and 10 has its own."""
LOOKS[ways.ALONE]["markerfacecolor"] = style.GROUND
LINE_OF_11 = {"color": style.BLACK, "linewidth": 1.4}
MULTIPLES = (0.8, 1, 1.2, 1.5, 2, 3, 4, 6, 8, 12, 16)  # on the axis of time
LEFT, GAP, HEIGHT = 0.75, 0.4, 3.6  # inches


@styled
def epilogue(table: pandas.DataFrame) -> Picture:
    """Time as a multiple of that of rung 11, over K, a panel for each size of square C.

    table: as measure.TABLE has it: rows of CURVE_OF with M = N, and of those the sizes with
    two K or more. Both axes are logarithmic. Above the line at 1 a way takes longer than rung
    11. Where cuBLAS with one kernel by float4 passes it, the K between are marked: the crossover.
    """
    rows = table[(table["activation"] == ways.CURVE_OF) & (table["m"] == table["n"])]
    sides = [side for side, of_side in rows.groupby("m") if of_side["k"].nunique() > 1]
    rows = rows[rows["m"].isin(sides)]
    key = [(way, look) for way, look in LOOKS.items() if way in set(rows["way"])]
    caption, source = _caption(rows), style.provenance(rows)
    body = 0.26 + HEIGHT + 0.5
    fig = page("Time beside rung 11", body, caption, source, key=[*key, (ways.FUSED, LINE_OF_11)])
    width = (WIDTH - LEFT - MARGIN - GAP * (len(sides) - 1)) / len(sides)
    low, high = rows["ratio"].min() / 1.08, 1.2 * rows["ratio"].max()
    multiples = [factor for factor in MULTIPLES if low <= factor <= high]
    for at, side in enumerate(sides):
        x = LEFT + at * (width + GAP)
        fig.text_at(x, fig.top, f"M = N = {side}", size=LARGE, weight="bold")
        ax = fig.add_axes_at(x, fig.top + 0.26, width, HEIGHT)
        of_side = rows[rows["m"] == side].sort_values("k")
        given = [
            Curve(way, list(curve["k"]), list(curve["ratio"]), look)
            for way, look in LOOKS.items()
            if len(curve := of_side[of_side["way"] == way])
        ]
        draw_curves(ax, given, named=False)
        ax.set(ylim=(low, high), xlabel="K")
        ax.set_yticks(multiples, [f"{factor:g}" for factor in multiples])
        ax.axhline(1, **LINE_OF_11)
        for before, after in joined(crossovers(of_side)):
            ax.axvspan(before, after, color=style.tint(style.FAINT, 0.15), linewidth=0, zorder=0)
            look = {"ha": "center", "va": "top", "rotation": 90}
            note(ax, "crossover", ((before * after) ** 0.5, high), (0, -4), **look)
        if at == 0:
            ax.set_ylabel("time, as a multiple of 11's")
    return fig


def crossovers(rows: pandas.DataFrame) -> list[tuple[int, int]]:
    """Pairs of neighbouring K between which cuBLAS and one kernel by float4 passes rung 11."""
    curve = rows[rows["way"] == ways.BY_FOUR].sort_values("k")
    points = list(zip(curve["k"], curve["ratio"], strict=True))
    return [(a, b) for (a, x), (b, y) in pairwise(points) if (x > 1) != (y > 1)]


def joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same in order, those that meet made one."""
    merged: list[tuple[int, int]] = []
    for first, last in spans:
        if merged and merged[-1][1] == first:
            first, _ = merged.pop()
        merged.append((first, last))
    return merged


def _caption(rows: pandas.DataFrame) -> str:
    def times(row: pandas.Series) -> tuple[str, str]:
        return style.digits(row["ratio"]), style.shape_label(*row[["m", "n", "k"]])

    by_four = rows[rows["way"] == ways.BY_FOUR].sort_values("ratio")
    (least, at_least), (most, at_most) = times(by_four.iloc[0]), times(by_four.iloc[-1])
    words = f"Bias and {ways.CURVE_OF}. {ways.BY_FOUR} takes {most} times as long as rung 11 at "
    words += f"{at_most}, and {least} times at {at_least}."
    if len(fused := rows[rows["way"] == ways.LT].sort_values("ratio")):
        (least, at_least), (most, at_most) = times(fused.iloc[0]), times(fused.iloc[-1])
        words += f" {ways.LT} takes {least} times as long at best, at {at_least}, and {most} at "
        words += f"{at_most}."
    crossed = []
    for side, of_side in rows.groupby("m"):
        if spans := joined(crossovers(of_side)):
            between = style.listed([f"{before} to {after}" for before, after in spans])
            crossed.append(f"M=N={side} with K from {between}")
    if crossed:
        words += f" {ways.BY_FOUR} crosses rung 11 at {style.listed(crossed)}."
    return words
