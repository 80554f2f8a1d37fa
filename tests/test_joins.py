"""Ways to join the parts of K: which settings are compared, what is the same, what is told."""

import numpy as np

from gemmlab.ladder.settings import ATOMICS, CLUSTER, JOINS
from gemmlab.lessons.split_k import measure as joins
from gemmlab.lessons.split_k.rung import TRIED

RUNG = joins.RUNG
BEST = RUNG.defaults | {"SPLIT": 8, "JOIN": CLUSTER}


def test_all_ways_have_the_same_tile_and_as_many_parts_where_they_cut_k():
    found = dict(joins.ways(BEST))
    assert list(found) == list(JOINS)
    for join, settings in enumerate(found.values()):
        assert settings["JOIN"] == join and RUNG.broken(settings) is None
        assert {**settings, "JOIN": 0, "SPLIT": 0} == {**BEST, "JOIN": 0, "SPLIT": 0}
    assert {one["SPLIT"] for one in found.values()} == {1, 8}


def test_shapes_that_are_compared_are_swept():
    assert {*joins.SHAPES, joins.REPEATED} <= set(TRIED)


def test_results_are_compared_by_their_bits():
    one = np.array([1.0, -2.0, 0.0], np.float32)
    other = one.copy()
    other[1] = np.nextafter(other[1], np.float32(0))
    assert joins._compared([one, one]) == {"results": 1, "elements": 0, "most_ulps": 0}
    assert joins._compared([one, other, one]) == {"results": 2, "elements": 1, "most_ulps": 1}


def test_on_the_recorded_gpu_only_atomics_do_not_repeat():
    table = joins.REPEATS.read().set_index("join")
    differ = table["results"] > 1
    assert differ[JOINS[ATOMICS]] and differ.sum() == 1
