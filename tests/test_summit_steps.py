"""The record of the way from 10 to 22: its rows, written, read and shown in their order."""

import struct
from dataclasses import replace
from itertools import pairwise

import pandas
import pytest
from test_sass import SOURCE as CHAIN

from gemmlab import ladder
from gemmlab.cuda.disassembler import NoListing
from gemmlab.cuda.options import options_for
from gemmlab.ladder import written
from gemmlab.lessons.fp32_summit import rewriting
from gemmlab.lessons.fp32_summit import tables as summit_way
from gemmlab.lessons.fp32_summit.measure import EVERY, TABLE, WAY
from gemmlab.lessons.fp32_summit.rewriting import (
    Change,
    NotTheSame,
    require_same,
    rewritten,
    with_control,
)
from gemmlab.lessons.fp32_summit.rung import RUNG as FP32_SUMMIT
from gemmlab.records import registry
from gemmlab.records.best_by_shape import IN_TURN, SUSTAINED
from gemmlab.sass.inner_loop import SHARED_LOAD, class_of
from gemmlab.sass.loops import analyse
from ptxsim.compile import nvrtc


def made_up(step, size, way):
    """A row with numbers that nobody measured."""
    row = dict.fromkeys(TABLE.columns, 1) | dict.fromkeys(("gpu", "driver", "cuda", "nvrtc"), "x")
    row |= {"step": step.title, "kernel": step.rung.name, "settings": written(step.all_settings)}
    row |= {"m": size, "n": size, "k": size, "way": way, "cublas": "x"}
    row |= {"error": None, "cublas_error": None, "recorded": "2026-01-01T00:00:00+00:00"}
    return row


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "RESULTS", tmp_path)
    (tmp_path / "nvidia-x").mkdir()
    (tmp_path / "nvidia-x" / registry.RUNS).write_text("{}")
    in_turn = [made_up(step, size, IN_TURN) for step in EVERY for size, *_ in step.shapes]
    return [*in_turn, made_up(WAY[-1], 4096, SUSTAINED)]


def test_no_two_steps_are_the_same():
    assert len({step.title for step in EVERY}) == len(EVERY)
    kinds = {(step.rung.name, written(step.all_settings), step.change) for step in EVERY}
    assert len(kinds) == len(EVERY)


# ---- what is recorded ----------------------------------------------------------------------------

SHAPE = "4096×4096×4096"


def test_all_cycles_are_told_and_agree_with_the_recorded_speed():
    idle = {"10_register_banks": 3.0, "22_fp32_summit": 0.3}
    table = summit_way.cycles(idle)
    assert list(table) == list(idle) and list(table.loc["no work"]) == [3.0, 0.3]
    parts, last = table.iloc[:4], table.iloc[4]
    assert (parts >= 0).all(axis=None) and parts.sum().to_list() == pytest.approx([100.0, 100.0])
    assert last.to_list() == pytest.approx(table.loc["multiply-adds"].to_list(), rel=0.01)


def test_the_speedup_by_counts_is_the_product_of_both_ratios(rows):
    TABLE.write(pandas.DataFrame(rows), "nvidia-x")  # every step 1 TFLOP/s
    names = [WAY[0].rung.name, WAY[-1].rung.name]
    slots = pandas.DataFrame([[110, 100]], index=["issue slots"], columns=names)
    counts = pandas.DataFrame(
        {"M×N×K": [SHAPE] * 2, "blocks": ["whole tiles", "stream-K"], "idle, %": [20.0, 0.0]}
    )
    promised = summit_way.by_counts(counts, slots)
    assert list(promised.index) == [SHAPE], "other squares have no counts"
    assert promised.loc[SHAPE].to_list() == pytest.approx([1.0, 1.1 / 0.8, 1.0])


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


def test_no_change_changes_nothing(cubin):
    assert rewritten(cubin, ENTRY, Change()) == cubin


def test_loads_lie_further_apart_and_bring_the_same(cubin):
    spacing = 12
    before, after = analyse(cubin, ENTRY), analyse(rewritten(cubin, ENTRY, Change(spacing)), ENTRY)
    assert before.opcodes == after.opcodes
    gaps = [sorted(b - a for a, b in pairwise(loads(trip))) for trip in (before, after)]
    middle = len(gaps[0]) // 2
    assert gaps[0][middle] < spacing <= gaps[1][middle]


def test_the_change_of_stage_moves_behind_the_loop(cubin):
    before, after = (
        analyse(binary, ENTRY) for binary in (cubin, rewritten(cubin, ENTRY, Change(behind=True)))
    )
    assert after.opcodes["BSYNC"] == 0 < before.opcodes["BSYNC"]
    assert len(after) < len(before) and after.mix["multiply-adds"] == before.mix["multiply-adds"]
    places = [instruction.address for instruction in after.instructions]
    assert all(b - a == 16 for a, b in pairwise(places))  # nothing is jumped over


def test_yields_and_reuse_are_as_asked_for(cubin):
    yields = analyse(rewritten(cubin, ENTRY, Change(yields=16)), ENTRY).multiply_adds
    assert sum(instruction.control.yields for instruction in yields) == len(yields) // 16
    trip = analyse(rewritten(cubin, ENTRY, Change(reuse=False)), ENTRY).instructions
    assert not any(
        instruction.control.reuse for instruction, following in pairwise(trip)
        if instruction.operation == "FFMA" and class_of(following) == SHARED_LOAD
    )  # fmt: skip


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


def test_control_bits_of_one_slot_are_changed_and_no_others(cubin):
    slot = next(
        n
        for n, instruction in enumerate(analyse(cubin, ENTRY).instructions)
        if instruction.control.waits_for
    )
    changed = with_control(cubin, ENTRY, slot, waits_for=())
    before, after = (analyse(binary, ENTRY).instructions for binary in (cubin, changed))
    others = [n for n, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
    assert others == [slot] and after[slot].control == replace(before[slot].control, waits_for=())
    with pytest.raises(NotTheSame, match="is in use by LDS"):
        require_same(cubin, changed, ENTRY)
    with pytest.raises(ValueError, match="issue slots 0 to"):
        with_control(cubin, ENTRY, len(before), stall=2)


def test_a_result_that_comes_too_soon_is_found(cubin, monkeypatch):
    """Without a load between, a comparison comes sooner after what it compares."""
    monkeypatch.setattr(rewriting, "_mend", lambda part, allowed: None)
    with pytest.raises(NotTheSame, match=r"needs \d more cycles"):
        rewritten(cubin, ENTRY, Change(spacing=12))


def test_a_branch_that_is_not_aimed_anew_is_found(cubin, monkeypatch):
    monkeypatch.setattr(rewriting, "_aim", lambda lines: None)
    with pytest.raises((NotTheSame, NoListing)):
        rewritten(cubin, ENTRY, Change(behind=True))


def test_a_loop_of_another_form_is_refused():
    program = nvrtc.compile_anew(CHAIN, "chain.cu", arch="sm_90a")
    assert rewritten(program.cubin, "chain", Change()) == program.cubin
    with pytest.raises(NoListing, match="stretches; 2 can be rewritten"):
        rewritten(program.cubin, "chain", Change(behind=True))
    with pytest.raises(NoListing, match="no kernel 'other'"):
        rewritten(program.cubin, "other", Change())
