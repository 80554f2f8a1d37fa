"""Orders of FMAs: what they share, what does not fit together in a record, what a load costs."""

import math
from itertools import product

import numpy
import pandas
import pytest

import gemmlab
from gemmlab.lessons.register_banks import tables as fma_orders
from gemmlab.lessons.register_banks.tables import BY_ROWS, SNAKING, Costs


@pytest.mark.parametrize("order", [BY_ROWS, SNAKING])
def test_every_sum_has_its_turn_once(order):
    assert sorted(fma_orders.places(order, 4, 8)) == sorted(product(range(4), range(8)))


@pytest.mark.parametrize(("rows", "columns"), [(4, 8), (8, 16)])
def test_by_rows_jumps_at_every_row_and_snaking_never(rows, columns):
    all_but_the_first = rows * columns - 1
    assert fma_orders.kept(SNAKING, rows, columns) == all_but_the_first
    assert fma_orders.kept(BY_ROWS, rows, columns) == all_but_the_first - (rows - 1)


def rows(**columns):
    """A table as fma_order() gives: 8 outer products of 8×16 a trip, at 100 TFLOP/s of roof."""
    fixed = {"tile": "8×16", "order": BY_ROWS, "ptxas": "-O1", "FFMA": 1024, "roof TFLOP/s": 100.0}
    return pandas.DataFrame(columns).assign(**fixed)


def test_launches_whose_sms_took_different_times_are_found():
    """In the second row those that were counted did, in the third those that were timed."""
    table = rows(
        loads=[0, 0, 0], **{"issue slots": 1280, "issue active, %": 97.0,
                            "active, %": [99.0, 90.0, 99.0],
                            "measured TFLOP/s": [76.8, 76.8, 70.0]},
    )  # fmt: skip
    found = fma_orders.uneven(table)
    assert found.index.tolist() == [1, 2]
    assert found["issued give TFLOP/s"].tolist() == [round(100 * 0.97 * 0.8, 1)] * 2
    uncounted = {"active, %": numpy.nan, "issue active, %": numpy.nan}
    assert fma_orders.uneven(table.assign(**uncounted)).empty


def test_costs_come_back_from_cycles_that_have_them():
    loads, waits = numpy.array([0, 1, 2, 4, 6]), numpy.array([9, 40, 3, 80, 20])
    slots = 1027 + 8 * loads
    cycles = slots + 0.5 * waits + 1.25 * 8 * loads
    table = rows(
        loads=loads, waits=waits,
        **{"issue slots": slots, "measured TFLOP/s": 100.0 * 1024 / cycles},
    )  # fmt: skip
    found = fma_orders.costs(table)
    assert (found.wait, found.load) == pytest.approx((0.5, 1.25))
    assert found.left == pytest.approx(0, abs=1e-9)


def test_a_budget_goes_down_from_the_roof():
    kernel = gemmlab.load("10_register_banks", "sm_90a")
    table = fma_orders.budget(kernel, Costs(wait=1.0, load=1.0, left=0.0))
    roof = gemmlab.recorded_ceilings().flop_per_second / 1e12
    assert table["TFLOP/s"].iloc[0] == pytest.approx(roof)
    assert table["TFLOP/s"].iloc[:-1].is_monotonic_decreasing
    cycles = table["cycles"]
    assert cycles["FFMAs alone"] == 128 * 256 * 32 / 128, "an SM starts 128 multiply-adds a cycle"
    assert cycles.iloc[:4].is_monotonic_increasing and math.isnan(cycles["the last wave"])
    assert cycles["recorded"] > cycles["FFMAs alone"]
