"""Figures of this lesson: who computes which tile of which product, and the record."""

from collections.abc import Sequence

import pandas

from gemmlab.lessons.grouped.measure import ALL_ROWS, GROUPED, LOOP, RUNG, TORCH
from gemmlab.lessons.grouped.tables import Turn, fastest
from gemmlab.plots import style
from gemmlab.plots.cells import bare, box
from gemmlab.plots.charts import at_edge, line_of_cublas, note, rows_of, stripes
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, TILE_COLOURS, WIDTH

TALL, C_WIDTH = 2.9, 2.6  # inches, of C
SHARE = 0.45  # of a product's colour
FOLLOWED = {"edgecolor": style.BLACK, "linewidth": 1.8, "zorder": 3}
LOOKS = {
    RUNG: {"color": style.kernel_style(RUNG)["color"], "marker": "o"},
    GROUPED: {"color": style.BLACK, "marker": "*"},
    TORCH: {"color": style.ORANGE, "marker": "D"},
    ALL_ROWS: {"color": style.ORANGE, "marker": "v"},
}


@styled
def tiles(turns: Sequence[Turn], heights: Sequence[int], n: int, follow: int) -> Picture:
    """C of all products below one another with its tiles numbered, and what each block takes.

    turns: as tables.turns gives them. follow: the block whose tiles are outlined.
    """
    blocks, rounds = 1 + max(t.block for t in turns), 1 + max(t.round for t in turns)
    total, starts = sum(heights), [sum(heights[:at]) for at in range(len(heights))]
    wide = min(t.column for t in turns if t.column) if any(t.column for t in turns) else n
    with_rows = [product for product, height in enumerate(heights) if height]
    looks = {product: _look(at) for at, product in enumerate(with_rows)}
    key = [(f"product {product}", look) for product, look in looks.items()]
    empty = [str(product) for product, height in enumerate(heights) if not height]
    rows = style.listed([str(height) for height in heights])
    caption = (
        f"{style.plural(len(heights), 'product')} of {rows} rows and "
        f"{n} columns in one launch of {style.plural(blocks, 'block')}, traced from the boxes that "
        f"the producers request. A number is a tile's, the same at both sides; where a tile is "
        f"thin it stands at the right only. Outlined: the tiles of block {follow}."
        + (f" Product {style.listed(empty)} has no rows, and so no tile." if empty else "")
    )
    title = "Which block computes which tile of which product"
    fig = page(title, 0.25 + TALL + 0.15, caption, key=key)
    fig.text_at(MARGIN + 0.9, fig.top, "C, the rows of all products", size=NORMAL, weight="bold")
    ax = bare(fig.add_axes_at(MARGIN + 0.9, fig.top + 0.25, C_WIDTH, TALL, gid="C"), n, total)
    for t in turns:
        look = looks[t.product] | (FOLLOWED if t.block == follow else {})
        words = str(t.round * blocks + t.block) if t.height / total * TALL > 0.12 else ""
        gid = f"block {t.block} round {t.round} product {t.product}"
        box(ax, t.column, t.row, min(wide, n - t.column), t.height, words, gid=gid, **look)
    for product, start in enumerate(starts):
        if heights[product]:
            middle = start + heights[product] / 2
            note(ax, f"{heights[product]} rows", (0, middle), (-6, 0), ha="right", va="center")
    left = MARGIN + 0.9 + C_WIDTH + 0.4
    fig.text_at(left, fig.top, "each block, tile after tile", size=NORMAL, weight="bold")
    names = [f"block {block}" for block in range(blocks)]
    pitch, begin = TALL / blocks, left + 0.55
    ax = rows_of(fig, names, fig.top + 0.25, pitch, left=begin, size=SMALL, xlim=(0, rounds))
    ax.set_xticks([])
    for t in turns:
        look = looks[t.product] | (FOLLOWED if t.block == follow else {})
        number = t.round * blocks + t.block
        box(ax, t.round + 0.03, t.block + 0.1, 0.91, 0.8, str(number), gid=f"tile {number}", **look)
    return fig


def _look(at: int) -> dict:
    colour = TILE_COLOURS[at % len(TILE_COLOURS)]
    return {"facecolor": style.tint(colour, SHARE), "edgecolor": style.GROUND}


@styled
def shares(table: pandas.DataFrame) -> Picture:
    """The speed of each way at each case, in percent of cuBLAS launched product by product.

    table: as measure.TABLE has it; of each way its fastest settings. Lines: from quartile to
    quartile.
    """
    rows = fastest(table)
    cases = list(rows["case"].unique())
    at = rows.set_index(["case", "way"])
    there = [way for way in LOOKS if way in set(rows["way"])]
    size = {"markersize": 6.5, "linestyle": ""}
    key = [(f"{way}, one launch" if way == RUNG else way, LOOKS[way] | size) for way in there]
    ours = rows[rows["way"] == RUNG].set_index("case")["pct_loop"]
    caption = (
        f"Speed in percent of cuBLAS with a launch for each product (dashed; "
        f"{at.loc[cases[0], LOOP].settings}). All ways take turns. 24 has from {ours.min():.1f} % "
        f"({ours.idxmin()}) to {ours.max():.1f} % ({ours.idxmax()}); at the right, its TFLOP/s."
    )
    title = "Products of different heights: speed beside a launch for each"
    pitch = 0.36
    height = 0.15 + pitch * len(cases) + 0.55
    fig = page(title, height, caption, style.provenance(rows), key=key)
    right = WIDTH - MARGIN - 1.0
    most = 1.05 * max(rows["pct_loop"].max(), 110)
    ax = rows_of(
        fig, cases, fig.top + 0.15, pitch, right=right, xlim=(0, most),
        xlabel="% of cuBLAS, one after the other", gid="shares",
    )  # fmt: skip
    stripes(ax, len(cases))
    line_of_cublas(ax)
    for row, case in enumerate(cases):
        for lane, way in enumerate(there):
            if (case, way) not in at.index:
                continue
            marker, y = at.loc[case, way], row + (lane + 1) / (len(there) + 1)
            look = LOOKS[way] | size | {"zorder": 3, "gid": f"{case}: {way}"}
            ends = [marker.pct_loop_q1, marker.pct_loop_q3]
            ax.plot(ends, [y, y], color=LOOKS[way]["color"], linewidth=1.2)
            ax.plot(marker.pct_loop, y, **look)
        at_edge(ax, row, f"{at.loc[case, RUNG].tflops:,.0f} TFLOP/s", size=SMALL)
    return fig
