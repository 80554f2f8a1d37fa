"""The way from 16 to 18 as tables: which steps, what orders of tiles need, at which shapes."""

from math import prod

import pytest

import gemmlab as gl
from gemmlab import ladder
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import Problem
from gemmlab.lessons.persistent import tables
from gemmlab.lessons.persistent.rung import RUNG as PERSISTENT
from gemmlab.lessons.persistent.schedule import moved, schedule
from gemmlab.lessons.tma_wgmma.rung import RUNG as TMA_WGMMA
from gemmlab.lessons.warp_specialized.rung import RUNG as WARP_SPECIALIZED
from gemmlab.lessons.warp_specialized.rung import THIN
from gemmlab.records import tuning


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("17_warp_specialized", {"BM": 128, "BN": 64}),
        ("17_warp_specialized", {"BM": 64, "BN": 64, "STAGES": 8, "SPLIT": 2}),
        ("18_persistent", {"BM": 128, "BN": 64, "CLUSTER": 1}),
        ("18_persistent", {"BM": 128, "BN": 64, "STAGES": 8, "CLUSTER": 4, "SHARE_A": 1}),
        ("18_persistent", {}),
    ],
)
def test_blocks_ask_for_as_many_bytes_as_is_counted_of_their_boxes(name, settings):
    kernel = gl.load(name, **settings)
    asked = tables.asked_for(kernel.rung, kernel.settings, Problem(256, 512, 128))
    if kernel.settings.get("SPLIT", 1) == 1:
        traced = moved(schedule(kernel, 256, 512, 128, sm_count=132))["bytes requested"]
    else:  # of the blocks of a tile one alone stores it
        trace = kernel.trace(256, 512, 128)
        boxes = [box for at in range(trace.grid[0]) for box in trace.run.boxes((at, 0, 0))]
        traced = sum(2 * prod(box.box) for box in boxes if box.operation == "load")
    assert asked == traced


def test_no_setting_brings_more_than_l2_delivers():
    for shape in THIN:
        table = tables.at_l2(shape)
        assert (table["of L2, %"] < 105).all() and (table["MB requested"] > 0).all()
    rows = tables.at_l2((128, 7168, 2048))
    fastest = tuning.best(tuning.recorded("17_warp_specialized"), (128, 7168, 2048))
    assert rows["% of cuBLAS"].iloc[0] == fastest["pct_cublas"] and rows["of L2, %"].iloc[0] > 90


SMALL = {"BM": 64, "BN": 64, "STAGES": 2, "CLUSTER": 1}


def kernel(rung=PERSISTENT, source=None, **settings):
    return Kernel(rung, ladder.settings_for(rung, settings), "sm_90a", source or rung.path)


@pytest.fixture(scope="module")
def orders():
    return {
        group: schedule(kernel(**SMALL, GROUP=group), 520, 512, 64, sm_count=8) for group in (1, 4)
    }


@pytest.fixture(scope="module")
def of_clusters():
    return schedule(kernel(), 256, 512, 72, sm_count=2)


def test_every_tile_is_computed_once_and_each_block_has_a_tile_in_every_round(orders):
    for order in orders.values():
        assert sorted((turn.row, turn.column) for turn in order.turns) == [
            (row, column) for row in range(9) for column in range(8)
        ]
        assert order.blocks == 8 and order.rounds == 9
        assert {(turn.block, turn.round) for turn in order.turns} == {
            (block, turn) for block in range(8) for turn in range(9)
        }


def test_a_round_needs_what_its_tiles_lie_in(orders):
    rows, groups = orders[1], orders[4]
    assert (len(rows.brought(0, "A")), len(rows.brought(0, "B"))) == (64, 512)
    assert (len(groups.brought(0, "A")), len(groups.brought(0, "B"))) == (256, 128)
    assert groups.brought(0, "A") == set(range(256)) and groups.brought(0, "B") == set(range(128))
    assert rows.brought(8, "A") == set(range(512, 520))  # of the last rows, those that there are


def test_b_stored_transposed_is_brought_alike():
    plain, turned = (
        schedule(kernel(**SMALL, OP_B=op_b), 128, 128, 64, sm_count=2) for op_b in (0, 1)
    )
    for of_round in (0, 1):
        for array in "AB":
            assert plain.brought(of_round, array) == turned.brought(of_round, array)


def test_blocks_of_17_have_one_tile_each():
    order = schedule(kernel(WARP_SPECIALIZED, BM=64, BN=64, STAGES=2), 128, 128, 64, sm_count=1)
    assert (order.blocks, order.rounds) == (4, 1)


def test_a_kernel_that_stores_without_the_copy_engine_is_refused():
    with pytest.raises(LookupError, match="stores 0 tiles of C and copies 2 boxes"):
        schedule(kernel(TMA_WGMMA, BM=64, BN=64, STAGES=1), 64, 64, 64, sm_count=1)


def test_blocks_of_a_cluster_ask_for_parts_of_b_and_both_get_them(of_clusters):
    assert (of_clusters.blocks, of_clusters.rounds) == (2, 2)
    for turn in of_clusters.turns:
        of_b = [box for box in turn.loads if box.array == "B"]
        assert all(box.ranks == (0, 1) for box in of_b)
        assert {box.corner[1] - 256 * turn.column for box in of_b} == (
            {0, 64} if turn.block == 0 else {128, 192}
        )
        assert all(box.ranks == () for box in turn.loads if box.array == "A")


def test_by_multicast_fewer_boxes_bring_as_much(of_clusters):
    alone = schedule(kernel(CLUSTER=1), 256, 512, 72, sm_count=2)
    both, each = moved(of_clusters), moved(alone)
    assert both["bytes that arrive"] == each["bytes that arrive"] == each["bytes requested"]
    # Of each step of a cluster's tile: A for two blocks, and B once instead of twice.
    a, b, steps = 128 * 64 * 2, 256 * 64 * 2, 2 * 2
    assert each["bytes requested"] == steps * 2 * (a + b)
    assert both["bytes requested"] == steps * (2 * a + b)
    assert each["boxes"] == steps * 2 * (1 + 4) and both["boxes"] == steps * (2 + 4)


def test_the_order_that_the_header_computes_is_that_of_the_copies(orders, of_clusters):
    for order in (*orders.values(), of_clusters):
        numbers = tables.order(order.settings, *order.shape[:2])
        clusters = order.blocks // order.cluster
        for turn in order.turns:
            row, column = numbers[turn.block // order.cluster + turn.round * clusters]
            assert (turn.row, turn.column) == (
                order.cluster * row + turn.block % order.cluster, column
            )  # fmt: skip


def test_what_rounds_need_is_what_their_copies_bring(orders):
    for order in orders.values():
        m, n, k = order.shape
        table = tables.needs(order.settings, m, n, k, sm_count=8)
        for at, row in table.iterrows():
            assert row["rows of A"] == len(order.brought(at, "A"))
            assert row["columns of B"] == len(order.brought(at, "B"))
            assert row["GB needed"] == (row["rows of A"] + row["columns of B"]) * k * 2 / 1e9
        asked = moved(order)["bytes requested"]  # also the rows of boxes that lie outside
        assert table["GB requested"].sum() == pytest.approx(asked / 1e9)


def test_one_that_forgets_its_later_tiles_does_not_pass_verification():
    text = PERSISTENT.path.read_text(encoding="utf-8")
    assert text.count("number += clusters;") == 2
    only_first = text.replace("number += clusters;", "number = 1 << 30;")
    report = kernel(source=only_first, CLUSTER=1, BM=64, BN=128, STAGES=2).verify(seed=2)
    assert not report.passed and any("never written" in case.message for case in report.cases)
