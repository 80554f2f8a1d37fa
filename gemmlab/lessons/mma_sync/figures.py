"""What the type of the elements does to the error of a product, over K."""

from __future__ import annotations

import math

import pandas
from matplotlib.ticker import NullLocator

from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LARGE, MARGIN, NORMAL, WIDTH, styled

COLUMNS = ("dtype", "k", "error")
LOOKS = {  # colour, marker; none is a matrix's
    "float16": (style.PURPLE, "o"), "bfloat16": (style.ORANGE, "D"), "tf32": (style.BLACK, "s"),
    "int8": (style.SKY, "^"), "float8_e4m3": (style.FAINT, "v"), "float8_e5m2": (style.FAINT, "P"),
}  # fmt: skip
LEFT, RIGHT, TOP, HEIGHT = 0.85, 1.3, 0.55, 3.4  # inches
LABEL = 0.18  # inches, from one name to the next at least


@styled
def error_over_k(table: pandas.DataFrame, *, caption: str | None = None) -> Picture:
    """The mean error of elements of C against float64, a curve for each type, on logarithms.

    table: as analysis.precisions.over_k() gives. Raises TypeError and ValueError for others.
    """
    style.require_table(table, COLUMNS, "error_over_k")
    unknown = sorted(set(table["dtype"]) - LOOKS.keys())
    if unknown or table.empty or not (table["error"] > 0).all():
        raise ValueError(f"error_over_k takes errors above 0 of {', '.join(LOOKS)}; not {unknown}.")
    fig = style.page(TOP + HEIGHT + 0.65, caption or _caption(table))
    fig.text_at(MARGIN, 0.12, "Error of a product, by type", size=LARGE, weight="bold")
    ax = fig.add_axes_at(LEFT, TOP, WIDTH - LEFT - RIGHT - MARGIN, HEIGHT, gid="errors")
    depths = sorted(set(table["k"]))
    ax.set(xscale="log", yscale="log", xlabel="K", ylabel="mean error of an element of C")
    ax.set_xticks(depths, [str(depth) for depth in depths])
    powers = [10.0**n for n in range(-9, 9)]
    ax.set_yticks(powers, [f"{one:g}" for one in powers])
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_locator(NullLocator())
    last = table[table["k"] == depths[-1]].set_index("dtype")["error"]
    low, high = 0.7 * table["error"].min(), 1.4 * table["error"].max()
    ax.set_ylim(low, high)
    names = [dtype for dtype in LOOKS if dtype in last]
    inches = [HEIGHT * math.log(last[dtype] / low) / math.log(high / low) for dtype in names]
    for name, at in zip(names, style.spread_out(inches, LABEL, 0.0, HEIGHT), strict=True):
        ax.annotate(
            name, (1, at / HEIGHT), (8, 0), xycoords="axes fraction", textcoords="offset points",
            size=NORMAL, va="center",
        )  # fmt: skip
    for dtype, (colour, marker) in LOOKS.items():
        curve = table[table["dtype"] == dtype].sort_values("k")
        ax.plot(curve["k"], curve["error"], marker=marker, color=colour, gid=dtype)
    ax.grid(axis="y")
    return fig


def _caption(table: pandas.DataFrame) -> str:
    last = table[table["k"] == table["k"].max()].sort_values("error")
    return (
        "Operands from -1 to 1, rounded to each type, multiplied and added up, against float64 of "
        f"the numbers before rounding. At K = {last['k'].iloc[0]} {last['dtype'].iloc[0]} is the "
        f"nearest and {last['dtype'].iloc[-1]} the farthest."
    )
