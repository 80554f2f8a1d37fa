"""The lab: illegal choices get a reason, nothing is stale (legal ones: test_settings.py)."""

import re
from itertools import product

import pytest

import gemmlab as gl
from gemmlab import ladder
from gemmlab.analysis import facts
from gemmlab.notebook import sliders
from gemmlab.plots.kernel_view import _patterns
from gemmlab.simulator.counters import FMA_METRIC


def test_a_kernel_is_answered_with_the_name_of_its_rung():
    with pytest.raises(ladder.LadderError, match=r"not a kernel: gl\.lab\('01_naive'\) has the"):
        gl.lab(gl.load("01_naive"))


def every_combination(rung):
    names = [one.name for one in rung.parameters]
    for values in product(*(one.legal for one in rung.parameters)):
        yield dict(zip(names, values, strict=True))


def shown(lab) -> bool:
    return bool(lab.picture.value) and lab.picture.layout.display is None


def said(lab) -> str:
    return re.sub("<[^>]*>", "", lab.message.value)


@pytest.mark.parametrize("rung", gl.RUNGS, ids=lambda rung: rung.name)
def test_every_illegal_choice_gives_a_reason_and_a_way_out(rung, monkeypatch):
    monkeypatch.setattr(sliders, "_view", lambda *_: sliders.View(b"picture", "", "", ""))
    lab = gl.lab(rung.name)
    legal = ladder.legal_settings(rung)
    for settings in every_combination(rung):
        lab.choose(settings)
        assert shown(lab) == (settings in legal)
        if settings in legal:
            continue
        assert rung.broken(settings).split(":")[0] in said(lab).replace("&#x27;", "'")
        assert not lab.caption.value and not lab.lines.value and not lab.numbers.value
        lab.offer.click()
        assert shown(lab) and lab.settings in legal and said(lab) == ""
        assert lab.offer.layout.display == "none"


def test_a_slider_moves_the_picture_and_back_again():
    lab = gl.lab("03_shared_memory")
    first = lab.picture.value
    lab.sliders["TILE"].value = 16
    other = lab.picture.value
    assert other != first and "16 × 16 elements" in lab.caption.value
    lab.sliders["TILE"].value = 32
    assert lab.picture.value == first


def test_only_parameters_can_be_chosen_and_nothing_is_traced_while_a_slider_is_dragged():
    lab = gl.lab("02_coalescing")
    for parameter in lab.rung.parameters:
        slider = lab.sliders[parameter.name]
        assert slider.options == parameter.legal and not slider.continuous_update
    with pytest.raises(gl.LadderError, match="99_none"):
        gl.lab("99_none")


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
    assert not shown(lab) and "needs sm_80 or newer" in said(lab)
    assert lab.offer.layout.display == "none"  # other settings of this rung are no cure
    lab.arch.value = "sm_80"
    assert shown(lab)


def test_as_text_the_lab_is_short_and_names_its_sliders():
    assert repr(gl.lab("03_shared_memory")).startswith(
        "Sliders for 03_shared_memory: TILE, BK, PAD."
    )


@pytest.mark.parametrize(("swizzle", "most"), [(0, 4), (1, 1)])
def test_the_banks_in_the_picture_are_those_of_the_counters(swizzle, most):
    """Storing A transposed, 4 bytes a lane, 4 lanes meet in a bank unless they are swizzled."""
    found = facts.of(gl.load("07_bank_conflicts", PAD=0, SWIZZLE=swizzle, SPLIT=1))
    patterns = _patterns(found.trace.run.accesses(warp=0))
    stores = [
        p for p in patterns if (p.banks.access.operation, p.banks.access.size) == ("store", 4)
    ]
    assert max(len(p.cells) for p in stores) == most
    assert patterns[0].banks.wavefronts == max(p.banks.wavefronts for p in patterns)
    assert found.trace.counters[FMA_METRIC] > 0
