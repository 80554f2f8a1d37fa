"""Boxes that the copy engine brings and stores, in traces and in what is known of a kernel."""

import math

import numpy as np
import pytest

import gemmlab as gl
from gemmlab.analysis import counters, facts
from gemmlab.analysis.traced.block_replay import Played
from gemmlab.plots.kernel_view import touched
from gemmlab.simulator.async_copy import counted

STEP = 64  # along K
BROUGHT = counted.sectors_metric("tma_ld")


@pytest.fixture(scope="module")
def copied():
    return gl.load("16_tma_wgmma").trace(256, 512, 2 * STEP, blocks=[(1, 0, 0)])


def covered(boxes, shape):
    """How often each element of a matrix is in one of the boxes."""
    times = np.zeros(shape, int)
    for box in boxes:
        times[tuple(slice(at, at + n) for at, n in zip(box.corner, box.box, strict=True))] += 1
    return times


def test_one_thread_brings_the_rows_and_columns_of_the_block_once(copied):
    boxes = copied.run.boxes((1, 0, 0))
    assert {(box.operation, box.warp, box.lane, box.ranks) for box in boxes} == {("load", 0, 0, ())}
    a = covered([box for box in boxes if box.array == "A"], (256, 2 * STEP))
    b = covered([box for box in boxes if box.array == "B"], (2 * STEP, 512))
    assert (a[128:] == 1).all() and not a[:128].any()  # the second tile goes down
    assert (b[:, :256] == 1).all() and not b[:, 256:].any()
    places = [box.place for box in boxes]
    assert len(set(places)) == len(places) and not any(place % 1024 for place in places)
    assert not copied.run.boxes((1, 0, 0), warp=1)


def test_boxes_are_counted_at_their_lines(copied):
    lines = [one for one in copied.run.lines if one.operation == "bulk load"]
    assert {one.array: one.requests for one in lines} == {"A": 2, "B": 2 * 256 // 64}
    assert {one.array: one.bytes_asked for one in lines} == {"A": 2 * 2**14, "B": 2 * 2**15}
    assert sum(one.units for one in lines) == copied.counters[BROUGHT]
    text = copied.text.splitlines()
    assert all("bring(" in text[one.line - 1] for one in lines)


def test_a_box_stands_at_the_instruction_that_started_it(copied):
    steps = copied.run.instructions((1, 0, 0), 0)
    started = [step for step in steps if step.boxes]
    assert all(step.opcode.startswith("cp.async.bulk.tensor") for step in started)
    boxes = [box for step in started for box in step.boxes]
    assert boxes == copied.run.boxes((1, 0, 0))


def test_c_is_stored_box_by_box_once():
    trace = gl.load("17_warp_specialized").trace(128, 256, STEP)
    stored = [box for box in trace.run.boxes() if box.operation == "store"]
    assert {box.warp for box in stored} == {0, 4} and {box.array for box in stored} == {"C"}
    assert (covered(stored, (128, 256)) == 1).all()


def test_by_multicast_each_block_brings_its_part_for_both():
    trace = gl.load("18_persistent").trace(256, 256, STEP)
    for block in (0, 1):
        of_b = [box for box in trace.run.boxes((block, 0, 0)) if box.array == "B"]
        assert {box.ranks for box in of_b} == {(0, 1)}
        assert set(np.flatnonzero(covered(of_b, (STEP, 256))[0]) // 128) == {block}


def test_what_is_copied_across_an_edge_is_clipped_and_still_counted():
    trace = gl.load("16_tma_wgmma", BM=64, BN=64).trace(40, 32, 32)
    assert trace.run.boxes()[0].box == (64, 64)
    assert trace.counters[BROUGHT] == 2 * 64 * 128 // 32  # what is filled with zeros, too


@pytest.mark.parametrize(
    ("name", "settings", "tile"),
    [
        ("16_tma_wgmma", {}, (128, 256)),
        ("16_tma_wgmma", {"BM": 64, "BN": 64, "OP_B": 1, "DTYPE": 1}, (64, 64)),
        ("17_warp_specialized", {"BN": 128}, (128, 128)),
        ("18_persistent", {"CLUSTER": 1}, (128, 256)),
    ],
)
def test_the_intensity_is_that_of_the_tile(name, settings, tile):
    """By hand: each element of the tile takes 2 FLOP for each k, each row and column 2 bytes."""
    found = facts.of(gl.load(name, **settings))
    rows, columns = tile
    assert found.intensity == pytest.approx(2 * rows * columns / (2 * (rows + columns)))
    assert found.conflicts == 0 and found.units_per_request("shared", "load") > 0
    level = touched(found)
    assert (level["A"] > 0).sum() == rows * found.trace.k
    assert (level["B"] > 0).sum() == columns * found.trace.k
    assert (level["C"] > 0).sum() == rows * columns
    assert (level["A"] >= 2).sum() == rows * STEP and (level["B"] >= 2).sum() == columns * STEP


def test_blocks_of_a_cluster_have_a_tile_each_in_what_is_looked_at():
    found = facts.of(gl.load("18_persistent"))
    assert found.trace.m == 2 * 128 and (touched(found)["C"] > 0).sum() == 128 * 256


def test_a_cluster_that_is_traced_counts_as_all():
    kernel = gl.load("18_persistent", BM=64, BN=128)
    whole = kernel.trace(256, 256, STEP)
    assert counters.simulated(kernel, 256, 256, STEP)[BROUGHT] == whole.counters[BROUGHT]
    assert math.prod(whole.grid) == 8


def test_no_thread_is_followed_where_none_brings_tiles(copied):
    with pytest.raises(ValueError, match="come as boxes"):
        Played.of(copied, (1, 0, 0)).require_reads("steps")
