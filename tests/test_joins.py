"""Ways to join the parts of K: which settings are compared, and which bits agree."""

from gemmlab.ladder.settings import ATOMICS, CLUSTER, JOINS
from gemmlab.lessons.split_k import measure as joins
from gemmlab.lessons.split_k import parts

RUNG = joins.RUNG
BEST = RUNG.defaults | {"SPLIT": 8, "JOIN": CLUSTER}


def test_all_ways_have_the_same_tile_and_as_many_parts_where_they_cut_k():
    ways = dict(joins.ways(BEST))
    assert list(ways) == list(JOINS)
    for join, settings in enumerate(ways.values()):
        assert settings["JOIN"] == join and RUNG.broken(settings) is None
        assert {**settings, "JOIN": 0, "SPLIT": 0} == {**BEST, "JOIN": 0, "SPLIT": 0}
    assert {settings["SPLIT"] for settings in ways.values()} == {1, 8}


SMALL = {"BM": 32, "BN": 32, "BK": 32, "TM": 4, "TN": 4, "SPLIT": 4}


def test_only_with_atomics_the_order_of_blocks_is_seen_in_the_bits():
    table = parts.in_orders(32, 32, 256, orders=4, sm_count=1, **SMALL)
    results = table["different results"]
    assert results[JOINS[ATOMICS]] > 1
    assert (results.drop(JOINS[ATOMICS]) == 1).all() and len(results) == 5
    changed = table["elements that differ"]
    assert 0 < changed[JOINS[ATOMICS]] <= 32 * 32
    assert (changed.drop(JOINS[ATOMICS]) == 0).all()
