"""The picture that sliders redraw, as a figure: see figures.py. What it shows: test_sliders.py."""

import math
from collections import defaultdict

import pytest
from figures import (  # noqa: F401
    test_all_of_it_can_be_read,
    test_no_text_lies_on_another,
    test_the_caption_is_a_sentence_below_everything,
)

import gemmlab as gl
from gemmlab import plots
from gemmlab.analysis import facts, roofline
from gemmlab.plots import style
from gemmlab.plots.kernel_view import INTENSITIES, RIGHT, RIGHT_WIDTH, ROOF_LEFT, _patterns
from gemmlab.records import roofs

SETTINGS = [
    ("01_naive", {}),
    ("03_shared_memory", {"TILE": 8, "BK": 8}),
    ("07_bank_conflicts", {"SWIZZLE": 0, "SPLIT": 0}),
    ("09_double_buffering", {"STAGES": 3}),
    ("11_fused_epilogue", {}),
    ("14_wmma", {}),
    ("14_wmma", {"BM": 128, "BN": 128, "BK": 32}),
    ("15_mma_sync", {"DTYPE": 3}),
    ("18_persistent", {}),
]


@pytest.fixture(scope="module", params=SETTINGS, ids=str)
def figure(request):
    name, settings = request.param
    return plots.kernel_view(facts.of(gl.load(name, **settings)), roofs.recorded_ceilings())


def drawn(facts_of_kernel, ceilings):
    """The picture's artists by their gid."""
    figure = plots.kernel_view(facts_of_kernel, ceilings)
    return {one.get_gid(): one for one in figure.findobj() if one.get_gid()}


@pytest.mark.parametrize("name", ["02_coalescing", "03_shared_memory", "14_wmma"])
def test_the_point_stands_at_the_dram_bytes_that_were_counted(name):
    found, kernel = facts.of(gl.load(name)), gl.load(name)
    points = roofline.points([kernel])
    (counted,) = points[points["m"] == facts.LARGE]["dram_intensity"]
    shown = drawn(found, roofs.recorded_ceilings())
    (asked, _), (at,) = shown["asked"].get_xdata(), shown["point"].get_xdata()
    low, high = INTENSITIES
    width = RIGHT + RIGHT_WIDTH - ROOF_LEFT
    apart = math.log(counted / found.intensity) / math.log(high / low)
    assert at - asked == pytest.approx(width * apart)
    assert style.digits(counted) in shown["point label"].get_text()
    assert style.digits(found.intensity) in shown["asked label"].get_text()


def test_where_dram_bytes_were_not_counted_there_is_no_point_but_all_that_it_may_be():
    found = facts.of(gl.load("14_wmma", BM=128, BN=128, BK=32))
    known = roofs.recorded_ceilings()
    shown = drawn(found, known)
    assert found.speed.gflops > found.intensity * known.bytes_per_second / 1e9
    first, last = shown["somewhere"].get_xdata()
    assert first > shown["asked"].get_xdata()[0]  # to its left the roof is lower than the speed
    assert last == pytest.approx(RIGHT + RIGHT_WIDTH)
    assert "point" not in shown and "not counted" in shown["point label"].get_text()


def test_without_roofs_there_is_a_speed_and_no_roofline():
    shown = drawn(facts.of(gl.load("03_shared_memory")), None)
    assert "TFLOP/s" in shown["speed label"].get_text()
    assert not {"point", "somewhere", "asked"} & shown.keys()


def test_loads_of_one_line_that_differ_are_shown_each():
    """Rung 11 reads A and B by a function of a header, so that both have the line of the call."""
    ours = facts.of(gl.load("11_fused_epilogue")).trace.run.accesses(warp=0)
    addresses = defaultdict(set)
    for one in ours:
        if (one.space, one.operation) == ("shared", "load"):
            addresses[one.line].add(len(set(one.addresses[one.active].tolist())))
    loads = [one for one in _patterns(ours) if one.banks.access.operation == "load"]
    for line, counts in addresses.items():
        shown = {one.addresses for one in loads if line in one.lines}
        assert shown == counts and len(counts) > 1
