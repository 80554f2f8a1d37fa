"""Every figure of the series, in one palette. Each function returns a matplotlib Figure.

Each figure carries its caption: made from the data, or given as `caption`. Nothing here measures or
traces; numbers come from the tables, traces and accesses that the functions are given.
"""

from __future__ import annotations

from gemmlab.plots.addresses import address_map
from gemmlab.plots.banks import bank_map
from gemmlab.plots.blocks import block_map
from gemmlab.plots.comparison import comparison
from gemmlab.plots.epilogue import epilogue
from gemmlab.plots.fma_order import fma_order
from gemmlab.plots.fragments import fragments
from gemmlab.plots.issue_slots import issue_slots
from gemmlab.plots.kernel_view import kernel_view
from gemmlab.plots.levels import levels
from gemmlab.plots.lines import traffic
from gemmlab.plots.overview import climb, shares
from gemmlab.plots.path import path
from gemmlab.plots.picture import Picture
from gemmlab.plots.roofs import roofline
from gemmlab.plots.speed import gflops, ladder
from gemmlab.plots.steps import step, steps
from gemmlab.plots.sweep import sweep
from gemmlab.plots.tiles import thread_tile, tile_reuse
from gemmlab.plots.timeline import timeline
from gemmlab.plots.times import spread
from gemmlab.plots.warps import warp_map
from gemmlab.plots.widths import access_widths, staging

__all__ = [
    "access_widths",
    "address_map",
    "bank_map",
    "block_map",
    "climb",
    "comparison",
    "epilogue",
    "fma_order",
    "fragments",
    "gflops",
    "issue_slots",
    "kernel_view",
    "ladder",
    "levels",
    "path",
    "png",
    "roofline",
    "shares",
    "spread",
    "staging",
    "step",
    "steps",
    "sweep",
    "thread_tile",
    "tile_reuse",
    "timeline",
    "traffic",
    "warp_map",
]


def png(figure: Picture) -> bytes:
    """The bytes of a PNG file of a figure, 900 pixels wide, for an image widget or a file."""
    return figure.png()
