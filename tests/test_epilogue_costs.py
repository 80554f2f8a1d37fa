"""What an epilogue costs, as tables: from passes, from counted bytes, from recorded times."""

import numpy as np
import pytest

import gemmlab as gl
from gemmlab.ladder.activations import ACTIVATIONS
from gemmlab.lessons.fused_epilogue import epilogues
from gemmlab.lessons.fused_epilogue import tables as epilogue_costs
from gemmlab.lessons.fused_epilogue.measure import epilogue

MIB, SIDE = 2**20, 8192
C_MIB = 4 * SIDE * SIDE / MIB


@pytest.fixture(scope="module")
def table():
    return epilogue()


def test_numbers_go_through_the_epilogue_of_a_kernel():
    kernel = gl.load(epilogues.NAME, ACTIVATION=1)
    found = epilogue_costs.through(kernel, [-2, 0, 3, np.nan])
    assert found.dtype == np.float32 and found[:3].tolist() == [0, 0, 3] and np.isnan(found[3])


def test_a_fused_epilogue_passes_over_c_once_and_every_further_kernel_twice():
    counted = epilogue_costs.passes("ReLU")
    assert counted.loc[epilogues.FUSED].tolist() == [0, 1]
    assert counted.loc[epilogues.BY_FOUR].tolist() == [1, 2]
    assert counted.loc[epilogues.SEPARATE].tolist() == [2, 3]


def test_counted_bytes_stand_beside_those_of_the_passes(table):
    moved = epilogue_costs.dram(table)
    row = moved.loc["ReLU", epilogues.BY_FOUR]
    assert row["written, predicted"] == 2 * C_MIB
    assert row["read, predicted"] == C_MIB + 4 * 2 * SIDE * 256 / MIB
    assert row["written, counted"] == pytest.approx(row["written, predicted"], rel=0.02)


def test_a_second_kernel_reads_c_and_writes_it(table):
    assert epilogue_costs.second_kernel(table, "ReLU") == pytest.approx(2 * C_MIB, rel=0.02)


def test_the_fused_kernel_is_the_measure_of_the_others(table):
    large = epilogue_costs.multiples(table, epilogues.LARGE)
    assert list(large.index) == [way for way in epilogues.WAYS if way in set(table["way"])]
    assert list(large) == list(ACTIVATIONS)
    assert large.loc[epilogues.FUSED].tolist() == pytest.approx([1.0] * 4, abs=0.01)
    only_relu = epilogue_costs.multiples(table, (4096, 4096, 64))
    assert list(only_relu) == ["ReLU"]


def test_a_thin_product_is_held_against_both_roofs(table):
    found = epilogue_costs.under_the_roofs(table, SIDE)
    assert list(found.index) == list(epilogues.DEPTHS)
    per_flop = found["store of C, % of the copy's rate"] / found["of the FP32 roof, %"]
    assert per_flop.tolist() == pytest.approx([per_flop[64] * 64 / k for k in epilogues.DEPTHS])
    assert (found["of the FP32 roof, %"] < 100).all()
