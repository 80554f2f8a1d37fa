"""Variants of a kernel, counted and compiled side by side."""

from dataclasses import replace

import pytest
from pytest import approx

from gemmlab.kernel.verify import check as check_product
from gemmlab.lessons.vectorized_loads import tables as variants
from gemmlab.records import ablations

NAME = "06_vectorized_loads"
SMALL = {"BM": 64, "BN": 64, "BK": 8, "TM": 4, "TN": 4}
PARTS = ablations.path_of(NAME).steps
WARPS = "08_warp_tiling"


def test_a_change_of_what_does_not_stand_there_is_refused():
    with pytest.raises(ValueError, match=r"06_vectorized_loads\.cu has no 'float8'"):
        variants.edited(NAME, {"float8": "float4"})


def small(step):
    """The kernel of a step, with a small tile."""
    return replace(step, settings={**step.settings, **SMALL}).kernel()


@pytest.mark.parametrize("step", PARTS, ids=lambda step: step.title)
def test_every_part_of_a_rung_is_a_right_kernel(step):
    """Whole tiles, edges, and rows that do not begin at multiples of 16 bytes."""
    for shape in ((64, 128, 16), (65, 66, 9), (64, 64, 15)):
        assert check_product(small(step), *shape, 0.5, 2.0, seed=1).passed, shape
    assert small(step).check().passed


LANES = {step.title: step for step in ablations.path_of(WARPS).steps}


def test_a_step_on_the_way_to_08_changes_the_wavefronts_that_it_names():
    """By hand, per k of a warp, loads of A and of B: 2·2 + 2·4 for 64 FMAs in 07 and with lanes row
    by row, 2·2 + 2·2 in squares; with 16×8 sums 4·2 + 2·4 and 4·2 + 2·2 for 128."""
    table = variants.side_by_side({title: step.kernel() for title, step in LANES.items()},
                                  128, 128, 16)  # fmt: skip
    wavefronts = table.loc["wavefronts of shared loads per warp FMA"].tolist()
    assert wavefronts == approx([12 / 64] * 4 + [8 / 64, 12 / 128, 16 / 128, 12 / 128], abs=1e-3)
    assert not table.loc["spilled bytes"].any() and (table.loc["blocks per SM"] == 2).all()
