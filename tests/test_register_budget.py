"""Registers of producer and consumers, as the assembler and setmaxnreg divide them."""

import pytest

import gemmlab as gl
from gemmlab.lessons.warp_specialized import figures
from gemmlab.lessons.warp_specialized import tables as register_budget
from ptxsim.architectures import REGISTERS_PER_SM


def test_what_one_role_gives_back_the_other_takes():
    kernel = gl.load("17_warp_specialized")
    producer, consumers = register_budget.register_budget(kernel)
    assert producer.threads + consumers.threads == 384 and consumers.threads == 256
    assert producer.then < producer.at_launch == consumers.at_launch < consumers.then
    for when in ("at_launch", "then"):
        assert sum(one.threads * getattr(one, when) for one in (producer, consumers)) <= (
            REGISTERS_PER_SM
        )
    assert kernel.resources("sm_90a").iloc[0]["registers per thread"] == producer.at_launch


def test_kernels_that_move_none_are_refused():
    for one in (gl.load("16_tma_wgmma"), gl.load("17_warp_specialized", BM=64, BN=128)):
        with pytest.raises(ValueError, match="moves no registers"):
            register_budget.register_budget(one)
    with pytest.raises(TypeError, match="takes a kernel"):
        register_budget.register_budget("17_warp_specialized")


def test_the_figure_has_the_shares():
    shares = register_budget.register_budget(gl.load("17_warp_specialized"))
    (ax,) = figures.register_budget(shares).axes
    drawn = {one.get_gid(): one for one in ax.patches}
    for one in shares:
        for when in ("at_launch", "then"):
            assert drawn[f"{one.role} {when}"].get_width() == one.threads * getattr(one, when)
    assert {one.get_text() for one in ax.texts} >= {"128 × 40", "consumers: 256 threads × 232"}
