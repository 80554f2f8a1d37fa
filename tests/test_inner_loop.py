"""The lines that matter: found in every rung's file, few, and shown with their numbers."""

import re
from dataclasses import replace

import pytest

import gemmlab as gl
from gemmlab.folders import kernel_file
from gemmlab.ladder import LadderError
from gemmlab.notebook.inner_loop import lines


@pytest.mark.parametrize("rung", gl.RUNGS, ids=lambda rung: rung.name)
def test_every_rung_shows_a_few_lines_of_its_file(rung):
    listing = lines(rung)
    file = kernel_file(rung.inner_loop_in) if rung.inner_loop_in else rung.path
    source = file.read_text(encoding="utf-8").splitlines()
    assert 6 <= len(listing.numbers) <= 27
    for number, line in zip(listing.numbers, listing.text.splitlines(), strict=True):
        assert line == "..." if number is None else line.strip() == source[number - 1].strip()
    numbers = [number for number in listing.numbers if number]
    assert numbers == sorted(set(numbers))


def test_two_rungs_stand_side_by_side_under_their_names():
    shown = gl.inner_loop("03_shared_memory", beside="02_coalescing")
    assert re.match(
        r"02_coalescing\.cu\n20  const int row(?s:.*)03_shared_memory\.cu\n", repr(shown)
    )
    assert shown._repr_html_().count("<pre") == 2


def test_a_rung_without_an_inner_loop_says_so():
    with pytest.raises(LadderError, match="has no inner_loop"):
        lines(replace(gl.RUNGS[0], inner_loop=()))
