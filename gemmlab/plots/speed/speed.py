"""Measured speed: over sizes, and as a share of cuBLAS up the ladder."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pandas
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LINE, MARGIN, NORMAL, SMALL, WIDTH, percent, styled

MEASURED = ("kernel", "dtype", "m", "n", "k", "gflops", "pct_cublas", "gpu", "recorded")
BAR = 0.2  # inches from bar to bar
SHAPES_ABREAST = 4
SCALES = ("log", "linear")
MILLION = 1e6  # GFLOP/s: such numbers are longer


def measured(table: pandas.DataFrame, who: str) -> pandas.DataFrame:
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


def at_shape(rows: pandas.DataFrame, shape: Sequence[int]) -> pandas.DataFrame:
    """The rows of one shape (M, N, K)."""
    m, n, k = shape
    return rows[(rows["m"] == m) & (rows["n"] == n) & (rows["k"] == k)]


# ---- over sizes ----------------------------------------------------------------------------------


@styled
def gflops(table: pandas.DataFrame, *, scale: str = "log", caption: str | None = None) -> Picture:
    """Speed over the size of square products, and bars for the other shapes of the table.

    table: the columns of timing.COLUMNS, as kernel.benchmark() gives; several may be put together
    with pandas.concat, and of rows for one kernel and shape the fastest counts. scale: of the
    rates of square products, "log" shows slow kernels, "linear" tells fast ones apart.

    Raises TypeError and ValueError for anything else, also for more than one GPU or precision.
    """
    rows = measured(table, "gflops")
    if scale not in SCALES:
        raise ValueError(f"scale is {scale!r}; it must be one of {', '.join(SCALES)}.")
    is_square = (rows["m"] == rows["n"]) & (rows["n"] == rows["k"])
    square, other = rows[is_square], rows[~is_square]
    lines = 0.42 + 3.3 + 0.62 if len(square) else 0.0
    kernels = style.ladder_order(other["kernel"])
    shapes = list(other[["m", "n", "k"]].drop_duplicates().itertuples(index=False, name=None))
    tiers = [shapes[at : at + SHAPES_ABREAST] for at in range(0, len(shapes), SHAPES_ABREAST)]
    tier = 0.3 + len(kernels) * BAR + 0.1
    bars = 0.3 + len(tiers) * tier if tiers else 0.0
    if caption is None:
        caption = _speed_caption(rows, scale)
    fig = style.page(lines + bars + 0.1, caption, style.provenance(rows))
    if len(square):
        fig.text_at(MARGIN, 0.12, "Square products", size=style.LARGE, weight="bold")
        draw_sizes(fig, square, 0.42, 3.3, scale)
    if tiers:
        fig.text_at(
            MARGIN, lines + 0.12, "Other shapes, M × N × K", size=style.LARGE, weight="bold"
        )
    for at, abreast in enumerate(tiers):
        _draw_shapes(fig, other, kernels, abreast, lines + 0.42 + at * tier)
    return fig


def draw_sizes(
    fig: Picture,
    rows: pandas.DataFrame,
    top: float,
    height: float,
    scale: str,
    column: str = "gflops",
    unit: str = "GFLOP/s",
    most: float = 0.0,
) -> Axes:
    """Lines of a column over the size of square products, each with its name at its end.

    A linear scale goes to the largest value, or to `most` if that is more.
    """
    kernels = style.ladder_order(rows["kernel"])
    labels = max(style.text_width(style.kernel_label(name), NORMAL) for name in kernels)
    left = 0.8 if rows[column].max() < MILLION / 1.8 else 0.98  # room for the numbers ...
    leader = 0.3  # ... and before the names
    width = WIDTH - MARGIN - left - leader - labels
    ax = fig.add_axes_at(left, top, width, height, gid="square products")
    ends = []
    for name in kernels:
        own = rows[rows["kernel"] == name].sort_values("m")
        look = style.kernel_style(name)
        ax.plot(
            own["m"], own[column], color=look["color"], marker=look["marker"],
            markersize=8 if look["marker"] == "*" else 6,
            linestyle="--" if name == "cublas" else "-", label=name,
        )  # fmt: skip
        ends.append((own["m"].iloc[-1], own[column].iloc[-1]))
    ax.set(xscale="log", yscale=scale, xlabel="M = N = K", ylabel=unit)
    sizes = sorted(set(rows["m"]))
    ax.set_xlim(sizes[0] / 1.25, sizes[-1] * 1.25)
    if scale == "log":
        ax.set_ylim(rows[column].min() / 1.8, rows[column].max() * 1.8)
        style.plain_log_ticks(ax.yaxis)
    else:
        ax.set_ylim(0, max(most, rows[column].max()) * 1.06)
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")  # 0.5 too
    _size_ticks(ax, sizes)
    ax.grid(axis="both")

    to_axes = ax.transData + ax.transAxes.inverted()
    wanted = [to_axes.transform(end)[1] * height for end in ends]
    gap = NORMAL * LINE / 72
    for name, end, y in zip(kernels, ends, style.spread_out(wanted, gap, 0, height), strict=True):
        ax.annotate(
            style.kernel_label(name), end, (1 + 0.8 * leader / width, y / height),
            textcoords="axes fraction", va="center", size=NORMAL,
            arrowprops={"arrowstyle": "-", "color": style.kernel_style(name)["color"],
                        "linewidth": 0.8, "relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 5},
            annotation_clip=False,
        )  # fmt: skip
    return ax


def _size_ticks(ax: Axes, sizes: Sequence[int]) -> None:
    """A tick for every size that was measured, as far as the numbers fit beside each other."""
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


def _draw_shapes(
    fig: Picture,
    rows: pandas.DataFrame,
    kernels: Sequence[str],
    shapes: Sequence[tuple[int, int, int]],
    top: float,
) -> None:
    """Bars of several shapes side by side, all to one scale, the kernels in the same order."""
    left = MARGIN + max(style.text_width(style.kernel_label(n), SMALL) for n in kernels) + 0.1
    pitch = (WIDTH - MARGIN - left) / SHAPES_ABREAST
    most = rows["gflops"].max()
    for at, shape in enumerate(shapes):
        title = " × ".join(map(str, shape))
        fig.text_at(left + at * pitch, top + 0.02, title, size=SMALL, weight="bold")
        ax = fig.add_axes_at(
            left + at * pitch, top + 0.22, pitch - 0.15, len(kernels) * BAR, gid=f"shape {title}"
        )
        own = at_shape(rows, shape).set_index("kernel")["gflops"]
        for rank, name in enumerate(kernels):
            y = (rank + 0.5) * BAR
            if name in own:
                _draw_rate(ax, name, y, own[name], style.rate(own[name]), most)
            else:
                ax.annotate(
                    "not measured", (0, y), (5, 0), textcoords="offset points", size=SMALL,
                    va="center", color=style.FAINT,
                )  # fmt: skip
        ax.set(xlim=(0, most * 1.02), ylim=(len(kernels) * BAR, 0))
        names = [style.kernel_label(name) if at == 0 else "" for name in kernels]
        ax.set_yticks([(rank + 0.5) * BAR for rank in range(len(kernels))], names)
        ax.tick_params(axis="y", length=0)
        ax.spines["bottom"].set_visible(False)
        ax.set_xticks([])


def _draw_rate(ax: Axes, name: str, y: float, value: float, words: str, most: float) -> None:
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


def _speed_caption(rows: pandas.DataFrame, scale: str) -> str:
    """The rates of up to four kernels at the largest shape that most of them were measured at."""
    counts = rows.groupby(["m", "n", "k"]).size()
    shape = max(counts.index, key=lambda s: (counts[s], s[0] == s[1] == s[2], s[0] * s[1] * s[2]))
    own = at_shape(rows, shape).set_index("kernel")
    ours = [name for name in style.ladder_order(own.index) if name != "cublas"]
    parts = [
        f"{name} reaches {style.rate(own['gflops'][name])}, "
        f"{percent(own['pct_cublas'][name])} of cuBLAS"
        for name in sorted(ours, key=lambda name: -own["gflops"][name])[:4]
    ]
    if not parts:
        parts = [f"cuBLAS reaches {style.rate(own['gflops']['cublas'])}"]
    words = (
        f"Floating-point operations per second. At {style.shape_label(*shape)}, {'; '.join(parts)}."
    )
    if rows["m"].nunique() > 1 and scale == "log":
        words += " Both axes of the lines are logarithmic: equal steps are equal factors."
    return words


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
    rows = measured(table, "ladder")
    own = at_shape(rows, shape).set_index("kernel")
    kernels = [name for name in style.ladder_order(own.index) if name != "cublas"]
    if not kernels:
        there = rows[["m", "n", "k"]].drop_duplicates().itertuples(index=False, name=None)
        raise ValueError(
            f"ladder: no kernel was measured at {style.shape_label(*shape)}; "
            f"measured are, as (M, N, K): {', '.join(map(str, there))}."
        )
    missing = [n for n in style.ladder_order(rows["kernel"]) if n not in own.index]
    pitch = 0.3
    height = len(kernels) * pitch + 0.1
    left = MARGIN + max(style.text_width(name, NORMAL) for name in kernels) + 0.12
    if caption is None:
        caption = _ladder_caption(own, kernels, shape, missing)
    fig = style.page(0.55 + height + 0.55, caption, style.provenance(own))
    ax = fig.add_axes_at(left, 0.55, WIDTH - MARGIN - left, height, gid="ladder")
    most = max(100.0, own["pct_cublas"][kernels].max())
    for at, name in enumerate(kernels):
        share = own["pct_cublas"][name]
        label = f"{percent(share)}, {style.rate(own['gflops'][name])}"
        _draw_rate(ax, name, (at + 0.5) * pitch + 0.05, share, label, most)
    ax.axvline(100, color=style.BLACK, linestyle="--", linewidth=1.4, zorder=1.5)
    reference = "cuBLAS"
    if "cublas" in own.index:
        reference += f", {style.rate(own['gflops']['cublas'])}"
    ax.annotate(
        reference, (100, 0), (0, 5), textcoords="offset points", size=NORMAL,
        ha="right" if most < 125 else "center",
    )  # fmt: skip
    ax.set(xlim=(0, most * 1.04), ylim=(height, 0), xlabel="share of cuBLAS, %")
    ax.set_yticks([(at + 0.5) * pitch + 0.05 for at in range(len(kernels))], kernels)
    ax.tick_params(axis="y", length=0, labelsize=NORMAL)
    ax.grid(axis="x")
    fig.text_at(MARGIN, 0.12, style.shape_label(*shape), size=style.LARGE, weight="bold")
    return fig


def _ladder_caption(
    own: pandas.DataFrame, kernels: Sequence[str], shape: Sequence[int], missing: Sequence[str]
) -> str:
    best = max(kernels, key=lambda name: own["pct_cublas"][name])
    words = (
        f"Share of cuBLAS at {style.shape_label(*shape)}: of the rungs shown, {best} is the "
        f"fastest with {percent(own['pct_cublas'][best])}."
    )
    for before, after in itertools.pairwise(kernels):
        if after == best:
            factor = own["pct_cublas"][after] / own["pct_cublas"][before]
            words += f" The step from {before} is a factor of {style.digits(factor)}."
    if missing:
        words += f" Not measured at this shape: {style.listed(missing)}."
    return words
