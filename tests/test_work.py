"""Which block computes what, and where it would run: found from the addresses of whole products."""

from itertools import pairwise

import numpy as np
import pytest

import gemmlab as gl
from gemmlab.lessons.split_k.work import launch_by_launch, work

SMALL = {"BM": 64, "BN": 64, "BK": 8, "WM": 32, "WN": 32}


@pytest.fixture(scope="module")
def nine_tiles():
    return work(gl.load("08_warp_tiling", **SMALL), 150, 190, 32, sm_count=4)


def test_every_step_of_every_tile_is_somebody_s_work(nine_tiles):
    times = np.zeros((*nine_tiles.tiles, nine_tiles.steps), int)
    for part in nine_tiles.parts:
        times[part.tile][part.first : part.end] += 1
    assert times.shape == (3, 3, 4) and (times == 1).all()


def test_nine_blocks_on_four_sms_leave_three_of_them_idle_at_the_end(nine_tiles):
    assert nine_tiles.length == 3 * 4 and nine_tiles.busy == 9 / 12
    last = max(nine_tiles.parts, key=lambda part: part.start)
    assert (last.tile, last.sm, last.start) == ((2, 2), 0, 8)


def test_no_sm_does_two_things_at_once(nine_tiles):
    for sm in range(4):
        mine = sorted((part.start, part.stop) for part in nine_tiles.parts if part.sm == sm)
        assert all(stop <= start for (_, stop), (start, _) in pairwise(mine))


@pytest.mark.parametrize("op_a, op_b", [(0, 0), (1, 1)])
def test_blocks_go_through_a_batch_and_leave_out_nothing(op_a, op_b):
    kernel = gl.load("13_batched", OP_A=op_a, OP_B=op_b, RESIDENT=1)
    schedule = work(kernel, 100, 40, 40, sm_count=4, batch=5)
    assert (schedule.tiles, schedule.steps, schedule.batch) == ((2, 1), 3, 5)
    done = [(part.product, *part.tile, part.first, part.end) for part in schedule.parts]
    assert sorted(done) == [(product, row, 0, 0, 3) for product in range(5) for row in range(2)]
    first = [(part.product, part.tile) for part in schedule.parts if part.block == (0, 0, 0)]
    assert first == [(0, (0, 0)), (2, (0, 0)), (4, (0, 0))], "every fourth of ten tiles"
    assert schedule.length == 3 * 3 and schedule.busy == 30 / 36


def test_a_launch_for_each_product_waits_for_the_last_one():
    kernel = gl.load("13_batched", RESIDENT=1)
    schedule = launch_by_launch(work(kernel, 64, 64, 32, sm_count=4), 6)
    assert [part.start for part in schedule.parts] == [2 * product for product in range(6)]
    assert schedule.length == 12 and schedule.busy == 1 / 4
