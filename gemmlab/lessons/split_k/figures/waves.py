"""Which SM computes which part of C, and when: of whole products on a GPU of few SMs."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from gemmlab.lessons.split_k.work import Part, Work
from gemmlab.plots import style
from gemmlab.plots.memory.timeline import TILE_COLOURS
from gemmlab.plots.picture import Picture
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, WIDTH, styled

SHARES = (0.45, 0.22)  # of a colour, for the first tiles and for the next ones
ROW = 0.27  # inches, of an SM
MAP = 1.25  # inches, the longer side of C
HEAD, TITLE, GAP = 0.62, 0.26, 0.3
OF_A_PRODUCT = (
    "left: the tiles of C; right: a box is a part of one of them, with its tile and its steps "
    "along K"
)
OF_A_BATCH = "left: C of each product of the batch; right: a box is a tile of one of them"


@styled
def waves(*works: tuple[str, Work], caption: str | None = None) -> Picture:
    """What each SM computes, one panel for each way to spread a product, all on one scale.

    works: (name, work(kernel, m, n, k, sm_count, batch)) each. Steps count as equally long, and one
    block has an SM at a time. Of a batch, a colour is a product. Raises ValueError without one.
    """
    if not works:
        raise ValueError("waves takes one (name, work) or more, see gemmlab.lessons.split_k.work")
    longest = max(one.length for _, one in works)
    left = MARGIN + MAP + 0.75
    width = WIDTH - left - MARGIN - 0.1
    heights = [max(one.sm_count * ROW, _map(one)[0] * _side(one)) for _, one in works]
    if caption is None:
        caption = _caption(works)
    axis = 0.42
    fig = style.page(HEAD + sum(heights) + len(works) * (TITLE + GAP) + axis - GAP, caption)
    fig.text_at(MARGIN, 0.1, "Which SM computes what", size=style.LARGE, weight="bold")
    batch = max(one.batch for _, one in works) > 1
    key = (
        "the tiles of C; right: a box is a part of one of them, with its tile and its steps along K"
    )
    if batch:
        key = "C of each product of the batch; right: a box is a tile of one of them, all its steps"
    fig.text_at(MARGIN, 0.34, f"left: {key}", size=SMALL)
    top = HEAD
    for (name, one), height in zip(works, heights, strict=True):
        words = (
            f"{name}: {style.plural(one.length, 'step')}, SMs busy in {100 * one.busy:.0f} % of it"
        )
        fig.text_at(MARGIN, top, words, size=NORMAL, weight="bold")
        top += TITLE
        _draw_tiles(fig, one, top)
        ax = fig.add_axes_at(left, top, width, one.sm_count * ROW, gid=f"waves {name}")
        _draw_time(ax, one, longest, width)
        top += height + GAP
    ax.set_xlabel("steps along K, one after the other", size=SMALL)
    ax.tick_params(labelbottom=True)
    return fig


def _number(part: Part, one: Work) -> int:
    """Of the product, or where there is only one, of the tile of C."""
    return part.product if one.batch > 1 else part.tile[0] * one.tiles[1] + part.tile[1]


def _colour(number: int) -> tuple[float, float, float]:
    share = SHARES[number // len(TILE_COLOURS) % len(SHARES)]
    return style.tint(TILE_COLOURS[number % len(TILE_COLOURS)], share)


def _map(one: Work) -> tuple[int, int]:
    """Rows and columns of the tiles of C, or of a batch's products."""
    if one.batch == 1:
        return one.tiles
    across = ceil(sqrt(one.batch))
    return ceil(one.batch / across), across


def _side(one: Work) -> float:
    """Of one of them, in inches."""
    return MAP / max(_map(one))


def _draw_tiles(fig: Picture, one: Work, top: float) -> None:
    """The tiles of C; of a batch, its products in rows."""
    (down, across), side = _map(one), _side(one)
    ax = fig.add_axes_at(MARGIN + 0.1, top, across * side, down * side, gid="tiles of C")
    for at in range(one.batch if one.batch > 1 else across * down):
        row, column = divmod(at, across)
        ax.add_patch(
            Rectangle((column, row), 1, 1, facecolor=_colour(at), edgecolor="white", linewidth=1)
        )
        if side >= 0.2:
            ax.text(column + 0.5, row + 0.5, str(at), size=SMALL, ha="center", va="center")
    ax.set(xlim=(0, across), ylim=(down, 0), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)


def _draw_time(ax: Axes, one: Work, longest: int, width: float) -> None:
    for part in one.parts:
        at = _number(part, one)
        ax.add_patch(
            Rectangle(
                (part.start, part.sm + 0.06), part.end - part.first, 0.88, facecolor=_colour(at),
                edgecolor="white", linewidth=1.2,
                gid=f"part {part.product} {part.block} {part.tile}",
            )
        )  # fmt: skip
        room = (part.end - part.first) / longest * width - 0.06
        words = next((w for w in _words(part, one) if style.text_width(w, SMALL) <= room), "")
        middle = (part.start + part.stop) / 2
        ax.text(middle, part.sm + 0.5, words, size=SMALL, ha="center", va="center_baseline")
    ax.set(xlim=(0, longest), ylim=(one.sm_count, 0))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_yticks([sm + 0.5 for sm in range(one.sm_count)])
    ax.set_yticklabels([f"SM {sm}" for sm in range(one.sm_count)])
    ax.tick_params(axis="y", length=0)
    ax.tick_params(labelbottom=False)
    ax.spines["left"].set_visible(False)


def _words(part: Part, one: Work) -> tuple[str, ...]:
    at = _number(part, one)
    if one.batch > 1:
        tile = "" if one.tiles == (1, 1) else f", tile {part.tile[0]}, {part.tile[1]}"
        return f"product {at}{tile}", f"product {at}", str(at)
    steps = str(part.first) if part.end == part.first + 1 else f"{part.first}–{part.end - 1}"
    return f"tile {at}, {steps}", f"{at}: {steps}", str(at)


def _caption(works: Sequence[tuple[str, Work]]) -> str:
    _, first = works[0]
    m, n, k = first.shape
    shares = style.listed([f"{name} {100 * one.busy:.0f} %" for name, one in works])
    what = f"{first.batch} products" if first.batch > 1 else "A product"
    return (
        f"{what} of {m}×{n}×{k} on a GPU with {style.plural(first.sm_count, 'SM')}, as the "
        "addresses tell that the blocks load from. A block goes to the SM that is free first, and "
        "all steps count as equally long: these are no times. Of the SMs' time until the last one "
        f"is done, they have work in: {shares}."
    )
