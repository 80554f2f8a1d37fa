"""Ways to join the parts of K: which settings are compared, what is the same, what is told."""

from types import SimpleNamespace

import numpy as np
import pytest
import sample_record

from gemmlab.cuda.device import GpuState
from gemmlab.ladder.settings import ATOMICS, CLUSTER, JOINS
from gemmlab.lessons.split_k import measure as joins
from gemmlab.lessons.split_k import tables as told
from gemmlab.lessons.split_k.rung import TRIED
from gemmlab.measure.timing import Race
from gemmlab.records import registry

RUNG = joins.RUNG
BEST = RUNG.defaults | {"SPLIT": 8, "JOIN": CLUSTER}


def test_all_ways_have_the_same_tile_and_as_many_parts_where_they_cut_k():
    found = dict(joins.ways(BEST))
    assert list(found) == list(JOINS)
    for join, settings in enumerate(found.values()):
        assert settings["JOIN"] == join and RUNG.broken(settings) is None
        assert {**settings, "JOIN": 0, "SPLIT": 0} == {**BEST, "JOIN": 0, "SPLIT": 0}
    assert {one["SPLIT"] for one in found.values()} == {1, 8}


def test_what_cannot_be_had_is_left_out():
    assert JOINS[CLUSTER] not in dict(joins.ways(BEST | {"SPLIT": 66}))


def test_shapes_that_are_compared_are_swept():
    assert {*joins.SHAPES, joins.REPEATED} <= set(TRIED)


def test_results_are_compared_by_their_bits():
    one = np.array([1.0, -2.0, 0.0], np.float32)
    other = one.copy()
    other[1] = np.nextafter(other[1], np.float32(0))
    assert joins._compared([one, one]) == {"results": 1, "elements": 0, "most_ulps": 0}
    assert joins._compared([one, other, one]) == {"results": 2, "elements": 1, "most_ulps": 1}


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """A GPU on which every way takes a time of its own, and small products that are repeated."""
    here = SimpleNamespace(arch="sm_90a", name="NVIDIA Test", slug="nvidia-test")

    class Arena:
        def __init__(self, problem, dtype):
            self.problem = problem

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def side(self, kernel):
            return kernel

        def race(self, kernel, side, pairs):
            time = 1.0 + kernel.settings["JOIN"]
            return Race([time] * pairs, [4.0] * pairs, GpuState(1980, 400.0, 50))

    sample_record.measure_on(monkeypatch, joins, gpu=here)
    monkeypatch.setattr(joins, "require_verified", lambda kernel: None)
    monkeypatch.setattr(joins, "Arena", Arena)
    monkeypatch.setattr(joins, "SHAPES", ((64, 64, 65536), (1536, 1536, 1536)))
    monkeypatch.setattr(joins, "REPEATED", (40, 36, 50))
    monkeypatch.setattr(joins, "TIMES", 2)
    best = SimpleNamespace(settings=RUNG.defaults)
    monkeypatch.setattr(joins.tuning, "for_shape", lambda *_: best)
    (tmp_path / here.slug).mkdir()
    monkeypatch.setattr(registry, "RESULTS", tmp_path)
    monkeypatch.setattr(registry, "folders", lambda: [tmp_path / here.slug])


def test_what_is_measured_is_told_by_shape_and_by_way(made_up):
    joins.TIMES_OF_JOINS.remake(lambda said: None)
    table = told.times()
    assert list(table.index) == ["64×64×65536", "1536×1536×1536"]
    assert table[list(JOINS)].to_numpy().tolist() == [[1000.0 * n for n in range(1, 8)]] * 2
    assert set(table["cuBLAS"]) == {4000.0} and set(table["parts"]) == {RUNG.defaults["SPLIT"]}


def test_in_the_simulator_every_way_repeats(made_up):
    joins.REPEATS.remake(lambda said: None)
    assert set(told.bits()["different results"]) == {1} and list(told.bits().index) == list(JOINS)


def test_on_the_recorded_gpu_only_atomics_do_not_repeat():
    table = joins.repeats().set_index("join")
    differ = table["results"] > 1
    assert differ[JOINS[ATOMICS]] and differ.sum() == 1
