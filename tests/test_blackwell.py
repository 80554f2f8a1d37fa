"""26, with accumulators in tensor memory: right at any shape, and each of its waits needed."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gemmlab as gl
from gemmlab.cuda.device import arch_of
from gemmlab.kernel import verify
from gemmlab.kernel.in_simulator import findings_of
from gemmlab.ladder import IllegalSetting, legal_settings, nearest_on
from gemmlab.lessons.blackwell import figures, tables
from gemmlab.lessons.blackwell.kernels import ARCH, BLACKWELL, LANES

NAME = BLACKWELL.name
SMALL = {"BN": 64, "STAGES": 2}
PAIR = {"BN": 128, "STAGES": 2, "CTAS": 2}


def few_blocks(sm_count=1, **how):
    return gl.load(NAME, **how).scheduled_for(sm_count)


# ---- right results -------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [SMALL, PAIR], ids=["one SM a tile", "two SMs a tile"])
def test_it_is_right_at_the_shapes_of_the_gate(how):
    assert gl.load(NAME, **how).verify(seed=1).require().passed


@pytest.mark.parametrize("how", [SMALL, PAIR], ids=["one SM a tile", "two SMs a tile"])
def test_checks_find_nothing_in_it(how):
    report = gl.load(NAME, **how).check()
    assert report.passed and len(report.cases) >= 4, report


@pytest.mark.parametrize(
    ("how", "shape"),
    [
        ({}, (129, 264, 200)), ({"BN": 128, "STAGES": 6}, (257, 136, 72)),
        ({"CTAS": 2, "STAGES": 6}, (300, 264, 136)), ({**PAIR, "GROUP": 1}, (520, 392, 72)),
        ({**SMALL, "GROUP": 1}, (400, 200, 136)), (SMALL, (128, 8, 8)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("factors", [(1.0, 0.0), (0.5, 2.0)])
def test_a_block_goes_from_tile_to_tile(how, shape, factors):
    case = verify.check(few_blocks(2, **how), *shape, *factors, seed=5)
    assert case.passed, case


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 300), st.integers(1, 20), st.integers(1, 20), st.integers(0, 99))
def test_random_shapes(m, n, k, seed):
    assert verify.check(few_blocks(**SMALL), m, 8 * n, 8 * k, 1.0, 0.0, seed=seed).passed


@settings(max_examples=5, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 40), st.integers(0, 99))
def test_rows_off_16_bytes(m, n, k, seed):
    assert verify.check(few_blocks(**SMALL), m, n, k, 0.5, 2.0, seed=seed).passed


# ---- each wait is needed -------------------------------------------------------------------------

OTHERS = {
    "half of the columns allocated": ("tensor_allocate<HALVES * BN>", "tensor_allocate<BN>"),
    "lanes of another warp": ("(row << 16)", "((row ^ 32) << 16)"),
    "sums that are never begun": ("k_tile > 0); tcgen05", "true); tcgen05"),
}


def test_each_statement_that_is_left_out_is_found():
    kinds = tables.left_out(gl.load(NAME, **SMALL))["the check finds"]
    assert len(kinds) == len(tables.STATEMENTS) and (kinds != "nothing").all(), kinds
    fences = kinds[kinds.index.str.startswith("fence") & kinds.index.str.contains("half")]
    assert (fences == "missing tcgen05.fence").all()
    assert kinds["columns are freed"] == "tensor memory not freed"
    assert kinds["wait: its sums are in registers"] == "missing tcgen05.wait"


def findings(kernel, *shape):
    """Of a run whose pair of blocks computes several tiles."""
    kernel = kernel.scheduled_for(2)
    operands = kernel.operands(kernel.problem(*shape), seed=3, written=False)
    return findings_of(kernel.simulate(operands, 1.0, 0.0, check=True))


@pytest.mark.parametrize("what", tables.STATEMENTS)
def test_a_pair_of_blocks_needs_it_too(what):
    kernel = gl.load(NAME, **PAIR)
    assert findings(tables.changed(kernel, *tables.STATEMENTS[what]), 264, 264, 200)


def test_a_pair_of_blocks_has_no_finding():
    assert not findings(gl.load(NAME, **PAIR), 264, 264, 200)


@pytest.mark.parametrize("mistake", OTHERS)
def test_another_mistake_is_found(mistake):
    assert findings(tables.changed(gl.load(NAME, **SMALL), *OTHERS[mistake]), 264, 136, 200)


# ---- where it runs -------------------------------------------------------------------------------


def test_settings_fit_tensor_memory_and_shared_memory():
    for chosen in legal_settings(BLACKWELL):
        assert 2 * chosen["BN"] in (128, 256, 512)
        assert BLACKWELL.tile(chosen) == (LANES, chosen["BN"])
    with pytest.raises(IllegalSetting, match="64 columns of B"):
        gl.load(NAME, BN=64, CTAS=2)


def test_it_is_compiled_for_blackwell_alone_and_simulated_elsewhere():
    kernel = gl.load(NAME)
    assert kernel.arch == ARCH and not kernel.on_gpu
    assert re.search(r"\.target sm_100a\b", kernel.compiled.ptx)
    assert arch_of((10, 0)) == ARCH and arch_of((12, 0)) == "sm_120"
    with pytest.raises(IllegalSetting, match=f"{NAME} needs sm_100a, this is sm_90a"):
        nearest_on(BLACKWELL, BLACKWELL.defaults, "sm_90a")


# ---- the lesson ----------------------------------------------------------------------------------


def test_beside_hopper_registers_and_waits_fall_away():
    facts = tables.beside(gl.load(NAME), gl.load("18_persistent"))
    ours, before = facts[NAME], facts["18_persistent"]
    assert before["setmaxnreg"] == 2 and ours["setmaxnreg"] == 0
    assert before["sums of a thread while it multiplies"] == 128
    assert ours["FLOP of one instruction"] == 2 * before["FLOP of one instruction"]
    assert ours["registers of a thread"] < before["registers of a thread"]


def test_waits_are_as_many_as_tiles_and_steps_say():
    """One block, four tiles of 128×64 and three steps along K each."""
    trace = few_blocks(**SMALL).trace(256, 128, 192)
    count = tables.waits(trace).set_index(["who", "waits until"])["times"]
    assert count["producer", "the stage is empty"] >= 12
    assert count["multiplier", "the stage is full"] == 12
    assert count["multiplier", "the half is empty"] == count["epilogue", "the half is full"] == 4
    assert count["epilogue", "its sums are in registers"] == 4


def test_tensor_memory_is_traced():
    """Of a block with four tiles, and of the second block of a pair, for which the first starts."""
    uses = few_blocks(**SMALL).trace(256, 128, 192).run.tensor_uses()
    products = [use for use in uses if use.operation == "product"]
    assert len(products) == 4 * 3 * 4 and {use.warp for use in products} == {tables.MULTIPLIER}
    assert {(use.lanes, use.columns) for use in products} == {
        (range(LANES), range(64)), (range(LANES), range(64, 128)),
    }  # fmt: skip
    loads = [use for use in uses if use.operation == "load"]
    assert len(loads) == 4 * 4 * 2 and len(uses) == len(products) + len(loads)
    assert all(use.lanes == range(32 * use.warp, 32 * use.warp + 32) for use in loads)
    pair = few_blocks(2, **PAIR).trace(256, 128, 64).run.tensor_uses((1, 0, 0))
    assert {(use.operation, use.columns.stop) for use in pair} > {("product", 128)}


def test_uses_in_a_row_are_drawn_as_one():
    uses = tables.tensor_uses(few_blocks(**SMALL).trace(256, 128, 192))
    assert [sum(use.count for use in uses if use.tile == at) - 2 for at in range(4)] == [12] * 4
    assert all(use.half == use.tile % 2 for use in uses)
    assert "4 tiles" in figures.tensor_memory(uses).caption


def test_published_shares_have_their_shapes_and_addresses():
    shown = tables.published()
    shapes = re.findall(r"\d+×\d+×\d+", repr(shown))
    assert len(shapes) == shown._repr_html_().count('<a href="https://') > 3
