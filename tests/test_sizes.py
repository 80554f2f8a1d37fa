"""Two rungs over sizes: the factor is that of the records, the blocks are those of the grid."""

import pytest

import gemmlab as gl
from gemmlab.lessons.thread_tile_1d import tables as sizes
from gemmlab.records import runs

BEFORE, AFTER = "04_thread_tile_1d", "05_thread_tile_2d"


def test_factor_and_blocks_are_those_of_records_and_grids():
    table = sizes.against(BEFORE, AFTER)
    sms = runs.current()["gpu"]["sm_count"]
    for n in (512, 4096):
        before, other = (runs.replay_at(gl.load(name), n, n, n) for name in (BEFORE, AFTER))
        assert table["05 over 04"][n] == pytest.approx(other.gflops / before.gflops)
        # A block of 04 computes 32 × 64 elements with 4 warps, one of 05 128 × 64 with 8.
        assert table["blocks for each SM, 04"][n] * sms == pytest.approx(n * n / (32 * 64))
        assert table["warps for each SM, 04"][n] * sms == pytest.approx(4 * n * n / (32 * 64))
        assert table["blocks for each SM, 05"][n] * sms == pytest.approx(n * n / (128 * 64))
        assert table["warps for each SM, 05"][n] * sms == pytest.approx(8 * n * n / (128 * 64))


def test_only_sizes_that_both_have_are_there():
    """02 has no record at 16384."""
    table = sizes.against("02_coalescing", BEFORE)
    assert 8192 in table.index and 16384 not in table.index
