"""12_split_k and 13_batched, in the simulator: every way to join parts, all layouts, batches."""

import numpy as np
import pytest

from gemmlab import ladder
from gemmlab.kernel import verify
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder.rungs.irregular import (
    ALONE,
    ATOMICS,
    BATCHED,
    CLUSTER,
    JOINS,
    LAST_ARRIVER,
    SPLIT_K,
    STREAM_K,
)
from gemmlab.ladder.settings import IllegalSetting

OPS = [(a, b) for a in (0, 1) for b in (0, 1)]
SMALL = {"BM": 32, "BN": 32, "TM": 4, "TN": 4}
every_join = pytest.mark.parametrize("join", range(len(JOINS)), ids=JOINS)


def kernel(rung, **settings):
    return Kernel(rung, ladder.settings_for(rung, settings), "sm_90a", rung.path)


def split(join, **settings):
    parts = 1 if join in (ALONE, STREAM_K) else 4
    return kernel(SPLIT_K, JOIN=join, SPLIT=parts, **SMALL, **settings).scheduled_for(7)


@every_join
def test_all_ways_to_join_parts_are_right_and_without_a_finding(join):
    one = split(join)
    for shape in ((70, 77, 99), (33, 5, 300), (1, 1, 1), (17, 33, 0), (40, 36, 2)):
        assert verify.check(one, *shape, 1.0, 0.0, seed=3).passed, shape
    assert verify.check(one, 70, 77, 99, 0.5, 2.0, seed=4, gap=3).passed
    assert one.check().passed


@pytest.mark.parametrize("op_a, op_b", OPS)
def test_matrices_may_be_stored_transposed_and_with_gaps(op_a, op_b):
    one = split(LAST_ARRIVER, OP_A=op_a, OP_B=op_b)
    assert verify.check(one, 45, 70, 61, 1.0, 0.0, seed=5).passed
    assert verify.check(one, 64, 64, 64, 0.5, 2.0, seed=6, gap=4).passed
    assert verify.check(one, 45, 70, 61, 0.5, 2.0, seed=7, gap=3).passed


@pytest.mark.parametrize("join", set(range(len(JOINS))) - {ATOMICS}, ids=lambda at: JOINS[at])
def test_sums_are_joined_in_the_same_order_every_time(join):
    one = split(join)
    A, B = (np.random.default_rng(1).normal(size=(64, 64)).astype(np.float32) for _ in range(2))
    assert one(A, B).tobytes() == one(A, B).tobytes()


def test_parts_and_their_number_go_together():
    with pytest.raises(IllegalSetting, match="with SPLIT=1"):
        kernel(SPLIT_K, JOIN=ALONE, SPLIT=4)
    with pytest.raises(IllegalSetting, match="more than 8 blocks"):
        kernel(SPLIT_K, JOIN=CLUSTER, SPLIT=16)


@pytest.mark.parametrize("op_a, op_b", OPS)
def test_batches_are_right_by_strides_and_without_a_finding(op_a, op_b):
    one = kernel(BATCHED, **SMALL, OP_A=op_a, OP_B=op_b).scheduled_for(2)
    for batch in (0, 1, 5):
        assert verify.check(one, 45, 39, 37, 1.0, 0.0, seed=8, batch=batch).passed, batch
    assert verify.check(one, 32, 36, 20, 0.5, 2.0, seed=9, gap=3, batch=4).passed
    assert verify.check(one, 3, 2, 0, 1.0, 0.0, seed=9, batch=2).passed


def test_batches_are_right_by_addresses_and_leave_no_finding():
    one = kernel(BATCHED, **SMALL, POINTERS=1).scheduled_for(2)
    assert verify.check(one, 45, 39, 37, 0.5, 2.0, seed=8, gap=4, batch=5).passed
    assert kernel(BATCHED, **SMALL).check().passed
