"""Figures of searches: what they draw is what they are given."""

import numpy
import pytest
from figures import *  # noqa: F403
from figures import axes, words

from gemmlab.lessons.autotuning import figures as autotuning_figures
from gemmlab.lessons.autotuning import shape_rule, space, tuner
from gemmlab.lessons.autotuning.cost_model import Terms
from gemmlab.lessons.autotuning.lab import search_lab

SQUARE, ODD = (4096, 4096, 4096), (1001, 777, 513)
NINE, TEN = "09_double_buffering", "10_register_banks"
NAMES = ("exhaustive", "random", "genetic", "annealing")


def made_up(known):
    """Predictions that are right but for a factor; each term is the longest of some."""
    points = list(known.times_ms)
    terms = ("issue", "shared_memory", "l2", "dram")
    blank = dict.fromkeys(terms, 0.0)
    return {
        point: Terms(**blank | {terms[at % 4]: 0.7e-3 * known.times_ms[point]})
        for at, point in enumerate(points)
    }


def every():
    nine, odd, ten = (space.recorded(*one) for one in ((NINE, SQUARE), (NINE, ODD), (TEN, SQUARE)))  # fmt: skip # noqa: E501
    searched = tuner.compare(nine, NAMES, 45, seeds=4)
    rules = shape_rule.judged(TEN, {n: shape_rule.RULES[n] for n in list(shape_rule.RULES)[:3]})
    return {
        "landscape": autotuning_figures.landscape(space.landscape(nine), odd),
        "best found": autotuning_figures.best_found(searched),
        "one search": autotuning_figures.one_search(tuner.replay(nine, "genetic", 30, 1), nine),
        "predicted": autotuning_figures.predicted(
            [(nine, made_up(nine)), (ten, made_up(ten))], searched[1]
        ),
        "rules": autotuning_figures.rules(TEN, rules, nine.source),
    }


@pytest.fixture(scope="module")
def figures():
    return every()


@pytest.fixture(params=["landscape", "best found", "one search", "predicted", "rules"])
def figure(request, figures):
    return figures[request.param]


def test_the_figures_say_where_times_come_from(figure):
    assert any("NVIDIA H200, recorded" in one for one in words(figure))


def test_every_setting_is_a_dot_of_the_landscape(figures):
    known = space.recorded(NINE, SQUARE)
    ax = axes(figures["landscape"], "valleys")
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    heights = sorted(float(line.get_ydata()[0]) for line in dots)
    assert heights == pytest.approx(sorted(100 * known.share(point) for point in known.times_ms))


def test_each_panel_has_the_median_of_its_strategy(figures):
    known = space.recorded(NINE, SQUARE)
    ax = axes(figures["best found"], "strategy genetic")
    wanted = 100 * tuner.trials(known, "genetic", 45, seeds=4).quartiles()[1]
    assert any(
        numpy.allclose(line.get_ydata(), wanted) for line in ax.lines if len(line.get_ydata()) == 45
    )


def test_predictions_in_the_right_order_need_one_measurement(figures):
    assert "1 of 113 settings (correlation of ranks 1.00)" in figures["predicted"].caption
    for what in ("issue slots", "shared memory", "L2", "DRAM"):
        assert what in words(figures["predicted"])


def test_nothing_to_draw_is_an_error():
    with pytest.raises(ValueError, match="no trials"):
        autotuning_figures.best_found([])
    with pytest.raises(ValueError, match="not 0"):
        autotuning_figures.rules(TEN, [], "")


# ---- the sliders ---------------------------------------------------------------------------------


def test_moves_are_searches():
    lab = search_lab(TEN)
    first = lab.picture.value
    lab.strategy.value, lab.budget.value, lab.seed.value = "annealing", 35, 4
    found = tuner.replay(space.recorded(TEN, SQUARE), "annealing", 35, 4)
    assert lab.picture.value != first and bytes(first).startswith(b"\x89PNG")
    assert f"{len(found.evaluated)} of 35 settings" in lab.message.value
    assert repr(lab).startswith("Sliders for a search of 10_register_banks")
    for strategy in tuner.STRATEGIES:
        lab.strategy.value, lab.budget.value = strategy, 1
        assert "after 1 of 35" in lab.message.value
