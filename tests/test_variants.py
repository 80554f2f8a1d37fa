"""Variants of a kernel, counted and compiled side by side."""

from dataclasses import replace

import pytest

from gemmlab.analysis import variants
from gemmlab.kernel.verify import check as check_product
from gemmlab.ladder import LadderError
from gemmlab.loading import load
from gemmlab.records import ablations, tuning
from gemmlab.sass import loops

NAME = "06_vectorized_loads"
SMALL = {"BM": 64, "BN": 64, "BK": 8, "TM": 4, "TN": 4}
PARTS = ablations.steps(NAME)


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


def small(step):
    """The kernel of a step, with a small tile."""
    return replace(step, settings={**step.settings, **SMALL}).kernel()


@pytest.mark.parametrize("step", PARTS, ids=lambda step: step.title)
def test_every_part_of_a_rung_is_a_right_kernel(step):
    """Whole tiles, edges, and rows that do not begin at multiples of 16 bytes."""
    for shape in ((64, 128, 16), (65, 66, 9), (64, 64, 15)):
        assert check_product(small(step), *shape, 0.5, 2.0, seed=1).passed, shape
    assert small(step).check().passed


def test_each_part_does_what_it_is_called():
    parts = variants.parts(NAME)
    table = variants.side_by_side(parts, 128, 128, 16, path=NAME)
    _, larger, wide, both, whole, bound, transposed, idle, rows_first = parts
    requests = table.loc["global loads per 32 FMA"]
    assert requests[larger] == requests[transposed] == 4 * requests[wide] == 4 * requests[whole]
    conflicts = table.loc["conflicts of shared stores per 32 FMA"]
    assert conflicts[larger] == conflicts[wide] == conflicts[rows_first] == 0
    assert conflicts[transposed] > conflicts[both] == conflicts[whole] > 0
    sectors = table.loc["global sectors per 32 FMA"]
    assert sectors[rows_first] > sectors[both] == sectors[whole]
    blocks = table.loc["blocks per SM"]
    assert blocks[bound] == 2 and blocks[idle] == 1 < blocks[both]


def test_without_any_part_it_is_the_rung_before():
    """As the compiler has them: the same instructions in the loop."""
    larger = PARTS[1]
    nothing = replace(larger, file=PARTS[2].file)
    of = [loops.loop(step.kernel()) for step in (larger, nothing)]
    assert of[0].mix == of[1].mix and len(of[0]) == len(of[1])


def test_speeds_are_of_the_path_that_is_named(monkeypatch):
    kernels = {"one": load(NAME, **SMALL)}
    monkeypatch.setattr(variants.ablations, "rate_of", lambda name, kernel: len(name) / 4)
    table = variants.side_by_side(kernels, 64, 64, 16, path="four")
    assert table.loc[variants.SPEED, "one"] == 1.0


def test_a_rung_that_is_not_taken_apart_is_named():
    with pytest.raises(LadderError, match="no path to '08_warp_tiling' is kept"):
        variants.parts("08_warp_tiling")
