"""12_split_k and 13_batched, in the simulator: every way to join parts, all layouts, batches."""

import re

import pytest

from gemmlab import ladder
from gemmlab.kernel import verify
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder.settings import (
    ALONE,
    CLUSTER,
    EVERY_PART,
    JOINS,
    LAST_ARRIVER,
    STREAM_K,
    IllegalSetting,
)
from gemmlab.lessons.batched.rung import RUNG as BATCHED
from gemmlab.lessons.split_k.rung import RUNG as SPLIT_K

OPS = [(a, b) for a in (0, 1) for b in (0, 1)]
SMALL = {"BM": 32, "BN": 32, "BK": 32, "TM": 4, "TN": 4}
ONE_WARP = {"BM": 32, "BN": 32, "BK": 32, "TM": 8, "TN": 4, "STAGES": 2}
every_join = pytest.mark.parametrize("join", range(len(JOINS)), ids=JOINS)


def kernel(rung, **settings):
    return Kernel(rung, ladder.settings_for(rung, settings), "sm_90a", rung.path)


def split(join, **settings):
    parts = 1 if join in (ALONE, STREAM_K) else 4
    return kernel(SPLIT_K, JOIN=join, SPLIT=parts, **SMALL, **settings).scheduled_for(7)


@every_join
def test_all_ways_to_join_parts_are_right_and_without_a_finding(join):
    loaded = split(join)
    for shape in ((70, 77, 99), (33, 5, 300), (1, 1, 1), (17, 33, 0), (40, 36, 2)):
        assert verify.check(loaded, *shape, 1.0, 0.0, seed=3).passed, shape
    assert verify.check(loaded, 70, 77, 99, 0.5, 2.0, seed=4, gap=3).passed
    assert loaded.check().passed


@pytest.mark.parametrize("op_a, op_b", OPS)
def test_matrices_may_be_stored_transposed_and_with_gaps(op_a, op_b):
    loaded = split(EVERY_PART, OP_A=op_a, OP_B=op_b)
    assert verify.check(loaded, 45, 70, 61, 1.0, 0.0, seed=5).passed
    assert verify.check(loaded, 64, 64, 64, 0.5, 2.0, seed=6, gap=4).passed
    assert verify.check(loaded, 45, 70, 61, 0.5, 2.0, seed=7, gap=3).passed


def test_joins_have_the_numbers_that_the_kernel_gives_them():
    text = SPLIT_K.path.read_text(encoding="utf-8")
    numbers = dict(re.findall(r"^#define ([A-Z_]+) (\d+) +//", text, flags=re.M))
    names = (
        "ALONE",
        "SECOND_KERNEL",
        "ATOMICS",
        "LAST_ARRIVER",
        "EVERY_PART",
        "CLUSTER",
        "STREAM_K",
    )
    assert [int(numbers[name]) for name in names] == list(range(len(JOINS)))


def test_parts_and_their_number_go_together():
    with pytest.raises(IllegalSetting, match="with SPLIT=1"):
        kernel(SPLIT_K, JOIN=ALONE, SPLIT=4)
    with pytest.raises(IllegalSetting, match="no whole clusters"):
        kernel(SPLIT_K, JOIN=CLUSTER, SPLIT=66)
    waiting = kernel(SPLIT_K, JOIN=EVERY_PART, SPLIT=16).scheduled_for(1)
    with pytest.raises(IllegalSetting, match="16 parts wait for each other, and 8 blocks"):
        waiting.launches(waiting.problem(64, 64, 512))


@pytest.mark.parametrize("op_a, op_b", OPS)
def test_batches_are_right_by_strides_and_without_a_finding(op_a, op_b):
    batched = kernel(BATCHED, **ONE_WARP, OP_A=op_a, OP_B=op_b).scheduled_for(2)
    for batch in (0, 1, 5):
        assert verify.check(batched, 45, 39, 37, 1.0, 0.0, seed=8, batch=batch).passed, batch
    assert verify.check(batched, 32, 36, 20, 0.5, 2.0, seed=9, gap=3, batch=4).passed
    assert verify.check(batched, 3, 2, 0, 1.0, 0.0, seed=9, batch=2).passed


def test_batches_are_right_by_addresses_and_leave_no_finding():
    batched = kernel(BATCHED, **ONE_WARP, POINTERS=1).scheduled_for(2)
    assert verify.check(batched, 45, 39, 37, 0.5, 2.0, seed=8, gap=4, batch=5).passed
    assert kernel(BATCHED, **ONE_WARP).check().passed


# ---- C of few rows or columns --------------------------------------------------------------------

FEW_ROWS = {"BM": 1, "BN": 128, "BK": 256, "TM": 1, "TN": 4, "STAGES": 1}
FEW_COLUMNS = {"BM": 16, "BN": 1, "BK": 256, "TM": 2, "TN": 1, "STAGES": 2}


def right_and_sound(loaded, shapes, with_gaps):
    for shape in shapes:
        assert verify.check(loaded, *shape, 1.0, 0.0, seed=3).passed, shape
    for gap in (3, 4):
        assert verify.check(loaded, *with_gaps, 0.5, 2.0, seed=4, gap=gap).passed, gap
    assert loaded.check().passed


@pytest.mark.parametrize("split, join", [(1, ALONE), (3, LAST_ARRIVER), (4, CLUSTER)])
@pytest.mark.parametrize("op_a", (0, 1))
def test_few_rows_are_right_and_without_a_finding(split, join, op_a):
    loaded = kernel(SPLIT_K, **FEW_ROWS, SPLIT=split, JOIN=join, OP_A=op_a)
    right_and_sound(loaded, ((1, 300, 700), (3, 301, 5), (1, 4, 0)), (2, 260, 600))


@pytest.mark.parametrize("op_b", (0, 1))
def test_few_columns_are_right_and_without_a_finding(op_b):
    loaded = kernel(SPLIT_K, **FEW_COLUMNS, SPLIT=1, JOIN=ALONE, OP_B=op_b)
    right_and_sound(loaded, ((21, 1, 700), (21, 3, 701), (5, 2, 0)), (17, 2, 600))
