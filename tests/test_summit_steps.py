"""What is recorded of the way from 10 to 22, and of its loop written anew."""

import re

import pytest

from gemmlab.folders import ROOT
from gemmlab.ladder import written
from gemmlab.records.experiments import summit_steps
from gemmlab.records.experiments.summit_steps import (
    BURST,
    EVERY,
    IN_TURN,
    LARGE,
    REWRITTEN,
    SUSTAINED,
    WAY,
)


@pytest.fixture(scope="module")
def table():
    return summit_steps.EVIDENCE.read()


def test_the_way_is_recorded_and_nothing_that_is_no_step(table):
    def rows(steps):
        ways = {False: (IN_TURN,), True: (IN_TURN, BURST, SUSTAINED)}
        return {
            (step.what, written(step.full), size, way)
            for step in steps for size in step.sizes
            for way in ways[step.at_length and size in (LARGE, summit_steps.HUGE)]
        }  # fmt: skip

    recorded = set(zip(table.step, table.settings, table.m, table.way, strict=True))
    assert rows((*WAY, *REWRITTEN)) <= recorded <= rows(EVERY)


def test_ways_are_shown_in_their_order():
    for chosen in (WAY, REWRITTEN):
        shown = summit_steps.steps(chosen)
        assert list(dict.fromkeys(shown["step"])) == [step.what for step in chosen]
    assert set(summit_steps.steps(WAY, SUSTAINED)["step"]) == {WAY[0].what, WAY[-1].what}


def test_errors_stand_beside_those_of_cublas(table):
    known = table[(table.way == IN_TURN) & (table.m == LARGE)]
    assert known["error"].notna().all() and known["cublas_error"].notna().all()
    # Of sums of 4096 products in float32, in any order: far from the bound, and not exact.
    assert known["error"].between(1e-8, 1e-5).all()
    assert known["cublas_error"].between(1e-8, 1e-5).all()


def test_the_readme_has_the_recorded_shares():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    said = text[text.index("`kernels/22_fp32_summit.cu`") :].partition("\n")[0]
    shown = [summit_steps.steps(WAY[-1:]), summit_steps.steps(REWRITTEN[-1:])]
    shares = [f"{share:.1f}" for part in shown for share in part["% of cuBLAS"]]
    assert re.findall(r"([\d.]+) %", said) == shares
