"""Searches of settings: the space is the ladder's, the replay the record, every proposal legal."""

import json

import pytest
from kernel_tuner.searchspace import Searchspace

from gemmlab import ladder
from gemmlab.lessons.autotuning import exercises, tuner
from gemmlab.lessons.autotuning import space as landscape
from gemmlab.lessons.autotuning import space as recorded
from gemmlab.lessons.autotuning.space import space_of
from gemmlab.records import tuning

SQUARE, ODD = (4096, 4096, 4096), (1001, 777, 513)
NINE, TEN = "09_double_buffering", "10_register_banks"
THREADS = 1 << 30  # no limit of Kernel Tuner's own

every_strategy = pytest.mark.parametrize("strategy", tuner.STRATEGIES)


@pytest.fixture(scope="module")
def known():
    return recorded.recorded(NINE, SQUARE)


@pytest.mark.parametrize("name", [NINE, TEN, "18_persistent"])
def test_the_restrictions_leave_what_the_ladder_calls_legal(name):
    space = space_of(name, SQUARE)
    values = {name: list(some) for name, some in space.values.items()}
    legal = Searchspace(values, tuner.restrictions(space), THREADS).list
    settings = {tuple(space.settings(point).items()) for point in legal}
    expected = {tuple(settings.items()) for settings in ladder.tuned_settings(ladder.find(name))}
    assert settings == expected and len(legal) == len(expected) == len(space.legal())


def test_the_cache_holds_the_record(known, tmp_path):
    written = json.loads(tuner.write_cache(tmp_path / "a.json", known).read_text())
    rows = tuning.at(tuning.recorded(NINE), SQUARE)
    expected = {
        tuple(row[list(known.space.names)].astype(int)): row["time_ms"]
        for _, row in rows.iterrows()
    }
    assert {
        tuple(result[n] for n in known.space.names): result["time"]
        for result in written["cache"].values()
    } == expected
    assert all(
        key == ",".join(str(result[n]) for n in known.space.names)
        for key, result in written["cache"].items()
    )
    assert written["tune_params_keys"] == list(known.space.names)


@every_strategy
def test_a_strategy_proposes_only_legal_settings_each_once_and_no_more_than_the_budget(
    known, strategy
):
    legal = set(known.space.legal())
    for budget in (1, 12, 40):
        for seed in range(3):
            points = tuner.replay(known, strategy, budget, seed).points
            assert 1 <= len(points) <= budget and len(set(points)) == len(points)
            assert set(points) <= legal


@every_strategy
def test_the_same_seed_searches_the_same_way(known, strategy):
    first, again = (tuner.replay(known, strategy, 20, 3) for _ in range(2))
    assert first == again


def test_a_strategy_is_counted_until_it_has_found_nearly_the_fastest(known, monkeypatch):
    monkeypatch.setattr(tuner, "SEEDS", 3)
    searches = [tuner.replay(known, "random", tuner.EVALUATIONS, seed) for seed in range(3)]
    needed = [
        sum(known.best_ms / time_ms < tuner.NEAR for time_ms in search.best_so_far()) + 1
        for search in searches
    ]
    assert tuner.compare(known).loc["random", "to 98 %"] == f"{sorted(needed)[1]}"


# ---- the landscape -------------------------------------------------------------------------------


def test_neighbours_differ_in_one_parameter_and_see_each_other(known):
    land = landscape.landscape(known)
    for point, near in land.neighbours.items():
        for other in near:
            assert sum(a != b for a, b in zip(point, other, strict=True)) == 1
            assert point in land.neighbours[other]


def test_every_way_down_ends_where_no_neighbour_is_faster(known):
    land = landscape.landscape(known)
    assert land.valleys[0] == known.best
    for valley in land.valleys:
        assert all(
            known.times_ms[valley] <= known.times_ms[point] for point in land.neighbours[valley]
        )
    assert set(land.ends) == set(known.times_ms)


# ---- the exercises -------------------------------------------------------------------------------


def printed(capsys):
    return capsys.readouterr().out


def test_a_restriction_is_held_against_the_ladder(capsys):
    def check(allows):
        exercises.check_restriction(allows, "09_double_buffering", "even shares")
        return printed(capsys)

    def right(BM, BN, BK, WM, WN, STAGES):
        threads = 32 * (BM // WM) * (BN // WN)
        return BM * BK // 4 % threads == 0 and BN * BK // 4 % threads == 0

    assert check(right).startswith("Right: it allows the same 148 of 192")
    assert check(lambda **of: True).startswith("Not yet: it allows BM=")
    assert check(lambda **of: False).startswith("Not yet: it forbids BM=")


def test_a_step_must_beat_drawing_at_random(capsys):
    odd = recorded.recorded("09_double_buffering", ODD)

    def faster(point, neighbours, time_of):
        return next(
            (neighbour for neighbour in neighbours if time_of(neighbour) < time_of(point)), None
        )

    for step, begins in (
        (faster, "Right"), (lambda *of: None, "Not yet"),
        (lambda point, neighbours, time_of: max(neighbours, key=time_of), "Not yet"),
    ):  # fmt: skip
        exercises.check_step(step, odd)
        assert printed(capsys).startswith(begins)
    with pytest.raises(ValueError, match="is no recorded setting"):
        exercises.check_step(lambda *of: (1, 2, 3), odd)


def test_the_forgotten_restriction_is_found_by_name(capsys):
    space = exercises.forgotten("09_double_buffering")
    wrong = exercises.proposed_wrongly(space)
    assert wrong and not set(wrong) & set(space.legal())
    for answer, begins in ((None, "Not answered"), ("registers", "Not yet: 'registers' is there"),
                           ("x", "Not yet: 'x' is none of"), ("even shares", "Right")):  # fmt: skip
        exercises.find_forgotten(space, answer)
        assert printed(capsys).startswith(begins)
