"""Measured speed over sizes, its share of cuBLAS, and speed over the settings of a kernel."""

import itertools
import math
from collections.abc import Sequence

import pandas
from matplotlib.axes import Axes

from gemmlab.plots import style
from gemmlab.plots.cells import bare, box, number_above, plate, write
from gemmlab.plots.charts import Curve, bar, draw_curves, note, room_for, rows_of
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import LARGE, MARGIN, NORMAL, SMALL, WIDTH, percent, rate
from gemmlab.records import tuning

BAR = 0.2  # inches from bar to bar
SHAPES_ABREAST = 4
SINCE = 512  # the smallest product of which a share is drawn: below, the time of a launch decides
MILLION = 1e6  # GFLOP/s: such numbers are longer
IS_SQUARE = "m == n == k"
SQUARES, OTHERS = "Square products", "Other shapes, M × N × K"


def measured(table: pandas.DataFrame, who: str) -> pandas.DataFrame:
    """The table; of several rows for one kernel and shape, as cuBLAS may have, only the fastest.

    Raises ValueError for several GPUs or precisions.
    """
    for column, noun in (("gpu", "GPU"), ("dtype", "precision")):
        if len(values := sorted(set(table[column]))) > 1:
            raise ValueError(
                f"{who} shows one {noun}, the table has {', '.join(values)}; "
                f"choose the rows of one {noun} first."
            )
    fastest = table.sort_values("gflops", ascending=False, kind="stable")
    return fastest.drop_duplicates(["kernel", "m", "n", "k"]).sort_index(kind="stable")


def at_shape(rows: pandas.DataFrame, shape: Sequence[int]) -> pandas.DataFrame:
    """The rows of one shape (M, N, K)."""
    m, n, k = shape
    return rows[(rows["m"] == m) & (rows["n"] == n) & (rows["k"] == k)]


@styled
def gflops(table: pandas.DataFrame) -> Picture:
    """Speed over the size of square products, and bars for the other shapes of the table.

    table: the columns of timing.COLUMNS, as kernel.benchmark() gives; several may be put together
    with pandas.concat, and of rows for one kernel and shape the fastest counts. Raises ValueError
    for a table of more than one GPU or precision.
    """
    rows = measured(table, "gflops")
    square, other = rows.query(IS_SQUARE), rows.query(f"not ({IS_SQUARE})")
    lines = 3.3 + 0.62 if len(square) else 0.0
    kernels = style.ladder_order(other["kernel"])
    shapes = list(other[["m", "n", "k"]].drop_duplicates().itertuples(index=False, name=None))
    tiers = [shapes[at : at + SHAPES_ABREAST] for at in range(0, len(shapes), SHAPES_ABREAST)]
    tier = 0.3 + len(kernels) * BAR + 0.1
    between = 0.42 if len(square) and tiers else 0.0  # for a second title
    title, height = SQUARES if len(square) else OTHERS, lines + between + len(tiers) * tier
    fig = page(title, height, _speed_caption(rows), style.provenance(rows))
    if len(square):
        _draw_sizes(fig, square, 3.3, "log")
    if between:
        fig.text_at(MARGIN, fig.top + lines + 0.12, OTHERS, size=LARGE, weight="bold")
    for at, abreast in enumerate(tiers):
        _draw_shapes(fig, other, kernels, abreast, fig.top + lines + between + at * tier)
    return fig


@styled
def climb(table: pandas.DataFrame) -> Picture:
    """Speed over the size of square products, on a linear scale: how far apart the rungs are.

    table: as for gflops, with square products.
    """
    rows = measured(table, "climb").query(IS_SQUARE)
    fig = page(SQUARES, 3.3 + 0.62, _climb_caption(rows), style.provenance(rows))
    _draw_sizes(fig, rows, 3.3, "linear")
    return fig


@styled
def cublas_share(table: pandas.DataFrame, *, caption: str | None = None) -> Picture:
    """The share of cuBLAS that kernels reach over the size of square products, from SINCE on.

    table: as for gflops. Raises ValueError where nothing is left to draw.
    """
    rows = measured(table, "cublas_share")
    ours = rows.query(f"{IS_SQUARE} and m >= {SINCE} and kernel != 'cublas'")
    if ours.empty:
        raise ValueError(f"cublas_share: the table has no square product of {SINCE} or more.")
    shape, at = _common(ours)
    parts = [f"{row.Index} reaches {percent(row.pct_cublas)}" for row in at.itertuples()]
    caption = caption or f"Of cuBLAS at {shape}, {style.listed(parts)}."
    fig = page("Share of cuBLAS, square products", 2.9 + 0.62, caption, style.provenance(ours))
    near = ours["pct_cublas"].max() > 40  # else cuBLAS's line would press the kernels together
    ax = _draw_sizes(fig, ours, 2.9, "linear", "pct_cublas", most=100.0 * near)
    ax.set_ylabel("% of cuBLAS")
    if near:
        ax.axhline(100, color=style.BLACK, linestyle="--", linewidth=1.4)
        note(ax, "cuBLAS", (ours["m"].min(), 100), (0, 4), size=NORMAL, va="bottom")
    return fig


def _draw_sizes(
    fig: Picture, rows: pandas.DataFrame, height: float, scale: str, column: str = "gflops",
    most: float = 0.0,
) -> Axes:  # fmt: skip
    """Lines of a column over the size of square products, each with its name at its end.

    A linear scale goes to the largest value, or to `most` if that is more.
    """
    given = []
    for name in style.ladder_order(rows["kernel"]):
        chosen = rows[rows["kernel"] == name].sort_values("m")
        of_kernel = style.kernel_style(name)
        look = {
            "color": of_kernel["color"], "marker": of_kernel["marker"], "label": name,
            "markersize": 8 if of_kernel["marker"] == "*" else 6,
            "linestyle": "--" if name == "cublas" else "-",
        }  # fmt: skip
        given.append(Curve(style.kernel_label(name), list(chosen["m"]), list(chosen[column]), look))
    left = 0.8 if rows[column].max() < MILLION / 1.8 else 0.98  # room for the numbers
    width = WIDTH - MARGIN - left - room_for(curve.name for curve in given)
    ax = fig.add_axes_at(left, fig.top, width, height)
    draw_curves(ax, given, scale=scale, most=most)
    ax.set(xlabel="M = N = K", ylabel="GFLOP/s")
    return ax


def _draw_shapes(
    fig: Picture, rows: pandas.DataFrame, kernels: Sequence[str], shapes: Sequence[tuple],
    top: float,
) -> None:  # fmt: skip
    """Bars of several shapes side by side, all to one scale, the kernels in the same order."""
    names = [style.kernel_label(name) for name in kernels]
    left = MARGIN + style.widest(names, SMALL) + 0.1
    pitch = (WIDTH - MARGIN - left) / SHAPES_ABREAST
    most = rows["gflops"].max()
    for at, shape in enumerate(shapes):
        title, x = " × ".join(map(str, shape)), left + at * pitch
        fig.text_at(x, top + 0.02, title, size=SMALL, weight="bold")
        ax = rows_of(
            fig, names if at == 0 else [""] * len(names), top + 0.22, BAR, left=x,
            right=x + pitch - 0.15, size=SMALL, xlim=(0, most * 1.02), xticks=[],
        )  # fmt: skip
        ax.spines["bottom"].set_visible(False)
        chosen = at_shape(rows, shape).set_index("kernel")["gflops"]
        for row, name in enumerate(kernels):
            if name not in chosen:
                note(ax, "not measured", (0, row + 0.5), (5, 0), va="center", color=style.FAINT)
                continue
            value, of_kernel = chosen[name], style.kernel_style(name)
            look = swatch(of_kernel["color"], 0.4, hatch=of_kernel["hatch"])
            bar(ax, row, 0, value, share=0.84, **look)
            aside, ha = (-6, "right") if value > 0.5 * most else (5, "left")  # in a long bar
            look = {"ha": ha, "va": "center", "bbox": plate(0.8)}
            note(ax, rate(value), (value, row + 0.5), (aside, 0), **look)


def _common(rows: pandas.DataFrame) -> tuple[str, pandas.DataFrame]:
    """The largest shape that most kernels have, square if one is: its name, its rows by kernel."""
    counts = rows.groupby(["m", "n", "k"]).size()
    shape = max(counts.index, key=lambda s: (counts[s], s[0] == s[1] == s[2], math.prod(s)))
    at = at_shape(rows, shape).set_index("kernel")
    return style.shape_label(*shape), at.loc[style.ladder_order(at.index)]


def _speed_caption(rows: pandas.DataFrame) -> str:
    """The rates of up to four kernels at a shape that most have."""
    shape, at = _common(rows)
    fastest = at.drop("cublas", errors="ignore").sort_values("gflops", ascending=False)[:4]
    parts = [
        f"{row.Index} reaches {rate(row.gflops)}, {percent(row.pct_cublas)} of cuBLAS"
        for row in fastest.itertuples()
    ]
    words = f"Floating-point operations per second. At {shape}, {'; '.join(parts)}."
    if rows["m"].nunique() > 1:
        words += " Both axes of the lines are logarithmic: equal steps are equal factors."
    return words


def _climb_caption(rows: pandas.DataFrame) -> str:
    """The rates of all kernels at a size that most have, and who has no number where."""
    shape, at = _common(rows)
    parts = [f"{style.kernel_label(row.Index)} {rate(row.gflops)}" for row in at.itertuples()]
    words = "Square products of all rungs so far, on a linear scale."
    words += f" At {shape}: {style.listed(parts)}."
    for name in style.ladder_order(rows["kernel"]):
        if missing := sorted(set(rows["m"]) - set(rows[rows["kernel"] == name]["m"])):
            words += f" {name} has no record at {style.listed([str(size) for size in missing])}."
    return words


# ---- over settings -------------------------------------------------------------------------------

RATE_HEIGHT, LINE_HEIGHT = 0.32, 0.15  # inches: of a cell's rate, and of each line of settings
MOST_CELL_WIDTH = 2.1
PANEL_GAP = 0.2  # inches, between tables side by side
SHADES = (0.5, 0.75, 0.9, 1.0)  # shares of the fastest whose shades the key shows


@styled
def sweep(
    table: pandas.DataFrame,
    rows: str,
    columns: str,
    shape: tuple[int, int, int] = tuning.SHAPES[0],
    *,
    beside: str | None = None,
    caption: str | None = None,
) -> Picture:
    """The fastest recorded setting for each pair of values of two parameters, at one shape.

    table: as tuning.recorded gives. rows, columns: names of two parameters, such as "TM" and "TN".
    beside: a third one; each of its values gets a table of its own, side by side in one scale.
    Each cell has the rate of the best choice of all others that differ, and that choice. The best
    of all has a thick frame, and pairs that no legal setting has stay empty.

    Raises NoRecord for a shape that was not measured.
    """
    chosen = [rows, columns] if beside is None else [rows, columns, beside]
    names = list(table.columns[: list(table.columns).index("m")])  # all parameters of the sweep
    at = tuning.at(table, shape)  # the fastest first
    best = at.groupby(chosen, sort=True).first()
    downs, acrosses = sorted(set(table[rows])), sorted(set(table[columns]))
    panels = [()] if beside is None else [(value,) for value in sorted(set(table[beside]))]
    others = [name for name in names if name not in chosen and at[name].nunique() > 1]
    fastest = at.iloc[0]
    first = tuple(fastest[name] for name in chosen)

    left = MARGIN + style.text_width(f"{rows} = {downs[-1]}", NORMAL) + 0.15
    room = WIDTH - MARGIN - left - PANEL_GAP * (len(panels) - 1)
    cell = min(MOST_CELL_WIDTH, room / (len(panels) * len(acrosses)))
    settings = {
        place: style.wrap(" ".join(f"{name}={row[name]:.0f}" for name in others), cell - 0.2, SMALL)
        for place, row in best.iterrows()
    }
    height = RATE_HEIGHT + LINE_HEIGHT * max(2, *map(len, settings.values()))
    head = 0.2 + 0.25 * (beside is not None)
    caption = caption or _sweep_caption(fastest, at, names, chosen, shape)
    key = [
        ("the fastest" if share == 1 else f"{share:.0%} of it", _cell_look(share, share == 1))
        for share in SHADES
    ]
    title, footer = style.shape_label(*shape), style.provenance(at)
    fig = page(title, head + len(downs) * height + 0.12, caption, footer, key=key)
    for number, panel in enumerate(panels):
        x0, wide = left + number * (cell * len(acrosses) + PANEL_GAP), cell * len(acrosses)
        words = "".join(f"{beside} = {value}" for value in panel)
        fig.text_at(x0 + wide / 2, fig.top, words, size=NORMAL, ha="center", weight="bold")
        size = (wide, height * len(downs))
        ax = bare(fig.add_axes_at(x0, fig.top + head, *size), len(acrosses), len(downs))
        for (y, down), (x, across) in itertools.product(enumerate(downs), enumerate(acrosses)):
            place = (down, across, *panel)
            middle = x + 0.5
            corner = (x + 0.03, y + 0.04, 0.94, 0.92)
            if place not in best.index:
                box(ax, *corner, "not legal", {"color": style.FAINT}, **_cell_look(None, False))
                continue
            rate = best.loc[place]["gflops"]
            look = _cell_look(rate / fastest["gflops"], place == first)
            box(ax, *corner, **look)
            above, below = y + 0.186 / height, y + 0.5 + 0.12 / height
            look = {"va": "center", "weight": "bold" if place == first else "normal"}
            write(ax, middle, above, style.rate(rate), size=NORMAL, **look)
            write(ax, middle, below, "\n".join(settings[place]), va="center", linespacing=1.15)
        across = [f"{columns} = {value}" for value in acrosses]
        ax.set_xticks([x + 0.5 for x in range(len(acrosses))], across)
        down = [f"{rows} = {value}" if number == 0 else "" for value in downs]
        ax.set_yticks([y + 0.5 for y in range(len(downs))], down)
        number_above(ax, labelsize=NORMAL, pad=3.5)
    return fig


def _cell_look(share: float | None, first: bool) -> style.Look:
    """Of a cell, darker the faster. Black text stays readable on the darkest."""
    face = style.GROUND if share is None else style.tint(style.SKY, max(0.0, share) ** 2)
    return {
        "facecolor": face, "edgecolor": style.BLACK if first else style.GRID,
        "linewidth": 2.2 if first else 0.8, "hatch": ".." if share is None else None,
    }  # fmt: skip


def _sweep_caption(
    fastest: pandas.Series, at: pandas.DataFrame, names: Sequence[str], chosen: Sequence[str],
    shape: tuple[int, int, int],
) -> str:  # fmt: skip
    setting = ", ".join(f"{name}={fastest[name]}" for name in names)
    slowest = at.iloc[-1]
    factor = fastest["gflops"] / slowest["gflops"]
    return (
        f"Every legal setting was measured at {style.shape_label(*shape)}: {len(at)} of them. Each "
        f"cell has the fastest for its {style.listed(chosen)}, and the other parameters that made "
        f"it so. The best is {setting} with {style.rate(fastest['gflops'])}, "
        f"{style.percent(fastest['pct_cublas'])} of cuBLAS and {style.digits(factor)} times the "
        "slowest setting."
    )
