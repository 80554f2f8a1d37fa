"""Who computes what in 22: from its own schedule, held against what its blocks load, and drawn."""

import numpy as np
import pytest

import gemmlab as gl
from gemmlab.lessons.fp32_summit.rung import BM, BN
from gemmlab.lessons.fp32_summit.sharing import idle, sharing

NAME, SMS = "22_fp32_summit", 5
SHAPE = (3 * BM, 4 * BN, 8 * 64)


@pytest.fixture(scope="module")
def kernel():
    return gl.load(NAME)


@pytest.fixture(scope="module")
def ways(kernel):
    kernels = {"whole tiles": gl.load(NAME, STREAM_K=0), "stream-K": kernel}
    return {name: sharing(kernel, *SHAPE, SMS) for name, kernel in kernels.items()}


@pytest.mark.parametrize("shape", (SHAPE, (1, 1, 1), (130, 257, 640), (640, 1024, 192), (5, 5, 0)))
@pytest.mark.parametrize("sms", (1, 3, 7, 40))
def test_every_stage_of_every_tile_is_one_block_s_work(kernel, shape, sms):
    work = sharing(kernel, *shape, sms)
    times = np.zeros((*work.tiles, work.steps), int)
    for part in work.parts:
        times[part.tile][part.first : part.end] += 1
    assert (times == 1).all()
    shares = [sum(p.end - p.first for p in work.parts if p.sm == sm) for sm in range(sms)]
    launched = kernel.scheduled_for(sms).grid(*shape)[0]
    assert max(shares[:launched]) - min(shares[:launched]) <= 1 or launched == work.tiles[0]


def test_a_block_brings_the_stages_that_its_schedule_names(kernel):
    """By the boxes of B that its producers ask for: columns of C's tile, rows along K."""
    shape = (BM, 3 * BN, 2 * 64)
    work, trace = sharing(kernel, *shape, 2), kernel.scheduled_for(2).trace(*shape)
    for block in range(2):
        brought = [box.corner for box in trace.run.boxes((block, 0, 0)) if box.array == "B"]
        planned = [
            (stage * 64, part.tile[1] * BN)
            for part in work.parts
            if part.sm == block
            for stage in range(part.first, part.end)
        ]
        assert brought == planned


def test_idle_time_and_workspace(ways):
    kernels = {"whole tiles": gl.load(NAME, STREAM_K=0), "stream-K": gl.load(NAME)}
    table = idle(kernels, [SHAPE], SMS).set_index("blocks")
    assert list(table["tiles"]) == [12, 12] and list(table["most stages"]) == [24, 20]
    assert table.loc["whole tiles", "idle, %"] == pytest.approx(100 * (1 - 96 / 120), abs=0.05)
    assert table.loc["stream-K", "idle, %"] == pytest.approx(100 * (1 - 96 / 100), abs=0.05)
    per_block = 4 * BM * BN + 4 * 8  # sums, and a flag for each warp
    assert list(table["workspace, MB"]) == [0.0, round(SMS * per_block / 1e6, 2)]
