"""Ways to join the parts of K: which settings are compared, which bits agree, what is recorded."""

from types import SimpleNamespace

import numpy as np
import pandas
import pytest

from gemmlab.ladder.settings import (
    ALONE,
    ATOMICS,
    CLUSTER,
    EVERY_PART,
    JOINS,
    LAST_ARRIVER,
    SECOND_KERNEL,
    STREAM_K,
)
from gemmlab.lessons.split_k import measure as joins
from gemmlab.lessons.split_k import parts
from gemmlab.lessons.split_k import tables as cuts
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


def test_the_gain_is_that_of_the_fastest_way_with_equal_parts(monkeypatch):
    def row(shape, join, time_ms, parts):
        sizes = dict(zip("mnk", shape, strict=True))
        settings = f"BM=64 BN=64 SPLIT={parts}"
        return sizes | {"join": JOINS[join], "time_ms": time_ms, "settings": settings}

    deep, square = (64, 128, 4096), (640, 640, 640)
    rows = [
        row(deep, ALONE, 8.0, 1), row(deep, ATOMICS, 3.0, 4), row(deep, CLUSTER, 2.0, 4),
        row(deep, STREAM_K, 1.0, 1), row(square, ALONE, 5.0, 1), row(square, CLUSTER, 4.0, 2),
        row((64, 64, 64), STREAM_K, 1.0, 1),
    ]  # fmt: skip
    table = SimpleNamespace(read=lambda: pandas.DataFrame(rows))
    monkeypatch.setattr(cuts, "TIMES_OF_JOINS", table)
    table = cuts.gains(sm_count=50)
    assert table.index.tolist() == ["64×128×4096", "640×640×640"]
    assert table.loc["64×128×4096"].tolist() == [
        "64×64", 2, 4, 3.0, 0.125, 4.0, 4.0, JOINS[CLUSTER],
    ]  # fmt: skip
    square = table.loc["640×640×640"]
    assert square[["tile", "tiles", "parts"]].tolist() == ["64×64", 100, 2]
    assert square["A and B, MiB"] == square["parts, MiB"] == 2 * 4 * 640 * 640 / 2**20
    assert square[["gain, by waves", "gain, measured"]].tolist() == [1.0, 1.25]


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
