"""What an epilogue costs, as tables: from passes, from counted bytes, from recorded times."""

import numpy as np
import pytest

import gemmlab as gl
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


def test_counted_bytes_stand_beside_those_of_the_passes(table):
    moved = epilogue_costs.dram(table)
    row = moved.loc["ReLU", epilogues.BY_FOUR]
    assert row["written, predicted"] == 2 * C_MIB
    assert row["read, predicted"] == C_MIB + 4 * 2 * SIDE * 256 / MIB
    assert row["written, counted"] == pytest.approx(row["written, predicted"], rel=0.02)
