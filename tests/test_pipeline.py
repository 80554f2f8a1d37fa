"""A pipeline of tiles, read out of a trace: who fills and reads a place, and in which order."""

import pytest

import gemmlab
from gemmlab.lessons.register_banks import pipeline

BK, TILES, PLACES = 16, 6, 3
SHAPE = (64, 64, BK * TILES)
SETTINGS = {"BM": 64, "BN": 64, "BK": BK, "TM": 4, "TN": 8}


@pytest.fixture(scope="module")
def trace():
    return gemmlab.load("10_register_banks", **SETTINGS).trace(*SHAPE)


@pytest.fixture(scope="module")
def of_warp(trace):
    return pipeline.of(trace)


def at(of_warp, kind, tile):
    """Where in the order a warp does this with a tile; it does it once."""
    (place,) = [
        n for n, event in enumerate(of_warp.events) if (event.kind, event.tile) == (kind, tile)
    ]  # fmt: skip
    return place


def test_tiles_take_the_places_in_turn(of_warp):
    assert of_warp.places == PLACES
    for event in of_warp.events:
        assert event.place == event.tile % PLACES


def test_every_tile_is_copied_awaited_and_read_in_this_order(of_warp):
    kinds = pipeline.COPIES, pipeline.LEAVES_FULL, pipeline.AWAITS_FULL, pipeline.READS
    for tile in range(TILES):
        order = [at(of_warp, kind, tile) for kind in kinds]
        assert order == sorted(order)
    reads = [event.tile for event in of_warp.events if event.kind == pipeline.READS]
    assert reads == list(range(TILES))


def test_a_place_is_refilled_only_after_it_was_read_and_released(of_warp):
    for tile in range(PLACES, TILES):
        read, released, waited, copied = (
            at(of_warp, pipeline.READS, tile - PLACES),
            at(of_warp, pipeline.ARRIVES_EMPTY, tile - PLACES),
            at(of_warp, pipeline.AWAITS_EMPTY, tile), at(of_warp, pipeline.COPIES, tile),
        )  # fmt: skip
        assert read < released < waited < copied


def test_the_ring_of_a_batch_goes_on_from_product_to_product():
    """Copies of the next product start before the last tile of one is read, and C is stored after
    that. With layouts and sizes in which no two matrices are indexed alike."""
    kernel = gemmlab.load("13_batched", OP_A=1, OP_B=1, RESIDENT=1).scheduled_for(2)
    of_batch = pipeline.of(kernel.trace(64, 48, 2 * BK, batch=6))
    order = [of_batch.product(e.tile) for e in of_batch.events if e.kind == pipeline.READS]
    assert order == [(product, tile) for product in (0, 2, 4) for tile in (0, 1)]
    for before, product in ((0, 2), (2, 4)):
        last_read = at(of_batch, pipeline.READS, 2 * before + 1)
        assert at(of_batch, pipeline.COPIES, 2 * product) < last_read
        assert last_read < at(of_batch, pipeline.STORES, 2 * before + 1)
    assert of_batch.places == 3 and of_batch.elements == (64 + 48) * BK
