"""The picture of a ring: what is drawn is what one warp did, place by place."""

from itertools import pairwise

import pytest
from figures import (  # noqa: F401
    axes,
    by_gid,
    test_all_of_it_can_be_read,
    test_no_text_lies_on_another,
    test_the_caption_has_a_number,
    test_the_caption_is_a_sentence_below_everything,
    the_one,
    words,
)
from matplotlib.patches import Rectangle
from test_ring import PLACES, SETTINGS, TILES, found, trace  # noqa: F401

import gemmlab
from gemmlab.lessons.register_banks import figures, ring


@pytest.fixture(scope="module")
def figure(found):  # noqa: F811
    return figures.ring(found)


def left(artist):
    return artist.get_x() if hasattr(artist, "get_x") else artist.get_xdata()[0]


def test_every_event_is_drawn_once_from_left_to_right(figure, found):  # noqa: F811
    gids = [f"{event.kind} {event.tile}" for event in found.events]
    drawn = [left(the_one(figure, gid)) for gid in gids]
    assert drawn == sorted(drawn) and len(set(drawn)) == len(drawn)


def test_a_tile_lies_in_the_row_of_its_place(figure, found):  # noqa: F811
    tops = {}
    for event in found.events:
        if event.kind in (ring.COPIES, ring.READS):
            cell = the_one(figure, f"{event.kind} {event.tile}")
            tops.setdefault(event.place, set()).add(cell.get_y())
    assert sorted(tops) == list(range(PLACES)) and all(len(one) == 1 for one in tops.values())
    rows = [tops[place].pop() for place in range(PLACES)]
    assert rows == sorted(rows) and len(set(rows)) == PLACES
    assert {f"place {place}" for place in range(PLACES)} <= set(words(figure))


def test_a_tile_is_on_its_way_until_the_wait_for_it(figure):
    for tile in range(TILES):
        (way,) = by_gid(axes(figure, "ring"), f"way {tile}")
        start, end = way.get_xdata()
        assert left(the_one(figure, f"copies {tile}")) < start < end
        assert end == left(the_one(figure, f"awaits full {tile}"))


def test_copies_differ_from_reads_and_the_two_waits_from_each_other(figure):
    assert the_one(figure, "copies 3").get_hatch() and not the_one(figure, "reads 3").get_hatch()
    waits = [the_one(figure, f"awaits {what} 3").get_linestyle() for what in ("full", "empty")]
    assert waits[0] != waits[1]


def test_a_colour_is_a_tile_and_the_key_has_none_of_them(figure):
    edges = [the_one(figure, f"reads {tile}").get_edgecolor() for tile in range(TILES)]
    assert all(one != other for one, other in pairwise(edges))
    in_key = [one for one in figure.artists if isinstance(one, Rectangle)]
    assert in_key and not {one.get_edgecolor() for one in in_key} & set(edges)
    assert "neighbouring tiles have different colours" in words(figure)


def test_the_caption_says_who_fills_and_who_reads(figure):
    assert "an order, not times" in figure.caption
    assert "Of the 2,048 elements of a tile this warp copies 512 and reads 1,280." in figure.caption
    assert "Of the block's 4 warps all do the same" in figure.caption


def test_ring_refuses():
    with pytest.raises(TypeError, match=r"ring takes what ring\.of"):
        figures.ring("10_register_banks")
    many = gemmlab.load("10_register_banks", **SETTINGS).trace(64, 64, 320)
    with pytest.raises(ValueError, match="20 tiles do not fit"):
        figures.ring(ring.of(many))


def test_a_batch_has_a_colour_for_each_product_and_a_row_for_c():
    kernel = gemmlab.load("13_batched", RESIDENT=1).scheduled_for(2)
    of_batch = ring.of(kernel.trace(64, 64, 32, batch=6))
    figure = figures.ring(of_batch)
    colours = {}
    for event in of_batch.events:
        if event.kind in (ring.READS, ring.STORES):
            (cell,) = by_gid(figure, f"{event.kind} {event.tile}")
            product, _ = of_batch.product(event.tile)
            colours.setdefault(product, set()).add(cell.get_facecolor())
    assert all(len(own) == 1 for own in colours.values())
    assert len({own.pop() for own in colours.values()}) == len(colours) == 3
    assert {"product 0", "product 2", "product 4", "C"} <= set(words(figure))
    stores = [cell.get_y() for cell in by_gid(figure, ring.STORES)]
    reads = [cell.get_y() for cell in by_gid(figure, ring.READS)]
    assert len(set(stores)) == 1 and min(stores) > max(reads)
