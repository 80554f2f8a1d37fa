"""Recorded counters, beside the simulator's and per step."""

import pytest

from gemmlab import counted, records
from gemmlab.kernel import load


def test_the_simulator_counts_what_the_gpu_counted():
    """One rung, to test the table; test_against_hardware.py holds every rung to its record."""
    table = counted.compare(load("05_thread_tile_2d"), 512, 512, 512)
    assert len(table) >= 5 and table["equal"].all(), table


def test_collisions_are_what_a_gpu_counts_above_the_conflicts_of_addresses():
    kernel = load("06_vectorized_loads")
    table = counted.collisions(kernel, 512, 512, 512).set_index("metric")
    assert len(table) == 4 and (table["more"] >= 0).all() and table["more"].any()
    assert not set(table.index) & set(counted.compare(kernel, 512, 512, 512)["metric"])
    stores = table.loc["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"]
    assert 0 < stores["more"] < 0.1 * stores["simulator"]


def test_a_difference_is_shown(monkeypatch):
    kernel = load("01_naive")
    name, metrics = records.counters_at(kernel, 512, 512, 512)
    sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
    changed = metrics | {sectors: metrics[sectors] + 1}
    monkeypatch.setattr(records, "counters_at", lambda *_: (name, changed))
    table = counted.compare(kernel, 512, 512, 512).set_index("metric")
    assert not table.loc[sectors, "equal"] and table["equal"].sum() == len(table) - 1


def test_a_step_of_the_naive_kernel_costs_its_33_sectors():
    """One request for A in 32 sectors, one for B in 1: per 32 multiply-adds of a warp."""
    table = counted.per_step(load("01_naive")).set_index("M")
    assert table.loc[512, "sectors"] == 33.0
    # Data passes follow the banks: all in one at K = 512, spread at K = 513.
    assert table.loc[512, "L1 bank passes"] > 5 * table.loc[1001, "L1 bank passes"]


def test_steps_of_a_fast_kernel_need_more_digits():
    kernel = load("05_thread_tile_2d")
    coarse, fine = counted.per_step(kernel), counted.per_step(kernel, digits=3)
    assert fine.round(1).equals(coarse) and not fine.equals(coarse)


def test_steps_are_those_of_fp32_units():
    with pytest.raises(ValueError, match="14_wmma is float16"):
        counted.per_step(load("14_wmma"))


def test_a_shape_that_was_not_counted_is_named():
    with pytest.raises(records.NoRecord, match=r"M=3.*512x512x512"):
        counted.compare(load("01_naive"), 3, 3, 3)
