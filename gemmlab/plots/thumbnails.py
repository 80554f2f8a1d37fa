"""Small pictures of the rungs for a table: without text, and the same pixels on every machine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import to_rgb
from PIL import Image, ImageDraw

from gemmlab.analysis.facts import Facts
from gemmlab.plots import style
from gemmlab.plots.kernel_view import colours, touched
from gemmlab.records.roofs import Ceilings

LONG, SHORT, GAP = 160, 60, 10  # pixels: the sides of the matrices, and between them
SIDE = LONG + SHORT + GAP + 2
ROOM = 1.25  # sides of a block that C shows, so that it is seen to be a part
INTENSITIES = 0.1, 1000.0  # FLOP per byte along the roofline


def thumbnail(facts: Facts) -> Image.Image:
    """What one block, its first step along K, one warp and one thread touch of A, B and C.

    A stands left of C and B above it, in their colours, from pale for the block to black for the
    thread. C is cropped around the first block. SIDE × SIDE pixels, for half of that on the screen.
    """
    tile = facts.kernel.rung.tile(facts.kernel.settings)
    window = math.ceil(ROOM * max(tile))
    levels = touched(facts)
    picture = Image.new("RGB", (SIDE, SIDE), style.GROUND)
    pen = ImageDraw.Draw(picture)
    far = SHORT + GAP
    for array, x, y, width, height in (
        ("A", 0, far, SHORT, LONG),
        ("B", far, 0, LONG, SHORT),
        ("C", far, far, LONG, LONG),
    ):
        rows, columns = levels[array].shape
        shape = (rows if array == "B" else window, columns if array == "A" else window)
        level = _fit(_window(levels[array], shape), height, width)
        pixels = np.round(255 * colours(array)[level]).astype(np.uint8)
        picture.paste(Image.fromarray(pixels), (x + 1, y + 1))
        if array != "B" and tile[0] < window:  # where the next blocks begin
            at = y + 1 + tile[0] * LONG // window
            pen.line((x, at, x + width, at), style.GRID)
        if array != "A" and tile[1] < window:
            at = x + 1 + tile[1] * LONG // window
            pen.line((at, y, at, y + height), style.GRID)
        pen.rectangle((x, y, x + width + 1, y + height + 1), outline=style.FAINT)
    return picture


def roofs_thumbnail(ceilings: Ceilings) -> Image.Image:
    """The roofline of FP32: a slope, the bandwidth of a copy, up to the flat roof of arithmetic."""
    low, high = INTENSITIES
    along = math.log(ceilings.ridge / low) / math.log(high / low)
    picture = Image.new("RGB", (SIDE, SIDE), style.GROUND)
    pen = ImageDraw.Draw(picture)
    left, bottom, top, right = 12, SIDE - 12, 60, SIDE - 6
    pen.line((left, 8, left, bottom, right, bottom), style.FAINT, width=2)
    corner = (left + round(along * (right - left)), top)
    for roof in ((left, bottom - 20, *corner), (*corner, right, top)):
        pen.line(roof, tuple(round(255 * part) for part in to_rgb(style.INK)), width=5)
    return picture


def ranks_thumbnail(holdings: Mapping[str, np.ndarray]) -> Image.Image:
    """What a rank has of A, B and C in full colour, and what comes to it from others pale.

    holdings: 0, 1 (it comes) or 2 (it is there) for each element of "A", "B" and "C".
    """
    picture = Image.new("RGB", (SIDE, SIDE), style.GROUND)
    pen = ImageDraw.Draw(picture)
    side = (SIDE - GAP - 4) // 2
    far = side + 2 + GAP
    for name, x, y in (("A", 0, far), ("B", far, 0), ("C", far, far)):
        shades = [style.tint(style.ARRAYS[name], share) for share in (0.0, 0.28, 1.0)]
        level = _fit(holdings[name], side, side)
        pixels = np.round(255 * np.array(shades)[level]).astype(np.uint8)
        picture.paste(Image.fromarray(pixels), (x + 1, y + 1))
        pen.rectangle((x, y, x + side + 1, y + side + 1), outline=style.FAINT)
    return picture


def curve_thumbnail(shares: Sequence[float]) -> Image.Image:
    """Shares from 0 to 1, the highest first, as a curve over axes."""
    picture = Image.new("RGB", (SIDE, SIDE), style.GROUND)
    pen = ImageDraw.Draw(picture)
    left, bottom, top, right = 12, SIDE - 12, 30, SIDE - 6
    pen.line((left, 8, left, bottom, right, bottom), style.FAINT, width=2)
    ink = tuple(round(255 * part) for part in to_rgb(style.INK))
    step = (right - left - 8) / max(1, len(shares) - 1)
    for at, share in enumerate(shares):
        x, y = left + 6 + round(at * step), bottom - round(share * (bottom - top))
        pen.ellipse((x - 3, y - 3, x + 3, y + 3), ink)
    return picture


def _window(level: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """The upper left part of `level`; beyond its end nothing is touched."""
    part = level[: shape[0], : shape[1]]
    return np.pad(part, [(0, size - n) for size, n in zip(shape, part.shape, strict=True)])


def _fit(level: np.ndarray, height: int, width: int) -> np.ndarray:
    """Cells to pixels. Where several cells share one, the highest level is seen."""
    for axis, size in enumerate((height, width)):
        cells = level.shape[axis]
        first = np.arange(size) * cells // size
        crowded = cells > size
        level = np.maximum.reduceat(level, first, axis) if crowded else level.take(first, axis)
    return level
