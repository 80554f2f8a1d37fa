"""The cost model ranks settings from counts: its terms, and its ranking against the record."""

import pytest

from gemmlab.ladder import IllegalSetting, Problem, find
from gemmlab.lessons.autotuning import cost_model, shape_rule
from gemmlab.lessons.autotuning import exercises as search_exercises
from gemmlab.lessons.autotuning import space as recorded
from gemmlab.lessons.autotuning.cost_model import Counts, Machine

GPU = Machine(sms=10, instructions=100.0, wavefronts=50.0, l2_bytes=1000.0, dram_bytes=500.0)
BLOCK = Counts(
    instructions=8.0, wavefronts=2.0, bytes=4.0, tile=(64, 64), depth=16, warps=4,
    resident=2,
)  # fmt: skip
SQUARE, ODD = (4096, 4096, 4096), (1001, 777, 513)


def test_a_full_round_takes_what_all_of_its_blocks_issue():
    problem = Problem(64 * 4, 64 * 5, 16 * 3)  # 20 tiles, 2 for each SM, 3 steps
    terms = cost_model.terms(BLOCK, problem, GPU)
    assert cost_model.rounds(BLOCK, problem, GPU) == [(1, 2)]
    assert terms.issue == pytest.approx(3 * 2 * 8 / 100)
    assert terms.shared_memory == pytest.approx(3 * 2 * 2 / 50)
    assert terms.l2 == pytest.approx(20 * 3 * 4 / 1000)
    assert terms.dram == pytest.approx(4 * (256 * 48 + 48 * 320 + 256 * 320) / 500)
    assert terms.seconds == terms.dram and terms.holds == "dram"


def test_counts_are_those_of_the_compiled_kernel():
    rung = find("10_register_banks")
    counts = cost_model.counts(rung, rung.defaults)
    rows, columns = counts.tile
    multiply_adds = rows * columns * counts.depth / 32
    assert multiply_adds < counts.instructions < 1.2 * multiply_adds
    asked = 4 * counts.depth * (rows + columns)
    assert asked <= counts.bytes < 1.25 * asked  # in whole sectors
    assert counts.wavefronts * 32 * 4 > counts.bytes  # what is brought is stored, and read again
    assert (counts.warps, counts.resident) == (8, 1)


@pytest.mark.parametrize("name", ["12_split_k", "14_wmma", "17_warp_specialized"])
def test_rungs_that_the_model_is_not_for_are_refused(name):
    rung = find(name)
    settings = rung.defaults | ({"SPLIT": 2} if name == "12_split_k" else {})
    with pytest.raises(IllegalSetting, match=f"whose blocks compute a tile each.*{name}"):
        cost_model.counts(rung, settings)


@pytest.mark.parametrize("name", ["06_vectorized_loads", "10_register_banks"])
def test_the_ranking_is_better_than_chance_and_no_setting_is_faster_than_predicted(name):
    """Nothing in the model is fitted to these rungs. By chance the rank correlation of n settings
    is above 3.1 / sqrt(n - 1) once in a thousand times."""
    known = recorded.recorded(name, SQUARE)
    predicted = cost_model.predictions(known)
    judged = cost_model.judged(known, predicted)
    assert judged.correlation > 3.1 / (judged.settings - 1) ** 0.5
    assert all(1e3 * predicted[p].seconds < known.times_ms[p] for p in predicted)
    assert judged.best_after[-1] == 1
    assert judged.best_after[judged.until_near - 1] >= 0.98


# ---- rules for new shapes ------------------------------------------------------------------------


def test_no_rule_sees_the_shape_that_is_left_out():
    seen = []

    def watching(shape, others):
        seen.append((shape, set(others)))
        return next(iter(others.values())).best

    (judged,) = shape_rule.judged("10_register_banks", {"watching": watching})
    shapes = set(shape_rule.shapes_of("10_register_banks"))
    assert {shape for shape, _ in seen} == shapes
    assert all(others == shapes - {shape} for shape, others in seen)
    assert 0 < min(judged.shares.values()) <= judged.mean <= max(judged.shares.values()) <= 1


# ---- the exercises -------------------------------------------------------------------------------


def printed(capsys):
    return capsys.readouterr().out


def test_a_restriction_is_held_against_the_ladder(capsys):
    def check(allows):
        search_exercises.check_restriction(allows, "09_double_buffering", "even shares")
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
        search_exercises.check_step(step, odd)
        assert printed(capsys).startswith(begins)
    with pytest.raises(ValueError, match="is no recorded setting"):
        search_exercises.check_step(lambda *of: (1, 2, 3), odd)


def test_a_term_must_better_the_ranking(capsys):
    late = recorded.recorded("06_vectorized_loads", ODD)

    def waits(counts, problem, gpu):
        a_step = counts.instructions / gpu.instructions
        rounds = sum(times for times, together in cost_model.rounds(counts, problem, gpu))
        return rounds * counts.steps(problem) * (0.3e-6 + a_step)

    for term, begins in ((waits, "Right"), (lambda *of: 0.0, "Not yet"), (lambda *of: 1.0, "Not")):
        search_exercises.check_term(term, late)
        assert printed(capsys).startswith(begins)


def test_the_forgotten_restriction_is_found_by_name(capsys):
    space = search_exercises.forgotten("09_double_buffering")
    wrong = search_exercises.proposed_wrongly(space)
    assert wrong and not set(wrong) & set(space.legal())
    for answer, begins in ((None, "Not answered"), ("registers", "Not yet: 'registers' is there"),
                           ("x", "Not yet: 'x' is none of"), ("even shares", "Right")):  # fmt: skip
        search_exercises.find_forgotten(space, answer)
        assert printed(capsys).startswith(begins)
