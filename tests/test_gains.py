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


def test_sweeps_are_joined_where_the_settings_are_the_same():
    fixed = {"BM": 128, "BN": 128, "BK": 8, "STAGES": 1}  # 08 has no STAGES
    table = gains.at_equal_settings(NAME, BEFORE, ["WM", "WN"], fixed)
    assert set(table["M×N×K"]) == {"4096×4096×4096", "1001×777×513"}
    assert not table.duplicated(["M×N×K", "WM", "WN"]).any()
    sweep = gemmlab.tuning.recorded(NAME)
    rows = sweep.query(
        "BM == BN == 128 and BK == 8 and STAGES == 1 and WM == WN == 64 and m == 4096"
    )
    row = table.query("WM == WN == 64 and `M×N×K` == '4096×4096×4096'").iloc[0]
    assert row[NAME] == pytest.approx(rows.gflops.max() / 1e3, abs=0.01)
    assert row["times as fast"] == pytest.approx(row[NAME] / row[BEFORE], abs=0.01)
