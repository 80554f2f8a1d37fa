"""12_split_k and 13_batched, in the simulator: every way to join parts, all layouts, batches."""

import re

import numpy as np
import pytest

from gemmlab import ladder, simulator
from gemmlab.cuda.options import options_for
from gemmlab.kernel import verify
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder.rungs.irregular import (
    ALONE,
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


# ---- C of few rows or columns --------------------------------------------------------------------

STRIP = 128  # columns that a block of few_rows computes


def run_thin(entry, macros, blocks, shared_bytes, shape, beta, gap, workspace=0):
    """alpha * op(A) @ op(B) + beta * C by one kernel of thin.cuh, against float64; no finding."""
    m, n, k = shape
    random = np.random.default_rng(1)

    def stored(rows, columns):
        """With so many numbers more in each row, which nobody may touch."""
        return random.uniform(-1, 1, (rows, columns + gap)).astype(np.float32)

    A = stored(k, m) if macros["OP_A"] else stored(m, k)
    B = stored(n, k) if macros["OP_B"] else stored(k, n)
    C = stored(m, n)
    a, b = (X.astype(np.float64) for X in (A, B))
    a = a[:, :m].T if macros["OP_A"] else a[:, :k]
    b = b[:, :k].T if macros["OP_B"] else b[:, :n]
    wanted = 1.5 * a @ b + beta * C[:, :n].astype(np.float64)
    guards = C[:, n:].copy()
    if beta == 0:
        C[:, :n] = np.nan  # not to be read
    args = [simulator.read_only(A), simulator.read_only(B), C, m, n, k]
    args += [X.shape[1] for X in (A, B, C)] + [np.float32(1.5), np.float32(beta)]
    arrived = np.zeros(max(1, workspace), np.uint32)
    if workspace:
        args += [simulator.uninitialised(np.zeros(workspace, np.float32)), arrived]
    run = simulator.launch(
        SPLIT_K.path, entry, (blocks, 1, 1), (32 * macros["WARPS"], 1, 1), args, check=True,
        options=options_for(macros),
        shared_bytes=shared_bytes,
    )  # fmt: skip
    assert run.findings == []
    assert np.abs(C[:, :n] - wanted).max(initial=0) < 1e-6 * (k + 3)
    assert C[:, n:].tobytes() == guards.tobytes() and not arrived.any()


@pytest.mark.parametrize(
    "shape, rows, split, join, op_a, beta, gap",
    [
        ((1, 300, 700), 1, 3, LAST_ARRIVER, 0, 0.5, 0),
        ((1, 300, 700), 1, 4, CLUSTER, 0, 0.5, 0),
        ((3, 301, 5), 1, 1, LAST_ARRIVER, 0, 0.0, 0),
        ((20, 132, 90), 16, 2, CLUSTER, 0, 0.5, 3),
        ((3, 260, 1000), 4, 3, LAST_ARRIVER, 1, 0.0, 4),
    ],
)
def test_few_rows_are_right(shape, rows, split, join, op_a, beta, gap):
    m, n, _ = shape
    macros = {"BM": rows, "TM": rows, "BN": STRIP, "TN": 4, "SPLIT": split, "JOIN": join,
              "WARPS": 4, "OP_A": op_a, "OP_B": 0}  # fmt: skip
    blocks = -(-n // STRIP) * -(-m // rows) * split
    shared = 4 * rows * max(256, 4 * STRIP)
    run_thin("few_rows", macros, blocks, shared, shape, beta, gap, workspace=blocks * rows * STRIP)


@pytest.mark.parametrize(
    "shape, rows, columns, op_b, beta, gap",
    [
        ((21, 1, 700), 2, 1, 0, 0.5, 0),
        ((21, 3, 701), 2, 1, 0, 0.0, 0),
        ((17, 18, 600), 4, 16, 0, 0.5, 4),
        ((40, 16, 129), 4, 16, 1, 0.5, 0),
        ((5, 2, 0), 2, 2, 0, 0.5, 0),
    ],
)
def test_few_columns_are_right(shape, rows, columns, op_b, beta, gap):
    m, n, _ = shape
    macros = {"BM": 4 * rows, "TM": rows, "BN": columns, "TN": columns, "SPLIT": 1, "JOIN": ALONE,
              "WARPS": 4, "OP_A": 0, "OP_B": op_b}  # fmt: skip
    blocks = -(-m // (4 * rows)) * -(-n // columns)
    run_thin("few_columns", macros, blocks, 4 * 2 * columns * 260, shape, beta, gap)
