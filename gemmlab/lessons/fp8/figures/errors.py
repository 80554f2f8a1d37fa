"""Errors of a product of 8-bit floats over K: by how its sums are added, and by its scales."""

from __future__ import annotations

import math

import pandas
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LARGE, MARGIN, NORMAL, SMALL, WIDTH, styled

COLUMNS = ("data", "types", "scales", "promote", "k", "sum_error", "whole_error")
SUMS = {  # promote -> colour, marker
    128: (style.PURPLE, "o"), 256: (style.SKY, "^"), 512: (style.ORANGE, "D"),
    0: (style.BLACK, "s"),
}  # fmt: skip
KINDS = {"tensors": (style.BLACK, "s"), "rows": (style.ORANGE, "D"), "blocks": (style.PURPLE, "o")}
LEFT, BETWEEN, RIGHT, TOP, HEIGHT = 0.8, 1.75, 1.1, 0.9, 3.1  # inches
LABEL = 0.18  # inches, from one name to the next at least


@styled
def fp8_errors(
    table: pandas.DataFrame, *, types: str = "E4M3", caption: str | None = None
) -> Picture:
    """Errors as shares of |A| @ |B|, root mean squares, in two panels with K along both.

    Left: of the sums alone, a curve for each number of products that one sum of the tensor cores
    takes. Right: of all, quantizing included, a curve for each kind of scales, on uneven data.
    table: as records.experiments.fp8.errors.recorded_errors gives. Raises TypeError and ValueError.
    """
    style.require_table(table, COLUMNS, "fp8_errors")
    chosen = table[table["types"] == types]
    if chosen.empty:
        raise ValueError(
            f"types is {types!r}, it must be one of {', '.join(sorted(set(table['types'])))}"
        )
    even = chosen[(chosen["data"] == "even") & (chosen["scales"] == "tensors")]
    uneven = chosen[(chosen["data"] == "uneven") & (chosen["promote"] == 128)]
    fig = style.page(TOP + HEIGHT + 0.65, caption or _caption(even, uneven))
    title = f"A sum that is promoted early loses little; errors of {types}"
    fig.text_at(MARGIN, 0.12, title, size=LARGE, weight="bold")
    wide = (WIDTH - LEFT - BETWEEN - RIGHT - MARGIN) / 2
    names = {promote: _every(promote) for promote in SUMS}
    left = fig.add_axes_at(LEFT, TOP, wide, HEIGHT, gid="sums")
    _curves(left, even, "promote", "sum_error", SUMS, names)
    left.set_title("The sums alone, by promotion", size=NORMAL, loc="left")
    right = fig.add_axes_at(LEFT + wide + BETWEEN, TOP, wide, HEIGHT, gid="scales")
    _curves(right, uneven, "scales", "whole_error", KINDS, {kind: kind for kind in KINDS})
    right.set_title("Quantizing too, by scales, on uneven data", size=NORMAL, loc="left")
    return fig


def _curves(ax, table, by: str, error: str, looks: dict, names: dict) -> None:
    depths = sorted(set(table["k"]))
    ax.set(xscale="log", yscale="log", xlabel="K", ylabel="error / |A| |B|")
    ax.set_xticks(depths[::2], [str(depth) for depth in depths[::2]])
    ax.xaxis.set_minor_locator(NullLocator())
    low, high = 0.8 * table[error].min(), 1.25 * table[error].max()
    ax.set_ylim(low, high)
    _mark(ax, low, high, (1, 2, 5))
    last = table[table["k"] == depths[-1]].set_index(by)[error]
    there = [name for name in looks if name in last]
    inches = [HEIGHT * math.log(last[one] / low) / math.log(high / low) for one in there]
    for one, at in zip(there, style.spread_out(inches, LABEL, 0.0, HEIGHT), strict=True):
        ax.annotate(
            names[one], (1, at / HEIGHT), (6, 0), xycoords="axes fraction",
            textcoords="offset points", size=NORMAL, va="center",
        )  # fmt: skip
        curve = table[table[by] == one].sort_values("k")
        colour, marker = looks[one]
        ax.plot(curve["k"], curve[error], marker=marker, color=colour, gid=str(one))
    ax.grid(axis="y")


def _mark(ax, low: float, high: float, digits: tuple[int, ...]) -> None:
    """Ticks at these digits of each power of ten, from low to high."""
    ticks = [d * 10.0**n for n in range(-8, 0) for d in digits if low <= d * 10.0**n <= high]
    ax.set_yticks(ticks, [f"{one:.0e}".replace("e-0", "e-") for one in ticks])
    ax.yaxis.set_minor_locator(NullLocator())


def _caption(even: pandas.DataFrame, uneven: pandas.DataFrame) -> str:
    last = even[even["k"] == even["k"].max()].set_index("promote")["sum_error"]
    kinds = uneven[uneven["k"] == uneven["k"].max()].set_index("scales")["whole_error"]
    return (
        f"Left: at K = {even['k'].max()} one sum of all products is {last[0] / last[128]:.0f} "
        "times as wrong as sums of 128 that are added in float32. Right: where rows and blocks of "
        "K differ in size, one scale for a matrix makes "
        f"{kinds['tensors'] / kinds['blocks']:.1f} times the error of a scale for each block."
    )


# ---- one product after the other -----------------------------------------------------------------

PANELS = (
    ("sum_error", "The sums alone", (5e-7, 1e-4)), ("whole_error", "Quantizing too", (1e-4, 5e-2)),
)  # fmt: skip
HOLLOW = "p"
DEPTHS = (128, 4096)  # of K, as far as it is shown


@styled
def fp8_errors_tried(table: pandas.DataFrame, *, caption: str | None = None) -> Picture:
    """The errors of products that were tried, over K; a ring around the last of them.

    table: a row for each, in their order, with the columns data, types, scales, promote, k,
    sum_error, whole_error. A colour for each promotion interval, a marker for each kind of scales;
    lines join those that differ in K alone. Raises TypeError and ValueError.
    """
    style.require_table(table, COLUMNS, "fp8_errors_tried")
    fig = style.page(TOP + HEIGHT + 0.65, caption or _of_last(table.iloc[-1]))
    title = "What was tried so far: errors over K"
    fig.text_at(MARGIN, 0.12, title, size=LARGE, weight="bold")
    _draw_key(fig)
    wide = (WIDTH - 2 * LEFT - 0.4 - MARGIN) / 2
    for at, (error, words, (low, high)) in enumerate(PANELS):
        ax = fig.add_axes_at(LEFT + at * (wide + 0.9), TOP, wide, HEIGHT, gid=error)
        ax.set(xscale="log", yscale="log", xlabel="K", ylabel="error / |A| |B|")
        ax.set_xlim(0.8 * DEPTHS[0], 1.25 * DEPTHS[1])
        low, high = min(low, 0.8 * table[error].min()), max(high, 1.25 * table[error].max())
        ax.set_ylim(low, high)
        _mark(ax, low, high, (1,))
        ticks = [2**n for n in range(7, 13)]
        ax.set_xticks(ticks, [str(one) for one in ticks])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_title(words, size=NORMAL, loc="left")
        ax.grid(axis="y")
        for (data, _, scales, promote), rows in table.groupby(list(COLUMNS[:4])):
            alike = rows.drop_duplicates("k").sort_values("k")
            ax.plot(alike["k"], alike[error], marker=KINDS[scales][1], color=SUMS[promote][0],
                    markerfacecolor=style.GROUND if data == "uneven" else None)  # fmt: skip
        last = table.iloc[-1]
        ax.plot(last["k"], last[error], "o", markersize=14, markerfacecolor="none",
                color=style.INK, markeredgewidth=1.4, gid="last")  # fmt: skip
    return fig


def _draw_key(fig: Picture) -> None:
    across, down = fig.get_size_inches()
    entries = [(colour, "_", _every(promote)) for promote, (colour, _) in SUMS.items()]
    entries += [(style.FAINT, marker, kind) for kind, (_, marker) in KINDS.items()]
    entries.append((style.FAINT, HOLLOW, "uneven data"))
    x = MARGIN
    for colour, marker, words in entries:
        face = {"markerfacecolor": style.GROUND} if marker is HOLLOW else {}
        fig.add_artist(
            Line2D([(x + 0.1) / across], [1 - 0.5 / down], marker=marker, color=colour,
                   markersize=9 if marker == "_" else 6, linestyle="",
                   markeredgewidth=2.5 if marker == "_" else 1, **face)
        )  # fmt: skip
        fig.text_at(x + 0.27, 0.43, words, size=SMALL)
        x += 0.27 + style.text_width(words, SMALL) + 0.22


def _every(promote: int) -> str:
    return f"every {promote}" if promote else "never"


def _of_last(row: pandas.Series) -> str:
    how = f"promoted {_every(row['promote'])}{' products' if row['promote'] else ''}"
    return (
        f"The last: {row['types']}, scales of {row['scales']}, {row['data']} data, {how}, "
        f"K = {row['k']}. Beside float64, as shares of |A| |B|: the sums are off by "
        f"{row['sum_error']:.2g}, all of it, quantizing included, by {row['whole_error']:.2g} "
        "(root mean squares)."
    )
