"""What a bias and an activation cost in other ways, against rung 11 that fuses them."""

from __future__ import annotations

from itertools import pairwise

import pandas
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from gemmlab.lessons.fused_epilogue.epilogues import (
    ALONE,
    BY_FOUR,
    CUBLAS,
    CURVE_OF,
    FUSED,
    LT,
    ONE_KERNEL,
    OURS_BY_FOUR,
    PLAIN,
    SEPARATE,
)
from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LARGE, MARGIN, SMALL, WIDTH, styled

COLUMNS = ("m", "n", "k", "activation", "way", "ratio", "gpu", "recorded")
OF_10 = style.kernel_style(PLAIN)
LOOKS = {  # colour, marker, line; no colour is a matrix's, and 10 has its own
    SEPARATE: (style.PURPLE, "^", "-"),
    ONE_KERNEL: (style.ORANGE, "D", "-"),
    BY_FOUR: (style.SKY, "o", "-"),
    OURS_BY_FOUR: (OF_10["color"], OF_10["marker"], "-"),
    LT: (style.FAINT, "s", "-"),
    CUBLAS: (style.INK, "*", "--"),
    ALONE: (OF_10["color"], OF_10["marker"], ":"),
}
SIZES = {CUBLAS: 8, ALONE: 4}  # of markers, in points; of all others 5.5
MULTIPLES = (0.8, 1, 1.2, 1.5, 2, 3, 4, 6, 8, 12, 16)  # on the axis of time
LEFT, GAP, TOP, HEIGHT = 0.75, 0.4, 1.32, 3.6  # inches


@styled
def epilogue(
    table: pandas.DataFrame, activation: str = CURVE_OF, *, caption: str | None = None
) -> Picture:
    """Time as a multiple of that of rung 11, over K, a panel for each size of square C.

    table: as gl.epilogue() gives; its rows of the activation with M = N, and of those the sizes
    with two K or more. Both axes are logarithmic. Above the line at 1 a way takes longer than rung
    11. Where cuBLAS with one kernel by float4 passes it, the K between are marked: the crossover.

    Raises TypeError and ValueError for anything else, also for an activation without such rows.
    """
    style.require_table(table, COLUMNS, "epilogue")
    rows = table[(table["activation"] == activation) & (table["m"] == table["n"])]
    style.require_positive(rows.rename(columns={"way": "kernel"}), ("ratio",), "epilogue")
    sides = [side for side, own in rows.groupby("m") if own["k"].nunique() > 1]
    if not sides:
        there = ", ".join(sorted(set(table["activation"])))
        raise ValueError(f"epilogue: no curve of {activation!r} is there; there is {there}.")
    rows = rows[rows["m"].isin(sides)]
    fig = style.page(
        TOP + HEIGHT + 0.65, caption or _caption(rows, activation), style.provenance(rows)
    )
    _draw_key(fig, [way for way in LOOKS if way in set(rows["way"])])
    width = (WIDTH - LEFT - MARGIN - GAP * (len(sides) - 1)) / len(sides)
    low, high = rows["ratio"].min() / 1.08, 1.2 * rows["ratio"].max()
    multiples = [one for one in MULTIPLES if low <= one <= high]
    for at, side in enumerate(sides):
        x = LEFT + at * (width + GAP)
        fig.text_at(x, TOP - 0.26, f"M = N = {side}", size=LARGE, weight="bold")
        ax = fig.add_axes_at(x, TOP, width, HEIGHT, gid=f"M = N = {side}")
        own = rows[rows["m"] == side]
        ax.set(xscale="log", yscale="log", ylim=(low, high), xlabel="K")
        depths = sorted(set(own["k"]))
        ax.set_xticks(depths, [str(depth) for depth in depths], rotation=60)
        ax.set_yticks(multiples, [f"{one:g}" for one in multiples])
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_minor_locator(NullLocator())
        ax.set_xlim(depths[0] / 1.3, depths[-1] * 1.3)
        ax.axhline(1, color=style.BLACK, linewidth=1.4, gid="rung 11")
        for way, (colour, marker, line) in LOOKS.items():
            curve = own[own["way"] == way].sort_values("k")
            ax.plot(
                curve["k"], curve["ratio"], line, marker=marker, color=colour, linewidth=1.4,
                markersize=SIZES.get(way, 5.5), gid=f"{way} {side}",
                markerfacecolor=style.GROUND if way == ALONE else colour,
            )  # fmt: skip
        for before, after in joined(crossovers(own)):
            ax.axvspan(before, after, color=style.tint(style.FAINT, 0.15), linewidth=0, zorder=0,
                       gid=f"crossover {side}")  # fmt: skip
            ax.annotate(
                "crossover", ((before * after) ** 0.5, high), (0, -4), textcoords="offset points",
                size=SMALL, ha="center", va="top", rotation=90,
            )  # fmt: skip
        ax.grid(axis="y")
        if at == 0:
            ax.set_ylabel("time, as a multiple of 11's")
    return fig


def crossovers(rows: pandas.DataFrame) -> list[tuple[int, int]]:
    """Pairs of neighbouring K between which cuBLAS and one kernel by float4 passes rung 11."""
    curve = rows[rows["way"] == BY_FOUR].sort_values("k")
    points = list(zip(curve["k"], curve["ratio"], strict=True))
    return [(one[0], two[0]) for one, two in pairwise(points) if (one[1] > 1) != (two[1] > 1)]


def joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same in order, those that meet made one."""
    found: list[tuple[int, int]] = []
    for first, last in spans:
        if found and found[-1][1] == first:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return found


def _draw_key(fig: Picture, ways: list[str]) -> None:
    across, down = fig.get_size_inches()
    x = LEFT
    y = 0.14
    for way in (*ways, FUSED):
        colour, marker, line = LOOKS.get(way, (style.BLACK, "", "-"))
        if x + 0.38 + style.text_width(way, SMALL) > WIDTH - MARGIN:
            x, y = LEFT, y + 0.28
        fig.add_artist(
            Line2D(
                [x / across, (x + 0.15) / across, (x + 0.3) / across], [1 - (y + 0.08) / down] * 3,
                color=colour, linestyle=line, marker=marker, markevery=[1],
                markersize=SIZES.get(way, 5.5),
                markerfacecolor=style.GROUND if way == ALONE else colour,
            )
        )  # fmt: skip
        fig.text_at(x + 0.38, y, way, size=SMALL)
        x += 0.38 + style.text_width(way, SMALL) + 0.25


def _caption(rows: pandas.DataFrame, activation: str) -> str:
    one = rows[rows["way"] == BY_FOUR].sort_values("ratio")
    most, least = one.iloc[-1], one.iloc[0]
    words = (
        f"Bias and {activation}. {BY_FOUR} takes "
        f"{style.digits(most['ratio'])} times as long as rung 11 at "
        f"{style.shape_label(*most[['m', 'n', 'k']])}, and {style.digits(least['ratio'])} times at "
        f"{style.shape_label(*least[['m', 'n', 'k']])}."
    )
    if len(fused := rows[rows["way"] == LT].sort_values("ratio")):
        words += (
            f" {LT} takes {style.digits(fused.iloc[0]['ratio'])} times as long at best, at "
            f"{style.shape_label(*fused.iloc[0][['m', 'n', 'k']])}, and "
            f"{style.digits(fused.iloc[-1]['ratio'])} at "
            f"{style.shape_label(*fused.iloc[-1][['m', 'n', 'k']])}."
        )
    places = {
        side: [f"{before} to {after}" for before, after in joined(crossovers(own))]
        for side, own in rows.groupby("m")
    }
    found = [
        f"M=N={side} with K from {style.listed(between)}"
        for side, between in places.items()
        if between
    ]
    return words + (f" {BY_FOUR} crosses rung 11 at {style.listed(found)}." if found else "")
