"""Ranks that die, fail or do not end: a sentence says so, and no process is left."""

import multiprocessing
import os
import signal
import time

import pytest

from gemmlab.lessons.multi_gpu.gpus.team import RankFailed, run_ranks


def work(how, rank):
    if rank == 1 and how == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 1 and how == "fails":
        raise ValueError("no such rung")
    if how != "ends":
        time.sleep(60)
    return 10 * rank


@pytest.mark.parametrize(
    ("how", "limit_s", "said"),
    [
        ("dies", 50, "rank 1 of 2 died"),
        ("fails", 50, "rank 1 of 2 failed: ValueError: no such rung"),
        ("stands still", 1, "of 2 ranks these did not end in 1 s: 0, 1"),
    ],
)
def test_a_rank_that_does_not_end_well_ends_all(how, limit_s, said):
    before = set(multiprocessing.active_children())
    with pytest.raises(RankFailed, match=said):
        run_ranks(work, [(how, 0), (how, 1)], limit_s)
    assert set(multiprocessing.active_children()) <= before


def test_what_ranks_return_comes_in_their_order():
    assert run_ranks(work, [("ends", 0), ("ends", 1)], 50) == [0, 10]
