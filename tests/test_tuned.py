"""What is recorded of a rung with the settings for each shape: whole, consistent, current."""

import pandas
import pytest

from gemmlab import ladder, loading, tuned
from gemmlab.ladder import LadderError
from gemmlab.records import SHAPES, NoRecord, StaleRecord

NAME = "10_register_banks"


@pytest.fixture(scope="module")
def table():
    return tuned.tuned(NAME)


def test_every_shape_that_is_not_tiny_is_there(table):
    found = set(zip(table.m, table.n, table.k, strict=True))
    assert found == {s for s in SHAPES if s[0] * s[1] * s[2] >= tuned.SMALLEST}


def test_large_squares_were_timed_in_bursts_and_under_load(table):
    for size in tuned.SQUARES_AT_LENGTH:
        ways = table[(table.m == size) & (table.n == size) & (table.k == size)].set_index("way")
        assert list(ways.index) == ["in turn", "burst", "sustained"]
        flop_each = 2 * size**3 / 1e12
        seconds = flop_each / ways.tflops + flop_each / ways.cublas_tflops
        assert (ways.pairs * seconds)["sustained"] >= 0.9 * tuned.LOAD_S
    assert (table.pairs >= 20).all()


def test_ratios_rates_and_quartiles_agree(table):
    assert (100 * table.tflops / table.cublas_tflops).values == pytest.approx(
        table.pct_cublas.values, rel=0.01
    )
    assert (table.pct_cublas_q1 <= table.pct_cublas).all()
    assert (table.pct_cublas <= table.pct_cublas_q3).all()
    assert ((table.noise_q1 <= 100.5) & (table.noise_q3 >= 99.5)).all()


def test_the_settings_are_those_that_a_shape_gets(table):
    rung = ladder.find(NAME)
    for row in table.itertuples():
        chosen = loading.settings_for(rung, (row.m, row.n, row.k), "sm_90")
        assert row.settings == " ".join(f"{name}={value}" for name, value in chosen.items())


def test_rows_of_other_code_are_refused(table, tmp_path, monkeypatch):
    path = tmp_path / "tuned.csv"
    table.assign(code="0123456789abcdef").to_csv(path, index=False)
    monkeypatch.setattr(tuned, "file_of", lambda slug: path)
    with pytest.raises(StaleRecord, match=f"run `python benchmarks/tuned.py {NAME}` on a GPU"):
        tuned.tuned(NAME)


def test_a_rung_that_is_not_there_is_refused(tmp_path, monkeypatch):
    with pytest.raises(NoRecord, match="nothing is recorded"):
        tuned.tuned("03_shared_memory")
    with pytest.raises(LadderError):
        tuned.tuned("10_register")
    monkeypatch.setattr(tuned, "file_of", lambda slug: tmp_path / "none.csv")
    with pytest.raises(NoRecord, match="nothing is recorded"):
        tuned.tuned(NAME)


def test_the_columns_are_those_that_are_documented(table):
    assert tuple(table.columns) == tuned.COLUMNS
    assert isinstance(table, pandas.DataFrame)
