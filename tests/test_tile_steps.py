"""What a step along K costs in barriers."""

import pytest

import gemmlab
from gemmlab.lessons.warp_tiling import tables as tile_steps

BEFORE, NAME = "08_warp_tiling", "09_double_buffering"


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [(BEFORE, {}, 2 * 5), (NAME, {}, 5 + 1), (NAME, {"STAGES": 3}, 5)],
)
def test_barriers_of_five_steps(name, settings, expected):
    assert tile_steps.barriers(gemmlab.load(name, **settings), steps=5) == expected
