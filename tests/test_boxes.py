"""Boxes that the copy engine brings and stores, in traces and in what is known of a kernel."""

import math
import re

import numpy as np
import pytest

import gemmlab as gl
from gemmlab.analysis import counters, facts
from gemmlab.analysis.block_replay import Played
from gemmlab.cuda import device
from gemmlab.kernel import verify
from gemmlab.lessons.tma_wgmma import tables
from gemmlab.plots.kernel_view import touched
from ptxsim.async_copy import counted

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
    lines = [line for line in copied.run.lines if line.operation == "bulk load"]
    assert {line.array: line.requests for line in lines} == {"A": 2, "B": 2 * 256 // 64}
    assert {line.array: line.bytes_asked for line in lines} == {"A": 2 * 2**14, "B": 2 * 2**15}
    assert sum(line.units for line in lines) == copied.counters[BROUGHT]
    text = copied.text.splitlines()
    assert all(re.search("tma_load|copy_b", text[line.line - 1]) for line in lines)


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


def test_blocks_of_a_cluster_have_a_tile_each_in_what_is_looked_at():
    known = facts.of(gl.load("18_persistent"))
    assert known.trace.m == 2 * 128 and (touched(known)["C"] > 0).sum() == 128 * 256


def test_a_cluster_that_is_traced_counts_as_all():
    kernel = gl.load("18_persistent", BM=64, BN=128)
    whole = kernel.trace(256, 256, STEP)
    assert counters.simulated(kernel, 256, 256, STEP)[BROUGHT] == whole.counters[BROUGHT]
    assert math.prod(whole.grid) == 8


def test_no_thread_is_followed_where_none_brings_tiles(copied):
    with pytest.raises(ValueError, match="copied as boxes"):
        Played.of(copied, (1, 0, 0)).require_reads("steps")


def test_products_read_the_boxes_that_were_brought_for_them(copied):
    """Of each step: A's rows of the warpgroup, all of B; 16 along K with each instruction."""
    boxes, step = copied.run.boxes((1, 0, 0)), 2**14 + 2**15  # bytes of a pair of tiles
    for group in (0, 1):
        factors = copied.run.factors((1, 0, 0), group)
        assert [factor.factor for factor in factors] == ["A", "B"] * 2 * (STEP // 16)
        for at, factor in enumerate(factors):
            (base,) = {b.place // step * step for b in boxes if b.place // step == at // 8}
            inside = factor.places - base
            if factor.factor == "A":
                assert set(np.unique(inside // 8192)) == {group} and factor.places.shape == (64, 2)
            else:
                assert inside.min() >= 2**14 and inside.max() < step
                assert factor.transposed and factor.places.shape == (16, 256 // 8)
        of_a = np.concatenate([factor.places.ravel() for factor in factors if factor.factor == "A"])
        assert len(set(of_a)) == len(of_a) == 2 * 64 * 8  # each chunk once


def test_on_a_gpu_without_wgmma_the_rung_is_simulated(monkeypatch):
    from gemmlab.kernel import kernel as kernels

    other = device.Gpu("NVIDIA X", (8, 9), "sm_89", 4, 1, 1, "1", "1")
    monkeypatch.setattr(kernels, "gpu", lambda: other)
    kernel = gl.load("16_tma_wgmma", BM=64, BN=64)
    assert kernel.arch == "sm_90a" and not kernel.on_gpu
    assert verify.check(kernel, 72, 72, 72, 1.0, 0.0, seed=1).passed
    assert gl.load("01_naive").arch == "sm_89" and gl.load("01_naive").on_gpu


# ---- what each wait and fence is for -------------------------------------------------------------


def test_every_left_out_wait_or_fence_is_found():
    small = {"BM": 128, "BN": 64, "STAGES": 2, "GROUP": 2}
    kinds = tables.left_out("16_tma_wgmma", tables.LEFT_OUT, **small)["check() finds"]
    assert len(kinds) == len(tables.LEFT_OUT) and "nothing" not in set(kinds)
    by_name = {what.partition(":")[0]: kind for what, kind in kinds.items()}
    assert by_name["wgmma.fence"] == "missing wgmma.fence"
    assert by_name["fence.proxy.async in the slow kernel"] == "async-proxy race"
    with pytest.raises(ValueError, match="'absent' stands 0 times in 16_tma_wgmma"):
        tables.left_out("16_tma_wgmma", {"nothing": ("absent", "")}, **small)
