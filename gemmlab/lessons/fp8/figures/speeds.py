"""How fast products of 8-bit floats are: beside cuBLASLt by kind of scales, and beside BF16."""

from __future__ import annotations

import pandas
from matplotlib.lines import Line2D

from gemmlab.lessons.fp8.figures.errors import KINDS
from gemmlab.plots import style
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import LARGE, MARGIN, NORMAL, SMALL, WIDTH, styled

COLUMNS = (
    "scales", "m", "n", "k", "tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3",
    "cublas_tflops", "gpu", "recorded",
)  # fmt: skip
BF16 = "BF16"  # in `scales`, of rung 18
LEFT, TOP, HEIGHT, SHARES, BETWEEN, RIGHT = 0.6, 0.95, 2.9, 3.6, 0.75, 0.15  # inches
BAR = 0.2  # of the room of a shape


@styled
def fp8_speeds(table: pandas.DataFrame, *, caption: str | None = None) -> Picture:
    """Two panels over shapes: the share of cuBLASLt, and TFLOP/s beside those of BF16.

    table: as analysis.fp8.costs.speeds gives. A marker is a median, its line the middle half of all
    pairs. Raises TypeError and ValueError.
    """
    style.require_table(table, COLUMNS, "fp8_speeds")
    shapes = list(dict.fromkeys(zip(table["m"], table["n"], table["k"], strict=True)))
    fig = style.page(TOP + HEIGHT + 0.55, caption or _caption(table), style.provenance(table))
    title = "Beside cuBLASLt with the same kind of scales, and beside 16 bits"
    fig.text_at(MARGIN, 0.12, title, size=LARGE, weight="bold")
    fig.text_at(MARGIN, 0.4, "Scales:", size=NORMAL)
    left = fig.add_axes_at(LEFT, TOP, SHARES, HEIGHT, gid="shares")
    _draw_shares(left, table, shapes)
    at = LEFT + SHARES + BETWEEN
    right = fig.add_axes_at(at, TOP, WIDTH - at - RIGHT, HEIGHT, gid="speeds")
    _draw_speeds(right, table, shapes)
    _draw_key(fig)
    return fig


def _rows(table: pandas.DataFrame, scales: str, shapes: list) -> pandas.DataFrame:
    chosen = table[table["scales"] == scales].set_index(["m", "n", "k"])
    return chosen.loc[shapes]


def _draw_shares(ax, table: pandas.DataFrame, shapes: list) -> None:
    for at, (kind, (colour, marker)) in enumerate(KINDS.items()):
        rows = _rows(table, kind, shapes)
        x = [place + (at - 1) * BAR for place in range(len(shapes))]
        ax.vlines(x, rows["pct_cublas_q1"], rows["pct_cublas_q3"], color=colour, linewidth=2.2)
        ax.plot(x, rows["pct_cublas"], marker, color=colour, markersize=7, gid=kind)
        for place, row in zip(x, rows.itertuples(), strict=True):
            share, above = row.pct_cublas, row.pct_cublas >= 100  # away from the line at 100
            end = row.pct_cublas_q3 if above else row.pct_cublas_q1
            ax.annotate(f"{share:.1f}", (place, end), (0, 7 if above else -14),
                        textcoords="offset points", size=SMALL, ha="center")  # fmt: skip
    ax.axhline(100, color=style.BLACK, linewidth=1.2, linestyle="--", gid="cuBLASLt")
    low, high = table["pct_cublas_q1"].min(), table["pct_cublas_q3"].max()
    ax.set_ylim(min(low, 100) - 2.5, max(high, 100) + 2.5)
    ax.set_title("% of cuBLASLt (dashed)", size=NORMAL, loc="left")
    _shapes_below(ax, shapes)
    ax.grid(axis="y")


def _draw_speeds(ax, table: pandas.DataFrame, shapes: list) -> None:
    looks = {BF16: style.kernel_style("18_persistent")["color"]} | {
        kind: colour for kind, (colour, _) in KINDS.items()
    }
    for at, (kind, colour) in enumerate(looks.items()):
        rows = _rows(table, kind, shapes)
        x = [place + (at - 1.5) * BAR for place in range(len(shapes))]
        ax.bar(x, rows["tflops"], 0.9 * BAR, color=style.tint(colour, 0.35), edgecolor=colour,
               gid=f"speed {kind}")  # fmt: skip
        for place, speed in zip(x, rows["tflops"], strict=True):
            ax.annotate(f"{speed:,.0f}", (place, speed), (0, -5), textcoords="offset points",
                        size=SMALL, ha="center", va="top", rotation=90)  # fmt: skip
    ax.set_ylim(0, 1.05 * table["tflops"].max())
    ax.set_title("TFLOP/s", size=NORMAL, loc="left")
    _shapes_below(ax, shapes)


def _shapes_below(ax, shapes: list) -> None:
    ax.set_xticks(range(len(shapes)), [f"{m}×{n}\n×{k}" for m, n, k in shapes])
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.55, len(shapes) - 0.45)


def _draw_key(fig: Picture) -> None:
    across, down = fig.get_size_inches()
    bf16 = style.kernel_style("18_persistent")["color"]
    entries = [(colour, marker, f"of {kind}") for kind, (colour, marker) in KINDS.items()]
    x = MARGIN + 0.65
    for colour, marker, words in [*entries, (bf16, "_", "18_persistent in BF16, without scales")]:
        fig.add_artist(
            Line2D([(x + 0.1) / across], [1 - 0.47 / down], marker=marker, color=colour,
                   markersize=8 if marker == "_" else 6, linestyle="", markeredgewidth=3
                   if marker == "_" else 1)
        )  # fmt: skip
        fig.text_at(x + 0.27, 0.4, words, size=NORMAL)
        x += 0.27 + style.text_width(words, NORMAL) + 0.35


def _caption(table: pandas.DataFrame) -> str:
    kinds = table[table["scales"] != BF16]
    best = kinds.loc[kinds["pct_cublas"].idxmax()]
    least = kinds.loc[kinds["pct_cublas"].idxmin()]
    bf16 = table[table["scales"] == BF16].set_index(["m", "n", "k"])["tflops"]
    gains = [row.tflops / bf16[row.m, row.n, row.k] for row in kinds.itertuples()]
    return (
        f"From {least['pct_cublas']:.1f} % of cuBLASLt, with scales of {least['scales']} at "
        f"{_shape(least)}, to {best['pct_cublas']:.1f} %, with scales of {best['scales']} at "
        f"{_shape(best)}; {min(gains):.2f} to {max(gains):.2f} times as fast as 18_persistent in "
        "BF16. Lines at markers: the middle half of the pairs of samples."
    )


def _shape(row: pandas.Series) -> str:
    return "×".join(str(row[one]) for one in ("m", "n", "k"))
