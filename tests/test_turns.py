"""Producer and consumers at work: their turns in a trace, the figure, and the player."""

import pytest
from test_step_player import words_of

import gemmlab as gl
from gemmlab.lessons.warp_specialized import tables as register_budget
from gemmlab.lessons.warp_specialized import turns
from gemmlab.lessons.warp_specialized.lab import ring_player
from ptxsim.architectures import REGISTERS_PER_SM

STEPS = 7
TILE = (128, 256)


def traced(name, k=STEPS * turns.STEP, **settings):
    return turns.of(gl.load(name, **settings).trace(*TILE, k))


@pytest.mark.parametrize("stages", (2, 4))
def test_stages_take_turns_and_none_is_filled_before_all_have_read_it(stages):
    traced_turns = traced("17_warp_specialized", STAGES=stages)
    assert (traced_turns.stages, traced_turns.steps) == (stages, STEPS)
    for step in range(STEPS):
        (copies,) = traced_turns.of(turns.COPIES, step)
        assert copies.stage == step % stages
        for kind in (turns.AWAITS_FULL, turns.STARTS):
            both = traced_turns.of(kind, step)
            assert len(both) == 2 and all(turn.until > copies.begin for turn in both)
            assert {turn.stage for turn in both} == {copies.stage}
        if step >= stages:
            arrived = traced_turns.of(turns.ARRIVES, step - stages)
            assert len(arrived) == 2 and all(turn.begin < copies.begin for turn in arrived)


def test_the_player_moves_through_moments_and_stages():
    player = ring_player("17_warp_specialized", BN=128)
    assert list(player.stages.options) == [2, 3, 4, 6] and player.stages.value == 4
    assert words_of(player).startswith("Moment 1 of") and player.slider.max > 20
    first = player.picture.value
    player.slider.value = 9
    assert player.picture.value != first
    seen = player.picture.value
    player.stages.value = 2
    assert player.picture.value != seen and words_of(player).startswith("Moment 9 of")
    player.stages.value = 4
    assert player.picture.value == seen
    with pytest.raises(gl.LadderError):
        ring_player("17")


def test_registers_that_one_role_releases_go_to_the_other():
    kernel = gl.load("17_warp_specialized")
    table = register_budget.register_budget(kernel)
    threads, at_launch, then = (table[column] for column in table)
    assert threads.tolist() == [128, 256] and at_launch.nunique() == 1
    assert then["producer"] < at_launch.iloc[0] < then["consumers"]
    for registers in (at_launch, then):
        assert (threads * registers).sum() <= REGISTERS_PER_SM
    assert kernel.resources("sm_90a").iloc[0]["registers per thread"] == at_launch.iloc[0]
