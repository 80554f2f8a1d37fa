"""Every figure of the series, in one palette. Each function returns a matplotlib Figure.

Each figure carries its caption: made from the data, or given as `caption`. Nothing here measures or
traces; numbers come from the tables, traces and accesses that the functions are given. What threads
touch is in memory/ (bank conflicts: banks), who holds what for tensor cores in tensor_cores/, what
blocks that stay and clusters do in hopper/, 8-bit floats in fp8/, what several GPUs do in ranks/,
searches are in search/, speeds in speed/, palette and page in style.
"""

from __future__ import annotations

from gemmlab.plots.kernel_view import kernel_view
from gemmlab.plots.memory.addresses import address_map
from gemmlab.plots.memory.banks import bank_map
from gemmlab.plots.memory.blocks import block_map
from gemmlab.plots.memory.steps import step, steps
from gemmlab.plots.memory.threads import thread_tile
from gemmlab.plots.memory.tiles import tile_reuse
from gemmlab.plots.memory.timeline import timeline
from gemmlab.plots.memory.warps import warp_map
from gemmlab.plots.picture import Picture
from gemmlab.plots.speed.comparison import comparison
from gemmlab.plots.speed.ladder import climb, shares
from gemmlab.plots.speed.path import path
from gemmlab.plots.speed.roofs import roofline
from gemmlab.plots.speed.shapes import rung_map, shape_shares
from gemmlab.plots.speed.share import cublas_share
from gemmlab.plots.speed.speed import gflops, ladder
from gemmlab.plots.speed.sweep import sweep

__all__ = [
    "address_map",
    "bank_map",
    "block_map",
    "climb",
    "comparison",
    "cublas_share",
    "gflops",
    "kernel_view",
    "ladder",
    "path",
    "png",
    "roofline",
    "rung_map",
    "shape_shares",
    "shares",
    "step",
    "steps",
    "sweep",
    "thread_tile",
    "tile_reuse",
    "timeline",
    "warp_map",
]


def png(figure: Picture) -> bytes:
    """The bytes of a PNG file of a figure, 900 pixels wide, for an image widget or a file."""
    return figure.png()
