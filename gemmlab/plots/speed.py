"""Pictures of measured speed: over sizes, under the roofline, up the ladder, and single times."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gemmlab.plots import style
from gemmlab.plots.style import LINE, MARGIN, NORMAL, SMALL, WIDTH, styled

if TYPE_CHECKING:
    import pandas

    from gemmlab.plots.picture import Picture
    from gemmlab.roofline import Ceilings

MEASURED = ("kernel", "dtype", "m", "n", "k", "gflops", "pct_cublas", "gpu", "recorded")
POINTS = ("kernel", "m", "n", "k", "gflops", "dram_intensity", "model_intensity", "gpu", "recorded")
BAR, GROUP_GAP = 0.2, 0.3  # inches
LABEL_GAP = SMALL * LINE / 72


def _measured(table: pandas.DataFrame, who: str) -> pandas.DataFrame:
    """The table, checked; of several rows for one kernel and shape only the fastest.

    cuBLAS has such rows where the tables of several kernels are put together.
    """
    style.require_table(table, MEASURED, who)
    style.require_positive(table, ("m", "n", "k", "gflops", "pct_cublas"), who)
    for column, what in (("gpu", "GPU"), ("dtype", "precision")):
        if len(values := sorted(set(table[column]))) > 1:
            raise ValueError(
                f"{who} shows one {what}, the table has {', '.join(values)}; "
                f"choose the rows of one {what} first."
            )
    fastest = table.sort_values("gflops", ascending=False, kind="stable")
    return fastest.drop_duplicates(["kernel", "m", "n", "k"]).sort_index(kind="stable")


def _shape(m: int, n: int, k: int) -> str:
    return f"M=N=K={m}" if m == n == k else f"M={m}, N={n}, K={k}"


def _percent(value: float) -> str:
    return f"{style.digits(value)} %"


# ---- over sizes ----------------------------------------------------------------------------------


@styled
def gflops(table: pandas.DataFrame, *, caption: str | None = None) -> Picture:
    """Speed over the size of square products, and bars for the other shapes of the table.

    table: the columns of timing.COLUMNS, as kernel.benchmark() gives; several may be put together
    with pandas.concat, and of rows for one kernel and shape the fastest counts.

    Raises TypeError and ValueError for anything else, also for more than one GPU or precision.
    """
    rows = _measured(table, "gflops")
    is_square = (rows["m"] == rows["n"]) & (rows["n"] == rows["k"])
    square, other = rows[is_square], rows[~is_square]
    shapes = list(other[["m", "n", "k"]].drop_duplicates().itertuples(index=False, name=None))
    bars_height = len(other) * BAR + len(shapes) * GROUP_GAP

    head = 0.5
    height = max(3.3, bars_height)
    fig = style.page(head + height + 0.62, caption or _speed_caption(rows), style.provenance(rows))
    half = (WIDTH - 2 * MARGIN) * (0.56 if len(square) and len(other) else 1.0)
    if len(square):
        _draw_sizes(fig, square, MARGIN, head, half, height)
    if len(other):
        left = MARGIN if square.empty else MARGIN + half + 0.25
        _draw_shapes(fig, other, shapes, left, head, bars_height)
    return fig


def _draw_sizes(
    fig: Picture, rows: pandas.DataFrame, left: float, top: float, width: float, height: float
) -> None:
    kernels = style.ladder_order(rows["kernel"])
    labels = max(style.text_width(style.kernel_label(name), NORMAL) for name in kernels)
    axis, leader = 0.62, 0.28  # room for the numbers at the left, and before the names
    fig.text_at(left, 0.12, "square products", size=style.LARGE, weight="bold")
    ax = fig.add_axes_at(
        left + axis, top, width - axis - leader - labels, height, gid="square products"
    )
    ends = []
    for name in kernels:
        own = rows[rows["kernel"] == name].sort_values("m")
        look = style.kernel_style(name)
        ax.plot(
            own["m"], own["gflops"], color=look["color"], marker=look["marker"],
            markersize=8 if look["marker"] == "*" else 6,
            linestyle="--" if name == "cublas" else "-", label=name,
        )  # fmt: skip
        ends.append((own["m"].iloc[-1], own["gflops"].iloc[-1]))
    ax.set(xscale="log", yscale="log", xlabel="M = N = K", ylabel="GFLOP/s")
    sizes = sorted(set(rows["m"]))
    ax.set_xlim(sizes[0] / 1.25, sizes[-1] * 1.25)
    ax.set_ylim(rows["gflops"].min() / 1.8, rows["gflops"].max() * 1.8)
    _plain_log_ticks(ax.yaxis)
    _size_ticks(ax, sizes)
    ax.grid(axis="both")

    to_axes = ax.transData + ax.transAxes.inverted()
    wanted = [to_axes.transform(end)[1] * height for end in ends]
    gap = NORMAL * LINE / 72
    for name, end, y in zip(
        kernels, ends, style.spread_out(wanted, gap, 0, height), strict=True
    ):
        ax.annotate(
            style.kernel_label(name), end, (1 + leader * 0.8 / (width - axis - leader - labels),
            y / height), textcoords="axes fraction", va="center", size=NORMAL,
            arrowprops={"arrowstyle": "-", "color": style.kernel_style(name)["color"],
                        "linewidth": 0.8, "shrinkA": 1, "shrinkB": 5},
            annotation_clip=False,
        )  # fmt: skip


def _size_ticks(ax, sizes: Sequence[int]) -> None:
    """A tick for every size that was measured, as far as the numbers fit beside each other."""
    from matplotlib.ticker import NullLocator

    width = ax.get_position().width * WIDTH
    low, high = (math.log(value) for value in ax.get_xlim())
    shown: list[int] = []
    free_to = math.inf
    for size in reversed(sizes):
        at = (math.log(size) - low) / (high - low) * width
        half = style.text_width(str(size), SMALL) / 2 + 0.04
        if at + half <= free_to:
            shown.append(size)
            free_to = at - half
    ax.set_xticks(shown, [str(size) for size in shown])
    ax.xaxis.set_minor_locator(NullLocator())


def _plain_log_ticks(axis) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    axis.set_major_locator(LogLocator(base=10, numticks=20))
    axis.set_major_formatter(lambda value, _: f"{value:,.10g}" if value >= 1 else f"{value:.2g}")
    axis.set_minor_locator(NullLocator())


def _draw_shapes(
    fig: Picture, rows: pandas.DataFrame, shapes: Sequence[tuple], left: float, top: float,
    height: float,
) -> None:  # fmt: skip
    kernels = style.ladder_order(rows["kernel"])
    names = max(style.text_width(style.kernel_label(name), SMALL) for name in kernels) + 0.12
    fig.text_at(left, 0.12, "other shapes, M × N × K", size=style.LARGE, weight="bold")
    width = WIDTH - MARGIN - left - names
    ax = fig.add_axes_at(left + names, top, width, height, gid="other shapes")
    y, ticks, most = 0.0, [], rows["gflops"].max()
    for shape in shapes:
        ax.text(
            0, y + GROUP_GAP * 0.62, " × ".join(map(str, shape)), size=SMALL, weight="bold",
            va="center",
        )  # fmt: skip
        y += GROUP_GAP
        own = rows[(rows[["m", "n", "k"]] == shape).all(axis=1)].set_index("kernel")["gflops"]
        for name in kernels:
            if name in own:
                _draw_rate(ax, name, y + BAR / 2, own[name], style.rate(own[name]), most)
                ticks.append((y + BAR / 2, style.kernel_label(name)))
                y += BAR
    ax.set(xlim=(0, most), ylim=(height, 0))
    ax.set_yticks(*zip(*ticks, strict=True))
    ax.tick_params(axis="y", length=0)
    ax.spines["bottom"].set_visible(False)
    ax.set_xticks([])


def _draw_rate(ax, name: str, y: float, value: float, words: str, most: float) -> None:
    """A bar with its number at its end: outside, or inside where the bar is long."""
    look = style.kernel_style(name)
    ax.barh(
        y, value, BAR * 0.84, facecolor=style.tint(look["color"], 0.4), edgecolor=look["color"],
        hatch=look["hatch"], gid=f"bar {name}",
    )  # fmt: skip
    inside = value > 0.5 * most
    ax.annotate(
        words, (value, y), (-6 if inside else 5, 0), textcoords="offset points", size=SMALL,
        ha="right" if inside else "left", va="center",
        bbox={"facecolor": style.GROUND, "edgecolor": "none", "pad": 0.8},
    )  # fmt: skip


def _speed_caption(rows: pandas.DataFrame) -> str:
    """The rates of up to four kernels at the largest shape that most of them were measured at."""
    counts = rows.groupby(["m", "n", "k"]).size()
    shape = max(counts.index, key=lambda s: (counts[s], s[0] == s[1] == s[2], s[0] * s[1] * s[2]))
    own = rows[(rows[["m", "n", "k"]] == shape).all(axis=1)].set_index("kernel")
    ours = [name for name in style.ladder_order(own.index) if name != "cublas"]
    parts = [
        f"{name} reaches {style.rate(own['gflops'][name])}, "
        f"{_percent(own['pct_cublas'][name])} of cuBLAS"
        for name in sorted(ours, key=lambda name: -own["gflops"][name])[:4]
    ]
    if not parts:
        parts = [f"cuBLAS reaches {style.rate(own['gflops']['cublas'])}"]
    words = f"Floating-point operations per second. At {_shape(*shape)}, {'; '.join(parts)}."
    if rows["m"].nunique() > 1:
        words += " Both axes of the lines are logarithmic: equal steps are equal factors."
    return words


# ---- under the roofline --------------------------------------------------------------------------


@styled
def roofline(
    points: pandas.DataFrame, ceilings: Ceilings, *, caption: str | None = None
) -> Picture:
    """Measured speed over arithmetic intensity, under the two measured roofs of the GPU.

    A filled marker stands at the intensity from counted DRAM bytes, a hollow one at that from the
    bytes that the kernel's idea asks of global memory; a thin line joins them.
    points and ceilings: as gemmlab.roofline.points(...) and ceilings() give them.

    Raises TypeError and ValueError for anything else.
    """
    style.require_table(points, POINTS, "roofline")
    needed = ("m", "n", "k", "gflops", "dram_intensity", "model_intensity")
    style.require_positive(points, needed, "roofline")
    roofs = []
    for name in ("bytes_per_second", "flop_per_second"):
        value = getattr(ceilings, name, None)
        if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
            raise TypeError(
                f"roofline takes the roofs as gemmlab.roofline.ceilings() gives them; "
                f"{name} is {value!r}."
            )
        roofs.append(value / 1e9)
    slope, top = roofs

    footer = style.provenance(points)
    height, left = 4.2, 0.75
    fig = style.page(0.2 + height + 0.62, caption or _roofline_caption(points, slope, top), footer)
    width = WIDTH - MARGIN - left
    ax = fig.add_axes_at(left, 0.2, width, height, gid="roofline")
    xs = [*points["dram_intensity"], *points["model_intensity"], top / slope]
    x_low, x_high = min(xs) / 3, max(xs) * 6
    y_low = min(*points["gflops"], slope * x_low) / 2
    ax.set(
        xscale="log", yscale="log", xlim=(x_low, x_high), ylim=(y_low, top * 2.2),
        xlabel="arithmetic intensity, FLOP per byte", ylabel="GFLOP/s",
    )  # fmt: skip
    _plain_log_ticks(ax.xaxis)
    _plain_log_ticks(ax.yaxis)
    ax.grid(axis="both")
    _draw_roofs(ax, slope, top, x_low, x_high)
    _draw_points(ax, points, height)
    return fig


def _draw_roofs(ax, slope: float, top: float, x_low: float, x_high: float) -> None:
    ridge = top / slope
    ax.plot([x_low, ridge, x_high], [slope * x_low, top, top], color=style.INK, linewidth=2)
    ax.annotate(
        f"FP32 multiply-adds: {style.rate(top)}", (x_high, top), (-6, 5), ha="right",
        textcoords="offset points",
    )  # fmt: skip
    middle = math.sqrt(x_low * ridge)
    ax.annotate(
        f"copy: {style.digits(slope / 1e3)} TB/s", (middle, slope * middle), (-5, 5), ha="center",
        va="bottom", textcoords="offset points", rotation=_angle(ax), rotation_mode="anchor",
    )  # fmt: skip


def _angle(ax) -> float:
    """The angle, in degrees, at which y = x appears."""
    (x0, y0), (x1, y1) = ax.transData.transform([(1, 1), (10, 10)])
    return math.degrees(math.atan2(y1 - y0, x1 - x0))


def _draw_points(ax, points: pandas.DataFrame, height: float) -> None:
    names = list(points["kernel"])
    rows = list(points.itertuples(index=False))
    to_axes = ax.transData + ax.transAxes.inverted()
    wanted = [to_axes.transform((row.dram_intensity, row.gflops))[1] * height for row in rows]
    for row, y in zip(rows, style.spread_out(wanted, LABEL_GAP, 0, height), strict=True):
        look = style.kernel_style(row.kernel)
        ends = [row.model_intensity, row.dram_intensity]
        ax.plot(ends, [row.gflops] * 2, color=look["color"], linewidth=0.9, zorder=2.5)
        for x, face, gid in zip(ends, (style.GROUND, look["color"]), ("model", "dram"), strict=True):
            ax.plot(
                x, row.gflops, look["marker"], color=look["color"], markerfacecolor=face,
                markersize=8, markeredgewidth=1.4, zorder=3, gid=f"{gid} {row.kernel}",
            )  # fmt: skip
        label = style.kernel_label(row.kernel)
        if names.count(row.kernel) > 1:
            label += f", {_shape(row.m, row.n, row.k)}"
        right = to_axes.transform((max(ends), row.gflops))[0]
        ax.annotate(
            label, (max(ends), row.gflops), (right + 0.015, y / height),
            textcoords="axes fraction", va="center", size=SMALL, zorder=4,
        )  # fmt: skip


def _roofline_caption(points: pandas.DataFrame, slope: float, top: float) -> str:
    parts = []
    largest = points.assign(work=points["m"] * points["n"] * points["k"]).sort_values("work")
    for row in largest.drop_duplicates("kernel", keep="last").sort_values("kernel").itertuples():
        share = 100 * row.gflops / min(top, slope * row.dram_intensity)
        parts.append(f"{row.kernel} reaches {_percent(share)} at {_shape(row.m, row.n, row.k)}")
    return (
        "Speed over arithmetic intensity: filled markers by the bytes counted at the DRAM, hollow "
        "ones by the bytes that the kernel's idea asks for. Of what the roofs allow at the filled "
        f"marker, {style.listed(parts)}."
    )


# ---- up the ladder -------------------------------------------------------------------------------


@styled
def ladder(
    table: pandas.DataFrame,
    shape: tuple[int, int, int] = (4096, 4096, 4096),
    *,
    caption: str | None = None,
) -> Picture:
    """The share of cuBLAS that every kernel reaches at one shape (M, N, K), one bar for each.

    table: as for gflops. Raises TypeError and ValueError for anything else, also where no kernel
    was measured at the shape.
    """
    rows = _measured(table, "ladder")
    own = rows[(rows[["m", "n", "k"]] == tuple(shape)).all(axis=1)].set_index("kernel")
    kernels = [name for name in style.ladder_order(own.index) if name != "cublas"]
    if not kernels:
        there = rows[["m", "n", "k"]].drop_duplicates().itertuples(index=False, name=None)
        raise ValueError(
            f"ladder: no kernel was measured at {_shape(*shape)}; measured are, as (M, N, K): "
            f"{', '.join(map(str, there))}."
        )
    missing = [n for n in style.ladder_order(rows["kernel"]) if n not in own.index]
    pitch = 0.3
    height = len(kernels) * pitch + 0.1
    left = MARGIN + max(style.text_width(name, NORMAL) for name in kernels) + 0.12
    words = caption or _ladder_caption(own, kernels, shape, missing)
    fig = style.page(0.55 + height + 0.55, words, style.provenance(own))
    ax = fig.add_axes_at(left, 0.55, WIDTH - MARGIN - left, height, gid="ladder")
    most = max(100.0, own["pct_cublas"][kernels].max())
    for at, name in enumerate(kernels):
        share = own["pct_cublas"][name]
        label = f"{_percent(share)}, {style.rate(own['gflops'][name])}"
        _draw_rate(ax, name, (at + 0.5) * pitch + 0.05, share, label, most)
    ax.axvline(100, color=style.BLACK, linestyle="--", linewidth=1.4, zorder=1.5)
    reference = f"cuBLAS, {style.rate(own['gflops']['cublas'])}" if "cublas" in own.index else "cuBLAS"
    ax.annotate(
        reference, (100, 0), (0, 5), textcoords="offset points", size=NORMAL,
        ha="right" if most < 125 else "center",
    )  # fmt: skip
    ax.set(xlim=(0, most * 1.04), ylim=(height, 0), xlabel="share of cuBLAS, %")
    ax.set_yticks([(at + 0.5) * pitch + 0.05 for at in range(len(kernels))], kernels)
    ax.tick_params(axis="y", length=0, labelsize=NORMAL)
    ax.grid(axis="x")
    fig.text_at(MARGIN, 0.12, _shape(*shape), size=style.LARGE, weight="bold")
    return fig


def _ladder_caption(
    own: pandas.DataFrame, kernels: Sequence[str], shape: Sequence[int], missing: Sequence[str]
) -> str:
    best = max(kernels, key=lambda name: own["pct_cublas"][name])
    words = (
        f"Share of cuBLAS at {_shape(*shape)}: of the rungs so far, {best} is the fastest with "
        f"{_percent(own['pct_cublas'][best])}."
    )
    for before, after in zip(kernels, kernels[1:], strict=False):
        if after == best:
            factor = own["pct_cublas"][after] / own["pct_cublas"][before]
            words += f" The step from {before} is a factor of {style.digits(factor)}."
    if missing:
        words += f" Not measured at this shape: {style.listed(missing)}."
    return words


# ---- single times --------------------------------------------------------------------------------


@styled
def spread(samples: Mapping[str, Sequence[float]], *, caption: str | None = None) -> Picture:
    """Every single time of some series as a dot, the median of each as a line.

    samples: label: times in milliseconds. The axis is logarithmic where the times span more than a
    factor of twenty.

    Raises TypeError for anything but a mapping, ValueError for no times, or one that is not a
    finite number above 0.
    """
    if not isinstance(samples, Mapping):
        raise TypeError(f"spread takes a mapping of label to times, not {type(samples).__name__}.")
    if not samples:
        raise ValueError("spread was given no series of times; there is nothing to draw.")
    for label, times in samples.items():
        if len(times) == 0:
            raise ValueError(f"spread: {label!r} has no times.")
        for time in times:
            if not (math.isfinite(time) and time > 0):
                raise ValueError(f"spread: {label!r} has the time {time!r} ms; it must be above 0.")
    medians = {label: statistics.median(times) for label, times in samples.items()}
    low = min(min(times) for times in samples.values())
    high = max(max(times) for times in samples.values())

    pitch = 0.62
    height = len(samples) * pitch
    left = MARGIN + max(style.text_width(label, NORMAL) for label in samples) + 0.15
    fig = style.page(0.2 + height + 0.6, caption or _spread_caption(samples, medians))
    ax = fig.add_axes_at(left, 0.2, WIDTH - MARGIN - left, height, gid="spread")
    wide = high > 20 * low
    if wide:
        ax.set(xscale="log", xlim=(low / 1.5, high * 1.5))
        _plain_log_ticks(ax.xaxis)
    else:
        ax.set_xlim(0, high * 1.08)
    for at, (label, times) in enumerate(samples.items()):
        middle = (at + 0.5) * pitch
        # Dots of one row are set apart in turn, so that equal times stay visible.
        offsets = [0.07 * ((index % 5) - 2) for index in range(len(times))]
        colour = style.KERNEL_COLOURS[at % len(style.KERNEL_COLOURS)]
        ax.plot(
            times, [middle + offset for offset in offsets],
            style.KERNEL_MARKERS[at % len(style.KERNEL_MARKERS)], color=colour, markersize=4.5,
            alpha=0.75, markeredgewidth=0, gid=f"times {label}",
        )  # fmt: skip
        ax.vlines(medians[label], middle - 0.22, middle + 0.22, color=style.INK, linewidth=1.6)
    ax.set_ylim(height, 0)
    ax.set_xlabel("milliseconds, logarithmic" if wide else "milliseconds")
    ax.set_yticks([(at + 0.5) * pitch for at in range(len(samples))], list(samples))
    ax.tick_params(axis="y", length=0, labelsize=NORMAL)
    ax.grid(axis="x")
    return fig


def _spread_caption(samples: Mapping[str, Sequence[float]], medians: Mapping[str, float]) -> str:
    parts = [
        f"{label}: median {style.digits(medians[label])} ms, "
        f"{style.digits(min(times))} to {style.digits(max(times))} ms in {len(times)}"
        for label, times in samples.items()
    ]
    return f"Every dot is one time, every line a median. {'; '.join(parts)}."
