"""Which numbers 8-bit floats are, and how far a conversion moves a number."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas
from matplotlib.ticker import NullLocator

from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LARGE, MARGIN, NORMAL, SMALL, WIDTH, styled

COLUMNS = ("element", "from", "error")
LOOKS = {"float8_e4m3": ("E4M3", style.PURPLE), "float8_e5m2": ("E5M2", style.ORANGE)}
SHOWN = (0.0, 8.0)  # of the numbers
LEFT, TOP, HEIGHT, NUMBERS, BETWEEN = 0.65, 0.75, 2.5, 3.2, 1.15  # inches
BELOW = 0.75  # of the panels
PERCENT = (5, 10, 20, 50, 100)


@styled
def fp8_values(
    numbers: Mapping[str, np.ndarray], rounding: pandas.DataFrame, *, caption: str | None = None
) -> Picture:
    """The numbers of E4M3 and of E5M2 from 0 to 8, and the largest error of rounding to them.

    numbers: {name of the element type: its finite numbers above 0}, as analysis.fp8.conversions
    gives; rounding: as its function of that name. Raises TypeError and ValueError.
    """
    style.require_table(rounding, COLUMNS, "fp8_values")
    if set(numbers) != set(LOOKS) or set(rounding["element"]) != set(LOOKS):
        raise ValueError(f"fp8_values takes the numbers of {style.listed(sorted(LOOKS))}.")
    fig = style.page(TOP + HEIGHT + BELOW, caption or _caption(numbers, rounding))
    title = "E4M3 has twice as many numbers in an octave, E5M2 reaches further both ways"
    fig.text_at(MARGIN, 0.12, title, size=LARGE, weight="bold")
    ax = fig.add_axes_at(LEFT, TOP, NUMBERS, HEIGHT, gid="numbers")
    _draw_numbers(ax, numbers)
    left = LEFT + NUMBERS + BETWEEN
    ax = fig.add_axes_at(left, TOP, WIDTH - left - MARGIN - 0.1, HEIGHT, gid="rounding")
    _draw_rounding(ax, rounding)
    return fig


def _draw_numbers(ax, numbers: Mapping[str, np.ndarray]) -> None:
    for row, (name, (words, colour)) in enumerate(LOOKS.items()):
        chosen = numbers[name][numbers[name] <= SHOWN[1]]
        ax.vlines(chosen, row + 0.22, row + 0.78, color=colour, linewidth=1.0, gid=words)
        octave = int(((numbers[name] >= 1) & (numbers[name] < 2)).sum())
        ax.annotate(f"{octave} from 1 to 2", (SHOWN[1], row + 0.1), ha="right", size=SMALL)
    ax.set(xlim=(-0.1, SHOWN[1] + 0.1), ylim=(len(LOOKS), 0), xlabel="number")
    ax.set_yticks([row + 0.5 for row in range(len(LOOKS))], [words for words, _ in LOOKS.values()])
    ax.tick_params(axis="y", length=0, labelsize=NORMAL)
    ax.set_xticks([0, 1, 2, 4, 8])
    ax.spines["left"].set_visible(False)
    ax.set_title("The numbers from 0 to 8", size=NORMAL, loc="left")


def _draw_rounding(ax, rounding: pandas.DataFrame) -> None:
    for name, (words, colour) in LOOKS.items():
        rows = rounding[rounding["element"] == name].sort_values("from")
        edges = np.append(rows["from"], 2 * rows["from"].iloc[-1])
        ax.stairs(100 * rows["error"], edges, color=colour, linewidth=1.8, gid=words)
        flat = 100 * rows["error"].min()
        ax.annotate(
            f"{words}: {flat:.1f} %", (1, flat), (0, 5), textcoords="offset points", size=SMALL,
            ha="center", color=style.INK,
        )  # fmt: skip
    exponents = np.log2(rounding["from"]).astype(int)
    ticks = range(4 * math.floor(exponents.min() / 4), exponents.max() + 2, 4)
    ax.set(xscale="log", yscale="log", xlabel="value that is converted")
    ax.set_xticks([2.0**one for one in ticks], [_power(one) for one in ticks])
    ax.set_yticks(PERCENT, [f"{one} %" for one in PERCENT])
    ax.set_ylim(4, 125)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_locator(NullLocator())
    ax.grid(axis="y")
    ax.set_title("Rounding: the largest error in each octave", size=NORMAL, loc="left")


def _power(exponent: int) -> str:
    digits = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"2{digits}" if exponent else "1"


def _caption(numbers: Mapping[str, np.ndarray], rounding: pandas.DataFrame) -> str:
    said = []
    for name, (words, _) in LOOKS.items():
        flat = rounding[rounding["element"] == name]["error"].min()
        said.append(
            f"{words} ends at {numbers[name][-1]:,.0f} and is off by at most {100 * flat:.1f} %"
        )
    return (
        f"{'; '.join(said)}, as far as its numbers have all their bits. Below, the distance from "
        "one to the next stays the same, so errors grow up to 100 %, where a value becomes 0. "
        "Values converted by the compiled quantizer."
    )
