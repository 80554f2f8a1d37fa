"""Kernels of float16 matrices: what they take, how exact they must be, and who holds what."""

import numpy as np
import pandas
import pytest
from figures import test_it_can_be_read  # noqa: F401
from hypothesis import given, settings
from hypothesis import strategies as st

import gemmlab as gl
import ptxsim
from gemmlab import ladder
from gemmlab.kernel.bounds import error_bound, reference
from gemmlab.kernel.compiler import options_for
from gemmlab.kernel.operands import random_matrix
from gemmlab.ladder import HALF, Problem
from gemmlab.ladder.probes import MMA_SHAPE
from gemmlab.lessons.wmma import figures, fragments
from gemmlab.measure import ceilings
from ptxsim.metrics import HMMA_METRIC

PLAIN = {"BM": 16, "BN": 16, "BK": 16, "WM": 16, "WN": 16, "STAGES": 0}
SMALL = {"BM": 64, "BN": 64, "BK": 32, "WM": 32, "WN": 64, "STAGES": 3}
ways = pytest.mark.parametrize("how", [PLAIN, SMALL], ids=["plain", "staged"])


# ---- the contract --------------------------------------------------------------------------------


@ways
def test_float16_operands_give_a_float16_result_within_the_bound(how):
    kernel = gl.load("14_wmma", **how)
    A, B, C = (random_matrix(*shape, 4, "float16") for shape in ((20, 30), (30, 10), (20, 10)))
    before = C.copy()
    result = kernel(A, B, C, alpha=0.5, beta=2.0)
    assert result.dtype == np.float16 and np.array_equal(C, before)
    error = abs(result - reference(A, B, C, 0.5, 2.0))
    assert (error <= error_bound(A, B, C, 0.5, 2.0, HALF)).all()


def test_other_types_are_refused_by_name():
    kernel, halves = gl.load("14_wmma", **PLAIN), np.ones((4, 4), np.float16)
    with pytest.raises(gl.ArgumentError, match=r"B is float32: 14_wmma takes float16; use B\.ast"):
        kernel(halves, halves.astype(np.float32))
    with pytest.raises(gl.ArgumentError, match="needs C, a float16"):
        kernel(halves, halves, beta=1.0)
    with pytest.raises(gl.ArgumentError, match=r"A is float16: 01_naive takes float32"):
        gl.load("01_naive")(halves, halves)


# ---- the bound -----------------------------------------------------------------------------------


def cut(value: float, unit: float) -> float:
    """Towards zero, to a multiple of `unit`."""
    return float(np.trunc(value / unit) * unit)


def tensor_core_sum(products, group: int) -> float:
    """As the least exact of tensor cores: 24 bits from the largest term of a group on, cut off."""
    total = 0.0
    for first in range(0, len(products), group):
        terms = [total, *products[first : first + group]]
        largest = max(map(abs, terms))
        if largest == 0:
            continue
        unit = 2.0 ** (np.floor(np.log2(largest)) - 23)
        total = sum(cut(term, unit) for term in terms)
        if total:
            total = cut(total, 2.0 ** (np.floor(np.log2(abs(total))) - 23))
    return total


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10**6), st.integers(1, 400), st.sampled_from([4, 8, 16]),
    st.floats(1e-3, 100), st.booleans(),
)  # fmt: skip
def test_no_tensor_core_leaves_the_bound(seed, k, group, scale, positive):
    a = (random_matrix(1, k, seed) * scale).astype(np.float16)
    b = random_matrix(k, 1, seed + 1, "float16")
    if positive:  # nothing cancels, and every cut goes the same way
        a, b = abs(a), abs(b)
    products = (a[0].astype(float) * b[:, 0]).tolist()
    rounded = np.float16(np.float32(tensor_core_sum(products, group)))
    error = abs(float(rounded) - reference(a, b, None, 1.0, 0.0)[0, 0])
    assert error <= error_bound(a, b, None, 1.0, 0.0, HALF)[0, 0]


# ---- who holds what ------------------------------------------------------------------------------


def test_the_traced_layout_is_the_documented_one():
    """PTX, "Matrix Fragments for mma.m16n8k16", of two products side by side."""
    layout = fragments.by_wmma()
    for lane in range(32):
        g, t = divmod(lane, 4)
        rows, pairs = (g, g + 8), (2 * t, 2 * t + 1, 2 * t + 8, 2 * t + 9)
        of_a = {16 * row + column for row in rows for column in pairs}
        of_b = {16 * row + column for row in pairs for column in rows}
        assert set(layout["A"][lane]) == of_a == set(layout["C"][lane])
        assert set(layout["B"][lane]) == of_b
    for name in "ABC":
        assert (np.bincount(fragments.lanes_of(layout[name]).ravel()) == 8).all()


@pytest.fixture(
    params=(
        lambda: figures.fragments(fragments.by_wmma()),
        lambda: figures.cycles("10_register_banks", "14_wmma"),
        lambda: figures.speeds(
            pandas.concat([gl.load(name).benchmark() for name in ("10_register_banks", "14_wmma")]),
            mma_mhz=1400.0,
        ),
    ),
    ids=("fragments", "cycles", "speeds"),
)
def figure(request):
    return request.param()


def test_the_account_of_a_warp_mma_has_the_floors_of_both_units():
    """64 warp FMAs take 16 cycles of 128 FP32 units; mma.sync was measured."""
    table = figures.account("10_register_banks", "14_wmma")
    assert table[figures.ALONE]["10_register_banks"] == pytest.approx(16)
    assert table[figures.ALONE]["14_wmma"] == pytest.approx(1.5, rel=0.01)


# ---- the roof of tensor cores --------------------------------------------------------------------


@pytest.mark.parametrize("macros", [ladder.TENSOR_CEILING.macros, {"CHAINS": 3, "UNROLL": 2}])
def test_the_chain_of_products_equals_its_numpy_twin(macros):
    probe = ladder.TENSOR_CEILING
    out = np.full(2 * 64, np.nan, np.float32)
    run = ptxsim.launch(
        probe.path, probe.entry, (2, 1, 1), (64, 1, 1),
        [out, *ceilings.mma_lanes(HALF, macros["CHAINS"]), 3],
        options=options_for(macros), count=True,
    )  # fmt: skip
    assert not run.findings
    expected = ceilings.mma_chain(HALF, 3, macros["CHAINS"], macros["UNROLL"])
    assert (out.reshape(4, 32) == expected).all()
    steps = 3 * macros["CHAINS"] * macros["UNROLL"]
    assert run.counters[HMMA_METRIC] == 4 * steps
    assert 2 * run.multiply_adds == Problem(*MMA_SHAPE).flop * 4 * steps
