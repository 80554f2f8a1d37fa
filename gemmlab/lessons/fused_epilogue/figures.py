"""Bias and activation in other ways than rung 11, which fuses them: passes over C, and time."""

import pandas

from gemmlab.lessons.fused_epilogue import epilogues as ways
from gemmlab.plots import style
from gemmlab.plots.cells import bare, box
from gemmlab.plots.charts import Curve, draw_curves
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import LARGE, MARGIN, NORMAL, WIDTH

OF_10 = style.kernel_style(ways.PLAIN)
LOOKS = {
    way: {"color": colour, "marker": marker, "linewidth": 1.4, "markersize": 5.5}
    for way, colour, marker in (
        (ways.SEPARATE, style.PURPLE, "^"),
        (ways.BY_FOUR, style.SKY, "o"),
        (ways.OURS_BY_FOUR, OF_10["color"], OF_10["marker"]),
        (ways.LT, style.FAINT, "s"),
    )
}
"""Of the ways that are drawn; no colour is a matrix's, and 10 has its own."""
LINE_OF_11 = {"color": style.BLACK, "linewidth": 1.4}
MULTIPLES = (0.8, 1, 1.2, 1.5, 2, 3, 4, 6, 8, 12, 16)  # on the axis of time
LEFT, GAP, HEIGHT = 0.75, 0.4, 3.6  # inches
KERNEL, MEMORY = 0.34, 0.26  # inches: the heights of a kernel, and of C in memory
APART, BELOW = 0.34, 0.3  # inches: between them, and below C
OF_C: style.Look = {"color": style.ARRAYS["C"], "linewidth": 1.6}
WRITES: style.Look = {"arrowstyle": "-|>", **OF_C}
READS: style.Look = {"arrowstyle": "-|>", **OF_C, "linestyle": (0, (2, 1))}


@styled
def passes() -> Picture:
    """The kernels of a matmul with bias and ReLU, and how often each reads and writes all of C.

    Three ways: separate kernels after the matmul, one kernel after it, and rung 11.
    """
    after = [name for name, *_ in ways.OPERATIONS[ways.CURVE_OF]]
    panels = (  # title, kernels, the way, and its place: row, column
        ("separate kernels", ["C = A @ B", *after], ways.SEPARATE, (0, 0)),
        ("one more kernel", ["C = A @ B", " and ".join(after)], ways.BY_FOUR, (1, 0)),
        ("11, fused", ["C = maximum(A @ B + bias, 0)"], ways.FUSED, (1, 2)),
    )
    counts = [str(sum(ways.passes(way, ways.CURVE_OF))) for _, _, way, _ in panels]
    caption = (
        "A matmul with bias and ReLU in three ways. All of C goes from the SMs to memory or back "
        f"{style.listed(counts)} times."
    )
    key = [
        ("a kernel, on the SMs", swatch(style.FAINT, 0.15)),
        ("C in memory", swatch(style.ARRAYS["C"], 0.3)),
        ("writes all of C", {**OF_C, "marker": "v"}),
        ("reads all of C", {**OF_C, "marker": "^", "linestyle": ":"}),
    ]
    down = KERNEL + APART + MEMORY
    fig = page("The passes over C", 2 * (0.24 + down + BELOW), caption, key=key)
    pitch = (WIDTH - 2 * MARGIN + GAP) / 3
    look: style.Look = {"size": NORMAL, "va": "center"}
    for name, kernels, _, (row, column) in panels:
        top, left = fig.top + row * (0.24 + down + BELOW), MARGIN + column * pitch
        fig.text_at(left, top, name, size=NORMAL, weight="bold")
        width = pitch * len(kernels) - GAP
        ax = bare(
            fig.add_axes_at(left, top + 0.24, width + 0.02, down + 0.02), width + 0.02, down + 0.02
        )
        box(ax, 0, KERNEL + APART, width, MEMORY, "C", look, **swatch(style.ARRAYS["C"], 0.3))
        for turn, kernel in enumerate(kernels):
            first, last = turn * pitch, (turn + 1) * pitch - GAP
            box(ax, first, 0, last - first, KERNEL, kernel, look, **swatch(style.FAINT, 0.15))
            above, below = KERNEL + 0.03, KERNEL + APART - 0.03
            if turn:  # whatever follows the matmul reads what that has written
                ax.annotate("", (first + 0.3, above), (first + 0.3, below), arrowprops=READS)
            ax.annotate("", (last - 0.3, below), (last - 0.3, above), arrowprops=WRITES)
    return fig


@styled
def epilogue(table: pandas.DataFrame) -> Picture:
    """Time as a multiple of that of rung 11, over K, a panel for each size of square C.

    table: as measure.TABLE has it; of its rows those of CURVE_OF. Both axes are logarithmic. Above
    the line at 1 a way takes longer than rung 11.
    """
    rows = table[(table["activation"] == ways.CURVE_OF) & table["way"].isin([*LOOKS])]
    sides = sorted(set(rows["m"]))
    key = [(ways.SHOWN.get(way, way), look) for way, look in LOOKS.items()]
    caption, source = _caption(rows), style.provenance(rows)
    body = 0.26 + HEIGHT + 0.5
    fig = page(
        "Time compared with rung 11's", body, caption, source, key=[*key, (ways.FUSED, LINE_OF_11)]
    )
    width = (WIDTH - LEFT - MARGIN - GAP * (len(sides) - 1)) / len(sides)
    low, high = rows["ratio"].min() / 1.08, 1.2 * rows["ratio"].max()
    multiples = [factor for factor in MULTIPLES if low <= factor <= high]
    for at, side in enumerate(sides):
        x = LEFT + at * (width + GAP)
        fig.text_at(x, fig.top, f"M = N = {side}", size=LARGE, weight="bold")
        ax = fig.add_axes_at(x, fig.top + 0.26, width, HEIGHT)
        of_side = rows[rows["m"] == side].sort_values("k")
        curves = ((way, look, of_side[of_side["way"] == way]) for way, look in LOOKS.items())
        given = [
            Curve(way, list(curve["k"]), list(curve["ratio"]), look) for way, look, curve in curves
        ]
        draw_curves(ax, given, named=False)
        ax.set(ylim=(low, high), xlabel="K")
        ax.set_yticks(multiples, [f"{factor:g}" for factor in multiples])
        ax.axhline(1, **LINE_OF_11)
        if at == 0:
            ax.set_ylabel("time, as a multiple of 11's (logarithmic)")
    return fig


def _caption(rows: pandas.DataFrame) -> str:
    ends = []  # of two ways: where they take least and most of 11's time
    for way in (ways.BY_FOUR, ways.LT):
        by_ratio = rows[rows["way"] == way].sort_values("ratio")
        for row in (by_ratio.iloc[0], by_ratio.iloc[-1]):
            ends += [style.digits(row["ratio"]), style.shape_label(*row[["m", "n", "k"]])]
    least, at_least, most, at_most, lt_least, lt_at_least, lt_most, lt_at_most = ends
    return (
        f"Bias and {ways.CURVE_OF}. {ways.SHOWN[ways.BY_FOUR]} takes {most} times as long as rung "
        f"11 at {at_most}, and {least} times at {at_least}. {ways.LT} takes {lt_least} times as "
        f"long at best, at {lt_at_least}, and {lt_most} at {lt_at_most}."
    )
