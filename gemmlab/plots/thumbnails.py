"""Small pictures of the rungs for a table: without text, and the same pixels on every machine."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image, ImageDraw

from gemmlab.analysis.facts import Facts
from gemmlab.plots import style
from gemmlab.plots.kernel_view import colours, touched
from gemmlab.records.roofs import Ceilings

LONG, SHORT, GAP = 160, 60, 10  # pixels: the sides of the matrices, and between them
SIDE = LONG + SHORT + GAP + 2
ROOM = 1.25  # sides of a block that C shows, so that it is seen to be a part
INTENSITIES = 0.1, 1000.0  # FLOP per byte along the roofline
LEFT, BOTTOM, RIGHT = 12, SIDE - 12, SIDE - 6  # pixels: where axes lie and end


def thumbnail(facts: Facts) -> Image.Image:
    """What one block, its first step along K, one warp and one thread touch of A, B and C.

    A stands left of C and B above it, in their colours, from pale for the block to black for the
    thread. C is cropped around the first block. SIDE × SIDE pixels, for half of that on the screen.
    """
    tile = facts.kernel.rung.tile(facts.kernel.settings)
    window = math.ceil(ROOM * max(tile))
    picture = Image.new("RGB", (SIDE, SIDE), style.GROUND)
    pen = ImageDraw.Draw(picture)
    far = SHORT + GAP
    places = {"A": (0, far, SHORT, LONG), "B": (far, 0, LONG, SHORT), "C": (far, far, LONG, LONG)}
    for array, level in touched(facts).items():
        x, y, width, height = places[array]
        rows, columns = level.shape
        shape = (rows if array == "B" else window, columns if array == "A" else window)
        part = level[: shape[0], : shape[1]]  # beyond its end nothing is touched
        part = np.pad(part, [(0, size - n) for size, n in zip(shape, part.shape, strict=True)])
        _paste(picture, part, colours(array), places[array])
        if array != "B" and tile[0] < window:  # where the next blocks begin
            at = y + 1 + tile[0] * LONG // window
            pen.line((x + 1, at, x + width, at), style.GRID)
        if array != "A" and tile[1] < window:
            at = x + 1 + tile[1] * LONG // window
            pen.line((at, y + 1, at, y + height), style.GRID)
    return picture


def roofs_thumbnail(ceilings: Ceilings) -> Image.Image:
    """The roofline of FP32: a slope, the bandwidth of a copy, up to the flat roof of arithmetic."""
    low, high = INTENSITIES
    along = math.log(ceilings.ridge / low) / math.log(high / low)
    picture, pen = _axes()
    corner = (LEFT + round(along * (RIGHT - LEFT)), 60)
    for roof in ((LEFT, BOTTOM - 20, *corner), (*corner, RIGHT, 60)):
        pen.line(roof, style.INK, width=5)
    return picture


def ranks_thumbnail(holdings: Mapping[str, np.ndarray]) -> Image.Image:
    """What a rank has of A, B and C in full colour, and what comes to it from others pale.

    holdings: 0, 1 (it comes) or 2 (it is there) for each element of "A", "B" and "C".
    """
    picture = Image.new("RGB", (SIDE, SIDE), style.GROUND)
    side = (SIDE - GAP - 4) // 2
    far = side + 2 + GAP
    for name, x, y in (("A", 0, far), ("B", far, 0), ("C", far, far)):
        shades = np.array([style.tint(style.ARRAYS[name], share) for share in (0.0, 0.28, 1.0)])
        _paste(picture, holdings[name], shades, (x, y, side, side))
    return picture


def curve_thumbnail(shares: Sequence[float]) -> Image.Image:
    """Shares from 0 to 1, the highest first, as a curve over axes."""
    picture, pen = _axes()
    step = (RIGHT - LEFT - 8) / max(1, len(shares) - 1)
    for at, share in enumerate(shares):
        x, y = LEFT + 6 + round(at * step), BOTTOM - round(share * (BOTTOM - 30))
        pen.ellipse((x - 3, y - 3, x + 3, y + 3), style.INK)
    return picture


def heights_thumbnail(heights: Sequence[int]) -> Image.Image:
    """Matrices of one width and these heights below one another, in colours in turn."""
    return cells_thumbnail(np.repeat(np.arange(len(heights)), heights)[:, None])


def cells_thumbnail(numbers: np.ndarray) -> Image.Image:
    """The cells of a matrix with these numbers, in colours in turn."""
    colours_of = np.array([style.tint(colour, 0.55) for colour in style.TILE_COLOURS])
    picture = Image.new("RGB", (SIDE, SIDE), style.GROUND)
    place = (SIDE // 4, 0, SIDE // 2, SIDE - 2)
    _paste(picture, numbers % len(colours_of), colours_of, place)
    return picture


def parts_thumbnail(parts: int) -> Image.Image:
    """A row of bits, and below it those of each part, one after the other."""
    shades = np.array([style.tint(colour, 0.75) for colour in (style.FAINT, *style.TILE_COLOURS)])
    picture = Image.new("RGB", (SIDE, SIDE), style.GROUND)
    tall, wide = SIDE // (parts + 1), (SIDE - 2) // parts
    _paste(picture, np.zeros((1, 1), int), shades, (0, 0, SIDE - 2, tall - GAP))
    for part in range(parts):
        place = (part * wide, (part + 1) * tall, wide, tall - GAP)
        _paste(picture, np.full((1, 1), part + 1), shades, place)
    return picture


def _axes() -> tuple[Image.Image, ImageDraw.ImageDraw]:
    picture = Image.new("RGB", (SIDE, SIDE), style.GROUND)
    pen = ImageDraw.Draw(picture)
    pen.line((LEFT, 8, LEFT, BOTTOM, RIGHT, BOTTOM), style.FAINT, width=2)
    return picture, pen


def _paste(
    picture: Image.Image, level: np.ndarray, shades: np.ndarray, place: tuple[int, int, int, int]
) -> None:
    """A matrix at x, y with so many pixels across and down, and a frame around them.

    Where several cells share a pixel, the highest level is seen; shades: RGB of each level.
    """
    x, y, width, height = place
    for axis, size in enumerate((height, width)):
        cells = level.shape[axis]
        first = np.arange(size) * cells // size
        crowded = cells > size
        level = np.maximum.reduceat(level, first, axis) if crowded else level.take(first, axis)
    pixels = np.round(255 * shades[level]).astype(np.uint8)
    picture.paste(Image.fromarray(pixels), (x + 1, y + 1))
    pen = ImageDraw.Draw(picture)
    pen.rectangle((x, y, x + width + 1, y + height + 1), outline=style.FAINT)
