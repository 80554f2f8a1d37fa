"""Errors of a product of 8-bit floats over K: by how its sums are added, and by its scales."""

from __future__ import annotations

import math

import pandas
from matplotlib.ticker import NullLocator

from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LARGE, MARGIN, NORMAL, WIDTH, styled

COLUMNS = ("data", "types", "scales", "promote", "k", "sum_error", "whole_error")
SUMS = {  # promote -> colour, marker
    128: (style.PURPLE, "o"), 256: (style.SKY, "^"), 512: (style.ORANGE, "D"),
    0: (style.BLACK, "s"),
}  # fmt: skip
KINDS = {"tensors": (style.BLACK, "s"), "rows": (style.ORANGE, "D"), "blocks": (style.PURPLE, "o")}
LEFT, BETWEEN, RIGHT, TOP, HEIGHT = 0.8, 1.75, 1.1, 0.9, 3.1  # inches
LABEL = 0.18  # inches, from one name to the next at least


@styled
def fp8_errors(
    table: pandas.DataFrame, *, types: str = "E4M3", caption: str | None = None
) -> Picture:
    """Errors as shares of |A| @ |B|, root mean squares, in two panels with K along both.

    Left: of the sums alone, a curve for each number of products that one sum of the tensor cores
    takes. Right: of all, quantizing included, a curve for each kind of scales, on uneven data.
    table: as records.experiments.fp8.errors.recorded_errors gives. Raises TypeError and ValueError.
    """
    style.require_table(table, COLUMNS, "fp8_errors")
    chosen = table[table["types"] == types]
    if chosen.empty:
        raise ValueError(
            f"types is {types!r}, it must be one of {', '.join(sorted(set(table['types'])))}"
        )
    even = chosen[(chosen["data"] == "even") & (chosen["scales"] == "tensors")]
    uneven = chosen[(chosen["data"] == "uneven") & (chosen["promote"] == 128)]
    fig = style.page(TOP + HEIGHT + 0.65, caption or _caption(even, uneven))
    title = f"A sum that is promoted early loses little; errors of {types}"
    fig.text_at(MARGIN, 0.12, title, size=LARGE, weight="bold")
    wide = (WIDTH - LEFT - BETWEEN - RIGHT - MARGIN) / 2
    names = {promote: f"every {promote}" if promote else "never" for promote in SUMS}
    left = fig.add_axes_at(LEFT, TOP, wide, HEIGHT, gid="sums")
    _curves(left, even, "promote", "sum_error", SUMS, names)
    left.set_title("The sums alone, by promotion", size=NORMAL, loc="left")
    right = fig.add_axes_at(LEFT + wide + BETWEEN, TOP, wide, HEIGHT, gid="scales")
    _curves(right, uneven, "scales", "whole_error", KINDS, {kind: kind for kind in KINDS})
    right.set_title("Quantizing too, by scales, on uneven data", size=NORMAL, loc="left")
    return fig


def _curves(ax, table, by: str, error: str, looks: dict, names: dict) -> None:
    depths = sorted(set(table["k"]))
    ax.set(xscale="log", yscale="log", xlabel="K", ylabel="error / |A| |B|")
    ax.set_xticks(depths[::2], [str(depth) for depth in depths[::2]])
    ax.xaxis.set_minor_locator(NullLocator())
    low, high = 0.8 * table[error].min(), 1.25 * table[error].max()
    ax.set_ylim(low, high)
    ticks = [d * 10.0**n for n in range(-8, 0) for d in (1, 2, 5) if low <= d * 10.0**n <= high]
    ax.set_yticks(ticks, [f"{one:.0e}".replace("e-0", "e-") for one in ticks])
    ax.yaxis.set_minor_locator(NullLocator())
    last = table[table["k"] == depths[-1]].set_index(by)[error]
    there = [name for name in looks if name in last]
    inches = [HEIGHT * math.log(last[one] / low) / math.log(high / low) for one in there]
    for one, at in zip(there, style.spread_out(inches, LABEL, 0.0, HEIGHT), strict=True):
        ax.annotate(
            names[one], (1, at / HEIGHT), (6, 0), xycoords="axes fraction",
            textcoords="offset points", size=NORMAL, va="center",
        )  # fmt: skip
        curve = table[table[by] == one].sort_values("k")
        colour, marker = looks[one]
        ax.plot(curve["k"], curve[error], marker=marker, color=colour, gid=str(one))
    ax.grid(axis="y")


def _caption(even: pandas.DataFrame, uneven: pandas.DataFrame) -> str:
    last = even[even["k"] == even["k"].max()].set_index("promote")["sum_error"]
    kinds = uneven[uneven["k"] == uneven["k"].max()].set_index("scales")["whole_error"]
    return (
        f"Left: at K = {even['k'].max()} one sum of all products is {last[0] / last[128]:.0f} "
        "times as wrong as sums of 128 that are added in float32. Right: where rows and blocks of "
        "K differ in size, one scale for a matrix makes "
        f"{kinds['tensors'] / kinds['blocks']:.1f} times the error of a scale for each block."
    )
