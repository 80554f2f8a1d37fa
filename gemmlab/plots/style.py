"""The style of all figures: colours, text, and words for numbers."""

import math
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.colors import to_rgb
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import LogLocator, NullLocator

from gemmlab.report import GROUND, INK, RULE

WIDTH = 9.0  # inches, the width of a page at 100 dots an inch
MARGIN = 0.15
DPI = 100
SMALL, NORMAL, LARGE = 8.0, 9.0, 10.0  # points; nothing is smaller than SMALL
LINE = 1.35  # distance of lines over the size of the text

# Okabe and Ito, Color Universal Design, 2008. Yellow is left out: too pale for lines on white.
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
FAINT, GRID = "#555555", RULE

ARRAYS = {"A": BLUE, "B": VERMILION, "C": GREEN}

# None is the colour of a matrix. Seven and six have no common divisor, so 42 kernels differ in
# colour or in marker and hatch.
KERNEL_COLOURS = ("#6A3D9A", "#B8860B", "#C2478F", "#5B6C8A", "#8B1E3F", "#7F8C1B", "#7B4B2A")
KERNEL_MARKERS = ("o", "s", "^", "D", "v", "P")
KERNEL_HATCHES = ("", "///", "...", "xxx", "|||", "---")
WARP_COLOURS = (SKY, ORANGE, GREEN, PURPLE, VERMILION)  # of warps other than warp 0 ...
WARP_HATCHES = ("", "///", "...", "xxx")  # ... which is solid blue
TILE_COLOURS = (ORANGE, SKY, PURPLE, FAINT)  # of tiles, steps and products in turn

Look = dict[str, Any]  # keyword arguments of matplotlib
FONT = "DejaVu Sans"
RENDERER = RendererAgg(1, 1, DPI)  # that measures text
RC = {
    "font.family": FONT,
    "font.size": NORMAL,
    "text.parse_math": False,  # a dollar in a caption is a dollar
    "axes.labelsize": NORMAL,
    "axes.titlesize": LARGE,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": GROUND,
    "axes.facecolor": GROUND,
    "savefig.facecolor": GROUND,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "lines.linewidth": 1.6,
}


def tile_colour(number: int) -> str:
    return TILE_COLOURS[number % len(TILE_COLOURS)]


def wrap(words: str, width: float, size: float) -> list[str]:
    """Lines of text no wider than `width` inches when set in `size` points."""
    lines: list[str] = []
    space, taken = text_width("i i", size) - text_width("ii", size), width
    for word in words.split():
        wide = text_width(word, size)
        if taken + space + wide <= width:
            lines[-1] += f" {word}"
            taken += space + wide
        else:
            lines.append(word)
            taken = wide
    return lines


@lru_cache(maxsize=8192)  # a millisecond each
def text_width(words: str, size: float, weight: str = "normal") -> float:
    """The width of one line of text in inches, as it is drawn at 100 dots an inch."""
    font = FontProperties(family=FONT, size=size, weight=weight)
    return RENDERER.get_text_width_height_descent(words, font, ismath=False)[0] / DPI


def widest(words: Iterable[str], size: float = NORMAL, weight: str = "normal") -> float:
    """The width in inches of the widest of some texts, of all their lines; 0 for none."""
    lines = [line for text in words for line in text.split("\n")]
    return max((text_width(line, size, weight) for line in lines), default=0.0)


def spread_out(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions close to the wanted ones, in the same order, at least `gap` apart.

    They stay between low and high if there is room for all of them.
    """
    order = np.argsort(wanted, kind="stable")
    values, below = np.asarray(wanted)[order], gap * np.arange(len(wanted))
    above = below[::-1]  # the room that the labels above and below each need
    up = np.maximum.accumulate(np.maximum(values, low) - below) + below
    down = np.minimum.accumulate((np.minimum(values, high) + above)[::-1])[::-1] - above
    # Both keep the gaps, one by moving labels up and one by moving them down; so does their mean.
    placed = np.empty(len(wanted))
    placed[order] = (np.minimum(up, high - above) + np.maximum(down, low + below)) / 2
    return placed.tolist()


def plain_log_ticks(axis: Axis) -> None:
    """Ticks at powers of ten, and at 2 and 5 times them where few of them are in view."""
    low, high = axis.get_view_interval()
    few = high / low < 300
    axis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5) if few else (1,), numticks=20))
    axis.set_major_formatter(lambda value, _: f"{value:,.10g}" if value >= 1 else f"{value:.2g}")
    axis.set_minor_locator(NullLocator())


def kernel_label(name: str) -> str:
    return "cuBLAS" if name == "cublas" else name


def shape_label(m: int, n: int, k: int) -> str:
    return f"M=N=K={m}" if m == n == k else f"M={m}, N={n}, K={k}"


def kernel_style(name: str) -> dict[str, str]:
    """Colour, marker and hatch of a kernel: by its number, so that it looks alike everywhere."""
    if name == "cublas":
        return {"color": BLACK, "marker": "*", "hatch": "++"}
    number = name.partition("_")[0]
    at = int(number) if number.isdigit() else zlib.crc32(name.encode())
    return {
        "color": KERNEL_COLOURS[at % len(KERNEL_COLOURS)],
        "marker": KERNEL_MARKERS[at % len(KERNEL_MARKERS)],
        "hatch": KERNEL_HATCHES[at % len(KERNEL_HATCHES)],
    }


def ladder_order(names: Iterable[str]) -> list[str]:
    """Kernels by name, that is by number; cuBLAS last."""
    return sorted(set(names), key=lambda name: (name == "cublas", name))


def tint(colour: str, share: float) -> tuple[float, float, float]:
    """The colour mixed into white: share 1 is the colour, 0 is white."""
    red, green, blue = (1 - share * (1 - part) for part in to_rgb(colour))
    return red, green, blue


def rate(gflops: float) -> str:
    """A rate with three digits and its unit: "495 GFLOP/s", "51.1 TFLOP/s"."""
    if gflops >= 1000:
        return f"{digits(gflops / 1000)} TFLOP/s"
    return f"{digits(gflops)} GFLOP/s"


def digits(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def percent(value: float) -> str:
    return f"{value:.1f} %" if value >= 1 else f"{value:.2f} %"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def listed(parts: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def provenance(table: pandas.DataFrame) -> str:
    """Where the numbers of a table come from: "NVIDIA H200, recorded 2026-11-21"."""
    parts = []
    for gpu, rows in table.groupby("gpu", sort=True):
        days = sorted({str(value)[:10] for value in rows["recorded"]})
        span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        parts.append(f"{gpu}, recorded {span}")
    return "; ".join(parts)
