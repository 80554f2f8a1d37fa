"""What a step along K costs: instructions that are executed, and barriers."""

import pytest

import gemmlab
from gemmlab.lessons.warp_tiling import tables as tile_steps

BEFORE, NAME = "08_warp_tiling", "09_double_buffering"


def test_instructions_of_a_step_are_those_that_the_source_asks_for():
    variants = {str(s): gemmlab.load(NAME, STAGES=s) for s in (1, 3)}
    table = tile_steps.instructions(variants)
    # 8×8 sums, 8 along K; for each k four pieces of 16 bytes.
    assert (table["multiply-adds"] == 512).all() and (table["shared loads"] == 32).all()
    # Through registers: a load of each matrix, four stores of A's and one of B's. Copied: four of
    # A, one of B, the end of the group, the wait.
    assert table.loc["1", ["global loads", "shared stores"]].tolist() == [2, 5]
    assert table.loc["3", "copies, groups, waits"] == 7
    assert table.loc["3", ["global loads", "shared stores"]].tolist() == [0, 0]
    assert (table.drop(columns="together").sum(axis=1) == table.together).all()


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [(BEFORE, {}, 2 * 5), (NAME, {}, 5 + 1), (NAME, {"STAGES": 3}, 5)],
)
def test_barriers_of_five_steps(name, settings, expected):
    assert tile_steps.barriers(gemmlab.load(name, **settings), steps=5) == expected
