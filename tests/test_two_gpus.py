"""Two GPUs of this host, where there are two: what moves parts changes no bit; nothing hangs."""

import os
import signal
import time
from functools import partial

import numpy as np
import pytest

from gemmlab.cuda.device import gpu, why_no_gpu
from gemmlab.kernel.operands import Operands
from gemmlab.ladder import SINGLE, Problem
from gemmlab.lessons.multi_gpu import in_turn
from gemmlab.lessons.multi_gpu import measure as cases
from gemmlab.lessons.multi_gpu import schedules as make
from gemmlab.lessons.multi_gpu.gpus import runner
from gemmlab.lessons.multi_gpu.gpus.runner import DMA_ENGINES, NCCL, Job
from gemmlab.lessons.multi_gpu.gpus.team import RankFailed
from gemmlab.lessons.multi_gpu.in_turn import ByKernel

WAYS = NCCL, DMA_ENGINES
UNEVEN, LARGE = Problem(1037, 520, 777), Problem(4096, 4096, 4096)
FOR_EVER_S, AT = 1000, 12  # at which call of a product something happens


def count():
    if gpu() is None:
        return 0
    from cupy.cuda import runtime

    return runtime.getDeviceCount()


pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(count() < 2, reason=f"needs two GPUs: {why_no_gpu() or 'there is one'}"),
]


class Ends(ByKernel):
    """The products of rank 1 end in their AT-th call, as `how` says."""

    how, calls = "", 0

    @classmethod
    def made(cls, how):
        arithmetic = cls("10_register_banks")
        arithmetic.how = how
        return arithmetic

    def prepared(self, a, b, c):
        import cupy

        multiply, rank = super().prepared(a, b, c), cupy.cuda.Device().id

        def call():
            self.calls += 1
            if rank == 1 and self.calls == AT:
                if self.how == "dies":
                    os.kill(os.getpid(), signal.SIGKILL)
                elif self.how == "stands still":
                    time.sleep(FOR_EVER_S)
                raise ValueError("something broke")
            multiply()

        return call


@pytest.mark.parametrize("maker", cases.MAKERS.values(), ids=cases.MAKERS)
def test_both_ways_of_moving_data_give_the_same_right_bits(maker):
    schedule, given = maker(UNEVEN, 2), Operands.from_seed(UNEVEN, SINGLE, 3)
    jobs = [Job(schedule, given.A, given.B, repeats=3, moved_by=way) for way in WAYS]
    by_nccl, by_dma = runner.run(jobs, partial(ByKernel, "10_register_banks"))
    assert np.array_equal(by_nccl.C.view("u4"), by_dma.C.view("u4"))
    expected, bound = in_turn.bounded(schedule, SINGLE, given.A, given.B)
    assert (abs(by_dma.C - expected) <= bound).all()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("maker", [make.column_parallel, make.row_parallel])
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("dies", "rank 1 of 2 died"),
        ("stands still", "of 2 ranks these did not end in .*: 0, 1"),
        ("fails", "rank 1 of 2 failed: ValueError: something broke"),
    ],
)
def test_a_rank_that_ends_early_ends_all_with_a_sentence(how, message, maker, way, monkeypatch):
    monkeypatch.setattr(runner, "LIMIT_S", 1.0)
    monkeypatch.setattr(runner, "START_S", 60.0)
    job = Job(maker(LARGE, 2, 8), repeats=3, moved_by=way)
    with pytest.raises(RankFailed, match=message):
        runner.run([job], partial(Ends.made, how))
