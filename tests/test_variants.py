"""Variants of a kernel, counted and compiled side by side."""

import pytest

from gemmlab.analysis import variants
from gemmlab.kernel.verify import check as check_product
from gemmlab.loading import load
from gemmlab.records import tuning

NAME = "06_vectorized_loads"
SMALL = {"BM": 64, "BN": 64, "BK": 8, "TM": 4, "TN": 4}


def test_variants_stand_beside_each_other_with_what_is_known_of_them():
    one = load(NAME, **SMALL)
    moved = variants.edited(
        NAME, {"row = i / (BK / 4), k = i % (BK / 4) * 4": "row = i % BM, k = i / BM * 4"}, **SMALL
    )
    table = variants.side_by_side({"06": one, "moved": moved}, 64, 64, 16)
    assert list(table.columns) == ["06", "moved"]
    # Two lanes share a row of A: its stores meet in pairs. With lanes over rows they do not.
    conflicts = table.loc["conflicts of shared stores per 32 FMA"]
    assert conflicts["06"] > 0 and conflicts["moved"] == 0
    sectors = table.loc["global sectors per 32 FMA"]
    assert sectors["moved"] > sectors["06"]
    (taken,) = one.resources().to_dict("records")
    assert table.loc["registers per thread", "06"] == taken["registers per thread"]
    assert table.loc[variants.SPEED, "06"] == round(tuning.of(one).gflops / 1000, 1)
    assert table.loc[variants.SPEED, "moved"] == "not recorded"


def test_a_change_of_what_does_not_stand_there_is_refused():
    with pytest.raises(ValueError, match=r"06_vectorized_loads\.cu has no 'float8'"):
        variants.edited(NAME, {"float8": "float4"})


def test_every_part_of_a_rung_is_a_right_kernel():
    """Whole tiles, edges, and rows that do not begin at multiples of 16 bytes."""
    for what, kernel in variants.parts(NAME, **SMALL).items():
        for shape in ((64, 128, 16), (65, 66, 9), (64, 64, 15)):
            assert check_product(kernel, *shape, 1.0, 0.0, seed=1).passed, (what, shape)


def test_each_part_does_what_it_is_called():
    tile = dict(load(NAME).settings)
    kernels = variants.parts(NAME, **tile)
    kernels |= {"05": load("05_thread_tile_2d", **tile), "06": load(NAME)}
    table = variants.side_by_side(kernels, 128, 128, 16)
    requests = table.loc["global loads per 32 FMA"]
    assert requests["wide loads"] == requests["06"] < requests["transposed"] == requests["05"]
    conflicts = table.loc["conflicts of shared stores per 32 FMA"]
    assert conflicts["wide loads"] == conflicts["05"] == 0 < conflicts["transposed"]
    assert table.loc["blocks per SM", "two blocks asked for"] == 2
    assert set(table.loc[variants.SPEED][list(variants.parts(NAME, **tile))]) == {"not recorded"}


def test_a_rung_that_is_not_taken_apart_is_named():
    with pytest.raises(LookupError, match="08_warp_tiling is not taken apart"):
        variants.parts("08_warp_tiling")
