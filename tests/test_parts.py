"""What becomes of the parts of a tile: counted against what each way has to move, and its bits."""

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
from gemmlab.lessons.split_k import parts

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
    found = parts.in_orders(32, 32, 256, orders=4, sm_count=1, **SMALL)
    results = found["different results"]
    assert results[JOINS[ATOMICS]] > 1
    assert (results.drop(JOINS[ATOMICS]) == 1).all() and len(results) == 5
    changed = found["elements that differ"]
    assert 0 < changed[JOINS[ATOMICS]] <= 32 * 32
    assert (changed.drop(JOINS[ATOMICS]) == 0).all()
