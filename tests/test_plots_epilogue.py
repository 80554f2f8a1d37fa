"""The figure of epilogues: a curve for each way, over K."""

import pandas
import pytest
from figures import (  # noqa: F401
    axes,
    by_gid,
    test_all_of_it_can_be_read,
    test_no_text_lies_on_another,
    test_the_caption_is_a_sentence_below_everything,
    the_one,
    words,
)

from gemmlab.lessons.fused_epilogue import figures
from gemmlab.lessons.fused_epilogue.epilogues import (
    ALONE,
    BY_FOUR,
    CUBLAS,
    FUSED,
    LT,
    ONE_KERNEL,
    OURS_BY_FOUR,
    SEPARATE,
    WAYS,
)
from gemmlab.lessons.fused_epilogue.figures import crossovers

RATIOS = {
    FUSED: 1.0, LT: 1.2, ALONE: 0.99, CUBLAS: 1.1, OURS_BY_FOUR: 1.4, BY_FOUR: 1.5,
    ONE_KERNEL: 2.0, SEPARATE: 3.0,
}  # fmt: skip
DEPTHS = (64, 256, 1024)


def row(side, depth, way, ratio, activation="ReLU"):
    shape = {"m": side, "n": side, "k": depth}
    context = {"gpu": "NVIDIA Test", "recorded": "2026-11-21T10:00:00"}
    return shape | {"activation": activation, "way": way, "ratio": ratio} | context


@pytest.fixture(scope="module")
def table():
    rows = [row(8192, depth, way, RATIOS[way]) for depth in DEPTHS for way in WAYS]
    rows += [
        row(1024, depth, way, RATIOS[way] * (1.0, 0.6, 0.5)[at])
        for at, depth in enumerate(DEPTHS)
        for way in WAYS
    ]
    rows += [row(4096, 4096, way, RATIOS[way], "GELU by erf") for way in WAYS]
    return pandas.DataFrame(rows)


@pytest.fixture(scope="module")
def figure(table):
    return figures.epilogue(table)


def test_every_way_has_a_curve_of_its_ratios_over_k(figure):
    for way in WAYS[1:]:
        curve = the_one(figure, f"{way} 8192")
        assert list(curve.get_xdata()) == list(DEPTHS)
        assert list(curve.get_ydata()) == [RATIOS[way]] * len(DEPTHS)


def test_all_ways_are_named_and_all_sizes_too(figure):
    found = words(figure)
    assert set(WAYS) <= set(found)
    assert {"M = N = 1024", "M = N = 8192"} <= set(found) and "M = N = 4096" not in found


def test_the_caption_says_how_the_other_fused_product_does(table, figure):
    assert f"{LT} takes 0.600 times as long at best, at M=N=K=1024" in figure.caption
    without = figures.epilogue(table[table["way"] != LT])
    assert LT not in without.caption and LT not in words(without)


def test_a_crossover_lies_where_the_curve_by_float4_passes_one(table, figure):
    assert crossovers(table[table["m"] == 8192]) == []
    assert crossovers(table[table["m"] == 1024]) == [(64, 256)]
    assert figure.caption.endswith(f"{BY_FOUR} crosses rung 11 at M=N=1024 with K from 64 to 256.")


def test_crossovers_that_meet_are_one_band_with_one_label(table):
    there_and_back = table[table["m"] == 1024].copy()
    last = (there_and_back["k"] == 1024) & (there_and_back["way"] == BY_FOUR)
    there_and_back.loc[last, "ratio"] = 1.2
    assert crossovers(there_and_back) == [(64, 256), (256, 1024)]
    figure = figures.epilogue(there_and_back)
    (band,) = by_gid(axes(figure, "M = N = 1024"), "crossover 1024")
    assert (band.get_x(), band.get_x() + band.get_width()) == (64, 1024)
    assert words(figure).count("crossover") == 1
    assert figure.caption.endswith(f"{BY_FOUR} crosses rung 11 at M=N=1024 with K from 64 to 1024.")


def test_multiples_near_one_have_room(figure):
    panel = axes(figure, "M = N = 8192")
    assert panel.get_yscale() == "log" and {"1", "1.5", "2"} <= set(words(figure))


def test_other_things_are_refused(table):
    with pytest.raises(TypeError, match="epilogue takes a pandas table"):
        figures.epilogue([1.5])
    with pytest.raises(ValueError, match="no curve of 'GELU by erf' is there"):
        figures.epilogue(table, "GELU by erf")
