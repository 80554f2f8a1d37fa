"""The way from 10 to 22: where all cycles went; a loop of 22 with its loads in other places."""

from collections import Counter
from itertools import pairwise

import pytest

from gemmlab import ladder
from gemmlab.cuda.disassembler import NoListing
from gemmlab.cuda.options import options_for
from gemmlab.ladder import written
from gemmlab.lessons.fp32_summit import rewriting
from gemmlab.lessons.fp32_summit import tables as summit_way
from gemmlab.lessons.fp32_summit.measure import EVERY
from gemmlab.lessons.fp32_summit.rewriting import ENOUGH, Change, distances, effect, rewritten
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


def came_from(trip):
    """For each instruction and name that it reads: which one wrote it last, by text and count."""
    wrote, seen, sources = {}, Counter(), {}
    for instruction in (*trip, *trip):
        writes, reads = effect(instruction)
        me = str(instruction), seen[str(instruction)]
        seen[me[0]] += 1
        sources[me] = {name: wrote.get(name) for name in reads}
        wrote |= dict.fromkeys(writes, me)
    return sources


@pytest.mark.parametrize("change", (Change(16), Change(15, first=6)), ids=str)
def test_every_operand_comes_from_where_it_came(cubin, change):
    before, after = analyse(cubin, ENTRY), analyse(rewritten(cubin, ENTRY, change), ENTRY)
    assert came_from(before.instructions) == came_from(after.instructions)


def waited_for(trip):
    """Of each load from shared memory: whether a barrier is waited for, its own or that of a load
    after it, until its result is used."""
    for at, load in enumerate(trip):
        if class_of(load) == SHARED_LOAD:
            later = (*trip[at:], *trip[:at])
            used = next(
                n for n, each in enumerate(later[1:], 1) if {*effect(load)[0]} & {*effect(each)[1]}
            )
            barriers = {each.control.write_barrier for each in later[:used]
                        if class_of(each) == SHARED_LOAD}  # fmt: skip
            yield any(barriers & {*each.control.waits_for} for each in later[1 : used + 1])


@pytest.mark.parametrize("change", (None, Change(16), Change(15, first=6)), ids=str)
def test_no_load_is_used_before_its_barrier_was_waited_for(cubin, change):
    made = rewritten(cubin, ENTRY, change) if change else cubin
    waits = list(waited_for(analyse(made, ENTRY).instructions))
    assert waits and all(waits)


def test_a_result_that_would_come_too_soon_stalls_longer(cubin, monkeypatch):
    """Without a load between, a comparison comes sooner after what it compares."""

    def shortest(binary):
        cycles_of = {}
        trip = analyse(binary, ENTRY).instructions
        for producer, user, cycles in distances(trip):
            pair = trip[producer].operation, trip[user].operation
            cycles_of[pair] = min(cycles, cycles_of.get(pair, cycles))
        return cycles_of

    allowed, made = shortest(cubin), shortest(rewritten(cubin, ENTRY, Change(12)))
    assert all(cycles >= allowed[pair] for pair, cycles in made.items())
    monkeypatch.setattr(rewriting, "_mend", lambda part, shortest: None)
    made = shortest(rewritten(cubin, ENTRY, Change(12)))
    assert any(cycles < allowed.get(pair, ENOUGH) for pair, cycles in made.items())


def test_a_loop_that_is_not_there_is_refused(cubin):
    with pytest.raises(NoListing, match="no kernel 'other'"):
        rewritten(cubin, "other", Change(12))
