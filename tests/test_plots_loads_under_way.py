"""The figure of loads under way: bars from a load to who waits for it."""

from dataclasses import replace

import pytest
from figures import (  # noqa: F401
    test_all_of_it_can_be_read,
    test_no_text_lies_on_another,
    test_the_caption_is_a_sentence_below_everything,
    the_one,
)

from gemmlab.lessons.fp32_summit import figures as fp32_summit_figures
from gemmlab.lessons.fp32_summit import hazards
from gemmlab.lessons.fp32_summit.figures import SLOTS
from gemmlab.loading import load
from gemmlab.sass import loops
from gemmlab.sass.inner_loop import SHARED_LOAD, Loop, class_of

NAMES = ("09_double_buffering", "10_register_banks")


@pytest.fixture(scope="module")
def trips():
    return {name: loops.loop(load(name, "sm_90a")) for name in NAMES}


@pytest.fixture(scope="module")
def figure(trips):
    return fp32_summit_figures.loads_under_way(trips)


def test_a_bar_reaches_from_a_load_to_an_instruction_that_waits(figure, trips):
    for name, trip in trips.items():
        for start, end in hazards.flights(trip.instructions):
            assert class_of(trip.instructions[start]) == SHARED_LOAD
            assert trip.instructions[end % len(trip)].control.waits_for
            if start < SLOTS:
                bar = the_one(figure, f"load at {start} of {name}")
                assert bar.get_x() == start
                assert bar.get_x() + bar.get_width() == min(end, SLOTS)


def test_every_load_is_waited_for_before_its_result_is_used(trips):
    """Bars end no later than the first use of what the load brings."""
    for trip in trips.values():
        code = trip.instructions * 2
        for start, end in hazards.flights(trip.instructions):
            mine = set(hazards.effect(code[start]).writes)
            uses = (at for at in range(start + 1, len(code))
                    if mine & set(hazards.effect(code[at]).reads))  # fmt: skip
            assert end <= next(uses, end)  # some load nothing, for nobody


def test_other_things_are_refused(trips):
    with pytest.raises(ValueError, match="a loop or more"):
        fp32_summit_figures.loads_under_way({})
    (trip, *_) = trips.values()
    bare = Loop(tuple(replace(one, control=None) for one in trip.instructions))
    with pytest.raises(ValueError, match="listing of it was made without control bits"):
        fp32_summit_figures.loads_under_way({"it": bare})
    with pytest.raises(ValueError, match="it loads nothing from shared memory"):
        fp32_summit_figures.loads_under_way({"it": Loop(tuple(trip.multiply_adds))})
