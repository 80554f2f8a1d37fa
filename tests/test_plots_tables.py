"""Figures of lessons' tables: every bar, curve and marker stands where its table says."""

import pandas
import pytest
from figures import test_it_can_be_read, words  # noqa: F401

from gemmlab import plots
from gemmlab.analysis import recorded as chosen
from gemmlab.ladder import Problem
from gemmlab.ladder.problem import GROUPS
from gemmlab.lessons.autotuning import figures as autotuning
from gemmlab.lessons.autotuning import space, tuner
from gemmlab.lessons.autotuning.lab import search_lab
from gemmlab.lessons.batched import figures as batched
from gemmlab.lessons.batched.measure import BATCHES, ONE, SIZES
from gemmlab.lessons.batched.measure import WAYS as BATCH_WAYS
from gemmlab.lessons.fused_epilogue import figures as fused
from gemmlab.lessons.fused_epilogue.epilogues import CURVE_OF, WAYS
from gemmlab.lessons.register_banks import figures as register_banks
from gemmlab.lessons.register_banks.measure import ORDERS, VARIANTS
from gemmlab.lessons.split_k import figures as split_k
from gemmlab.products import choosing

CONTEXT = {"gpu": "NVIDIA Test", "recorded": "2026-11-21T10:00:00"}
SQUARE, ODD = (4096, 4096, 4096), (1001, 777, 513)
NINE, TEN = "09_double_buffering", "10_register_banks"


# ---- made-up tables ------------------------------------------------------------------------------

MS = {way: 0.001 * (at + 1) for at, way in enumerate(BATCH_WAYS)}  # of a product


def batch_table():
    return pandas.DataFrame(
        {"way": way, "m": size, "n": size, "k": size, "batch": batch,
         "time_ms": MS[way] * size * (batch**0.5 if way == ONE else batch), **CONTEXT}
        for size in SIZES for batch in BATCHES for way in BATCH_WAYS
    )  # fmt: skip


RATIOS = {way: 1 + 0.3 * at for at, way in enumerate(WAYS)}
DEPTHS = (64, 256, 1024)


def epilogue_table(last=0.3):
    """At M=N=1024 the ways get faster with K; `last` of their ratios at the deepest K."""
    return pandas.DataFrame(
        {"m": side, "n": side, "k": depth, "activation": CURVE_OF, "way": way,
         "ratio": RATIOS[way] * (share if side == 1024 else 1), **CONTEXT}
        for side in (1024, 8192)
        for depth, share in zip(DEPTHS, (1.0, 0.3, last), strict=True)
        for way in WAYS
    )  # fmt: skip


def order_table():
    """The later an order, the faster; a load costs 1."""
    return pandas.DataFrame(
        {
            "tile": f"{variant.rows}×{variant.columns}", "order": ORDERS[variant.order],
            "loads": variant.loads, "roof TFLOP/s": 65.6, **CONTEXT,
            "measured TFLOP/s": 50.0 + 3 * variant.order - variant.loads,
        }
        for variant in VARIANTS
    )  # fmt: skip


SHAPES = ((64, 64, 65536), (1536, 1536, 1536), ODD)


def join_table():
    return pandas.DataFrame(
        {
            "m": m, "n": n, "k": k, "join": join, "pct_cublas": share + 30 * at,
            "settings": f"BM=64 BN=128 SPLIT={parts}", **CONTEXT,
        }
        for at, (m, n, k) in enumerate(SHAPES)
        for join, parts, share in ((split_k.WHOLE, 1, 50.0), (split_k.SPLIT, 4, 90.0))
    )  # fmt: skip


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
    return {
        "batches": batched.batches(batch_table()),
        "epilogue": fused.epilogue(epilogue_table()),
        "FMA order": register_banks.orders(order_table()),
        "joins": split_k.joins(join_table()),
        "path": plots.path(path_table()),
        "landscape": autotuning.landscape(space.landscape(nine), space.recorded(NINE, ODD)),
        "one search": autotuning.one_search(tuner.replay(nine, "genetic", 30, 1), nine),
    }


NAMES = ("batches", "epilogue", "FMA order", "joins", "path", "landscape", "one search")


@pytest.fixture(params=NAMES)
def figure(request, figures):
    return figures[request.param]


def test_the_figures_say_where_numbers_come_from(figure):
    assert any("NVIDIA" in line and ", recorded 20" in line for line in words(figure))


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
    lab = search_lab(TEN)
    first = lab.picture.value
    lab.strategy.value, lab.budget.value, lab.seed.value = "annealing", 35, 4
    search = tuner.replay(space.recorded(TEN, SQUARE), "annealing", 35, 4)
    assert lab.picture.value != first and bytes(first).startswith(b"\x89PNG")
    assert f"{len(search.evaluated)} of 35 settings" in lab.message.value
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
