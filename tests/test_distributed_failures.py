"""Ranks that die, fail or stand still: a sentence that names them, and no process left."""

import multiprocessing
import os
import re
import signal
import time

import pytest

from gemmlab.ladder import Problem
from gemmlab.lessons.multi_gpu import schedules as make
from gemmlab.lessons.multi_gpu.gpus import runner, team
from gemmlab.lessons.multi_gpu.gpus.team import RankFailed
from gemmlab.lessons.multi_gpu.in_turn import ByKernel

SHORT_S, FOR_EVER_S = 1.0, 60
PROBLEM = Problem(8, 8, 8)


def kills_itself(reporter, rank):
    reporter.step("first")
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(FOR_EVER_S)


def fails(reporter, rank):
    reporter.step("first")
    raise ValueError("no such rung")


def stands_still(reporter, rank):
    reporter.step("first")
    if rank == 0:
        reporter.step("second")
    time.sleep(FOR_EVER_S)


def never_says_a_word(reporter):
    time.sleep(FOR_EVER_S)


def deaf(reporter, rank):
    """Stands still and ignores what it is told."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    stands_still(reporter, rank)


def failure(call):
    """The message, once no process is left, soon."""
    begun, before = time.monotonic(), set(multiprocessing.active_children())
    with pytest.raises(RankFailed) as caught:
        call()
    assert time.monotonic() - begun < 40
    assert set(multiprocessing.active_children()) <= before
    return str(caught.value)


def test_a_rank_that_dies_is_named_with_its_step_and_signal():
    said = failure(lambda: team.run_ranks(kills_itself, [(0,), (1,)], 30))
    assert "rank 1 of 2 died in 'first' (signal SIGKILL; a process that is killed has" in said


def test_a_rank_that_stands_still_is_named_and_where_the_others_are(monkeypatch):
    monkeypatch.setattr(team, "TO_END_S", 0.2)
    said = failure(lambda: team.run_ranks(deaf, [(0,), (1,)], SHORT_S))
    assert said.startswith(f"no rank went on for {SHORT_S:g} s: rank 0 in 'second', rank 1 in 'first'.")  # fmt: skip # noqa: E501
    assert "Rank 1 is the furthest behind" in said


def test_what_a_rank_raises_is_told_with_its_rank():
    said = failure(lambda: team.run_ranks(fails, [(0,), (1,)], 20))
    assert re.search(r"rank [01] of 2 failed in 'first': ValueError: no such rung", said)


def test_a_start_that_takes_too_long_ends_too():
    said = failure(lambda: team.run_ranks(never_says_a_word, [()], SHORT_S, start_s=0.1))
    assert "rank 0" in said


class Memory:
    def __init__(self, free):
        self.free = free

    def memGetInfo(self):
        return self.free, 80 * 10**9


def test_memory_that_is_too_little_names_the_gpu_and_what_counts(monkeypatch):
    import cupy.cuda

    by, schedule = ByKernel.of("01_naive"), make.column_parallel(Problem(16384, 16384, 16384), 2)
    monkeypatch.setattr(cupy.cuda, "runtime", Memory(4 * 10**9))
    with pytest.raises(
        RankFailed, match=r"GPU 1 has 4\.0 of 80\.0 GB free, and this rank needs 2\.7"
    ):
        runner.require_memory(schedule, 1, by)
    monkeypatch.setattr(cupy.cuda, "runtime", Memory(70 * 10**9))
    runner.require_memory(schedule, 1, by)
