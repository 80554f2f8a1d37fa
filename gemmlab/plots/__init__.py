"""Every figure of the series, in one palette. Each function returns a matplotlib Figure.

Each figure carries its caption: made from the data, or given as `caption`. Nothing here measures or
traces; numbers come from the tables, traces and accesses that the functions are given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmlab.plots.access import address_map, block_map, traffic, warp_map
from gemmlab.plots.speed import gflops, ladder, roofline, spread

if TYPE_CHECKING:
    from gemmlab.plots.picture import Picture

__all__ = [
    "address_map",
    "block_map",
    "gflops",
    "ladder",
    "png",
    "roofline",
    "spread",
    "traffic",
    "warp_map",
]


def png(figure: Picture) -> bytes:
    """The bytes of a PNG file of a figure, 900 pixels wide, for an image widget or a file."""
    return figure.png()
