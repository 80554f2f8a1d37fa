"""The model's clock: against formulas by hand, limits, and what must hold of any timeline."""

import math
from dataclasses import replace

import pytest

from gemmlab.ladder import Problem
from gemmlab.ladder.precision import BRAIN, SINGLE
from gemmlab.lessons.multi_gpu import schedules as make
from gemmlab.lessons.multi_gpu import timeline as clock
from gemmlab.lessons.multi_gpu.timeline import COLLECTIVE, Machine

LARGE = Problem(16384, 16384, 16384)
FAST = Machine(700e12, 4e12, 450e9, 50e9)


def columns(problem, ranks, chunks=8):
    return make.column_parallel(problem, ranks, chunks)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_one_chunk_takes_the_gather_and_then_the_product(ranks):
    timeline = clock.modelled(columns(LARGE, ranks, 1), FAST, BRAIN)
    gather = (ranks - 1) / ranks * LARGE.m * LARGE.k * 2 / FAST.link_bytes_per_second
    multiply = LARGE.flop / ranks / FAST.flop_per_second
    assert math.isclose(timeline.ms, 1e3 * (gather + multiply))


def test_chunks_hide_all_but_the_first_gather_where_the_link_allows_it():
    ranks, chunks = 2, 8
    timeline = clock.modelled(columns(LARGE, ranks, chunks), FAST, BRAIN)
    gather = LARGE.m * LARGE.k / FAST.link_bytes_per_second
    multiply = LARGE.flop / ranks / FAST.flop_per_second
    assert math.isclose(timeline.ms, 1e3 * (gather / chunks + multiply))


def test_the_sum_of_row_parallel_counts_the_bytes_of_memory():
    timeline = clock.modelled(make.row_parallel(LARGE, 2), FAST, SINGLE)
    (sum_step,) = [step for step in timeline.of(0) if step.name == "sum 0"]
    moved = 3 * LARGE.m / 2 * LARGE.n * 4  # two terms and what is written
    assert math.isclose(sum_step.ms, 1e3 * moved / FAST.memory_bytes_per_second)


def test_messages_between_hosts_go_over_the_network():
    hosts = replace(FAST, gpus_per_host=2)
    near, far = (clock.modelled(columns(LARGE, ranks, 1), hosts, BRAIN) for ranks in (2, 4))
    gather = far.of(0, COLLECTIVE)[0].ms
    of_a_host = LARGE.m * LARGE.k * 2 / 2  # half of A comes from the other, by two GPUs at once
    assert math.isclose(gather, 1e3 * of_a_host / 2 / 50e9)
    (exchange,) = clock.modelled(make.row_parallel(LARGE, 4), hosts, BRAIN).of(0, COLLECTIVE)
    assert math.isclose(exchange.ms, 1e3 * LARGE.m / 4 * LARGE.n * 2 * 2 / 50e9)  # of two ranks
    assert "between hosts" in far.source and "between hosts" not in near.source


def test_no_timeline_overlaps_on_a_stream_or_begins_before_its_events():
    for schedule in (columns(LARGE, 4), make.row_parallel(LARGE, 4, 8)):
        timeline = clock.modelled(schedule, FAST, BRAIN)
        at = {(step.rank, step.name): step for step in timeline.steps}
        assert len(at) == len(list(schedule))
        last = {}
        for rank, step in schedule:
            ran = at[rank, step.name]
            assert all(at[rank, event].end_ms <= ran.start_ms for event in step.after)
            assert last.get((rank, step.stream), 0.0) <= ran.start_ms <= ran.end_ms
            last[rank, step.stream] = ran.end_ms


@pytest.mark.parametrize(
    "schedule",
    [columns(LARGE, 4), make.row_parallel(LARGE, 4, 8)],
    ids=lambda schedule: schedule.name,
)
def test_a_faster_link_is_never_slower_and_without_one_p_gpus_are_p_times_one(schedule):
    times = [
        clock.modelled(schedule, replace(FAST, link_bytes_per_second=rate), BRAIN).ms
        for rate in (10e9, 100e9, 450e9, 1e30)
    ]
    assert times == sorted(times, reverse=True)
    alone = clock.modelled(make.one_rank(LARGE), FAST, BRAIN).ms
    assert 3.8 < alone / times[-1] <= 4.0 + 1e-9
