"""Figures of this lesson: which thread stores which elements of C, and the record."""

from collections.abc import Mapping

import numpy as np
import pandas

from gemmlab.lessons.one_kernel_four_languages.measure import CUBLAS
from gemmlab.plots import style
from gemmlab.plots.charts import at_edge, bar, line_of_cublas, rows_of, stripes
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.style import MARGIN, NORMAL, WIDTH

SIDE, GAP = 2.0, 0.2  # inches


@styled
def owners(maps: Mapping[str, np.ndarray]) -> Picture:
    """The tile of C of each language, by warp, with the elements of one thread. `maps`: see
    tables.owners."""
    title = "Which thread stores which elements of C"
    caption = (
        "The first 128 rows and 128 columns of C, as a block stores them, traced. Warps w "
        "and w + 4 have the same colour; black: the 64 elements of thread 0."
    )
    fig = page(title, 0.25 + SIDE + 0.1, caption)
    colours = np.array([style.tint(colour, 0.5) for colour in style.TILE_COLOURS])
    for at, (language, threads) in enumerate(maps.items()):
        left = MARGIN + at * (SIDE + GAP)
        fig.text_at(left, fig.top, language, size=NORMAL, weight="bold")
        ax = fig.add_axes_at(left, fig.top + 0.25, SIDE, SIDE, gid=language)
        ax.set_axis_off()
        picture = colours[threads // 32 % len(colours)]
        picture[threads == 0] = 0
        ax.imshow(picture, interpolation="nearest")
    return fig


@styled
def shares(table: pandas.DataFrame) -> Picture:
    """The speed of each kernel in percent of cuBLAS; `table`: as measure.TABLE has it."""
    rows = table[table["language"] != CUBLAS]
    names = [f"{row.language}, {row.dtype}, {row.m}" for row in rows.itertuples()]
    caption = "Speed in percent of cuBLAS (dashed), timed in turn; at the right, in TFLOP/s."
    smaller = rows[rows["m"] == rows["m"].min()].sort_values("pct_cublas", ascending=False)
    first = smaller.groupby("dtype", sort=False)["language"].agg(lambda of: " and ".join(of[:2]))
    title = f"First are {first['float32']} in float32, {first['float16']} in float16"
    pitch = 0.24
    height = 0.1 + pitch * len(rows) + 0.5
    fig = page(title, height, caption, style.provenance(rows))
    most = 1.05 * max(100, rows["pct_cublas"].max())
    ax = rows_of(
        fig, names, fig.top + 0.1, pitch, right=WIDTH - MARGIN - 0.7, xlim=(0, most),
        xlabel="% of cuBLAS",
    )  # fmt: skip
    stripes(ax, len(rows))
    line_of_cublas(ax)
    languages = list(dict.fromkeys(rows["language"]))
    for at, row in enumerate(rows.itertuples()):
        colour = style.TILE_COLOURS[languages.index(row.language)]
        bar(ax, at, 0, row.pct_cublas, facecolor=style.tint(colour, 0.6), gid=names[at])
        at_edge(ax, at, f"{row.tflops:,.1f}")
    return fig
