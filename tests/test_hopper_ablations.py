"""Variants of 16 to 19 that are raced with the rungs: what they compute, and what is kept."""

import random
from types import SimpleNamespace

import pytest
import sample_record

from gemmlab.kernel.compiler import resources_of
from gemmlab.lessons.fp8 import measure as fp8_measure
from gemmlab.lessons.fp8.measure import ACCUMULATORS, error_of
from gemmlab.lessons.warp_specialized import comparisons
from gemmlab.lessons.warp_specialized.comparisons import (
    FASTEST_PROPOSAL,
    FIRST_CHOICE,
    LOADED,
    RESTED,
    question,
)
from gemmlab.lessons.warp_specialized.measure import ROLES
from gemmlab.measure import power
from gemmlab.measure.power import Sample

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
        spilled[step.title[:2]] = taken[step.rung.entry(step.all_settings)].spilled_bytes
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
        assert [sample.ms for sample in taken] == pytest.approx([ms] * 4)
        assert [sample.cycles for sample in taken] == pytest.approx([1500e3 * ms] * 4, rel=1e-6)


@pytest.fixture
def dry(tmp_path, monkeypatch):
    """A GPU that is made up: each side is as slow as its place in the race, and scatters."""

    class Played:
        stream = precision = None

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def side(self, kernel):
            return kernel

    def in_rounds(sides, rounds, rest_s=0.0):
        scatter = random.Random(len(sides)).uniform
        return [
            [Sample(at * scatter(0.99, 1.01), 1500 if rest_s else 1400) for _ in range(rounds)]
            for at in range(1, len(sides) + 1)
        ]

    def libraries(arena, library, shape):
        return dict.fromkeys((FIRST_CHOICE, FASTEST_PROPOSAL))

    for name, played in {
        "require_verified": lambda kernel: None, "in_rounds": in_rounds, "_libraries": libraries,
        "arena_of": lambda *_: Played(), "CublasLt": lambda stream: Played(),
        "bits_of": lambda kernel: "0" * 64,
    }.items():  # fmt: skip
        monkeypatch.setattr(comparisons, name, played)
    monkeypatch.setattr(fp8_measure, "error_of", lambda step: 1e-6)
    sample_record.measure_on(monkeypatch)
    sample_record.put(monkeypatch, tmp_path)


def test_a_race_is_kept_beside_what_was_recorded_before(dry):
    for name in ("roles", "registers", "roles"):
        question(name).remake(lambda line: None)
    table = question("roles").read()
    assert len(table) == (2 + len(ROLES)) * len(ROLES[0].shapes) * 2
    assert set(table["load"]) == {RESTED, LOADED}
    by_variant = table[(table["load"] == RESTED) & (table["m"] == 4096)].set_index("variant")
    shares = by_variant["pct_first"]
    assert shares["16"] == by_variant.loc[FIRST_CHOICE, "pct_cublas"] == 100
    assert shares["17"] == pytest.approx(100 * 3 / 6, rel=0.03)
    assert by_variant.loc["17", "cycles"] == pytest.approx(6 * 1500e3, rel=0.01)
    assert (table["pct_first_q1"] <= table["pct_first"]).all()
    assert by_variant.loc["16", "launches"] == "one after the other"
    others = question("registers").read()
    assert set(others["race"]) == {step.title for step in REGISTERS[::2]}
    assert set(others["kernel"]) == {"cublas", *(step.rung.name for step in REGISTERS)}
