"""Charts: curves over sizes, each with its name at its end, and rows of bars, one for each name."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from gemmlab.plots import style
from gemmlab.plots.cells import box
from gemmlab.plots.page import Picture
from gemmlab.plots.style import LINE, MARGIN, NORMAL, SMALL, WIDTH

LEADER = 0.3  # inches, from the end of a curve to its name


@dataclass(frozen=True)
class Curve:
    """One curve: what stands at its end, its points in the order of x, and how it looks.

    look: what Axes.plot takes.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    look: Mapping[str, Any]


def draw_curves(
    ax: Axes, given: Sequence[Curve], *, scale: str = "log", named: bool = True, most: float = 0.0
) -> None:
    """The curves over a logarithmic x, with a tick at each x of theirs as far as numbers fit.

    scale: of y; a linear one begins at 0 and goes to the largest value, or to `most` if that is
    more. named: write the names right of the axes, in the order of the curves' ends.
    """
    for curve in given:
        ax.plot(curve.x, curve.y, **{"markersize": 6, "label": curve.name, **curve.look})
    values = [value for curve in given for value in curve.y]
    sizes = sorted({size for curve in given for size in curve.x})
    ax.set(xscale="log", yscale=scale, xlim=(sizes[0] / 1.25, sizes[-1] * 1.25))
    if scale == "log":
        ax.set_ylim(min(values) / 1.4, max(values) * 1.4)
        style.plain_log_ticks(ax.yaxis)
    else:
        ax.set_ylim(0, max(most, *values) * 1.06)
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")  # 0.5 too
    size_ticks(ax, sizes)
    ax.grid(axis="both")
    if named:
        _name(ax, given)


def _name(ax: Axes, given: Sequence[Curve]) -> None:
    """The names right of the axes, each joined to the end of its curve."""
    width, height = inches_of(ax)
    to_axes = ax.transData + ax.transAxes.inverted()
    ends = [(curve.x[-1], curve.y[-1]) for curve in given]
    wanted = [to_axes.transform(end)[1] * height for end in ends]
    places = style.spread_out(wanted, NORMAL * LINE / 72, 0, height)
    for curve, end, y in zip(given, ends, places, strict=True):
        ax.annotate(
            curve.name, end, (1 + 0.8 * LEADER / width, y / height),
            textcoords="axes fraction", va="center", size=NORMAL,
            arrowprops={"arrowstyle": "-", "color": curve.look["color"], "linewidth": 0.8,
                        "relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 5},
            annotation_clip=False,
        )  # fmt: skip


def room_for(names: Iterable[str]) -> float:
    """The inches that names take at the right of the axes."""
    return LEADER + style.widest(names)


def inches_of(ax: Axes) -> tuple[float, float]:
    """The width and the height of axes."""
    assert isinstance(ax.figure, Figure)
    across, down = ax.figure.get_size_inches()
    place = ax.get_position()
    return place.width * across, place.height * down


def size_ticks(ax: Axes, sizes: Sequence[float]) -> None:
    """A tick for every size, in their order, as far as the numbers fit beside each other."""
    width, _ = inches_of(ax)
    low, high = (math.log(value) for value in ax.get_xlim())
    shown: list[float] = []
    free_to = math.inf
    for size in reversed(sizes):
        at = (math.log(size) - low) / (high - low) * width
        half = style.text_width(str(size), SMALL) / 2 + 0.04
        if at + half <= free_to:
            shown.append(size)
            free_to = at - half
    ax.set_xticks(shown, [str(size) for size in shown])
    ax.xaxis.set_minor_locator(NullLocator())


# ---- rows ----------------------------------------------------------------------------------------


def rows_of(
    fig: Picture, names: Sequence[str], top: float, pitch: float, *, left: float = 0.0,
    right: float = WIDTH - MARGIN, size: float = NORMAL, **limits: Any,
) -> Axes:  # fmt: skip
    """Axes with a row of `pitch` inches for each name; the n-th lies from n to n + 1, from the top.

    left: where the axes begin, in inches; 0 for right of the longest name. limits: what Axes.set
    takes. The names stand at the left of their rows.
    """
    left = left or MARGIN + style.widest(names, size) + 0.12
    ax = fig.add_axes_at(left, top, right - left, pitch * len(names))
    ax.set(ylim=(len(names), 0), **limits)
    ax.set_yticks([row + 0.5 for row in range(len(names))], names)
    ax.tick_params(axis="y", length=0, labelsize=size)
    ax.grid(axis="x")
    return ax


def bar(
    ax: Axes, row: float, low: float, high: float, words: str = "", *, share: float = 0.7,
    text: Mapping[str, Any] | None = None, **look: Any,
) -> None:  # fmt: skip
    """A bar in the middle of a row, as high as that share of it, with words in its middle."""
    box(ax, low, row + (1 - share) / 2, high - low, share, words, text, **look)


def note(ax: Axes, words: str, at: tuple, shift: tuple[float, float], **look: Any) -> None:
    """Words beside a place of the axes, so many points away from it."""
    look = {"textcoords": "offset points", "size": SMALL, "annotation_clip": False, **look}
    ax.annotate(words, at, shift, **look)


def at_edge(ax: Axes, row: float, words: str, **look: Any) -> None:
    """Words right of a row, in line for all rows."""
    look = {"xycoords": ("axes fraction", "data"), "va": "center", "size": NORMAL, **look}
    note(ax, words, (1, row + 0.5), (6, 0), **look)


def lanes_of(spans: Mapping[Any, tuple[float, float]]) -> dict[Any, int]:
    """A lane for each (start, end), from 0 on and in their order, so that none overlap in it."""
    ends: list[float] = []  # of the last span in each lane
    lanes = {}
    for name, (start, end) in spans.items():
        lane = next((lane for lane, free in enumerate(ends) if free <= start), len(ends))
        ends[lane : lane + 1] = [end]
        lanes[name] = lane
    return lanes


def stripes(ax: Axes, rows: int) -> None:
    """A pale ground behind every second row."""
    for row in range(0, rows, 2):
        ax.axhspan(row, row + 1, color=style.tint(style.FAINT, 0.06), linewidth=0, zorder=0)


def line_of_cublas(ax: Axes, **look: Any) -> None:
    """The dashed line at 100 % of cuBLAS."""
    look = {"color": style.BLACK, "linestyle": "--", "linewidth": 1.4, "zorder": 1.5, **look}
    ax.axvline(100, **look)
