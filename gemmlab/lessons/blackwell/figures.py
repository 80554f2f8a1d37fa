"""Figures of this lesson: tensor memory, who uses which lanes and columns of it, and when."""

from collections.abc import Sequence

from gemmlab.lessons.blackwell.kernels import EPILOGUE_WARPS, HALVES, LANES
from gemmlab.lessons.blackwell.tables import PRODUCT, Use
from gemmlab.plots import style
from gemmlab.plots.cells import bare, box
from gemmlab.plots.page import Entry, Picture, page, styled, swatch
from gemmlab.plots.style import MARGIN, NORMAL, SMALL, WIDTH, tile_colour

BAND = LANES // EPILOGUE_WARPS  # lanes that a warp reaches
PANEL, ABOVE = 1.2, 0.52  # inches: the lanes of a half, and above them
DARK, PALE = 0.75, 0.28  # of a tile's colour: products, loads


@styled
def tensor_memory(uses: Sequence[Use]) -> Picture:
    """Both halves of tensor memory, lanes downwards, in the order in which a block used them.

    uses: as tables.tensor_uses gives them.
    """
    tiles, columns = 1 + max(use.tile for use in uses), max(use.columns.stop for use in uses)
    loads = sum(len(use.warps) for use in uses if use.operation != PRODUCT)
    wide = {len(use.columns) for use in uses if use.operation != PRODUCT}
    key: list[Entry] = [(f"tile {at}", swatch(tile_colour(at), DARK)) for at in range(tiles)]
    key += [("dark: products, pale: loads", None)]
    caption = (
        f"Tensor memory of a block that computes {style.plural(tiles, 'tile')}, left to right in "
        f"the order in which the simulator executed it; these are no times. Products of a tile add "
        f"up in all {LANES} lanes of one half: a number is how many were started in a row. Then "
        f"warps w0 to w{EPILOGUE_WARPS - 1} of the epilogue load {BAND} lanes each, "
        f"{max(wide)} columns at a time, which stand above them: {loads} loads in all."
    )
    height = HALVES * (PANEL + ABOVE) + 0.15
    fig = page("Who uses which lanes of tensor memory, in order", height, caption, key=key)
    left = MARGIN + 0.95
    for half in range(HALVES):
        top = fig.top + ABOVE + half * (PANEL + ABOVE)
        first, last = half * columns // HALVES, (half + 1) * columns // HALVES - 1
        words = f"half {half}: columns {first} to {last}"
        fig.text_at(left, top - 0.38, words, size=NORMAL, weight="bold")
        ax = fig.add_axes_at(left, top, WIDTH - MARGIN - left, PANEL, gid=f"half {half}")
        bare(ax, len(uses), LANES)
        for lane in range(0, LANES + 1, BAND):
            ax.axhline(lane, color=style.GRID, linewidth=0.6, zorder=0)
        for lane in range(0, LANES, BAND):
            words = f"lanes {lane} to {lane + BAND - 1}"
            ax.text(-0.15, lane + BAND / 2, words, size=SMALL, ha="right", va="center_baseline")
        for x, use in enumerate(uses):
            if use.half != half:
                continue
            gid, colour = f"tile {use.tile} {use.operation}", tile_colour(use.tile)
            if use.operation == PRODUCT:
                look = {"facecolor": style.tint(colour, DARK), "gid": gid}
                box(ax, x, 0, 1, LANES, str(use.count), **look)
                continue
            words = f"{use.columns.start}–{use.columns.stop - 1}"
            ax.text(x + 0.5, -3, words, size=SMALL, ha="center", va="bottom", color=style.FAINT)
            for warp in use.warps:
                look = {"facecolor": style.tint(colour, PALE), "gid": f"{gid} {warp}"}
                box(ax, x, BAND * warp, 1, BAND, f"w{warp}", **look)
    return fig
