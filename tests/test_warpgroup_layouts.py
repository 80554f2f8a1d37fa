"""What lies where after a copy by tensor map, who holds which sum of wgmma, and their figures."""

import numpy as np
import pytest

from gemmlab.lessons.tma_wgmma import figures as tma_wgmma_figures
from gemmlab.lessons.tma_wgmma import tables as warpgroup_layouts

MODES = ("none", "32B", "64B", "128B")


@pytest.mark.parametrize("swizzle", MODES)
def test_a_swizzle_exchanges_chunks_of_a_row_of_128_bytes(swizzle):
    """By bits of its number: NVIDIA, Parallel Thread Execution ISA, "Swizzling modes"."""
    lies = warpgroup_layouts.in_shared_memory(swizzle)
    row, place = np.divmod(np.arange(len(lies)), 8)
    bits = {"none": 0, "32B": row % 2, "64B": row % 4, "128B": row % 8}[swizzle]
    assert (lies == row * 8 + (place ^ bits)).all()


def test_with_a_swizzle_a_column_of_a_box_lies_in_all_banks():
    for swizzle in MODES:
        lies = warpgroup_layouts.in_shared_memory(swizzle)
        first = np.flatnonzero(lies % (len(lies) // 8) == 0) % 8  # place among the banks
        assert len(set(first)) == (1 if swizzle == "none" else 8)


def test_each_sum_is_held_once_where_the_kernels_look_for_it():
    held = warpgroup_layouts.sums()
    assert sorted(held.ravel()) == list(range(64 * 64))
    thread, i = np.indices(held.shape)  # as row_of and col_of of kernels/warpgroup.cuh
    row = thread // 32 * 16 + thread % 32 // 4 + i // 2 % 2 * 8
    col = i // 4 * 8 + thread % 4 * 2 + i % 2
    assert (held == row * 64 + col).all()


def test_figures_show_the_chosen_ones_and_say_what_they_are():
    boxes = {name: warpgroup_layouts.in_shared_memory(name) for name in ("none", "128B")}
    figure = tma_wgmma_figures.swizzles(boxes)
    assert "4 without and 32 with 128 bytes" in figure.caption
    dark = tma_wgmma_figures.warpgroup_sums(warpgroup_layouts.sums(), thread=37)
    assert "lane 5 of warp 1" in dark.caption and "rows 17 and 25" in dark.caption
    bands = dark.axes[0]
    assert sum(patch.get_width() == 1 for patch in bands.patches) == 32
