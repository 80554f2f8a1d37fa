"""The chart of batches: a curve of microseconds for each way, a panel for each size."""

import pandas
import pytest
from figures import (  # noqa: F401
    axes,
    test_all_of_it_can_be_read,
    test_no_text_lies_on_another,
    test_the_caption_has_a_number,
    test_the_caption_is_a_sentence_below_everything,
    the_one,
    words,
)

from gemmlab import ladder
from gemmlab.lessons.batched import figures as batched_figures
from gemmlab.lessons.batched import tables as batch_times
from gemmlab.lessons.batched.figures import LOOKS
from gemmlab.lessons.batched.measure import ADDRESSES, BATCHES, GRAPH, ONE, RUNG, SIZES, WAYS
from gemmlab.records import roofs

MS = {way: 0.001 * (at + 1) for at, way in enumerate(WAYS)}  # of a product


@pytest.fixture(scope="module")
def table():
    context = {"gpu": "NVIDIA Test", "recorded": "2026-11-23T10:00:00"}
    return pandas.DataFrame(
        {"way": way, "m": size, "n": size, "k": size, "batch": batch,
         "time_ms": MS[way] * size * (batch**0.5 if way == ONE else batch), **context}
        for size in SIZES for batch in BATCHES for way in WAYS
    )  # fmt: skip


@pytest.fixture(scope="module")
def figure(table):
    return batched_figures.batches(table)


def test_every_way_has_a_curve_of_its_time_for_a_product(figure):
    for size in SIZES:
        for way in LOOKS:
            curve = the_one(figure, f"{way} {size}")
            assert list(curve.get_xdata()) == list(BATCHES)
            last = 1e3 * MS[way] * size / (BATCHES[-1] ** 0.5 if way == ONE else 1)
            assert curve.get_ydata()[-1] == pytest.approx(last)
    assert not figure.findobj(lambda one: str(one.get_gid()).startswith(ADDRESSES))


def test_all_panels_have_one_scale(figure):
    assert len({axes(figure, f"size {size}").get_ylim() for size in SIZES}) == 1


def test_batches_refuses(table):
    with pytest.raises(ValueError, match="needs a table with the columns"):
        batched_figures.batches(table.drop(columns="batch"))
    with pytest.raises(ValueError, match="no square products"):
        batched_figures.batches(table.assign(m=1))
    with pytest.raises(ValueError, match="must be a finite number above 0"):
        batched_figures.batches(table.assign(time_ms=0.0))


def test_a_product_s_time_is_that_of_the_batch_shared_out(table):
    us = batch_times.per_product(table, 32)
    assert list(us.columns) == list(WAYS) and list(us.index) == list(BATCHES)
    assert us.loc[64, GRAPH] == pytest.approx(1e3 * MS[GRAPH] * 32)
    launches = batch_times.meanwhile(table, 32, 64)
    assert launches == pytest.approx(64**0.5 * MS[ONE] / MS[GRAPH])


def test_shares_of_the_roofs_are_those_of_the_largest_batch(table):
    found, ceilings = batch_times.under_the_roofs(table).loc["64×64×64"], roofs.recorded_ceilings()
    seconds = MS[ONE] * 64 * BATCHES[-1] ** 0.5 / 1e3
    assert found["ns for a product"] == pytest.approx(1e9 * seconds / BATCHES[-1])
    moved, done = 3 * 4 * 64**2 * BATCHES[-1] / seconds, 2 * 64**3 * BATCHES[-1] / seconds
    assert found["TB/s"] == pytest.approx(moved / 1e12)
    assert found["of a copy's rate, %"] == pytest.approx(100 * moved / ceilings.bytes_per_second)
    assert found["of the FP32 roof, %"] == pytest.approx(100 * done / ceilings.flop_per_second)


def test_tiles_are_shared_out_among_the_blocks_that_stay():
    """4096 tiles of 64×64 on 132 SMs with 6 blocks each: five rounds, and a sixth of 136 tiles."""
    settings = ladder.written(ladder.find(RUNG).defaults | {"RESIDENT": 6})
    rows = pandas.DataFrame(
        {"m": size, "n": size, "k": 64, "batch": 4096, "settings": settings} for size in (64, 100)
    )
    found = batch_times.rounds(rows)
    assert found.to_numpy().tolist() == [
        [4096, 792, 6, pytest.approx(100 * 4096 / (6 * 792))],
        [4 * 4096, 792, 21, pytest.approx(100 * 4 * 4096 / (21 * 792))],
    ]
