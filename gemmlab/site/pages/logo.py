"""The mark of the site: A at the left, B above, C in the corner, with a tile of each in colour."""

from __future__ import annotations

import io

from PIL import Image, ImageDraw

from gemmlab.plots.style import ARRAYS, GROUND, tint

SIDE = 64
PALE = 0.3  # of a matrix's colour: what no tile covers
# Of each matrix: left, top, width and height, and the same of its tile.
PARTS = {
    "A": ((8, 26, 16, 30), (8, 36, 16, 10)),
    "B": ((26, 8, 30, 16), (36, 8, 10, 16)),
    "C": ((26, 26, 30, 30), (36, 36, 10, 10)),
}


def svg() -> bytes:
    """For the sidebar and the browser's tab."""
    shapes = "".join(
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{colour}"/>'
        for (x, y, width, height), colour in _rectangles()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIDE} {SIDE}" width="{SIDE}" '
        f'height="{SIDE}"><rect width="{SIDE}" height="{SIDE}" rx="8" fill="{GROUND}"/>'
        f"{shapes}</svg>\n"
    ).encode()


def png(scale: int = 6) -> bytes:
    """The same in pixels, for the cards that other sites show of a page."""
    image = Image.new("RGB", (SIDE * scale, SIDE * scale), GROUND)
    draw = ImageDraw.Draw(image)
    for (x, y, width, height), colour in _rectangles():
        box = [side * scale for side in (x, y, x + width, y + height)]
        draw.rectangle((box[0], box[1], box[2] - 1, box[3] - 1), fill=colour)
    written = io.BytesIO()
    image.save(written, format="png", optimize=True)
    return written.getvalue()


def _rectangles() -> list[tuple[tuple[int, int, int, int], str]]:
    from matplotlib.colors import to_hex

    found = []
    for name, (whole, tile) in PARTS.items():
        found += [(whole, to_hex(tint(ARRAYS[name], PALE))), (tile, ARRAYS[name])]
    return found
