"""The figure of the inner loops: a bar is a trip, with what was predicted and what was measured."""

import pytest
from figures import (  # noqa: F401
    test_all_of_it_can_be_read,
    test_no_text_lies_on_another,
    test_the_caption_is_a_sentence_below_everything,
    the_one,
    words,
)

from gemmlab.analysis import issue_slots
from gemmlab.lessons.register_banks import figures


@pytest.fixture(scope="module")
def table():
    return issue_slots.issue_slots()


@pytest.fixture(scope="module")
def figure(table):
    return figures.issue_slots(table)


def test_a_bar_has_the_cycles_of_a_trip(figure, table):
    for row in table.to_dict("records"):
        cycles = row["issue slots"] + row["waits"]
        for part in ("FFMA", "shared loads", "copies", "addresses", "waits"):
            bar = the_one(figure, f"{part} {row['kernel']}")
            assert bar.get_width() == pytest.approx(100 * row[part] / cycles)
        assert bar.get_x() + bar.get_width() == pytest.approx(100)  # the waits end the trip


def test_markers_stand_at_the_predicted_and_the_measured_share(figure, table):
    for row in table.to_dict("records"):
        for column in ("predicted, % of roof", "measured, % of roof"):
            mark = the_one(figure, f"{column} {row['kernel']}")
            assert mark.get_xdata().tolist() == [row[column]]
        adds = the_one(figure, f"FFMA {row['kernel']}")
        assert adds.get_width() == pytest.approx(row["predicted, % of roof"], abs=0.06)
    shapes = {
        the_one(figure, f"{column}, % of roof {table['kernel'][0]}").get_marker()
        for column in ("predicted", "measured")
    }
    assert len(shapes) == 2


def test_a_kernel_that_is_faster_than_predicted_is_named(table):
    assert "Faster than predicted" not in figures.issue_slots(table).caption
    changed = table.copy()
    changed.loc[0, "measured, % of roof"] = 99.0
    assert figures.issue_slots(changed).caption.endswith(
        f"Faster than predicted: {table['kernel'][0]}."
    )


def test_other_things_are_refused(table):
    with pytest.raises(TypeError, match="issue_slots takes a pandas table"):
        figures.issue_slots(table.to_dict())
    with pytest.raises(ValueError, match="missing: waits"):
        figures.issue_slots(table.drop(columns="waits"))
    with pytest.raises(ValueError, match="without rows"):
        figures.issue_slots(table.iloc[:0])
