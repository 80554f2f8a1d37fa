"""Ways to join the parts of K, beside cuBLAS: a row for each shape, a sign for each way."""

from __future__ import annotations

import pandas
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from gemmlab.ladder import read_settings
from gemmlab.ladder.settings import ALONE, JOINS
from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LARGE, MARGIN, SMALL, WIDTH, percent, plural, styled

COLUMNS = ("m", "n", "k", "join", "settings", "pct_cublas", "gpu", "recorded")
LOOKS = dict(
    zip(
        JOINS,
        (
            (style.BLACK, "|", 7), (style.SKY, "s", 5.5), (style.PURPLE, "^", 6),
            (style.INK, "o", 5.5), (style.ORANGE, "v", 6), (style.FAINT, "D", 5),
            (style.PURPLE, "P", 7),
        ),
        strict=True,
    )
)  # fmt: skip
"""Colour, marker and its size of each way; no colour is a matrix's."""
ROW, HEAD, KEY_ROW = 0.54, 0.42, 0.24  # inches
LANE = 0.125  # of a row: how far one way stands below the other
GAP = 0.12


@styled
def joins(table: pandas.DataFrame, *, caption: str | None = None) -> Picture:
    """The share of cuBLAS of every way to join parts, shape by shape, a lane for each way.

    table: as records.experiments.joins.joins() gives, its shapes in their order there. Raises
    TypeError and ValueError for anything else.
    """
    style.require_table(table, COLUMNS, "joins")
    style.require_positive(table.rename(columns={"join": "kernel"}), ("pct_cublas",), "joins")
    shapes = list(table.groupby(["m", "n", "k"], sort=False))
    there = [join for join in JOINS if join in set(table["join"])]
    rows = _key_rows(there)
    top = HEAD + KEY_ROW * len(rows) + 0.1
    fig = style.page(
        top + ROW * len(shapes) + 0.5, caption or _caption(table), style.provenance(table)
    )
    fig.text_at(MARGIN, 0.12, "Ways to join the parts, beside cuBLAS", size=LARGE, weight="bold")
    _draw_key(fig, rows)
    left = MARGIN + max(max(map(_width, _words(own))) for _, own in shapes) + GAP
    width = WIDTH - left - MARGIN - 0.15
    ax = fig.add_axes_at(left, top, width, ROW * len(shapes), gid="shares of joins")
    for at, (_, own) in enumerate(shapes):
        _draw_shape(ax, at, own)
        sizes, how = _words(own)
        middle = top + ROW * (at + 0.5)
        fig.text_at(left - GAP, middle - 0.135, sizes, size=SMALL, ha="right")
        fig.text_at(left - GAP, middle + 0.01, how, size=SMALL, ha="right", color=style.FAINT)
    most = max(100.0, table["pct_cublas"].max()) * 1.04
    ax.set(xlim=(0, most), ylim=(len(shapes) - 0.5, -0.5), yticks=[])
    ax.axvline(100, color=style.BLACK, linestyle="--", linewidth=1.2, zorder=1)
    ax.spines["left"].set_visible(False)
    ax.grid(axis="x")
    ax.set_xlabel("share of cuBLAS, %; dashed: cuBLAS")
    return fig


def _width(words: str) -> float:
    return style.text_width(words, SMALL)


def _words(own: pandas.DataFrame) -> tuple[str, str]:
    """Of a shape: its sizes, and the tile and the parts of those ways that cut K."""
    m, n, k = own.iloc[0][["m", "n", "k"]]
    settings = [read_settings(one) for one in own["settings"]]
    parts = max(one["SPLIT"] for one in settings)
    tile = f"tiles {settings[0]['BM']}×{settings[0]['BN']}"
    return f"{m}×{n}×{k}", f"{tile}, {plural(parts, 'part')}"


def _draw_shape(ax: Axes, at: int, own: pandas.DataFrame) -> None:
    if at % 2 == 0:
        ax.axhspan(at - 0.5, at + 0.5, color=style.tint(style.FAINT, 0.06), linewidth=0, zorder=0)
    shares = own.set_index("join")["pct_cublas"]
    for lane, join in enumerate(JOINS):
        if join in shares:
            colour, marker, size = LOOKS[join]
            ax.plot(
                shares[join], at + LANE * (lane - len(JOINS) // 2), marker, color=colour,
                markersize=size, markeredgewidth=2 if marker == "|" else 0.6, zorder=2,
                markeredgecolor=colour if marker == "|" else style.GROUND, clip_on=False,
                gid=f"{join} {at}",
            )  # fmt: skip


def _key_rows(there: list[str]) -> list[list[str]]:
    """The ways in rows that fit the page."""
    rows: list[list[str]] = [[]]
    x = MARGIN
    for join in there:
        wide = 0.45 + _width(_name(join))
        if rows[-1] and x + wide > WIDTH - MARGIN:
            rows.append([])
            x = MARGIN
        rows[-1].append(join)
        x += wide
    return rows


def _draw_key(fig: Picture, rows: list[list[str]]) -> None:
    across, down = fig.get_size_inches()
    for at, row in enumerate(rows):
        x, y = MARGIN, HEAD + KEY_ROW * at
        for join in row:
            colour, marker, size = LOOKS[join]
            fig.add_artist(
                Line2D(
                    [(x + 0.08) / across], [1 - (y + 0.07) / down], color=colour, marker=marker,
                    markersize=size, linestyle="", markeredgewidth=2 if marker == "|" else 0.6,
                )
            )  # fmt: skip
            fig.text_at(x + 0.2, y, _name(join), size=SMALL)
            x += 0.45 + _width(_name(join))


def _name(join: str) -> str:
    return "one block for each tile" if join == JOINS[ALONE] else join


def _caption(table: pandas.DataFrame) -> str:
    """Where cutting K gains most over one block for each tile, and where it gains least."""
    found = []
    for (m, n, k), own in table.groupby(["m", "n", "k"], sort=False):
        shares = own.set_index("join")["pct_cublas"]
        if JOINS[ALONE] in shares and len(shares) > 1:
            others = shares.drop(JOINS[ALONE])
            gain = others.max() / shares[JOINS[ALONE]]
            found.append(
                (gain, f"{m}×{n}×{k}", others.idxmax(), shares[JOINS[ALONE]], others.max())
            )
    if not found:
        _, row = next(table.iterrows())
        return f"{row['join']}: {percent(row['pct_cublas'])} of cuBLAS at its first shape."
    (most, shape, join, alone, cut), least = max(found), min(found)
    return (
        f"The same tile, with K cut and without. At {shape} one block for each tile reaches "
        f"{percent(alone)} of cuBLAS, and the fastest way to join, {join}, {percent(cut)}: "
        f"{style.digits(most)} times as much. The least gain is at {least[1]}: "
        f"{style.digits(least[0])} times."
    )
