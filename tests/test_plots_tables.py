"""Figures of lessons' records: they can be read, and say where their numbers come from."""

import pandas
import pytest
from figures import test_it_can_be_read, words  # noqa: F401

from gemmlab import plots
from gemmlab.analysis import recorded as chosen
from gemmlab.ladder import Problem
from gemmlab.ladder.problem import GROUPS
from gemmlab.lessons.autotuning import figures as autotuning
from gemmlab.lessons.autotuning import space, tuner
from gemmlab.lessons.autotuning.lab import SearchLab
from gemmlab.lessons.batched import figures as batched
from gemmlab.lessons.batched import measure as batched_measure
from gemmlab.lessons.fp32_summit import figures as fp32_summit
from gemmlab.lessons.fp32_summit import tables as fp32_summit_tables
from gemmlab.lessons.fused_epilogue import figures as fused
from gemmlab.lessons.fused_epilogue import measure as fused_measure
from gemmlab.lessons.persistent import figures as persistent
from gemmlab.lessons.persistent import measure as persistent_measure
from gemmlab.lessons.register_banks import figures as register_banks
from gemmlab.lessons.register_banks.measure import fma_order
from gemmlab.lessons.split_k import figures as split_k
from gemmlab.lessons.split_k import measure as split_k_measure
from gemmlab.products import choosing

CONTEXT = {"gpu": "NVIDIA Test", "recorded": "2026-11-21T10:00:00"}
SQUARE, ODD = (4096, 4096, 4096), (1001, 777, 513)
NINE, TEN = "09_double_buffering", "10_register_banks"


# ---- a made-up path -----------------------------------------------------------------------------

STEPS = (
    ("as it was", "", True, 48.4, 94.6),
    ("the FMAs in an order that goes down one column of a thread's tile and up the next",
     "every FMA reuses one operand, none waits, and slots alone let expect 62", True, 53, 99),
    ("a kernel that transposes beforehand", "whole lines", False, 51.0, 100.1),
    ("the end", "no warp waits for another", True, 58.0, 113.5),
)  # fmt: skip


def path_table():
    names = ("step", "predicted", "taken", "TFLOP/s", "% of cuBLAS")
    context = {"cuBLAS TFLOP/s": 51.1, **CONTEXT}
    return pandas.DataFrame(dict(zip(names, step, strict=True)) | context for step in STEPS)


@pytest.fixture(scope="module")
def nine():
    return space.recorded(NINE, SQUARE)


# ---- every figure --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def figures(nine):
    joins = split_k_measure.TIMES_OF_JOINS.read()
    cycles = fp32_summit_tables.cycles({TEN: 3.0, "22_fp32_summit": 0.3})
    marks = persistent_measure.tiles()
    return {
        "all cycles": fp32_summit.all_cycles(cycles),
        "batches": batched.batches(batched_measure.TABLE.read()),
        "epilogue": fused.epilogue(fused_measure.TABLE.read()),
        "FMA order": register_banks.orders(fma_order()),
        "joins": split_k.joins(joins[joins["join"].isin([split_k.WHOLE, split_k.SPLIT])]),
        "loads ahead": register_banks.loads_ahead(NINE, TEN),
        "passes": fused.passes(),
        "path": plots.path(path_table()),
        "tile changes": persistent.tile_changes(marks[marks["how"].str.startswith("no clusters")]),
        "landscape": autotuning.landscape(space.landscape(nine), space.recorded(NINE, ODD)),
        "one search": autotuning.one_search(tuner.replay(nine, "genetic", 30, 1)),
    }


NAMES = ("all cycles", "batches", "epilogue", "FMA order", "joins", "loads ahead", "passes", "path",
         "tile changes", "landscape", "one search")  # fmt: skip
DRAWN = {"all cycles", "loads ahead", "passes", "tile changes"}


@pytest.fixture(params=NAMES)
def figure(request, figures):
    return figures[request.param]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in DRAWN])
def test_the_figures_say_where_numbers_come_from(name, figures):
    assert any("NVIDIA" in line and ", recorded 20" in line for line in words(figures[name]))


# ---- joins, paths --------------------------------------------------------------------------------


def test_a_step_counts_from_the_one_kept_before_and_a_road_not_taken_from_the_end(figures):
    figure = figures["path"]
    labels = [line.replace("\n", " ") for line in words(figure)]
    assert {"+4.4", "−13.4", "+14.5", *(step[0] for step in STEPS)} <= set(labels)
    assert figure.caption == (
        "2 steps change the speed by +18.9 points of cuBLAS's, each measured beside it; together "
        "48.4 TFLOP/s become 58.0 TFLOP/s; and 1 road not taken."
    )
    assert plots.path(path_table(), caption="Two steps.").caption == "Two steps."


# ---- searches ------------------------------------------------------------------------------------


def test_moves_of_the_search_s_sliders_are_searches():
    lab = SearchLab(TEN)
    first = lab.picture.value
    lab.strategy.value, lab.budget.value, lab.seed.value = "annealing", 35, 4
    search = tuner.replay(space.recorded(TEN, SQUARE), "annealing", 35, 4)
    assert lab.picture.value != first and bytes(first).startswith(b"\x89PNG")
    assert f"{len(search.points)} of 35 settings" in lab.message.value
    assert repr(lab).startswith("Sliders for a search of 10_register_banks")
    for strategy in tuner.STRATEGIES:
        lab.strategy.value, lab.budget.value = strategy, 1
        assert "after 1 of 35" in lab.message.value


# ---- shares and choices over shapes --------------------------------------------------------------


def test_shares_are_those_of_the_record_in_groups():
    shares = chosen.chosen_shares()
    problems = set(choosing.taken())
    assert set(shares["dtype"]) == {"float32"}
    assert len(shares) == len(problems) and list(shares["group"])[-1] in ("large", "batches")
    for row in shares.itertuples():
        best = choosing.at(Problem(row.m, row.n, row.k, row.batch))
        assert (row.kernel, row.pct_cublas) == (best.rung.name, 100 * best.share)
        in_set = [group for group, several in GROUPS.items() if best.problem in several]
        assert row.group == (in_set[0] if in_set else "large")
