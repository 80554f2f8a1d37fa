"""The way from 10 to 22: where all cycles went; a loop of 22 with its loads in other places."""

import struct
from dataclasses import replace
from itertools import pairwise

import pytest

from gemmlab import ladder
from gemmlab.cuda.disassembler import NoListing
from gemmlab.cuda.options import options_for
from gemmlab.ladder import written
from gemmlab.lessons.fp32_summit import rewriting
from gemmlab.lessons.fp32_summit import tables as summit_way
from gemmlab.lessons.fp32_summit.measure import EVERY
from gemmlab.lessons.fp32_summit.rewriting import Change, NotTheSame, require_same, rewritten
from gemmlab.lessons.fp32_summit.rung import RUNG as FP32_SUMMIT
from gemmlab.sass.inner_loop import SHARED_LOAD, class_of
from gemmlab.sass.loops import analyse
from ptxsim.compile import nvrtc


def test_no_two_steps_are_the_same():
    assert len({step.title for step in EVERY}) == len(EVERY)
    kinds = {(step.rung.name, written(step.all_settings), step.change) for step in EVERY}
    assert len(kinds) == len(EVERY)


# ---- what is recorded ----------------------------------------------------------------------------


def test_all_cycles_are_told_and_agree_with_the_recorded_speed():
    idle = {"10_register_banks": 3.0, "22_fp32_summit": 0.3}
    table = summit_way.cycles(idle)
    assert list(table) == list(idle) and list(table.loc["no work"]) == [3.0, 0.3]
    parts, last = table.iloc[:4], table.iloc[4]
    assert (parts >= 0).all(axis=None) and parts.sum().to_list() == pytest.approx([100.0, 100.0])
    assert last.to_list() == pytest.approx(table.loc["multiply-adds"].to_list(), rel=0.01)


ENTRY = "fp32_summit"


@pytest.fixture(scope="module")
def cubin():
    options = options_for(ladder.settings_for(FP32_SUMMIT, {}))
    path = FP32_SUMMIT.path
    return nvrtc.compile_anew(path.read_text(), path.name, options=options).cubin


def loads(trip):
    return [
        at
        for at, instruction in enumerate(trip.instructions)
        if class_of(instruction) == SHARED_LOAD
    ]


def test_loads_lie_further_apart_and_bring_the_same(cubin):
    spacing = 12
    before, after = analyse(cubin, ENTRY), analyse(rewritten(cubin, ENTRY, Change(spacing)), ENTRY)
    assert before.opcodes == after.opcodes
    gaps = [sorted(b - a for a, b in pairwise(loads(trip))) for trip in (before, after)]
    middle = len(gaps[0]) // 2
    assert gaps[0][middle] < spacing <= gaps[1][middle]


# ---- mistakes ------------------------------------------------------------------------------------


def broken(cubin, change):
    """The cubin with a word of the loop changed: `change` of an instruction and its words."""
    start, lines = rewriting._lines(cubin, ENTRY)
    trip = {instruction.address for instruction in analyse(cubin, ENTRY).instructions}
    for at, line in enumerate(lines):
        if line.parsed.address in trip and (words := change(line)) is not None:
            made = bytearray(cubin)
            struct.pack_into("<QQ", made, start + 16 * at, *words)
            return bytes(made)
    raise AssertionError("nothing to change")


def other_sum(line):
    """A multiply-add into the register that it reads first."""
    if line.parsed.operation == "FFMA":
        source = line.lower >> 24 & 255
        return line.lower & ~(255 << 16) | source << 16, line.upper


def other_address(line):
    if class_of(line.parsed) == SHARED_LOAD:
        return line.lower + (16 << 40), line.upper


def no_wait(line):
    if line.parsed.operation == "FFMA" and line.parsed.control.waits_for:
        return line.lower, replace(line.parsed.control, waits_for=()).put_into(line.upper)


@pytest.mark.parametrize(
    "change, message",
    (
        (other_sum, "another after one trip"), (other_address, "another after one trip"),
        (no_wait, "is in use by LDS"),
    ),
)  # fmt: skip
def test_a_loop_that_computes_something_else_is_refused(cubin, change, message):
    with pytest.raises(NotTheSame, match=message):
        require_same(cubin, broken(cubin, change), ENTRY)


def test_a_result_that_comes_too_soon_is_found(cubin, monkeypatch):
    """Without a load between, a comparison comes sooner after what it compares."""
    monkeypatch.setattr(rewriting, "_mend", lambda part, allowed: None)
    with pytest.raises(NotTheSame, match=r"needs \d more cycles"):
        rewritten(cubin, ENTRY, Change(12))


def test_a_loop_that_is_not_there_is_refused(cubin):
    with pytest.raises(NoListing, match="no kernel 'other'"):
        rewritten(cubin, "other", Change(12))
