"""Every figure of the series, in one palette. Each function returns a matplotlib Figure.

Each figure carries its caption: made from the data, or given as `caption`. Nothing here measures or
traces; numbers come from the tables, traces and accesses that the functions are given. What threads
touch is in memory/ (bank conflicts: banks), who holds what for tensor cores in tensor_cores/, what
blocks that stay and clusters do in hopper/, 8-bit floats in fp8/, what several GPUs do in ranks/,
searches are in search/, speeds in speed/, palette and page in style.
"""

from __future__ import annotations

from gemmlab.plots.fp8.errors import fp8_errors, fp8_errors_tried
from gemmlab.plots.fp8.scales import scale_reach
from gemmlab.plots.fp8.speeds import fp8_speeds
from gemmlab.plots.fp8.sums import sums_in_turn
from gemmlab.plots.fp8.values import fp8_values
from gemmlab.plots.hopper.block_phases import block_phases
from gemmlab.plots.hopper.boxes import boxes, factors
from gemmlab.plots.hopper.multicast import multicast
from gemmlab.plots.hopper.power import power, wgmma_ceilings
from gemmlab.plots.hopper.registers import register_budget
from gemmlab.plots.hopper.sharing import sharing
from gemmlab.plots.hopper.tile_changes import tile_changes
from gemmlab.plots.hopper.tile_order import tile_order
from gemmlab.plots.hopper.turns import turns
from gemmlab.plots.kernel_view import kernel_view
from gemmlab.plots.memory.addresses import address_map
from gemmlab.plots.memory.banks import bank_map
from gemmlab.plots.memory.blocks import block_map
from gemmlab.plots.memory.copies import copies
from gemmlab.plots.memory.levels import levels
from gemmlab.plots.memory.lines import traffic
from gemmlab.plots.memory.loads_under_way import loads_under_way
from gemmlab.plots.memory.outer_product import outer_product
from gemmlab.plots.memory.ring import ring
from gemmlab.plots.memory.steps import step, steps
from gemmlab.plots.memory.threads import thread_tile
from gemmlab.plots.memory.tiles import tile_reuse
from gemmlab.plots.memory.timeline import timeline
from gemmlab.plots.memory.warps import warp_map
from gemmlab.plots.memory.waves import waves
from gemmlab.plots.memory.widths import access_widths, staging
from gemmlab.plots.picture import Picture
from gemmlab.plots.ranks.holdings import rank_holdings
from gemmlab.plots.ranks.timeline import rank_timeline
from gemmlab.plots.search.landscape import landscape
from gemmlab.plots.search.predicted import predicted
from gemmlab.plots.search.rules import rules
from gemmlab.plots.search.strategies import best_found, one_search
from gemmlab.plots.speed.batches import batches
from gemmlab.plots.speed.comparison import comparison
from gemmlab.plots.speed.epilogue import epilogue
from gemmlab.plots.speed.errors import error_over_k
from gemmlab.plots.speed.fma_order import fma_order
from gemmlab.plots.speed.issue_slots import issue_slots
from gemmlab.plots.speed.joins import joins
from gemmlab.plots.speed.ladder import climb, shares
from gemmlab.plots.speed.path import path
from gemmlab.plots.speed.roofs import roofline
from gemmlab.plots.speed.shapes import rung_map, shape_shares
from gemmlab.plots.speed.share import cublas_share
from gemmlab.plots.speed.speed import gflops, ladder
from gemmlab.plots.speed.sweep import sweep
from gemmlab.plots.speed.times import spread
from gemmlab.plots.speed.waits import waits
from gemmlab.plots.tensor_cores.fragments import fragments
from gemmlab.plots.tensor_cores.warpgroups import swizzles, warpgroup_sums

__all__ = [
    "access_widths",
    "address_map",
    "bank_map",
    "batches",
    "best_found",
    "block_map",
    "block_phases",
    "boxes",
    "climb",
    "comparison",
    "copies",
    "cublas_share",
    "epilogue",
    "error_over_k",
    "factors",
    "fma_order",
    "fp8_errors",
    "fp8_errors_tried",
    "fp8_speeds",
    "fp8_values",
    "fragments",
    "gflops",
    "issue_slots",
    "joins",
    "kernel_view",
    "ladder",
    "landscape",
    "levels",
    "loads_under_way",
    "multicast",
    "one_search",
    "outer_product",
    "path",
    "png",
    "power",
    "predicted",
    "rank_holdings",
    "rank_timeline",
    "register_budget",
    "ring",
    "roofline",
    "rules",
    "rung_map",
    "scale_reach",
    "shape_shares",
    "shares",
    "sharing",
    "spread",
    "staging",
    "step",
    "steps",
    "sums_in_turn",
    "sweep",
    "swizzles",
    "thread_tile",
    "tile_changes",
    "tile_order",
    "tile_reuse",
    "timeline",
    "traffic",
    "turns",
    "waits",
    "warp_map",
    "warpgroup_sums",
    "waves",
    "wgmma_ceilings",
]


def png(figure: Picture) -> bytes:
    """The bytes of a PNG file of a figure, 900 pixels wide, for an image widget or a file."""
    return figure.png()
