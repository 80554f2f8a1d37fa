"""The picture that sliders redraw, as a figure: see figures.py. What it shows: test_sliders.py."""

import pytest
from figures import (  # noqa: F401
    test_all_of_it_can_be_read,
    test_no_text_lies_on_another,
    test_the_caption_is_a_sentence_below_everything,
)

import gemmlab as gl
from gemmlab import plots
from gemmlab.analysis import facts
from gemmlab.records import roofs

SETTINGS = [
    ("01_naive", {}),
    ("03_shared_memory", {"TILE": 8, "BK": 8}),
    ("07_bank_conflicts", {"SWIZZLE": 0, "SPLIT": 0}),
    ("09_double_buffering", {"STAGES": 3}),
]


@pytest.fixture(scope="module", params=SETTINGS, ids=lambda one: one[0])
def figure(request):
    name, settings = request.param
    return plots.kernel_view(facts.of(gl.load(name, **settings)), roofs.recorded_ceilings())
