"""Variants of 16 to 19 that are raced with the rungs: what they compute, and what is kept."""

from types import SimpleNamespace

import pytest

from gemmlab.kernel.compiler import resources_of
from gemmlab.lessons.fp8.measure import ACCUMULATORS, error_of
from gemmlab.lessons.warp_specialized.measure import ROLES
from gemmlab.measure import power
from gemmlab.records import comparisons
from gemmlab.records.comparisons import question

REGISTERS = question("registers").steps
CHANGED = [
    *((ROLES[0], step) for step in ROLES if step.changes),
    *((steps[0], step) for steps in ACCUMULATORS for step in steps if step.changes),
    *zip(REGISTERS[::2], REGISTERS[1::2], strict=True),
]
BY_TITLE = {step.title: step for step in ROLES}


@pytest.mark.parametrize(("first", "step"), CHANGED, ids=lambda step: step.title)
def test_a_change_leaves_the_bits_as_they_are(first, step):
    assert comparisons.bits_of(step.kernel()) == comparisons.bits_of(first.kernel())


@pytest.mark.parametrize(("what", "sent"), [
    ("16", 0), ("16, C sent by tensor map", 8), ("17, C stored by its threads", 0), ("17", 8),
])  # fmt: skip
def test_c_goes_by_tensor_map_or_by_threads(what, sent):
    boxes = BY_TITLE[what].kernel().trace(128, 256, 64).run.boxes()
    assert sum(box.operation == "store" for box in boxes) == sent  # of 64×64, of 128×256


def test_promotion_bounds_the_error_whatever_the_number_of_sets():
    errors = [error_of(step) for step in ACCUMULATORS[0]]
    assert errors[0] == errors[1] < errors[2] < errors[3] / 5 and errors[3] == errors[4]


def test_only_17_has_the_registers_that_it_needs_without_moving_any():
    spilled = {}
    for step in REGISTERS[1::2]:
        kernel = step.kernel()
        taken = resources_of(kernel.text, "stay.cu", "sm_90a", step.all_settings)
        spilled[step.title[:2]] = taken[step.rung.entry(step.all_settings)].spill_store_bytes
    assert spilled["17"] == 0 and spilled["18"] > 0 and spilled["19"] > 0


# ---- races ---------------------------------------------------------------------------------------


def test_each_round_has_a_sample_of_each_side_with_the_clock_around_it(monkeypatch):
    """The GPU is played: its clock runs at 1,500 MHz, and a launch takes 2 ms or 3 ms."""
    import cupy
    import numpy as np

    now, slept = [0.0], []
    stream = SimpleNamespace(record=lambda: now[0], synchronize=lambda: None)

    class Clock:
        def read(self):
            at = np.array([[1500 * now[0] * 1e3 + 1, now[0] * 1e6 + 1]], np.int64)
            return SimpleNamespace(get=lambda: at)

    def side(ms, launches):
        def sample():
            now[0] += ms * launches

        return SimpleNamespace(sample=sample, launches=launches)

    monkeypatch.setattr(power, "SmClock", Clock)
    monkeypatch.setattr(cupy.cuda, "get_current_stream", lambda: stream)
    monkeypatch.setattr(cupy.cuda, "get_elapsed_time", lambda start, end: end - start)
    monkeypatch.setattr(cupy, "empty", lambda *_: SimpleNamespace(fill=lambda value: None))
    monkeypatch.setattr(power.time, "sleep", slept.append)
    samples = power.in_rounds([side(2.0, 3), side(3.0, 2)], 4, 0.3)
    assert slept == [0.3] * 4
    for taken, ms in zip(samples, (2.0, 3.0), strict=True):
        assert [one.ms for one in taken] == pytest.approx([ms] * 4)
        assert [one.cycles for one in taken] == pytest.approx([1500e3 * ms] * 4, rel=1e-6)
