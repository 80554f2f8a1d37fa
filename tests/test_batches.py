"""Batches in one launch, graphs and loops: what each way launches, and the measurements."""

from itertools import product
from pathlib import Path

import pandas
import pytest
from figures import test_it_can_be_read, words  # noqa: F401

from gemmlab.cuda.device import gpu, why_no_gpu
from gemmlab.ladder import Problem
from gemmlab.lessons.batched import figures
from gemmlab.lessons.batched import measure as batches
from gemmlab.records import registry


@pytest.mark.gpu
@pytest.mark.skipif(gpu() is None, reason=f"needs a GPU: {why_no_gpu()}")
@pytest.mark.parametrize("batch", [1, 1024])
def test_every_way_is_verified_and_measured_on_a_gpu(batch):
    rows = pandas.DataFrame(batches._measure(Problem(32, 32, 32, batch), {}))
    assert tuple(rows["way"]) == batches.WAYS
    known = {name: kind for name, kind in batches.TABLE.columns.items() if name in rows}
    registry.parsed(rows.to_csv(index=False), Path("batches.csv"), known)


# ---- the measurements ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table():
    return batches.TABLE.read()


def test_every_way_is_recorded_at_every_batch_once(table):
    expected = [
        (size, batch, way)
        for size, batch in product(batches.SIZES, batches.BATCHES)
        for way in batches.WAYS
    ]
    recorded = [(row.m, row.batch, row.way) for row in table.itertuples()]
    assert sorted(recorded) == sorted(expected)
    assert (table["m"] == table["n"]).all() and (table["n"] == table["k"]).all()


@pytest.fixture
def figure():
    return figures.shares(batches.TABLE.read())
