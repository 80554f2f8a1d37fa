"""What gl.matmul takes over shapes of all kinds: its share of cuBLAS, and a map of the rungs."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

import pandas
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LARGE, MARGIN, NORMAL, SMALL, WIDTH, percent, styled

SHARES = ("group", "kernel", "dtype", "m", "n", "k", "batch", "pct_cublas", "gpu", "recorded")
CHOICES = ("panel", "m", "n", "k", "kernel", "recorded")
ROW, BAR, HEAD = 0.2, 0.14, 0.3  # inches: a shape, its bar, the name of a group
COLUMN_GAP = 0.3
CELL = 0.25  # inches, of a shape in the map
SWATCH = 0.16


@styled
def shape_shares(table: pandas.DataFrame, *, caption: str | None = None) -> Picture:
    """The share of cuBLAS at every shape, on a linear scale, in groups; bars have rungs' colours.

    table: a row for each shape, with the columns SHARES, as analysis.recorded.chosen.shares()
    gives; its groups stand in their order there. Raises TypeError and ValueError for anything else.
    """
    style.require_table(table, SHARES, "shape_shares")
    style.require_positive(table, ("pct_cublas",), "shape_shares")
    groups = list(dict.fromkeys(table["group"]))
    columns = _two_columns([(group, (table["group"] == group).sum()) for group in groups])
    heights = [sum(HEAD + ROW * count for _, count in column) for column in columns]
    top = 0.42 + 0.26
    fig = style.page(
        top + max(heights) + 0.55, caption or _shares_caption(table), style.provenance(table)
    )
    fig.text_at(MARGIN, 0.12, "Share of cuBLAS, shape by shape", size=LARGE, weight="bold")
    _draw_key(fig, style.ladder_order(table["kernel"]), 0.42)
    labels = [_label(row) for row in table.itertuples()]
    left = max(style.text_width(label, SMALL) for label in labels) + 0.1
    right = style.text_width(percent(table["pct_cublas"].max()), SMALL, "bold") + 0.1
    whole = (WIDTH - 2 * MARGIN - COLUMN_GAP * (len(columns) - 1)) / len(columns)
    most = max(100.0, table["pct_cublas"].max()) * 1.03
    for at, column in enumerate(columns):
        x, y = MARGIN + at * (whole + COLUMN_GAP), top
        for group, count in column:
            fig.text_at(x, y + 0.08, group, size=NORMAL, weight="bold")
            own = table[table["group"] == group]
            last = group == column[-1][0]
            width = whole - left - right
            ax = fig.add_axes_at(x + left, y + HEAD, width, ROW * count, gid=f"shares {group}")
            _draw_group(ax, own, most, last)
            y += HEAD + ROW * count
    return fig


def _two_columns(groups: list[tuple[str, int]]) -> list[list[tuple[str, int]]]:
    """Groups and how many shapes each has, in two columns of about the same height; or in one."""

    def height(column: Sequence[tuple[str, int]]) -> float:
        return sum(HEAD + ROW * count for _, count in column)

    if len(groups) < 2:
        return [groups]
    cut = min(range(1, len(groups)), key=lambda at: max(height(groups[:at]), height(groups[at:])))
    return [groups[:cut], groups[cut:]]


def _draw_group(ax: Axes, rows: pandas.DataFrame, most: float, last: bool) -> None:
    for at, row in enumerate(rows.itertuples()):
        look = style.kernel_style(row.kernel)
        ax.barh(
            at, row.pct_cublas, BAR / ROW, facecolor=style.tint(look["color"], 0.45),
            edgecolor=look["color"], hatch=look["hatch"], linewidth=0.8,
            gid=f"bar {_label(row)}",
        )  # fmt: skip
        ax.annotate(
            percent(row.pct_cublas), (1, at), (6, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points", va="center", size=SMALL,
            weight="bold" if row.pct_cublas >= 100 else "normal",
        )  # fmt: skip
    ax.axvline(100, color=style.BLACK, linestyle="--", linewidth=1.4, zorder=1.5)
    ax.set(xlim=(0, most), ylim=(len(rows) - 0.5, -0.5))
    ax.set_yticks(range(len(rows)), [_label(row) for row in rows.itertuples()])
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x")
    if last:
        ax.set_xlabel("share of cuBLAS, %; dashed: cuBLAS")
    else:
        ax.tick_params(axis="x", length=0, labelbottom=False)


def _label(row) -> str:
    sizes = f"{row.m}³" if row.m == row.n == row.k else f"{row.m}×{row.n}×{row.k}"
    return sizes if row.batch == 1 else f"{row.batch:,} × {sizes}"


def _shares_caption(table: pandas.DataFrame) -> str:
    """The geometric mean of each group, and the shape that is furthest behind."""
    means = []
    for group, own in table.groupby("group", sort=False):
        mean = exp(sum(map(log, own["pct_cublas"])) / len(own))
        means.append(f"{group} {percent(mean)}")
    least = next(table.sort_values("pct_cublas").head(1).itertuples())
    types = style.listed(list(dict.fromkeys(table["dtype"])))
    return (
        f"The speed of what gl.matmul picks in {types} at each shape, M×N×K, as a share of "
        f"cuBLAS's; geometric means: {style.listed(means)}. The least is "
        f"{percent(least.pct_cublas)}, at {_label(least)} with {least.kernel}."
    )


@styled
def rung_map(table: pandas.DataFrame, *, caption: str | None = None) -> Picture:
    """Which rung gl.choose takes over M×N and K: a panel for each grid of shapes, both logarithmic.

    table: a row for each shape, with the columns CHOICES, as analysis.recorded.chosen.rungs()
    gives. A panel is drawn over the two of M, N and K that vary, M = N being one. A dot is a shape
    at which rungs were measured; at others the nearest of these decides, or a rule. Raises
    TypeError and ValueError for anything else.
    """
    style.require_table(table, CHOICES, "rung_map")
    panels = {panel: _Grid(own) for panel, own in table.groupby("panel", sort=False)}
    names = style.ladder_order(table["kernel"])
    top = 0.42 + 0.3 + 0.25
    height = max(len(grid.down) for grid in panels.values()) * CELL
    fig = style.page(top + height + 0.8, caption or _map_caption(table))
    fig.text_at(MARGIN, 0.12, "Which rung for which shape", size=LARGE, weight="bold")
    _draw_key(fig, names, 0.42, dot="measured at this very shape")
    widths = [len(grid.across) * CELL for grid in panels.values()]
    margin = (WIDTH - sum(widths)) / (len(widths) + 1)
    x = margin
    for (panel, grid), width in zip(panels.items(), widths, strict=True):
        tall = len(grid.down) * CELL
        fig.text_at(x, top - 0.24 + height - tall, panel, size=NORMAL, weight="bold")
        ax = fig.add_axes_at(x, top + height - tall, width, tall, gid=f"map {panel}")
        grid.draw(ax)
        x += width + margin
    return fig


class _Grid:
    """One panel: which sizes go across and down, and the rows at their places."""

    def __init__(self, rows: pandas.DataFrame):
        self.rows = rows
        if (rows["m"] == rows["n"]).all():
            self.names, self.labels = ("m", "k"), ("M = N", "K")
        else:
            self.names, self.labels = ("n", "m"), ("N", "M")
        self.across, self.down = (sorted(set(rows[name])) for name in self.names)

    def draw(self, ax: Axes) -> None:
        for row in self.rows.itertuples():
            x, y = (
                sizes.index(getattr(row, name))
                for sizes, name in zip((self.across, self.down), self.names, strict=True)
            )
            look = style.kernel_style(row.kernel)
            ax.add_patch(
                Rectangle(
                    (x - 0.5, y - 0.5), 1, 1, facecolor=style.tint(look["color"], 0.45),
                    edgecolor=style.tint(look["color"], 0.8), hatch=look["hatch"], linewidth=0.4,
                    gid=f"cell {row.m}×{row.n}×{row.k} {row.kernel}",
                )
            )  # fmt: skip
            if row.recorded:
                ax.plot(x, y, "o", markersize=4.5, color=style.BLACK, markeredgecolor=style.GROUND,
                        gid=f"dot {row.m}×{row.n}×{row.k}")  # fmt: skip
        ax.set(xlim=(-0.5, len(self.across) - 0.5), ylim=(-0.5, len(self.down) - 0.5))
        ax.set_xticks(range(len(self.across)), map(str, self.across), rotation=60)
        ax.set_yticks(range(len(self.down)), map(str, self.down))
        ax.set_xlabel(self.labels[0])
        ax.set_ylabel(self.labels[1])
        ax.tick_params(length=0)


def _map_caption(table: pandas.DataFrame) -> str:
    parts = []
    for name in style.ladder_order(table["kernel"]):
        parts.append(f"{name} at {(table['kernel'] == name).sum()}")
    return (
        f"What gl.choose takes at {len(table)} shapes: {style.listed(parts)}. A dot is a shape at "
        "which rungs were measured; elsewhere the nearest of these decides, or a rule."
    )


def _draw_key(fig: Picture, names: Sequence[str], top: float, dot: str = "") -> None:
    """A swatch for each rung, in a line."""
    across, down = fig.get_size_inches()
    x = MARGIN
    for name in names:
        look = style.kernel_style(name)
        fig.add_artist(
            Rectangle(
                (x / across, 1 - (top + SWATCH) / down), SWATCH / across, SWATCH / down,
                facecolor=style.tint(look["color"], 0.45), edgecolor=look["color"],
                hatch=look["hatch"], linewidth=0.8, transform=fig.transFigure, gid=f"key {name}",
            )
        )  # fmt: skip
        fig.text_at(x + SWATCH + 0.07, top, name, size=NORMAL)
        x += SWATCH + 0.07 + style.text_width(name, NORMAL) + 0.25
    if dot:
        fig.text_at(x, top, f"●  {dot}", size=NORMAL)
