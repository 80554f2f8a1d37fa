"""Figures of this lesson: tensor memory, who uses which lanes and columns of it, and when."""

from collections.abc import Sequence

from gemmlab.lessons.blackwell.kernels import EPILOGUE_WARPS, HALVES, LANES
from gemmlab.lessons.blackwell.tables import MULTIPLY, TensorUse
from gemmlab.plots import style
from gemmlab.plots.cells import bare, box
from gemmlab.plots.page import Picture, page, styled, swatch
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, TILE_COLOURS, WIDTH

BAND = LANES // EPILOGUE_WARPS  # lanes that a warp reaches
PANEL, BETWEEN = 1.15, 0.42  # inches: the lanes of a half, and below them
DARK, PALE = 0.75, 0.3  # of a tile's colour: products, loads


@styled
def tensor_memory(uses: Sequence[TensorUse]) -> Picture:
    """Both halves of tensor memory, lanes downwards, in the order in which a block used them.

    uses: as tables.tensor_uses gives them, of 26. Neighbouring products of one tile are one box.
    """
    runs = _runs(uses)
    tiles = 1 + max(use.tile for use in uses)
    loads = sum(use.operation != MULTIPLY for use in uses)
    columns = max(use.columns.stop for use in uses)
    key = [(f"tile {at}", swatch(TILE_COLOURS[at % len(TILE_COLOURS)], DARK)) for at in range(tiles)]
    key += [("products, all lanes", swatch(style.FAINT, DARK)), ("loads", swatch(style.FAINT, PALE))]
    caption = (
        f"Tensor memory of one block that computes {style.plural(tiles, 'tile')}, as the simulator "
        f"executed it: the order, not times. Each half has {columns // HALVES} of {columns} "
        f"columns. One thread starts the products of a tile, which add up in all {LANES} lanes of "
        f"a half; then each warp of the epilogue loads its {BAND} lanes, in {loads} loads in all. "
        "While a tile is loaded from one half, the next one is added up in the other."
    )
    height = HALVES * PANEL + (HALVES - 1) * BETWEEN + 0.55
    fig = page("Who uses which lanes of tensor memory, and in which order", height, caption, key=key)
    left = MARGIN + 0.95
    for half in range(HALVES):
        top = fig.top + 0.25 + half * (PANEL + BETWEEN)
        words = f"half {half}: columns {half * columns // HALVES} to {(half + 1) * columns // HALVES - 1}"
        fig.text_at(left, top - 0.2, words, size=NORMAL, weight="bold")
        ax = fig.add_axes_at(left, top, WIDTH - MARGIN - left, PANEL, gid=f"half {half}")
        bare(ax, len(runs), LANES)
        for band in range(EPILOGUE_WARPS):
            first = band * BAND
            words = f"{first} to {first + BAND - 1}"
            ax.text(-0.3, first + BAND / 2, words, size=SMALL, ha="right", va="center_baseline")
            ax.axhline(first, color=style.GRID, linewidth=0.6)
        for x, (use, count) in enumerate(runs):
            if use.columns.start * HALVES // columns != half:
                continue
            is_product = use.operation == MULTIPLY
            words = f"{count}" if is_product else f"w{use.warp}"
            colour = TILE_COLOURS[use.tile % len(TILE_COLOURS)]
            look = {"facecolor": style.tint(colour, DARK if is_product else PALE)}
            box(
                ax, x, use.lanes.start, 1, len(use.lanes), words,
                gid=f"tile {use.tile} {use.operation} warp {use.warp}", **look,
            )  # fmt: skip
    return fig


def _runs(uses: Sequence[TensorUse]) -> list[tuple[TensorUse, int]]:
    """Neighbouring uses of the same lanes and columns by one warp as one, with how many they are."""
    runs: list[tuple[TensorUse, int]] = []
    for use in uses:
        if runs and runs[-1][0] == use:
            runs[-1] = use, runs[-1][1] + 1
        else:
            runs.append((use, 1))
    return runs
