"""Figures of this lesson: which SM computes what, and what it gains to split K."""

from math import ceil, sqrt

import pandas
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from gemmlab.ladder import read_settings
from gemmlab.ladder.settings import ALONE, EVERY_PART, JOINS
from gemmlab.lessons.split_k.work import Part, Work
from gemmlab.plots import style
from gemmlab.plots.cells import bare, box
from gemmlab.plots.charts import bar, line_of_cublas, rows_of, stripes
from gemmlab.plots.page import Picture, page, styled
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, TILE_COLOURS, WIDTH, percent, plural

SHARES = (0.45, 0.22)  # of a colour, for the first tiles and for the next ones
ROW = 0.27  # inches, of an SM
MAP = 1.25  # inches, the longer side of C
TITLE, GAP = 0.26, 0.3
OF_A_PRODUCT = (
    "left: the tiles of C; right: a box is a part of one of them, with its tile and its steps "
    "along K"
)
OF_A_BATCH = (
    "left: C of each product of the batch; right: a box is a tile of one of them, all its steps"
)


@styled
def waves(*works: tuple[str, Work], caption: str | None = None) -> Picture:
    """What each SM computes, one panel for each way to spread a product, all on one scale.

    works: (name, work(kernel, m, n, k, sm_count, batch)) each. Steps count as equally long, and one
    block has an SM at a time. Of a batch, a colour is a product.
    """
    longest = max(work.length for _, work in works)
    left, right = MARGIN + MAP + 0.75, WIDTH - MARGIN - 0.1
    heights = [max(work.sm_count * ROW, _map(work)[0] * _side(work)) for _, work in works]
    words = OF_A_BATCH if max(work.batch for _, work in works) > 1 else OF_A_PRODUCT
    title, body = "Which SM computes what", sum(heights) + len(works) * (TITLE + GAP) + 0.12
    first = works[0][1]
    noun = f"{first.batch} products" if first.batch > 1 else "A product"
    shares = style.listed([f"{name} {100 * work.busy:.0f} %" for name, work in works])
    caption = caption or (
        f"{noun} of {'×'.join(map(str, first.shape))} on a GPU with "
        f"{style.plural(first.sm_count, 'SM')}, as the addresses tell that the blocks load from. A "
        "block goes to the SM that is free first, and all steps count as equally long: these are "
        f"no times. Of the SMs' time until the last one is done, they have work in: {shares}."
    )
    fig = page(title, body, caption, key=[(words, None)])
    top = fig.top
    for (name, work), height in zip(works, heights, strict=True):
        steps = style.plural(work.length, "step")
        words = f"{name}: {steps}, SMs busy in {100 * work.busy:.0f} % of it"
        fig.text_at(MARGIN, top, words, size=NORMAL, weight="bold")
        top += TITLE
        _draw_tiles(fig, work, top)
        ax = rows_of(
            fig, [f"SM {sm}" for sm in range(work.sm_count)], top, ROW, left=left, right=right,
            size=SMALL, xlim=(0, longest),
        )  # fmt: skip
        _draw_time(ax, work, (right - left) / longest)
        top += height + GAP
    ax.set_xlabel("steps along K, one after the other", size=SMALL)
    ax.tick_params(labelbottom=True)
    return fig


def _number(part: Part, work: Work) -> int:
    """Of the product, or where there is only one, of the tile of C."""
    return part.product if work.batch > 1 else part.tile[0] * work.tiles[1] + part.tile[1]


def _colour(number: int) -> tuple[float, float, float]:
    share = SHARES[number // len(TILE_COLOURS) % len(SHARES)]
    return style.tint(style.tile_colour(number), share)


def _map(work: Work) -> tuple[int, int]:
    """Rows and columns of the tiles of C, or of a batch's products."""
    if work.batch == 1:
        return work.tiles
    across = ceil(sqrt(work.batch))
    return ceil(work.batch / across), across


def _side(work: Work) -> float:
    """Of one of them, in inches."""
    return MAP / max(_map(work))


def _draw_tiles(fig: Picture, work: Work, top: float) -> None:
    """The tiles of C; of a batch, its products in rows."""
    (down, across), side = _map(work), _side(work)
    ax = fig.add_axes_at(MARGIN + 0.1, top, across * side, down * side)
    bare(ax, across, down)
    for at in range(work.batch if work.batch > 1 else across * down):
        row, column = divmod(at, across)
        look = {"facecolor": _colour(at), "linewidth": 1}
        box(ax, column, row, 1, 1, str(at) if side >= 0.2 else "", {"va": "center"}, **look)


def _draw_time(ax: Axes, work: Work, inches: float) -> None:
    """`inches`: of a step."""
    for part in work.parts:
        steps = part.end - part.first
        room = steps * inches - 0.06
        fitting = (words for words in _words(part, work) if style.text_width(words, SMALL) <= room)
        look = {"facecolor": _colour(_number(part, work)), "edgecolor": "white", "linewidth": 1.2}
        end = part.start + steps
        bar(ax, part.sm, part.start, end, next(fitting, ""), share=0.88, **look)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.tick_params(labelbottom=False)
    ax.spines["left"].set_visible(False)
    ax.grid(visible=False)


def _words(part: Part, work: Work) -> tuple[str, ...]:
    at = _number(part, work)
    if work.batch > 1:
        return f"product {at}", str(at)
    steps = str(part.first) if part.end == part.first + 1 else f"{part.first}–{part.end - 1}"
    return f"tile {at}, {steps}", f"{at}: {steps}", str(at)


# ---- K split and not -----------------------------------------------------------------------------

WHOLE, SPLIT = JOINS[ALONE], JOINS[EVERY_PART]
LOOKS = {
    WHOLE: {"color": style.BLACK, "marker": "|", "markersize": 7, "markeredgewidth": 2,
            "markeredgecolor": style.BLACK, "linestyle": ""},
    SPLIT: {"color": style.ORANGE, "marker": "v", "markersize": 6, "markeredgewidth": 0.6,
            "markeredgecolor": style.GROUND, "linestyle": ""},
}  # fmt: skip
JOIN_ROW = 0.36  # inches, of a shape


@styled
def joins(table: pandas.DataFrame) -> Picture:
    """The share of cuBLAS of one block for each tile, and of K split, shape by shape.

    table: rows of WHOLE and SPLIT of measure.TIMES_OF_JOINS, its shapes in their order there.
    """
    shapes = [of_shape for _, of_shape in table.groupby(["m", "n", "k"], sort=False)]
    key = [("one block for each tile", LOOKS[WHOLE]), ("K split", LOOKS[SPLIT])]
    title = "One block for each tile, and K split, compared with cuBLAS"
    source = style.provenance(table)
    fig = page(title, JOIN_ROW * len(shapes) + 0.5, _of_joins(shapes), source, key=key)
    most = max(100.0, table["pct_cublas"].max()) * 1.04
    ax = rows_of(
        fig, list(map(_name, shapes)), fig.top, JOIN_ROW, right=WIDTH - MARGIN - 0.15, size=SMALL,
        xlim=(0, most), xlabel="share of cuBLAS, %; dashed: cuBLAS",
    )  # fmt: skip
    stripes(ax, len(shapes))
    for at, of_shape in enumerate(shapes):
        shares = of_shape.set_index("join")["pct_cublas"]
        ax.plot(shares, [at + 0.5] * len(shares), color=style.FAINT, linewidth=1, zorder=1.5)
        for join, look in LOOKS.items():
            ax.plot(shares[join], at + 0.5, zorder=2, clip_on=False, **look)
    line_of_cublas(ax, linewidth=1.2, zorder=1)
    ax.spines["left"].set_visible(False)
    return fig


def _name(of_shape: pandas.DataFrame) -> str:
    """Of a shape: its sizes, its tile, and the parts of K."""
    m, n, k = of_shape.iloc[0][["m", "n", "k"]]
    settings = [read_settings(text) for text in of_shape["settings"]]
    parts = max(chosen["SPLIT"] for chosen in settings)
    tile = f"tiles {settings[0]['BM']}×{settings[0]['BN']}"
    return f"{m}×{n}×{k}\n{tile}, {plural(parts, 'part')}"


def _of_joins(shapes: list[pandas.DataFrame]) -> str:
    """Where cutting K gains most over one block for each tile, and where it gains least."""
    gains = []
    for of_shape in shapes:
        shares = of_shape.set_index("join")["pct_cublas"]
        name = _name(of_shape).partition("\n")[0]
        gains.append((shares[SPLIT] / shares[WHOLE], name, shares[WHOLE], shares[SPLIT]))
    (most, shape, whole, split), least = max(gains), min(gains)
    return (
        f"The same tile, with K split and without. At {shape} one block for each tile reaches "
        f"{percent(whole)} of cuBLAS, and K split {percent(split)}: {style.digits(most)} times as "
        f"much. The least gain is at {least[1]}: {style.digits(least[0])} times."
    )
