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


def test_what_is_no_layout_is_refused():
    with pytest.raises(ValueError, match="no box of 8 rows"):
        tma_wgmma_figures.swizzles({"none": np.zeros(64, int)})
    held = np.arange(64 * 64).reshape(128, 32)
    with pytest.raises(ValueError, match="threads 0 to 127"):
        tma_wgmma_figures.warpgroup_sums(held, thread=128)
    with pytest.raises(ValueError, match="held by one thread"):
        tma_wgmma_figures.warpgroup_sums(held // 2)
