"""Ways to join the parts of K: which settings are compared, which bits agree, what is recorded."""

import numpy as np
import pytest

from gemmlab.ladder.settings import (
    ALONE,
    ATOMICS,
    CLUSTER,
    EVERY_PART,
    JOINS,
    LAST_ARRIVER,
    SECOND_KERNEL,
)
from gemmlab.lessons.split_k import measure as joins
from gemmlab.lessons.split_k import parts
from gemmlab.lessons.split_k.rung import TRIED

RUNG = joins.RUNG
BEST = RUNG.defaults | {"SPLIT": 8, "JOIN": CLUSTER}


def test_all_ways_have_the_same_tile_and_as_many_parts_where_they_cut_k():
    ways = dict(joins.ways(BEST))
    assert list(ways) == list(JOINS)
    for join, settings in enumerate(ways.values()):
        assert settings["JOIN"] == join and RUNG.broken(settings) is None
        assert {**settings, "JOIN": 0, "SPLIT": 0} == {**BEST, "JOIN": 0, "SPLIT": 0}
    assert {settings["SPLIT"] for settings in ways.values()} == {1, 8}


def test_shapes_that_are_compared_are_swept():
    assert {*joins.SHAPES, joins.REPEATED} <= set(TRIED)


def test_results_are_compared_by_their_bits():
    first = np.array([1.0, -2.0, 0.0], np.float32)
    second = first.copy()
    second[1] = np.nextafter(second[1], np.float32(0))
    assert joins._compared([first, first]) == {"results": 1, "elements": 0, "most_ulps": 0}
    assert joins._compared([first, second, first]) == {"results": 2, "elements": 1, "most_ulps": 1}


def test_in_the_record_only_atomics_give_results_that_differ():
    table = joins.REPEATS.read().set_index("join")
    differ = table["results"] > 1
    assert differ[JOINS[ATOMICS]] and differ.sum() == 1


M, N, K, PARTS = 64, 96, 128, 4
C_KIB = 4 * M * N / 1024
SMALL = {"BM": 32, "BN": 32, "BK": 32, "TM": 4, "TN": 4, "SPLIT": PARTS}


@pytest.fixture(scope="module")
def moved():
    return parts.moved(M, N, K, sm_count=1, **SMALL)


def of(table, join):
    return table.loc[JOINS[join]]


def test_every_way_is_there_and_atomics_and_a_second_kernel_are_two_launches(moved):
    assert moved.index.tolist() == list(JOINS)
    twice = moved.index[moved["kernels"] == 2].tolist()
    assert twice == [JOINS[SECOND_KERNEL], JOINS[ATOMICS]]


@pytest.mark.parametrize("join", [SECOND_KERNEL, LAST_ARRIVER, EVERY_PART])
def test_parts_in_global_memory_are_stored_once_and_loaded_once(moved, join):
    row = of(moved, join)
    assert row["stored, KiB"] == pytest.approx((PARTS + 1) * C_KIB, abs=1)
    assert row["loaded, KiB"] == pytest.approx(PARTS * C_KIB, abs=1)
    assert row["of other blocks, KiB"] == row["atomic adds"] == 0


def test_a_cluster_moves_all_parts_but_its_own_and_none_through_global_memory(moved):
    row = of(moved, CLUSTER)
    assert row["of other blocks, KiB"] == (PARTS - 1) * C_KIB
    assert (row["stored, KiB"], row["loaded, KiB"]) == (C_KIB, 0)


def test_one_block_a_tile_stores_c_alone_and_atomics_add_every_part_to_it(moved):
    assert of(moved, ALONE).tolist() == [1, C_KIB, 0, 0, 0]
    assert of(moved, ATOMICS).tolist() == [2, C_KIB, 0, 0, M * N * PARTS]


def test_only_with_atomics_the_order_of_blocks_is_seen_in_the_bits():
    table = parts.in_orders(32, 32, 256, orders=4, sm_count=1, **SMALL)
    results = table["different results"]
    assert results[JOINS[ATOMICS]] > 1
    assert (results.drop(JOINS[ATOMICS]) == 1).all() and len(results) == 5
    changed = table["elements that differ"]
    assert 0 < changed[JOINS[ATOMICS]] <= 32 * 32
    assert (changed.drop(JOINS[ATOMICS]) == 0).all()
