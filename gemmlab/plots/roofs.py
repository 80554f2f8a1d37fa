"""Measured speed over arithmetic intensity, under the roofs of the GPU."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real

import pandas
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from gemmlab.ladder import RUNGS
from gemmlab.plots import style
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.rows import note
from gemmlab.plots.style import LINE, MARGIN, NORMAL, SMALL, WIDTH, percent
from gemmlab.records.roofs import Ceilings

POINTS = (
    "kernel", "dtype", "m", "n", "k", "gflops", "dram_intensity", "l2_intensity",
    "model_intensity", "gpu", "recorded",
)  # fmt: skip
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
CLOSE = 1.6  # of two roofs no further apart the words stand above both
CACHES = ("L2", "L1")  # whose roofs are those of reading
HALF = 0.09  # inches, of a marker


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

    Raises TypeError and ValueError for anything else, NoRecord where a roof is not known.
    """
    style.require_table(points, POINTS, "roofline")
    intensities = [column for column, *_ in LEVELS.values()]
    style.require_positive(points, ("m", "n", "k", "gflops", *intensities), "roofline")
    for name in ("bytes_per_second", "flop_per_second"):
        value = getattr(ceilings, name, None)
        if not (isinstance(value, Real) and math.isfinite(value) and value > 0):
            raise TypeError(
                f"roofline takes the roofs as gemmlab.analysis.roofline.ceilings() gives them; "
                f"{name} is {value!r}."
            )
    slope = ceilings.bytes_per_second / 1e9
    slopes = {
        level: ceilings.reads[level].per_second.median / 1e9
        for level in CACHES
        if level in ceilings.reads
    }
    units = {("float32", False), *map(_unit, points.itertuples())}
    tops = {unit: _top(ceilings, *unit) for unit in sorted(units, key=list(UNITS).index)}
    if others := sorted(set(points["gpu"]) - {ceilings.gpu}):
        raise ValueError(
            f"roofline: the roofs are those of {ceilings.gpu}, the points of {', '.join(others)}."
        )

    caption = caption or _roofline_caption(points, slope, tops, slopes.get("L2"))
    fig = page("", 0.08 + 4.2 + 0.62, caption, style.provenance(points))
    ax = fig.add_axes_at(0.98, 0.2, WIDTH - MARGIN - 0.98 - 0.15, 4.2, gid="roofline")
    xs = [*points[intensities].to_numpy().ravel(), *(top / slope for top in tops.values())]
    ys = [*points["gflops"], *tops.values()]
    ax.set(
        xscale="log", yscale="log", xlim=_holding(INTENSITIES, xs), ylim=_holding(RATES, ys),
        xlabel="arithmetic intensity, FLOP per byte", ylabel="GFLOP/s",
    )  # fmt: skip
    style.plain_log_ticks(ax.xaxis)
    style.plain_log_ticks(ax.yaxis)
    ax.grid(axis="both")
    levels = {name: how for name, how in LEVELS.items() if name != "L2" or "L2" in slopes}
    _draw_roofs(ax, slope, slopes, tops, points)
    _draw_legend(ax, levels)
    _draw_points(ax, points, list(tops.values()), levels)
    return fig


def _holding(limits: tuple[float, float], values: Sequence[float]) -> tuple[float, float]:
    """The limits of an axis, widened where a value lies beyond them."""
    low, high = limits
    return min(low, min(values) / 2), max(high, max(values) * 2)


Unit = tuple[str, bool]  # a key of UNITS
Box = tuple[float, float, float, float]  # lower left corner, upper right corner, in inches
Levels = Mapping[str, tuple[str, str, str]]  # as LEVELS


def _unit(point) -> Unit:
    return point.dtype, point.dtype != "float32" and point.kernel in BY_WGMMA


def _top(ceilings: Ceilings, dtype: str, by_wgmma: bool) -> float:
    """The arithmetic roof for matrices of this dtype, in GFLOP/s."""
    if dtype == "float32":
        return ceilings.flop_per_second / 1e9
    return ceilings.arithmetic(dtype, by_wgmma) / 1e9


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

    def distance(x: float) -> float:
        """How far from the lines of all points the roof is at x."""
        return min(abs(math.log(slope * x / rate)) for rate in points["gflops"])

    places = (x_low * (ridge / x_low) ** (part / 8) for part in (4, 5, 6, 3, 2))
    x = max((x for x in places if x > 3 * x_low), key=distance)
    ax.annotate(
        f"{name}: {style.digits(slope / 1e3)} TB/s", (x, slope * x), (4, -4) if below else (-4, 4),
        ha="center", va="top" if below else "bottom", textcoords="offset points",
        rotation=_angle(ax), rotation_mode="anchor", zorder=2.7,
        bbox={"facecolor": style.GROUND, "edgecolor": "none", "pad": 0.5},
    )  # fmt: skip


def _angle(ax) -> float:
    """The angle, in degrees, at which y = x appears."""
    (x0, y0), (x1, y1) = ax.transData.transform([(1, 1), (10, 10)])
    return math.degrees(math.atan2(y1 - y0, x1 - x0))


def _draw_legend(ax: Axes, levels: Levels) -> None:
    look = {"linestyle": "", "marker": "o", "markersize": 8, "markeredgewidth": 1.4,
            "color": style.INK, "markerfacecoloralt": style.GROUND}  # fmt: skip
    ways = [(fill, words) for _, fill, words in levels.values()]
    marks = [Line2D([], [], fillstyle=fill, label=words, **look) for fill, words in ways]
    ax.legend(
        handles=marks, loc="upper left", fontsize=SMALL, frameon=False, handletextpad=0.4,
        title="Arithmetic intensity", title_fontproperties={"size": SMALL, "weight": "bold"},
        alignment="left",
    )  # fmt: skip


def _point_labels(points: pandas.DataFrame) -> list[str]:
    """The kernel of every point, and the shape where a kernel has several points."""
    names = list(points["kernel"])
    return [
        name if names.count(name) == 1 else f"{name}, {style.shape_label(m, n, k)}"
        for name, m, n, k in points[["kernel", "m", "n", "k"]].itertuples(index=False, name=None)
    ]


def _draw_points(ax: Axes, points: pandas.DataFrame, tops: Sequence[float], levels: Levels) -> None:
    """Points and labels from the top down, so that labels stand in the order of their points."""
    points = points.assign(label=_point_labels(points)).sort_values("gflops", ascending=False)
    inches = ax.transData + ax.figure.dpi_scale_trans.inverted()
    rows = list(points.itertuples(index=False))
    right = inches.transform((ax.get_xlim()[1], 1.0))[0]
    taken: list[Box] = []
    for row in rows:
        at = [getattr(row, column) for column, *_ in levels.values()]
        places = [inches.transform((intensity, row.gflops)) for intensity in at]
        taken += [(x - HALF, y - HALF, x + HALF, y + HALF) for x, y in places]
        (*_, y), xs = places[0], [x for x, _ in places]
        taken.append((min(xs), y - 0.02, max(xs), y + 0.02))
    for top in tops:  # the roof and its words
        y = inches.transform((1.0, top))[1]
        taken.append((0.0, y - 0.04, right, y + 0.22))
    for row in rows:
        look = style.kernel_style(row.kernel)
        at = {level: getattr(row, column) for level, (column, *_) in levels.items()}
        ends = [min(at.values()), max(at.values())]
        ax.plot(ends, [row.gflops] * 2, color=look["color"], linewidth=0.9, zorder=2.5)
        for level, intensity in at.items():
            gid = {"L1": "model", "L2": "l2", "DRAM": "dram"}[level]
            ax.plot(
                intensity, row.gflops, look["marker"], color=look["color"],
                fillstyle="left" if level == "L2" else "full",
                markerfacecolor=style.GROUND if level == "L1" else look["color"],
                markerfacecoloralt=style.GROUND, markersize=8, markeredgewidth=1.4, zorder=3,
                gid=f"{gid} {row.kernel}",
            )  # fmt: skip
        x, y = inches.transform((row.dram_intensity, row.gflops))
        width, height = style.text_width(row.label, SMALL), SMALL * LINE / 72
        place = _free_place((x, y), HALF, (width, height), taken, right)
        taken.append(place)
        middle = (place[1] + place[3]) / 2
        leader = {"arrowstyle": "-", "color": style.FAINT, "relpos": (0, 0.5), "linewidth": 0.6,
                  "shrinkB": 4}  # fmt: skip
        shift = (72 * (place[0] - x), 72 * (middle - y))
        note(
            ax, row.label, (row.dram_intensity, row.gflops), shift, gid="label",
            va="center_baseline", zorder=4,
            arrowprops=leader if abs(middle - y) > height else None,  # where it is not beside it
        )  # fmt: skip


def _free_place(
    at: tuple[float, float], half: float, size: tuple[float, float], taken: list[Box], right: float
) -> Box:
    """Where a label of this size goes: beside its marker, or as far above or below it as is free.

    Right of the marker where it ends before `right`, else left of it. half: of the marker's width.
    """
    (x, y), (width, height) = at, size
    start = x + half + 0.06
    if start + width > right:
        start = x - half - 0.06 - width
    below, above = ([sign * half_lines / 2 for half_lines in range(4, 30)] for sign in (-1, 1))
    places = [
        (start, y + (offset - 0.5) * height, start + width, y + (offset + 0.5) * height)
        for offset in (0, 1, -1, 1.5, -1.5, *below, *above)
    ]
    free = (box for box in places if not any(style.overlap(box, other) for other in taken))
    return next(free, places[0])


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
