"""Batches in one launch, graphs and loops: what each way launches, and the measurements."""

from itertools import product
from pathlib import Path

import pandas
import pytest
from figures import test_it_can_be_read, words  # noqa: F401

import gemmlab as gl
from gemmlab.cuda.device import gpu, why_no_gpu
from gemmlab.ladder import Problem
from gemmlab.lessons.batched import figures
from gemmlab.lessons.batched import measure as batches
from gemmlab.lessons.batched import tables as copies
from gemmlab.records import registry


@pytest.mark.gpu
@pytest.mark.skipif(gpu() is None, reason=f"needs a GPU: {why_no_gpu()}")
@pytest.mark.parametrize("batch", [1, batches.BRANCHED_AT])
def test_every_way_is_verified_and_measured_on_a_gpu(batch):
    rows = pandas.DataFrame(batches._measure(Problem(32, 32, 32, batch), {}))
    assert tuple(rows["way"]) == batches.ways(batch)
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
        for way in batches.ways(batch)
    ]
    recorded = [(row.m, row.batch, row.way) for row in table.itertuples()]
    assert sorted(recorded) == sorted(expected)
    assert (table["m"] == table["n"]).all() and (table["n"] == table["k"]).all()


NAME, BK = "13_batched", 32
SMALL = {"BM": 32, "BN": 32, "BK": BK, "TM": 8, "TN": 4, "STAGES": 2}


@pytest.fixture(scope="module")
def moves():
    traces = [
        gl.load(NAME, **SMALL, OP_A=which, OP_B=which).trace(32, 32, BK, batch=1)
        for which in (0, 1)
    ]
    return {
        f"{array}, {'NT'[which]}": copies.copy_of(trace, array)
        for array in "AB"
        for which, trace in enumerate(traces)
    }


def test_what_goes_along_k_is_copied_by_elements_and_all_else_by_sixteen_bytes(moves):
    for name in ("A, N", "B, T"):
        assert moves[name].along_k and moves[name].access.width == 4
        assert moves[name].requests == 32 * BK // 32
    for name in ("A, T", "B, N"):
        assert not moves[name].along_k and moves[name].access.width == 16
        assert moves[name].requests == 32 * BK // (4 * 32)


def test_no_byte_of_a_sector_is_copied_in_vain_and_all_banks_have_as_much(moves):
    for move in moves.values():
        assert move.access.sectors * 32 == 32 * move.access.width
        assert set(move.banks) == {move.access.width // 4}


def test_neighbours_stay_neighbours_or_go_to_the_same_column_of_the_tile(moves):
    """K goes down the tile in shared memory, whichever way it goes through the matrix."""
    for name, move in moves.items():
        row = 36 if move.along_k else 32  # of the tile, in words
        for elements, places in zip(move.access.elements, move.words, strict=True):
            for (down, across), place in zip(elements, places, strict=True):
                k, side = (across, down) if move.along_k else (down, across)
                first = move.words.min()
                assert place - first == k * row + side, name


def test_layouts_are_counted_by_their_letters():
    table = copies.by_layout(NAME, **SMALL)
    assert list(table.index) == ["NN", "NT", "TN", "TT"]
    by_element = {ops: [ops[0] == "N", ops[1] == "T"] for ops in table.index}
    for ops, (a, b) in by_element.items():
        assert table.loc[ops, "bytes a lane of A"] == (4 if a else 16), ops
        assert table.loc[ops, "copies of B"] == (32 if b else 8), ops


@pytest.fixture
def figure():
    return figures.shares(batches.TABLE.read())


def test_shares_over_the_number_of_products_begin_and_end_as_recorded(figure):
    rows = batches.TABLE.read().query("way == @batches.CUBLAS and m == 64").sort_values("batch")
    first, last = 100 * rows["ratio"].iloc[[0, -1]]
    assert f"64×64×64 from {first:.0f} to {last:.0f} %" in " ".join(words(figure)).replace(
        "\n", " "
    )
