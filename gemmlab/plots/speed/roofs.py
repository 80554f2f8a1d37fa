"""Measured speed over arithmetic intensity, under the roofs of the GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING

import pandas
from matplotlib.axes import Axes

from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LINE, MARGIN, SMALL, WIDTH, percent, styled

if TYPE_CHECKING:
    from gemmlab.records.roofs import Ceilings

POINTS = (
    "kernel", "dtype", "m", "n", "k", "gflops", "dram_intensity", "model_intensity", "gpu",
    "recorded",
)  # fmt: skip
UNITS = {"float32": "FP32 multiply-adds", "float16": "tensor cores, mma.sync of FP16"}


@styled
def roofline(
    points: pandas.DataFrame, ceilings: Ceilings, *, caption: str | None = None
) -> Picture:
    """Measured speed over arithmetic intensity, under the measured roofs of the GPU.

    A filled marker stands at the intensity from counted DRAM bytes, a hollow one at that from the
    bytes that the kernel's idea asks of global memory; a thin line joins them. Where float16 points
    are among them, the roof of the tensor cores stands above that of FP32.
    points and ceilings: as gemmlab.analysis.roofline.points(...) and ceilings() give them.

    Raises TypeError and ValueError for anything else, NoRecord where a roof is not known.
    """
    style.require_table(points, POINTS, "roofline")
    needed = ("m", "n", "k", "gflops", "dram_intensity", "model_intensity")
    style.require_positive(points, needed, "roofline")
    roofs = []
    for name in ("bytes_per_second", "flop_per_second"):
        value = getattr(ceilings, name, None)
        if not (isinstance(value, Real) and math.isfinite(value) and value > 0):
            raise TypeError(
                f"roofline takes the roofs as gemmlab.analysis.roofline.ceilings() gives them; "
                f"{name} is {value!r}."
            )
        roofs.append(value / 1e9)
    slope, _ = roofs
    dtypes = sorted({"float32", *points["dtype"]}, reverse=True)
    tops = {dtype: _top(ceilings, dtype) for dtype in dtypes}
    if others := sorted(set(points["gpu"]) - {ceilings.gpu}):
        raise ValueError(
            f"roofline: the roofs are those of {ceilings.gpu}, the points of {', '.join(others)}."
        )

    footer = style.provenance(points)
    height = 4.2
    left = 0.8 if len(tops) == 1 else 0.98  # room for the numbers of the higher roof
    if caption is None:
        caption = _roofline_caption(points, slope, tops)
    fig = style.page(0.2 + height + 0.62, caption, footer)
    width = WIDTH - MARGIN - left - 0.15
    ax = fig.add_axes_at(left, 0.2, width, height, gid="roofline")
    xs = [*points["dram_intensity"], *points["model_intensity"]]
    xs += [top / slope for top in tops.values()]
    labels = _point_labels(points)
    room = (max(style.text_width(label, SMALL) for label in labels) + 0.25) / width
    x_low = min(xs) / 3
    x_high = x_low * (max(xs) / x_low) ** (1 / (1 - room))  # the last label ends at the edge
    y_low = min(*points["gflops"], slope * x_low) / 2
    ax.set(
        xscale="log", yscale="log", xlim=(x_low, x_high), ylim=(y_low, max(tops.values()) * 2.2),
        xlabel="arithmetic intensity, FLOP per byte", ylabel="GFLOP/s",
    )  # fmt: skip
    style.plain_log_ticks(ax.xaxis)
    style.plain_log_ticks(ax.yaxis)
    ax.grid(axis="both")
    _draw_roofs(ax, slope, tops, points)
    _draw_points(ax, points, labels)
    return fig


def _top(ceilings: Ceilings, dtype: str) -> float:
    """The arithmetic roof for matrices of this dtype, in GFLOP/s."""
    return (ceilings.flop_per_second if dtype == "float32" else ceilings.arithmetic(dtype)) / 1e9


def _draw_roofs(ax: Axes, slope: float, tops: dict[str, float], points: pandas.DataFrame) -> None:
    x_low, x_high = ax.get_xlim()
    highest = max(tops.values())
    ridge = highest / slope
    for dtype, top in tops.items():
        xs, ys = [top / slope, x_high], [top, top]
        if top == highest:
            xs, ys = [x_low, *xs], [slope * x_low, *ys]
        ax.plot(xs, ys, color=style.INK, linewidth=2)
        ax.annotate(
            f"{UNITS[dtype]}: {style.rate(top)}", (x_high, top), (-6, 5), ha="right",
            textcoords="offset points",
        )  # fmt: skip

    def distance(x: float) -> float:
        """How far from the lines of all points the memory roof is at x."""
        return min(abs(math.log(slope * x / rate)) for rate in points["gflops"])

    x = max((x_low * (ridge / x_low) ** (part / 8) for part in (4, 5, 6, 3)), key=distance)
    ax.annotate(
        f"copy: {style.digits(slope / 1e3)} TB/s", (x, slope * x), (-4, 4), ha="center",
        va="bottom", textcoords="offset points", rotation=_angle(ax), rotation_mode="anchor",
        bbox={"facecolor": style.GROUND, "edgecolor": "none", "pad": 0.5}, zorder=2.7,
    )  # fmt: skip


def _angle(ax) -> float:
    """The angle, in degrees, at which y = x appears."""
    (x0, y0), (x1, y1) = ax.transData.transform([(1, 1), (10, 10)])
    return math.degrees(math.atan2(y1 - y0, x1 - x0))


def _point_labels(points: pandas.DataFrame) -> list[str]:
    """The kernel of every point, and the shape where a kernel has several points."""
    names = list(points["kernel"])
    return [
        name if names.count(name) == 1 else f"{name}, {style.shape_label(m, n, k)}"
        for name, m, n, k in points[["kernel", "m", "n", "k"]].itertuples(index=False, name=None)
    ]


def _draw_points(ax: Axes, points: pandas.DataFrame, labels: Sequence[str]) -> None:
    inches = ax.transData + ax.figure.dpi_scale_trans.inverted()
    rows = list(points.itertuples(index=False))
    places = [inches.transform((row.dram_intensity, row.gflops)) for row in rows]
    half = 0.09
    taken = [(x - half, y - half, x + half, y + half) for x, y in places]
    for row, (x, y) in zip(rows, places, strict=True):
        start = inches.transform((row.model_intensity, row.gflops))[0]
        taken.append((min(start, x), y - 0.02, max(start, x), y + 0.02))
    for row, label, (x, y) in zip(rows, labels, places, strict=True):
        look = style.kernel_style(row.kernel)
        ends = [row.model_intensity, row.dram_intensity]
        ax.plot(ends, [row.gflops] * 2, color=look["color"], linewidth=0.9, zorder=2.5)
        faces = (style.GROUND, look["color"])
        for at, face, gid in zip(ends, faces, ("model", "dram"), strict=True):
            ax.plot(
                at, row.gflops, look["marker"], color=look["color"], markerfacecolor=face,
                markersize=8, markeredgewidth=1.4, zorder=3, gid=f"{gid} {row.kernel}",
            )  # fmt: skip
        # Beside the filled marker, or as far above or below it as is free.
        width, height = style.text_width(label, SMALL), SMALL * LINE / 72
        for offset in (0, 1, -1, 1.5, -1.5, 2, -2, 3, -3):
            middle = y + offset * height
            box = (x + half + 0.02, middle - height / 2, x + half + width, middle + height / 2)
            if not any(style.overlap(box, other) for other in taken):
                break
        taken.append(box)
        ax.annotate(
            label, (row.dram_intensity, row.gflops), (72 * (half + 0.04), 72 * (middle - y)),
            textcoords="offset points", va="center_baseline", size=SMALL, zorder=4,
        )  # fmt: skip


def _roofline_caption(points: pandas.DataFrame, slope: float, tops: dict[str, float]) -> str:
    largest = points.assign(work=points["m"] * points["n"] * points["k"]).sort_values("work")
    largest = largest.drop_duplicates("kernel", keep="last").sort_values("kernel")
    shapes = set(largest[["m", "n", "k"]].itertuples(index=False, name=None))
    parts = []
    for row in largest.itertuples():
        share = percent(100 * row.gflops / min(tops[row.dtype], slope * row.dram_intensity))
        where = "" if len(shapes) == 1 else f" at {style.shape_label(row.m, row.n, row.k)}"
        parts.append(f"{row.kernel} reaches {share}{where}")
    where = f"at {style.shape_label(*shapes.pop())}, " if len(shapes) == 1 else ""
    words = (
        "Speed over arithmetic intensity: filled markers by the bytes counted at the DRAM, hollow "
        "ones by the bytes that the kernel's idea asks for. Of what the roofs allow at the filled "
        f"marker, {where}{style.listed(parts)}."
    )
    if len(tops) > 1:
        words += " Each kernel belongs to the roof of its own precision."
    if (points["gflops"] > slope * points["model_intensity"]).any():
        words += (
            " A hollow marker above the slanted roof: caches deliver those bytes, not the DRAM."
        )
    return words
