"""Factors between two rungs, from the record of runs and from the sweeps."""

import pandas as pd
import pytest

import gemmlab
from gemmlab.lessons.warp_tiling import tables as gains

BEFORE, NAME = "08_warp_tiling", "09_double_buffering"


def test_factors_over_shapes_are_those_of_the_times():
    table = pd.concat([gemmlab.load(name).benchmark() for name in (BEFORE, NAME)])
    factors = gains.over_shapes(table, NAME, BEFORE)
    assert len(factors) == (table.kernel == NAME).sum()
    at = (
        table[(table.m == 1024) & (table.n == 1024) & (table.k == 1024)].set_index("kernel").time_ms
    )
    row = factors.loc["1024×1024×1024"]
    assert row["times as fast"] == pytest.approx(at[BEFORE] / at[NAME], abs=1e-3)
    assert row["blocks"] == 8 * 8
    assert factors.loc["1001×777×513", "blocks"] == 8 * 7
