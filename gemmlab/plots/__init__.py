"""Figures that several notebooks show, with common colours. Each function returns a Figure.

Each figure has a caption: made from the data, or given as `caption`. Nothing here measures or
traces; numbers come from the tables, traces and accesses that the functions are given. Their common
parts are the colours (style), the page with its title and key (page), boxes and cells (cells),
curves and rows of bars (charts). A figure of only one notebook is in its lesson, in
gemmlab/lessons/<name>/figures.
"""
# ruff: noqa: F401

from gemmlab.plots.banks import bank_map
from gemmlab.plots.kernel_view import kernel_view
from gemmlab.plots.maps import block_map, warp_map
from gemmlab.plots.roofs import roofline
from gemmlab.plots.shares import path, shape_shares, shares
from gemmlab.plots.speeds import climb, cublas_share, gflops, sweep
from gemmlab.plots.steps import step, steps
from gemmlab.plots.tiles import thread_tile
