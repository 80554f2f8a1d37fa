"""The figures of several GPUs: what they draw is what schedules and timelines say."""

import pytest

from gemmlab.ladder import Problem
from gemmlab.ladder.precision import BRAIN
from gemmlab.lessons.multi_gpu import figures as multi_gpu_figures
from gemmlab.lessons.multi_gpu import schedules as make
from gemmlab.lessons.multi_gpu import timeline as clock
from gemmlab.lessons.multi_gpu.in_turn import COMES, HOLDS, NONE, holdings
from gemmlab.lessons.multi_gpu.timeline import Machine

SMALL, LARGE = Problem(12, 8, 6), Problem(8192, 8192, 8192)
MACHINE = Machine(600e12, 4e12, 300e9, 50e9)


def test_what_ranks_hold_is_traced_through_the_messages():
    first, second = holdings(make.column_parallel(SMALL, 2, 3))
    assert (first["A"][:6] == HOLDS).all() and (first["A"][6:] == COMES).all()
    assert (first["B"][:, :4] == HOLDS).all() and (first["B"][:, 4:] == NONE).all()
    assert (first["C"][:, :4] == HOLDS).all() and (first["C"][:, 4:] == NONE).all()
    assert (second["A"] == HOLDS).sum() == 36 and (second["C"][:, 4:] == HOLDS).all()


def test_parts_of_sums_for_others_are_told_apart():
    first, second = holdings(make.row_parallel(SMALL, 2))
    assert (first["A"][:, :3] == HOLDS).all() and (first["A"][:, 3:] == NONE).all()
    assert (first["C"][:6] == HOLDS).all() and (first["C"][6:] == COMES).all()
    assert (second["C"][:6] == COMES).all() and (second["C"][6:] == HOLDS).all()


def test_the_timeline_says_how_long_a_gpu_multiplies_nothing_and_that_it_is_modelled():
    timeline = clock.modelled(make.column_parallel(LARGE, 2, 4), MACHINE, BRAIN)
    caption = multi_gpu_figures.rank_timeline(timeline).caption
    (open_gather,) = (step for step in timeline.of(0) if step.name == "gather 0")
    assert timeline.idle_ms(0) == pytest.approx(open_gather.ms)
    assert f"for {open_gather.ms:.2f} ms GPU 0 multiplies nothing" in caption
    assert caption.endswith("A model, not measured: 600 TFLOP/s a GPU, 300 GB/s a link one way.")
