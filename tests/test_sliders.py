"""The lab: illegal choices get a reason, nothing is stale (legal ones: test_settings.py)."""

import html
import random
import re
from dataclasses import replace
from itertools import product
from math import prod
from types import SimpleNamespace

import numpy as np
import pytest

import gemmlab as gl
from gemmlab import ladder
from gemmlab.kernel import prebuilt
from gemmlab.notebook import lab as sliders
from gemmlab.notebook.lab import View
from gemmlab.records import runs, tuning
from gemmlab.records.registry import NoRecord

MOST = 1000  # combinations that are all tried


def combinations(rung):
    """Of the values of all parameters: every one, or some where there are many.

    These are one move from legal settings, for others break many conditions at a time.
    """
    names = [parameter.name for parameter in rung.parameters]
    if prod(len(parameter.legal) for parameter in rung.parameters) <= MOST:
        for values in product(*(parameter.legal for parameter in rung.parameters)):
            yield dict(zip(names, values, strict=True))
        return
    chance = random.Random(7)
    for settings in chance.choices(prebuilt.all_settings(rung.name), k=20):
        moved = chance.choice(rung.parameters)
        yield settings | {moved.name: chance.choice(moved.legal)}


def shown(lab) -> bool:
    return bool(lab.picture.value) and lab.picture.layout.display is None


def words_of(lab) -> str:
    return re.sub("<[^>]*>", "", lab.message.value)


@pytest.fixture
def without_tracing(monkeypatch):
    lines = SimpleNamespace(_repr_html_=lambda: "")
    monkeypatch.setattr(sliders, "view_of", lambda *_: View(b"picture", (), lines, ()))
    monkeypatch.setattr(sliders, "load", lambda name, *_, **given: ladder.find(name))


@pytest.mark.parametrize("rung", gl.RUNGS, ids=lambda rung: rung.name)
def test_every_illegal_choice_gives_a_reason_and_a_way_out(rung, without_tracing):
    lab = gl.lab(rung.name)
    legal = {frozenset(settings.items()) for settings in ladder.legal_settings(rung)}
    for settings in combinations(rung):
        lab.choose(settings)
        is_legal = frozenset(settings.items()) in legal
        assert shown(lab) == is_legal
        if is_legal:
            continue
        assert rung.broken(settings).split(":")[0] in words_of(lab).replace("&#x27;", "'")
        assert not lab.caption.value and not lab.lines.value and not lab.numbers.value
        lab.offer.click()
        assert shown(lab) and frozenset(lab.settings.items()) in legal and words_of(lab) == ""
        assert lab.offer.layout.display == "none"


def test_it_opens_with_the_settings_that_are_asked_for():
    lab = gl.lab("14_wmma", BM=64, BN=64, BK=np.int64(16), STAGES=0)
    assert lab.settings == {"BM": 64, "BN": 64, "BK": 16, "WM": 64, "WN": 64, "STAGES": 0}
    assert shown(lab) and not words_of(lab)
    assert all(type(value) is int for value in lab.settings.values())


def test_it_opens_with_a_refusal_for_settings_that_do_not_go_together():
    lab = gl.lab("14_wmma", STAGES=0)
    assert not shown(lab) and lab.settings["STAGES"] == 0
    assert "is one warp that shares nothing" in words_of(lab)
    assert "The nearest with STAGES=0: from BM=128 to BM=64, " in words_of(lab)
    lab.offer.click()
    assert shown(lab) and lab.settings["STAGES"] == 0


def test_the_way_out_keeps_the_move(without_tracing):
    lab = gl.lab("10_register_banks", PTXAS=3)
    lab.sliders["TN"].value = 8
    assert words_of(lab).endswith("The nearest with TN=8: from PTXAS=3 to PTXAS=1.")
    assert lab.offer.description == "Use PTXAS=1"
    lab.offer.click()
    assert shown(lab)
    assert (lab.settings["TN"], lab.settings["PTXAS"]) == (8, 1)
    lab.sliders["PTXAS"].value = 3
    assert words_of(lab).endswith("The nearest with PTXAS=3: from TN=8 to TN=16.")
    lab.arch.value = "sm_80"  # no move of a slider
    assert words_of(lab).endswith("The nearest with PTXAS=3: from TN=8 to TN=16.")


def test_the_refusal_says_when_nothing_legal_keeps_the_move(without_tracing):
    lab = gl.lab("02_coalescing")
    never = ladder.Constraint("never", lambda s: "is not for now" if s["BLOCK_X"] == 32 else None)
    lab.rung = replace(lab.rung, constraints=(*lab.rung.constraints, never))
    lab.sliders["BLOCK_X"].value = 32
    refusal = "is not for now. Nothing legal has BLOCK_X=32. The nearest: from BLOCK_X=32"
    assert refusal in words_of(lab)
    lab.offer.click()
    assert shown(lab) and lab.settings["BLOCK_X"] != 32


@pytest.mark.parametrize("record", ["none", "no roofs"])
def test_without_records_only_the_speed_is_missing(record, monkeypatch):
    tuning.kept.cache_clear()
    if record == "none":
        monkeypatch.setenv("GEMMLAB_RECORDS", "nvidia-none")
        reason = "No roofline: GEMMLAB_RECORDS='nvidia-none' names no record"
    else:
        bare = {name: value for name, value in runs.current().items() if name != "ceilings"}
        monkeypatch.setattr(runs, "current", lambda: bare | {"rungs": {}})
        monkeypatch.setattr(tuning, "of", nothing_recorded)
        reason = "No roofline: 00_ceilings is not recorded on NVIDIA H200"
    for name, moved in (("03_shared_memory", {"TILE": 16}), ("14_wmma", {"BM": 64})):
        lab = gl.lab(name)
        first = lab.picture.value
        assert shown(lab) and reason in html.unescape(lab.caption.value)
        assert "not recorded" in lab.numbers.value and "cuBLAS" not in lab.caption.value
        lab.choose(moved)
        assert shown(lab) and lab.picture.value != first


def nothing_recorded(*_):
    raise NoRecord("nothing is recorded")


def test_another_architecture_changes_registers_and_occupancy_alone():
    lab = gl.lab("03_shared_memory")
    before = lab.lines.value, lab.caption.value
    lab.arch.value = "sm_75"
    assert shown(lab) and lab.lines.value == before[0]
    assert "on sm_75" in lab.caption.value and "on sm_90a" in before[1]


def test_an_architecture_that_the_settings_do_not_run_on_is_refused_in_place():
    lab = gl.lab("09_double_buffering")
    lab.sliders["STAGES"].value = 2
    lab.arch.value = "sm_75"
    assert not shown(lab) and "needs sm_80 or newer" in words_of(lab)
    assert lab.offer.layout.display == "none"  # other settings of this rung are no cure
    lab.arch.value = "sm_80"
    assert shown(lab)
