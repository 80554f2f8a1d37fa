"""Every figure of the series, in one palette. Each function returns a matplotlib Figure.

Each figure carries its caption: made from the data, or given as `caption`. Nothing here measures or
traces; numbers come from the tables, traces and accesses that the functions are given. What threads
touch is in memory/ (bank conflicts: banks), who holds what for tensor cores in tensor_cores/, what
blocks that stay and clusters do in hopper/, 8-bit floats in fp8/, what several GPUs do in ranks/,
searches are in search/, speeds in speed/, palette and page in style.
"""

from __future__ import annotations

from gemmlab.lessons.autotuning.figures.landscape import landscape
from gemmlab.lessons.autotuning.figures.predicted import predicted
from gemmlab.lessons.autotuning.figures.rules import rules
from gemmlab.lessons.autotuning.figures.strategies import best_found, one_search
from gemmlab.lessons.batched.figures.batches import batches
from gemmlab.lessons.batched.figures.copies import copies
from gemmlab.lessons.ceilings.figures import spread
from gemmlab.lessons.coalescing.figures import traffic
from gemmlab.lessons.fp8.figures.errors import fp8_errors, fp8_errors_tried
from gemmlab.lessons.fp8.figures.scales import scale_reach
from gemmlab.lessons.fp8.figures.speeds import fp8_speeds
from gemmlab.lessons.fp8.figures.sums import sums_in_turn
from gemmlab.lessons.fp8.figures.values import fp8_values
from gemmlab.lessons.fp32_summit.figures.loads_under_way import loads_under_way
from gemmlab.lessons.fp32_summit.figures.sharing import sharing
from gemmlab.lessons.fused_epilogue.figures import epilogue
from gemmlab.lessons.mma_sync.figures import error_over_k
from gemmlab.lessons.multi_gpu.figures.holdings import rank_holdings
from gemmlab.lessons.multi_gpu.figures.timeline import rank_timeline
from gemmlab.lessons.persistent.figures.multicast import multicast
from gemmlab.lessons.persistent.figures.tile_changes import tile_changes
from gemmlab.lessons.persistent.figures.tile_order import tile_order
from gemmlab.lessons.register_banks.figures.fma_order import fma_order
from gemmlab.lessons.register_banks.figures.issue_slots import issue_slots
from gemmlab.lessons.register_banks.figures.ring import ring
from gemmlab.lessons.split_k.figures.joins import joins
from gemmlab.lessons.split_k.figures.waves import waves
from gemmlab.lessons.thread_tile_2d.figures import outer_product
from gemmlab.lessons.tma_wgmma.figures.boxes import boxes, factors
from gemmlab.lessons.tma_wgmma.figures.power import power, wgmma_ceilings
from gemmlab.lessons.tma_wgmma.figures.warpgroups import swizzles, warpgroup_sums
from gemmlab.lessons.vectorized_loads.figures import access_widths, staging
from gemmlab.lessons.warp_specialized.figures.block_phases import block_phases
from gemmlab.lessons.warp_specialized.figures.registers import register_budget
from gemmlab.lessons.warp_specialized.figures.turns import turns
from gemmlab.lessons.warp_specialized.figures.waits import waits
from gemmlab.lessons.warp_tiling.figures import levels
from gemmlab.lessons.wmma.figures import fragments
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
