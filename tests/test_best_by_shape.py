"""What is recorded of a rung with the settings for each shape: whole, consistent, current."""

from dataclasses import replace

import pytest

from gemmlab import ladder
from gemmlab.ladder.problem import SINGLE_PRODUCTS
from gemmlab.ladder.shapes import operations, ops
from gemmlab.records import best_by_shape, registry, tuning
from gemmlab.records.runs import SHAPES

NAME = "10_register_banks"


@pytest.fixture(scope="module")
def table():
    return best_by_shape.tuned(NAME)


def test_every_shape_that_is_not_tiny_is_there(table):
    shapes = set(zip(table.m, table.n, table.k, strict=True))
    assert shapes >= {s for s in SHAPES if s[0] * s[1] * s[2] >= best_by_shape.SMALLEST}
    assert shapes <= {problem.shape for problem in best_by_shape.problems_of(ladder.find(NAME))}


def test_a_file_of_before_there_were_batches_is_read(table, tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "folders", lambda: [tmp_path])
    path = tmp_path / "best_by_shape.csv"
    table.drop(columns=["batch", "ops"]).to_csv(path, index=False)
    read = best_by_shape.tuned(NAME)
    assert set(read.batch) == {1} and set(read.ops) == {"NN"} and len(read) == len(table)
    table.assign(ops="NX").to_csv(path, index=False)
    with pytest.raises(registry.BadRecord, match="line 2: ops is 'NX', not NN, NT, TN or TT"):
        best_by_shape.tuned(NAME)


BATCHED = replace(
    ladder.find(NAME),
    batch=3,
    parameters=(*ladder.find(NAME).parameters, *operations()),
    ops=ops,
)


def test_what_is_measured_has_batches_and_operations_where_the_rung_takes_them():
    plain = best_by_shape.problems_of(ladder.find(NAME))
    assert len(set(plain)) == len(plain) and {problem.ops for problem in plain} == {"NN"}
    assert set(SINGLE_PRODUCTS) < set(plain) and not any(problem.batch > 1 for problem in plain)
    either = replace(BATCHED, batch=1)
    turned = [problem for problem in best_by_shape.problems_of(either) if problem.ops != "NN"]
    assert len(turned) == 3 * len(best_by_shape.TURNED)
    several = best_by_shape.problems_of(BATCHED)
    assert {problem.batch for problem in several} == {10_000, 4096, 1024, 256}
    assert len(several) == 16


def test_large_squares_were_timed_in_bursts_and_under_load(table):
    for size in best_by_shape.SQUARES_AT_LENGTH:
        ways = table[(table.m == size) & (table.n == size) & (table.k == size)].set_index("way")
        assert list(ways.index) == ["in turn", "burst", "sustained"]
        flop_each = 2 * size**3 / 1e12
        seconds = flop_each / ways.tflops + flop_each / ways.cublas_tflops
        least = best_by_shape.LOAD_S / 2  # a sample has one launch of each, or two
        assert (ways.pairs * seconds)["sustained"] >= 0.9 * least
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
        chosen, _ = tuning.for_shape(rung, (row.m, row.n, row.k), "sm_90")
        assert row.settings == ladder.written(chosen)
