"""Which tiles blocks compute that stay, what is brought for them, and the figures of both."""

import pytest
from figures import by_gid, test_it_can_be_read, the_one, words  # noqa: F401

from gemmlab import ladder
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.trace import TraceError
from gemmlab.lessons.persistent import figures as persistent_figures
from gemmlab.lessons.persistent import tables
from gemmlab.lessons.persistent.rung import RUNG as PERSISTENT
from gemmlab.lessons.persistent.schedule import moved, schedule
from gemmlab.lessons.tma_wgmma.rung import RUNG as TMA_WGMMA
from gemmlab.lessons.warp_specialized.rung import RUNG as WARP_SPECIALIZED

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
    for one in orders.values():
        assert sorted((turn.row, turn.column) for turn in one.turns) == [
            (row, column) for row in range(9) for column in range(8)
        ]
        assert one.blocks == 8 and one.rounds == 9
        assert {(turn.block, turn.round) for turn in one.turns} == {
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
    one = schedule(kernel(WARP_SPECIALIZED, BM=64, BN=64, STAGES=2), 128, 128, 64, sm_count=1)
    assert (one.blocks, one.rounds) == (4, 1)


def test_a_kernel_that_stores_without_the_copy_engine_is_refused():
    with pytest.raises(TraceError, match="stores 0 tiles of C and brings 2 boxes"):
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
    assert both["bytes that arrive"] == each["bytes that arrive"] == each["bytes asked for"]
    # Of each step of a cluster's tile: A for two blocks, and B once in place of twice.
    a, b, steps = 128 * 64 * 2, 256 * 64 * 2, 2 * 2
    assert each["bytes asked for"] == steps * 2 * (a + b)
    assert both["bytes asked for"] == steps * (2 * a + b)
    assert each["boxes"] == steps * 2 * (1 + 4) and both["boxes"] == steps * (2 + 4)


def test_the_order_that_the_header_computes_is_that_of_the_copies(orders, of_clusters):
    for one in (*orders.values(), of_clusters):
        numbers = tables.order(one.settings, *one.shape[:2])
        clusters = one.blocks // one.cluster
        for turn in one.turns:
            row, column = numbers[turn.block // one.cluster + turn.round * clusters]
            assert (turn.row, turn.column) == (
                one.cluster * row + turn.block % one.cluster, column
            )  # fmt: skip


def test_what_rounds_need_is_what_their_copies_bring(orders):
    for one in orders.values():
        m, n, k = one.shape
        table = tables.needs(one.settings, m, n, k, sm_count=8)
        for at, row in table.iterrows():
            assert row["rows of A"] == len(one.brought(at, "A"))
            assert row["columns of B"] == len(one.brought(at, "B"))
            assert row["GB needed"] == (row["rows of A"] + row["columns of B"]) * k * 2 / 1e9
        asked = moved(one)["bytes asked for"]  # also the rows of boxes that lie outside
        assert table["GB asked for"].sum() == pytest.approx(asked / 1e9)


def test_one_that_forgets_its_later_tiles_does_not_pass_verification():
    text = PERSISTENT.path.read_text(encoding="utf-8")
    assert text.count("to = corner(tile += clusters)") == 2
    only_first = text.replace("to = corner(tile += clusters)", "tile = 1 << 30")
    report = kernel(source=only_first, CLUSTER=1, BM=64, BN=128, STAGES=2).verify(seed=2)
    assert not report.passed and any("never written" in case.message for case in report.cases)


# ---- figures -------------------------------------------------------------------------------------


def test_tiles_have_the_number_of_their_block_and_what_a_round_needs_is_dark(orders):
    figure = persistent_figures.tile_order(
        *((f"GROUP={group}", one) for group, one in orders.items())
    )
    first, second = (
        next(ax for ax in figure.axes if ax.get_gid() == f"{one.settings} C")
        for one in orders.values()
    )
    for ax, tile in ((first, (0, 3)), (second, (3, 0))):
        where = the_one(ax, "block 3 round 0")
        assert (where.get_y(), where.get_x()) == tile
        assert [t.get_text() for t in ax.texts if t.get_position() == (tile[1] + 0.5, tile[0] + 0.5)] == ["3"]  # fmt: skip # noqa: E501
    strips = [ax for ax in figure.axes if str(ax.get_gid()).endswith((" A", " B"))]
    needed = [sum("needed" in item.get_gid() for item in ax.patches) for ax in strips]
    assert needed == [1, 8, 4, 2]  # of A and B, row by row and in groups
    assert any("64 rows of A and 512 columns of B" in one for one in words(figure))


def test_what_both_blocks_get_stands_in_both_shared_memories(of_clusters):
    figure = persistent_figures.multicast(of_clusters)
    for block in (0, 1):
        there = next(ax for ax in figure.axes if ax.get_gid() == f"shared memory {block}")
        assert len(by_gid(there, "B ")) == 4 and len(by_gid(there, "A ")) == 1
        assert the_one(there, f"A ({128 * block}, 0) asked by {block} in {block}")
        for column in range(0, 256, 64):
            assert the_one(there, f"B (0, {column}) asked by {column // 128} in {block}")
    assert "ask for 64 KiB and get 96 KiB" in figure.caption


@pytest.fixture(params=("order", "cluster"))
def figure(request, orders, of_clusters):
    if request.param == "cluster":
        return persistent_figures.multicast(of_clusters)
    return persistent_figures.tile_order(
        *((f"GROUP={group}", one) for group, one in orders.items())
    )
