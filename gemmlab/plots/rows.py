"""Charts with a row for each name: bars and markers along a scale, and lanes over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from gemmlab.plots import style
from gemmlab.plots.cells import write
from gemmlab.plots.page import Picture
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, WIDTH


def rows_of(
    fig: Picture, names: Sequence[str], top: float, pitch: float, *, left: float = 0.0,
    right: float = WIDTH - MARGIN, size: float = NORMAL, gid: str = "", **limits: Any,
) -> Axes:  # fmt: skip
    """Axes with a row of `pitch` inches for each name; the n-th lies from n to n + 1, from the top.

    left: where the axes begin, in inches; 0 for right of the longest name. limits: what Axes.set
    takes. The names stand at the left of their rows.
    """
    left = left or MARGIN + style.widest(names, size) + 0.12
    ax = fig.add_axes_at(left, top, right - left, pitch * len(names), gid=gid)
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
    look = {"linewidth": 0.8, **look}
    ax.add_patch(Rectangle((low, row + (1 - share) / 2), high - low, share, **look))
    if words:
        write(ax, (low + high) / 2, row + 0.5, words, **(text or {}))


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
