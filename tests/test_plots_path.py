"""The figure of the path to a rung: a bar for each step."""

import pandas
import pytest
from figures import (  # noqa: F401
    axes,
    test_all_of_it_can_be_read,
    test_no_text_lies_on_another,
    test_the_caption_is_a_sentence_below_everything,
    the_one,
    words,
)

from gemmlab import plots

STEPS = (
    ("as it was", "", True, 48.4, 94.6),
    ("the FMAs in an order that goes down one column of a thread's tile and up the next",
     "every FMA reuses one operand, none waits, and slots alone let expect 62", True, 53, 99),
    ("a kernel that transposes beforehand", "whole lines", False, 51.0, 100.1),
    ("the end", "no warp waits for another", True, 58.0, 113.5),
)  # fmt: skip


@pytest.fixture(scope="module")
def table():
    names = ("step", "predicted", "taken", "TFLOP/s", "% of cuBLAS")
    context = {"cuBLAS TFLOP/s": 51.1, "gpu": "NVIDIA Test", "recorded": "2026-11-21T10:00:00"}
    return pandas.DataFrame(dict(zip(names, step, strict=True)) | context for step in STEPS)


@pytest.fixture(scope="module")
def figure(table):
    return plots.path(table)


def test_a_bar_goes_from_the_step_kept_before_to_its_own_share(figure):
    start, *bars = [the_one(figure, f"step {step[0]}") for step in STEPS]
    assert set(start.get_xdata()) == {94.6}
    from_to = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars]
    assert from_to == [pytest.approx(pair) for pair in ((94.6, 99), (113.5, 100.1), (99, 113.5))], (
        "a road not taken is held against the end, and no step against it"
    )
    heights = [bar.get_y() for bar in bars]
    assert heights == sorted(heights), "from above, in the order of the path"
    assert [bool(bar.get_hatch()) for bar in bars] == [not step[2] for step in STEPS[1:]]
    assert set(the_one(figure, "cuBLAS").get_xdata()) == {100}


def test_a_small_step_can_be_seen(table):
    """The axis shows the differences, not the way from zero."""
    figure = plots.path(table[table["taken"]])
    ax = axes(figure, "path")
    low, high = ax.get_xlim()
    assert low > 90 and high < 118
    assert the_one(figure, f"step {STEPS[1][0]}").get_window_extent().width > 50


def test_a_step_that_loses_looks_different(table):
    worse = table.assign(**{"% of cuBLAS": [94.6, 90.0, 100.1, 113.5]})
    figure = plots.path(worse)
    lost, gained = (the_one(figure, f"step {STEPS[at][0]}") for at in (1, 3))
    assert lost.get_edgecolor() != gained.get_edgecolor()
    assert {"slower", "−4.6", "+23.5"} <= set(words(figure))
    assert "slower" not in words(plots.path(table))


def test_a_line_goes_from_quartile_to_quartile_where_the_table_has_them(table):
    shares = table["% of cuBLAS"]
    figure = plots.path(table.assign(**{"from": shares - 1, "to": shares + 0.5}))
    for name, share in zip(table["step"], shares, strict=True):
        assert the_one(figure, f"quartiles {name}").get_xdata().tolist() == [share - 1, share + 0.5]
    assert "quartiles" in words(figure) and "quartiles" not in words(plots.path(table))


def test_every_step_is_named_with_its_numbers(figure):
    found = words(figure)
    for title, _, _, rate, _ in STEPS:
        assert title in [one.replace("\n", " ") for one in found]
        assert f"{rate:.1f}" in found
    assert {"+4.4", "−13.4", "+14.5"} <= set(found)


def test_the_caption_counts_the_steps_that_were_kept_after_the_first(figure):
    assert figure.caption == (
        "2 steps change the speed by +18.9 points of cuBLAS's, each measured beside it; together "
        "48.4 TFLOP/s become 58.0 TFLOP/s; and 1 road not taken."
    )


def test_other_things_are_refused(table):
    with pytest.raises(TypeError, match="path takes a pandas table"):
        plots.path(table.to_dict())
    with pytest.raises(ValueError, match="missing: taken"):
        plots.path(table.drop(columns="taken"))
    with pytest.raises(ValueError, match="no step of the table was taken"):
        plots.path(table.assign(taken=False))
    with pytest.raises(ValueError, match=r"TFLOP/s is 0.0 in row 0 \(as it was\)"):
        plots.path(table.replace(48.4, 0.0))
