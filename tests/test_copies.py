"""Copies of a warp: where they come from, where they go, and the picture of both."""

import pytest
from figures import axes, by_gid, test_it_can_be_read, words  # noqa: F401

import gemmlab as gl
from gemmlab.kernel.trace import TraceError
from gemmlab.lessons.batched import figures
from gemmlab.lessons.batched import tables as copies

NAME, BK = "13_batched", 32
SMALL = {"BM": 32, "BN": 32, "BK": BK, "TM": 8, "TN": 4, "STAGES": 2}


@pytest.fixture(scope="module")
def found():
    traces = [
        gl.load(NAME, **SMALL, OP_A=which, OP_B=which).trace(32, 32, BK, batch=1)
        for which in (0, 1)
    ]
    return {
        f"{array}, {'NT'[which]}": copies.copy_of(trace, array)
        for array in "AB"
        for which, trace in enumerate(traces)
    }


@pytest.fixture(scope="module")
def figure(found):
    return figures.copies(found)


def test_what_goes_along_k_is_copied_by_elements_and_all_else_by_sixteen_bytes(found):
    for name in ("A, N", "B, T"):
        assert found[name].along_k and found[name].access.width == 4
        assert found[name].requests == 32 * BK // 32
    for name in ("A, T", "B, N"):
        assert not found[name].along_k and found[name].access.width == 16
        assert found[name].requests == 32 * BK // (4 * 32)


def test_no_byte_of_a_sector_is_copied_in_vain_and_all_banks_have_as_much(found):
    for one in found.values():
        assert one.access.sectors * 32 == 32 * one.access.width
        assert set(one.banks) == {one.access.width // 4}


def test_neighbours_stay_neighbours_or_go_to_the_same_column_of_the_tile(found):
    """K goes down the tile in shared memory, whichever way it goes through the matrix."""
    for name, one in found.items():
        row = 36 if one.along_k else 32  # of the tile, in words
        for elements, places in zip(one.access.elements, one.words, strict=True):
            for (down, across), place in zip(elements, places, strict=True):
                k, side = (across, down) if one.along_k else (down, across)
                first = one.words.min()
                assert place - first == k * row + side, name


def test_layouts_are_counted_by_their_letters():
    table = copies.by_layout(NAME, **SMALL)
    assert list(table.index) == ["NN", "NT", "TN", "TT"]
    by_element = {ops: [ops[0] == "N", ops[1] == "T"] for ops in table.index}
    for ops, (a, b) in by_element.items():
        assert table.loc[ops, "bytes a lane of A"] == (4 if a else 16), ops
        assert table.loc[ops, "copies of B"] == (32 if b else 8), ops


def test_a_warp_that_copies_nothing_is_named():
    trace = gl.load("02_coalescing").trace(32, 32, 8)
    with pytest.raises(TraceError, match=r"02_coalescing: warp 0 of block .* copies nothing of A"):
        copies.copy_of(trace, "A")


def test_each_lane_is_drawn_in_the_matrix_and_in_the_banks(figure, found):
    for name, one in found.items():
        piece, banks = axes(figure, f"piece {name}"), axes(figure, f"banks {name}")
        for lane in range(32):
            (source,) = [box for box in by_gid(piece, "lane") if box.get_gid() == f"lane {lane}"]
            (target,) = [box for box in by_gid(banks, "lane") if box.get_gid() == f"lane {lane}"]
            row, column = one.access.elements[lane][0]
            assert (source.get_x(), source.get_y()) == (column, row)
            first = one.words[lane][0] - one.words.min() // 32 * 32
            assert (target.get_x(), target.get_y()) == (first % 32, first // 32)
            assert source.get_facecolor() == target.get_facecolor()
    assert words(figure).count("K") == 4
