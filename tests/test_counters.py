"""Recorded counters, beside the simulator's and per step."""

from dataclasses import replace

import pytest
import record_clusters
import record_wgmma

from gemmlab import ladder
from gemmlab.analysis import counters
from gemmlab.loading import load
from gemmlab.measure import profiler
from gemmlab.records import runs
from gemmlab.records.roofs import recorded_ceilings


def test_the_simulator_counts_what_the_gpu_counted():
    """One rung, to test the table; test_against_hardware.py holds every rung to its record."""
    table = counters.compare(load("05_thread_tile_2d"), 512, 512, 512)
    assert len(table) >= 5 and table["equal"].all(), table


def test_a_difference_is_shown(monkeypatch):
    kernel = load("01_naive")
    name, metrics = runs.counters_at(kernel, 512, 512, 512)
    sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
    changed = metrics | {sectors: metrics[sectors] + 1}
    monkeypatch.setattr(runs, "counters_at", lambda *_: (name, changed))
    table = counters.compare(kernel, 512, 512, 512).set_index("metric")
    assert not table.loc[sectors, "equal"] and table["equal"].sum() == len(table) - 1


def test_a_warp_fma_of_the_naive_kernel_costs_its_33_sectors():
    """One request for A in 32 sectors, one for B in 1: per warp FMA."""
    table = counters.per_warp_fma(load("01_naive")).set_index("M")
    assert table.loc[512, "sectors"] == 33.0
    # Wavefronts of data follow the banks: all in one at K = 512, spread at K = 513.
    assert table.loc[512, "data wavefronts"] > 5 * table.loc[1001, "data wavefronts"]


def test_loads_move_whole_sectors():
    """By hand: a piece of 16×16 is asked for in halves of sectors, a tile in whole ones.

    Of every other row of a tile, which is padded by 16 bytes, four sectors fill five places.
    """
    plain = load("14_wmma", BM=16, BN=16, BK=16, WM=16, WN=16, STAGES=0)
    table = counters.load_intensity({"plain": plain, "tiles": load("14_wmma")}, 256, 256, 64)
    assert table.loc["plain"].tolist() == [8.0, 4.0]
    by_hand = 2 * 128 * 256 / (2 * (128 + 256))
    assert table.loc["tiles"].tolist() == pytest.approx([by_hand, by_hand / (9 / 8)])


def test_an_mma_sync_takes_six_cycles_of_a_quarter_of_an_sm():
    """16×8×16 multiply-adds. A clock that a driver reports would make them 6.6."""
    of_a_quarter = recorded_ceilings().flop_per_cycle("float16") / (4 * 132)
    assert 2 * 16 * 8 * 16 / of_a_quarter == pytest.approx(6, abs=0.03)


def test_a_rung_for_hopper_alone_counts_what_wgmma_and_the_copy_engine_do():
    """By names that the profiler has been asked for, and that the simulator counts too."""
    rung = ladder.find("14_wmma")
    hopper = replace(rung, needs_arch=lambda settings: "sm_90a")
    more = set(profiler.metrics_of(hopper)) - set(profiler.metrics_of(rung))
    assert len(more) >= 7 and sum("gmma" in name for name in more) == 3
    assert more <= {*record_wgmma.METRICS, *record_clusters.METRICS}
    assert set(profiler.metrics_of(rung)) - set(profiler.metrics_of(ladder.find("01_naive")))
