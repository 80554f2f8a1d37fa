"""The way from 16 to 18 as tables: which steps, what orders of tiles need, at which shapes."""

from math import prod

import pandas
import pytest

import gemmlab as gl
from gemmlab.ladder import Problem
from gemmlab.lessons.persistent import tables
from gemmlab.lessons.persistent.rung import RUNG as PERSISTENT
from gemmlab.lessons.persistent.schedule import moved, schedule
from gemmlab.lessons.tma_wgmma.tables import cycles
from gemmlab.lessons.warp_specialized.rung import THIN
from gemmlab.records import runs, tuning
from gemmlab.records.runs import LARGE


def test_the_account_of_cycles_is_that_of_the_counters():
    """By hand: 512 tiles on 132 SMs, 128 of which have four, and a tile's 65,536 cycles."""
    table = cycles("17_warp_specialized", PERSISTENT.name, "19_fp8")
    assert table.drop("cycles").sum().tolist() == pytest.approx([100] * 3)
    assert (table > 0).all(axis=None)
    _, counted = runs.counters_at(gl.load(PERSISTENT.name), *LARGE)
    of_18 = table[PERSISTENT.name]
    assert of_18["cycles"] == pytest.approx(counted["sm__cycles_active.sum"] / 128)
    assert of_18["SMs without a tile"] == pytest.approx(100 * 4 / 132)
    assert of_18["products at full rate"] == pytest.approx(
        100 * 512 * 65536 / 132 / of_18["cycles"]
    )
    assert table["17_warp_specialized"]["the rest"] > 2 * of_18["the rest"]


def test_shapes_have_as_many_rounds_as_their_blocks_need():
    shapes = [(8192, 8192, 8192), (2048, 2048, 2048), (1001, 777, 513), (256, 256, 64)]
    table = pandas.DataFrame(
        [{"kernel": PERSISTENT.name, "m": m, "n": n, "k": k, "pct_cublas": 99.0}
         for m, n, k in shapes]
        + [{"kernel": "cublas", "m": 64, "n": 64, "k": 64, "pct_cublas": 100.0}]
    )  # fmt: skip
    found = tables.shapes(table)
    assert list(found.index) == ["256×256×64", "2048×2048×2048", "8192×8192×8192"]
    assert found[["tiles", "blocks", "rounds"]].to_numpy().tolist() == [
        [2, 2, 1], [128, 128, 1], [2048, 128, 16],
    ]  # fmt: skip
    assert (found["SMs busy, %"] <= 100).all()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("17_warp_specialized", {"BM": 128, "BN": 64}),
        ("17_warp_specialized", {"BM": 64, "BN": 64, "STAGES": 8, "SPLIT": 2}),
        ("18_persistent", {"BM": 128, "BN": 64, "CLUSTER": 1}),
        ("18_persistent", {"BM": 128, "BN": 64, "STAGES": 8, "CLUSTER": 4, "SHARE_A": 1}),
        ("18_persistent", {}),
    ],
)
def test_blocks_ask_for_as_many_bytes_as_is_counted_of_their_boxes(name, settings):
    kernel = gl.load(name, **settings)
    asked = tables.asked_for(kernel.rung, kernel.settings, Problem(256, 512, 128))
    if kernel.settings.get("SPLIT", 1) == 1:
        traced = moved(schedule(kernel, 256, 512, 128, sm_count=132))["bytes asked for"]
    else:  # of the blocks of a tile one alone stores it
        trace = kernel.trace(256, 512, 128)
        boxes = [box for at in range(trace.grid[0]) for box in trace.run.boxes((at, 0, 0))]
        traced = sum(2 * prod(box.box) for box in boxes if box.operation == "load")
    assert asked == traced


def test_no_setting_brings_more_than_l2_delivers():
    for shape in THIN:
        table = tables.at_l2(shape)
        assert (table["of L2, %"] < 105).all() and (table["MB asked for"] > 0).all()
    rows = tables.at_l2((128, 7168, 2048))
    fastest = tuning.best(tuning.recorded("17_warp_specialized"), (128, 7168, 2048))
    assert rows["% of cuBLAS"].iloc[0] == fastest["pct_cublas"] and rows["of L2, %"].iloc[0] > 90
