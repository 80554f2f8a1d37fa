"""The order of loads, stores, barriers and products: what is drawn is what was executed."""

import pytest
from figures import (  # noqa: F401
    axes,
    by_gid,
    test_all_of_it_can_be_read,
    test_no_text_lies_on_another,
    test_the_caption_has_a_number,
    test_the_caption_is_a_sentence_below_everything,
    words,
)

import gemmlab
from gemmlab import plots
from gemmlab.plots import style

SHAPE = (128, 128, 32)
TILES, PER_TILE = 4, 512  # multiply-adds of a thread for one tile: 8×8 sums, 8 along K


@pytest.fixture(scope="module")
def traced():
    return {
        "08_warp_tiling": gemmlab.load("08_warp_tiling", WM=32).trace(*SHAPE),
        "09_double_buffering, STAGES=1": gemmlab.load("09_double_buffering").trace(*SHAPE),
        "09_double_buffering, STAGES=3": gemmlab.load("09_double_buffering", STAGES=3).trace(
            *SHAPE
        ),
    }


@pytest.fixture(scope="module")
def figure(traced):
    return plots.timeline(*traced.values())


def drawn(figure, name):
    """{gid: columns where it is drawn}, from left to right."""
    ax = axes(figure, f"order {name}")
    found = {}
    for kind in ("load", "store", "product"):
        for cell in by_gid(ax, kind):
            found.setdefault(cell.get_gid(), []).append(round(cell.get_x()))
    for kind in ("barrier", "wait"):
        found[kind] = [int(line.get_xdata()[0]) for line in by_gid(ax, kind)]
    return found


def test_08_loads_a_tile_after_the_product_before_and_09_ahead_of_it(figure):
    for name, ahead in (
        ("08_warp_tiling", 0),
        ("09_double_buffering, STAGES=1", 1),
        ("09_double_buffering, STAGES=3", 2),
    ):
        at = drawn(figure, name)
        for tile in range(1, TILES):
            started = at[f"load {tile}"][0]
            done = [t for t in range(TILES) if at[f"product {t}"][0] < started]
            assert len(done) == max(0, tile - ahead), (name, tile)


def test_every_product_has_a_box_for_each_k(figure, traced):
    for name in traced:
        at = drawn(figure, name)
        assert [len(at[f"product {tile}"]) for tile in range(TILES)] == [8] * TILES


def test_one_barrier_for_each_tile_in_09_and_two_in_08(figure):
    assert len(drawn(figure, "08_warp_tiling")["barrier"]) == 2 * TILES
    one = drawn(figure, "09_double_buffering, STAGES=1")
    assert len(one["barrier"]) == 1 + TILES and one["wait"] == []
    three = drawn(figure, "09_double_buffering, STAGES=3")
    assert len(three["barrier"]) == len(three["wait"]) == TILES
    assert not any(gid.startswith("store") for gid in three)


def test_the_drawing_has_every_barrier_that_was_executed(figure, traced):
    for name, trace in traced.items():
        steps = trace.run.instructions((0, 0, 0), 0)
        executed = sum(step.opcode.startswith("bar") for step in steps)
        assert len(drawn(figure, name)["barrier"]) == executed


def test_buffers_take_turns(figure):
    named = [word for word in words(figure) if ", buffer " in word]
    assert named == [f"{tile}, buffer 0" for tile in range(4)] + [
        f"{tile}, buffer {tile % 2}" for tile in range(4)
    ] + [f"{tile}, buffer {tile % 3}" for tile in range(4)]  # fmt: skip


def test_the_caption_counts_what_lies_between_a_load_and_its_use(figure):
    assert "an order, not times" in figure.caption
    assert (
        f"0 in 08_warp_tiling, {PER_TILE} in 09_double_buffering, STAGES=1 and "
        f"{2 * PER_TILE:,} in 09_double_buffering, STAGES=3." in figure.caption
    )


def test_copies_alone_are_spoken_of_where_there_are_any(traced):
    figure = plots.timeline(traced["08_warp_tiling"], warp=3)
    assert "wait for copies" not in words(figure)
    assert "warp 3" in figure.caption


def test_waits_at_mbarriers_are_drawn_and_told_from_barriers():
    """A warp of 10 meets one barrier of the block, and waits at mbarriers around each tile."""
    settings = {"BM": 64, "BN": 64, "BK": 16, "TM": 4, "TN": 8}
    trace = gemmlab.load("10_register_banks", **settings).trace(64, 64, 64)
    figure = plots.timeline(trace)
    ax = axes(figure, "order 10_register_banks")
    drawn = {kind: len(by_gid(ax, kind)) for kind in ("barrier", "warp's barrier", "mbarrier")}
    empty = 2  # waits until a place is empty: for tiles 2 and 3, which are copied in the loop
    assert drawn == {"barrier": 1, "warp's barrier": TILES - 1, "mbarrier": TILES + empty}
    assert {"barrier of the warp", "wait at an mbarrier"} <= set(words(figure))


def test_the_key_has_the_colour_of_each_tile(figure, traced):
    assert {str(tile) for tile in range(TILES)} <= {text.get_text() for text in figure.texts}
    two = plots.timeline(gemmlab.load("08_warp_tiling").trace(128, 128, 16))
    assert "2" not in {text.get_text() for text in two.texts}


def test_no_tile_has_the_colour_of_a_matrix():
    assert not set(style.TILE_COLOURS) & set(style.ARRAYS.values())


def test_timeline_refuses(traced):
    with pytest.raises(ValueError, match="one trace or more"):
        plots.timeline()
    with pytest.raises(TypeError, match="timeline"):
        plots.timeline("09_double_buffering")
    with pytest.raises(ValueError, match="has no BK"):
        plots.timeline(gemmlab.load("02_coalescing").trace(64, 64, 4))
    with pytest.raises(ValueError, match="columns are too many"):
        plots.timeline(gemmlab.load("08_warp_tiling").trace(128, 128, 128))


def test_each_panel_says_what_is_done_while_a_tile_is_on_its_way(figure):
    start = "multiply-adds of a thread while a tile is on its way: "
    said = [word.removeprefix(start) for word in words(figure) if word.startswith(start)]
    assert said == ["0", str(PER_TILE), f"{2 * PER_TILE:,}"]
