"""Products of few rows or columns under the roof of the memory, from the records of a rung."""

import pytest

from gemmlab.lessons.split_k import tables as thin
from gemmlab.records import best_by_shape, roofs

NAME, MOST = "10_register_banks", 1024


def test_rates_are_the_least_bytes_over_the_recorded_time():
    table = thin.under_the_copy_roof(NAME, MOST)
    recorded = best_by_shape.tuned(NAME).query("way == 'in turn' and (m <= 1024 or n <= 1024)")
    assert len(table) == len(recorded) > 1
    copied = roofs.recorded_ceilings().bytes_per_second
    for row in recorded.itertuples():
        found = table.loc[f"{row.m}×{row.n}×{row.k}"]
        moved = 4 * (row.m * row.k + row.k * row.n + row.m * row.n)
        seconds = 2 * row.m * row.n * row.k / (1e12 * row.tflops)
        assert found["MiB"] == moved / 2**20
        assert found["µs"] == pytest.approx(1e6 * seconds)
        assert found["TB/s"] == pytest.approx(moved / seconds / 1e12)
        assert found["of a copy's rate, %"] == pytest.approx(100 * moved / seconds / copied)
        assert found["FLOP per byte"] * moved == pytest.approx(2 * row.m * row.n * row.k)
        assert found["% of cuBLAS"] == row.pct_cublas


def test_only_thin_ones_are_there():
    assert thin.under_the_copy_roof(NAME, 0).empty
