"""Measured speed over arithmetic intensity, under the roofs of the GPU."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox

from gemmlab.ladder import RUNGS
from gemmlab.plots import style
from gemmlab.plots.charts import note
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.style import LINE, MARGIN, NORMAL, SMALL, WIDTH, percent
from gemmlab.records.roofs import Ceilings

UNITS = {
    ("float32", False): "FP32 multiply-adds",
    ("float16", False): "tensor cores, mma.sync of FP16",
    ("float16", True): "tensor cores, wgmma of FP16",
}
BY_WGMMA = {rung.name for rung in RUNGS if rung.by_wgmma}
# The axes, the same in every notebook: they hold all rungs, in FP32 and on tensor cores, at all
# recorded shapes. What another GPU has beyond them widens them.
INTENSITIES = (0.1, 1e4)  # FLOP per byte
RATES = (200.0, 1.5e6)  # GFLOP/s
LEVELS = {  # of memory: its column, how its marker is filled, and what that means
    "DRAM": ("dram_intensity", "full", "by the bytes counted at the DRAM"),
    "L2": ("l2_intensity", "left", "by the bytes counted at L2"),
    "L1": ("model_intensity", "none", "by the bytes asked"),
}
HALF = 0.09  # inches, of a marker
CLOSE = 1.6  # of two roofs no further apart the words stand above both
CACHES = ("L2", "L1")  # whose roofs are those of reading
Unit = tuple[str, bool]  # a key of UNITS


@styled
def roofline(
    points: pandas.DataFrame, ceilings: Ceilings, *, caption: str | None = None
) -> Picture:
    """Measured speed over arithmetic intensity, under the measured roofs of the GPU.

    A filled marker stands at the intensity from counted DRAM bytes, a hollow one at that from the
    bytes that the kernel's idea asks of global memory; a thin line joins them. Where it is known
    how fast L2 and L1 can be read, each has a roof of its own: half-filled markers, at the bytes
    counted at L2, belong under that of L2, and hollow ones under that of L1. Where float16 points
    are among them, the roof of the tensor cores stands above that of FP32. The axes do not depend
    on which kernels are shown.
    points and ceilings: as gemmlab.analysis.roofline.points(...) and ceilings() give them.

    Raises ValueError for points of another GPU, and NoRecord where a roof is not known.
    """
    intensities = [column for column, *_ in LEVELS.values()]
    if others := sorted(set(points["gpu"]) - {ceilings.gpu}):
        raise ValueError(
            f"roofline: the roofs are those of {ceilings.gpu}, the points of {', '.join(others)}."
        )
    slope = ceilings.bytes_per_second / 1e9
    reads = [level for level in CACHES if level in ceilings.reads]
    slopes = {level: ceilings.reads[level].per_second.median / 1e9 for level in reads}
    units = {("float32", False), *map(_unit, points.itertuples())}
    tops = {unit: ceilings.arithmetic(*unit) / 1e9 for unit in UNITS if unit in units}
    caption = caption or _roofline_caption(points, slope, tops, slopes.get("L2"))
    fig = page("", 0.08 + 4.2 + 0.62, caption, style.provenance(points))
    ax = fig.add_axes_at(0.98, 0.2, WIDTH - MARGIN - 0.98 - 0.15, 4.2)
    xs = [*points[intensities].to_numpy().ravel(), *(top / slope for top in tops.values())]
    ys = [*points["gflops"], *tops.values()]
    ax.set(
        xscale="log", yscale="log", xlim=_holding(INTENSITIES, xs), ylim=_holding(RATES, ys),
        xlabel="arithmetic intensity, FLOP per byte", ylabel="GFLOP/s",
    )  # fmt: skip
    style.plain_log_ticks(ax.xaxis)
    style.plain_log_ticks(ax.yaxis)
    ax.grid(axis="both")
    _draw_roofs(ax, slope, slopes, tops, points)
    levels = [level for level in LEVELS if level != "L2" or level in slopes]
    _draw_points(ax, points, tops.values(), levels)
    return fig


def _holding(limits: tuple[float, float], values: Sequence[float]) -> tuple[float, float]:
    """The limits of an axis, widened where a value lies beyond them."""
    low, high = limits
    return min(low, min(values) / 2), max(high, max(values) * 2)


def _unit(point: pandas.Series) -> Unit:
    return point.dtype, point.dtype != "float32" and point.kernel in BY_WGMMA


def _draw_roofs(
    ax: Axes, slope: float, slopes: dict[str, float], tops: dict[Unit, float],
    points: pandas.DataFrame,
) -> None:  # fmt: skip
    """The copy and arithmetic, black, and the slopes of L2 and L1, thin."""
    x_low, x_high = ax.get_xlim()
    highest = max(tops.values())
    for top in tops.values():
        xs, ys = [top / slope, x_high], [top, top]
        if top == highest:
            xs, ys = [x_low, *xs], [slope * x_low, *ys]
        ax.plot(xs, ys, color=style.INK, linewidth=2)
    words_at, rise = math.inf, 0  # where the words of the roof above stand, and how far above it
    for unit, top in sorted(tops.items(), key=lambda named: -named[1]):
        is_close = words_at < CLOSE * top
        words_at, rise = (words_at, rise + 1) if is_close else (top, 0)
        shift = (-6, 5 + rise * SMALL * LINE * 1.2)
        words = f"{UNITS[unit]}: {style.rate(top)}"
        note(ax, words, (x_high, words_at), shift, ha="right", size=NORMAL)

    _name_slope(ax, "copy" if not slopes else "DRAM, copy", slope, highest, points, bool(slopes))
    for level, rate in slopes.items():
        ax.plot([x_low, highest / rate], [rate * x_low, highest], color=style.FAINT, linewidth=1.1)
        _name_slope(ax, f"{level}, read", rate, highest, points, False)


def _name_slope(
    ax: Axes, name: str, slope: float, top: float, points: pandas.DataFrame, below: bool
) -> None:
    """The words of a slanted roof, along it where it is far from the points."""
    x_low = max(ax.get_xlim()[0], ax.get_ylim()[0] / slope)
    ridge = top / slope
    places = (x_low * (ridge / x_low) ** (part / 8) for part in (4, 5, 6, 3, 2))
    x = max(
        (x for x in places if x > 3 * x_low),
        key=lambda x: np.abs(np.log(slope * x / points["gflops"])).min(),
    )
    across, up = ax.transData.transform((10, 10)) - ax.transData.transform((1, 1))
    ax.annotate(
        f"{name}: {style.digits(slope / 1e3)} TB/s", (x, slope * x), (4, -4) if below else (-4, 4),
        ha="center", va="top" if below else "bottom", textcoords="offset points",
        rotation=math.degrees(math.atan2(up, across)), rotation_mode="anchor", zorder=2.7,
        bbox={"facecolor": style.GROUND, "edgecolor": "none", "pad": 0.5},
    )  # fmt: skip


def _draw_points(
    ax: Axes, points: pandas.DataFrame, tops: Iterable[float], levels: list[str]
) -> None:
    """A line for each point with a marker for each level, and its label at its right end.

    Labels go from the top down, each beside its marker or as far above or below it as is free.
    """
    look: style.Look = {"linestyle": "", "marker": "o", "markersize": 8, "markeredgewidth": 1.4,
            "color": style.INK, "markerfacecoloralt": style.GROUND}  # fmt: skip
    columns, fills, meanings = zip(*(LEVELS[level] for level in levels), strict=True)
    ax.legend(
        [Line2D([], [], **{**look, "fillstyle": fill}) for fill in fills], meanings,
        loc="upper left", fontsize=SMALL, frameon=False, handletextpad=0.4, alignment="left",
        title="Arithmetic intensity", title_fontproperties={"size": SMALL, "weight": "bold"},
    )  # fmt: skip
    points = points.sort_values("gflops", ascending=False)
    inches = (ax.transData + ax.figure.dpi_scale_trans.inverted()).transform
    right = inches((ax.get_xlim()[1], 1))[0]
    heights = [inches((1, rate))[1] for rate in points["gflops"]]
    spans = [inches([(x, 1) for x in row])[:, 0] for row in points[[*columns]].to_numpy()]
    taken = [
        Bbox.from_extents(min(xs) - HALF, y - HALF, max(xs) + HALF, y + HALF)
        for xs, y in zip(spans, heights, strict=True)
    ]
    for top in tops:  # the roof and its words
        y = inches((1, top))[1]
        taken.append(Bbox.from_extents(0, y - 0.04, right, y + 0.22))
    names = list(points["kernel"])
    lifts = [0, 1, -1, 1.5, -1.5, *(sign * half / 2 for sign in (-1, 1) for half in range(4, 30))]
    for row, y, xs in zip(points.itertuples(), heights, spans, strict=True):
        of_kernel = style.kernel_style(row.kernel)
        colour, at = of_kernel["color"], [getattr(row, column) for column in columns]
        ax.plot(at, [row.gflops] * len(at), color=colour, linewidth=0.9, zorder=2.5)
        for fill, intensity in zip(fills, at, strict=True):
            filled = {"fillstyle": "full", "markerfacecolor": style.GROUND}  # with its ground
            mark = {**look, "marker": of_kernel["marker"], "color": colour, "fillstyle": fill}
            mark |= filled if fill == "none" else {}
            ax.plot(intensity, row.gflops, **mark, zorder=3)
        several = names.count(row.kernel) > 1
        words = row.kernel + several * f", {style.shape_label(row.m, row.n, row.k)}"
        wide, high = style.text_width(words, SMALL), SMALL * LINE / 72
        x = min(xs[0] + HALF + 0.06, right - wide)
        places = {lift: Bbox.from_bounds(x, y + (lift - 0.5) * high, wide, high) for lift in lifts}
        lift = next((lift for lift in lifts if not places[lift].count_overlaps(taken)), 0)
        taken.append(places[lift])
        leader = {"arrowstyle": "-", "color": style.FAINT, "relpos": (0, 0.5), "linewidth": 0.6,
                  "shrinkB": 4}  # fmt: skip
        note(
            ax, words, (row.dram_intensity, row.gflops), (72 * (x - xs[0]), 72 * lift * high),
            va="center_baseline", zorder=4,
            arrowprops=leader if abs(lift) >= 1 else None,  # where it is not beside it
        )  # fmt: skip


def _roofline_caption(
    points: pandas.DataFrame, slope: float, tops: dict[Unit, float], l2: float | None
) -> str:
    largest = points.assign(work=points["m"] * points["n"] * points["k"]).sort_values("work")
    largest = largest.drop_duplicates("kernel", keep="last").sort_values("kernel")
    shapes = set(largest[["m", "n", "k"]].itertuples(index=False, name=None))
    parts = []
    for row in largest.itertuples():
        share = percent(100 * row.gflops / min(tops[_unit(row)], slope * row.dram_intensity))
        where = "" if len(shapes) == 1 else f" at {style.shape_label(row.m, row.n, row.k)}"
        parts.append(f"{row.kernel} reaches {share}{where}")
    where = f"at {style.shape_label(*shapes.pop())}, " if len(shapes) == 1 else ""
    words = (
        "Speed over arithmetic intensity: filled markers by the bytes counted at the DRAM, "
        f"{'' if l2 is None else 'half-filled ones by those counted at L2, '}hollow ones by the "
        "bytes asked of global memory. Of what the roofs allow at the filled marker, "
        f"{where}{style.listed(parts)}."
    )
    if l2 is not None:
        takes = [
            f"{row.kernel} takes {percent(100 * row.gflops / row.l2_intensity / l2)}"
            for row in largest.itertuples()
        ]
        words += f" Of what L2 can deliver, {style.listed(takes)}."
    if len(tops) > 1:
        basis = "precision and instruction" if any(by for _, by in tops) else "precision"
        words += f" Each kernel belongs to the roof of its own {basis}."
    if (points["gflops"] > slope * points["model_intensity"]).any():
        words += (
            " A hollow marker above the roof of the copy: caches deliver those bytes, not the DRAM."
        )
    return words
