"""Rung 11's last step, a bias and an activation: formulas, exactness, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gemmlab as gl
from gemmlab.kernel import verify
from gemmlab.kernel.arguments import ArgumentError
from gemmlab.kernel.bounds import SMALLEST_NORMAL
from gemmlab.kernel.operands import random_matrix
from gemmlab.ladder.activations import ACTIVATIONS, activate, error_after
from gemmlab.lessons.fused_epilogue.tables import through

NAME = "11_fused_epilogue"
SMALL = {"BM": 64, "BN": 64, "BK": 16, "TM": 4, "TN": 8}
GELUS = ("GELU by tanh", "GELU by erf")
every_activation = pytest.mark.parametrize("activation", ACTIVATIONS)
numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)


def fused(activation, how=SMALL):
    return gl.load(NAME, **how, ACTIVATION=ACTIVATIONS.index(activation))


def changed(*pairs, activation="ReLU"):
    """Rung 11 with other text in the places of some."""
    text = gl.load(NAME, **SMALL).text
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return gl.from_source(text, NAME, **SMALL, ACTIVATION=ACTIVATIONS.index(activation))


# ---- the formulas --------------------------------------------------------------------------------


def by_hand(x, activation):
    """In float64, by other formulas for the same."""
    if activation == "none":
        return x
    if activation == "ReLU":
        return max(x, 0.0)
    if activation == "GELU by erf":
        return 0.5 * x * math.erfc(-x / math.sqrt(2))
    twice = math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)
    return x / (1 + math.exp(-twice)) if twice > -700 else 0.0


@every_activation
@given(st.floats(-1e9, 1e9))
def test_activations_are_those_of_the_formulas(activation, x):
    (value,) = activate(np.array([x]), activation)
    assert value == pytest.approx(by_hand(x, activation), rel=1e-13, abs=1e-15 * abs(x))


@every_activation
def test_nan_stays_nan(activation):
    assert np.isnan(activate(np.array([np.nan, 1.0]), activation)).tolist() == [True, False]


@every_activation
@given(st.floats(-20, 20), st.floats(0, 2), st.floats(-1, 1))
def test_an_error_in_x_grows_no_more_than_error_after_says(activation, x, error, share):
    exact, moved = activate(np.array([x, x + share * error]), activation)
    assert abs(moved - exact) <= error_after(x, error, activation) + 1e-15 * abs(x)


# ---- the kernel's evaluation in float32 ----------------------------------------------------------

WIDE = np.concatenate(
    [
        [sign * x for sign in (1, -1) for x in np.geomspace(1e-45, 3e38, 3000)],
        np.linspace(-15, 15, 3001),
        [0.0, 2.0**-126, -(2.0**-126), 2.0**-149, -(2.0**-149), 3.4e38, -3.4e38],
    ]
).astype(np.float32)


def assert_within(computed, x, activation):
    x = x.astype(np.float64)
    error = abs(computed - activate(x, activation))
    bound = error_after(x, np.zeros_like(x), activation) + SMALLEST_NORMAL
    worst = np.argmax(np.where(error <= bound, 0, 1))
    assert (error <= bound).all(), (x[worst], computed[worst], error[worst], bound[worst])


@every_activation
def test_all_over_the_numbers_the_kernel_is_within_its_bound(activation):
    assert_within(through(fused(activation), WIDE), WIDE, activation)


@every_activation
@settings(max_examples=15)
@given(st.lists(numbers, min_size=1, max_size=64))
def test_at_any_numbers_the_kernel_is_within_its_bound(activation, values):
    x = np.array(values, np.float32)
    assert_within(through(fused(activation), x), x, activation)


def test_the_bound_tells_the_forms_of_gelu_apart():
    with pytest.raises(AssertionError):
        assert_within(through(fused(GELUS[0]), WIDE), WIDE, GELUS[1])
    with pytest.raises(AssertionError):
        assert_within(through(fused(GELUS[1]), WIDE), WIDE, GELUS[0])


@every_activation
def test_infinity_and_nan_become_what_they_do_in_numpy(activation):
    """-inf becomes NaN by both forms of GELU, which multiply it by 0."""
    x = np.array([np.inf, -np.inf, np.nan], np.float32)
    activated = through(fused(activation), x)
    below = {"none": -np.inf, "ReLU": 0.0}.get(activation, np.nan)
    assert np.array_equal(activated, [np.inf, below, np.nan], equal_nan=True)


def test_a_relu_that_loses_nan_is_seen():
    lossy = changed(("return x < 0.0f ? 0.0f : x; ", "return fmaxf(x, 0.0f); "))
    x = np.array([np.nan, -1.0, 2.0], np.float32)
    assert through(lossy, x).tolist() == [0.0, 0.0, 2.0]
    assert np.isnan(through(fused("ReLU"), x)).tolist() == [True, False, False]


# ---- the bias ------------------------------------------------------------------------------------

A, B, C = (random_matrix(*shape, seed) for seed, shape in enumerate([(70, 9), (9, 67), (70, 67)]))
BIAS = random_matrix(1, 67, 3)[0]


@pytest.mark.parametrize(
    ("how", "shape"),
    [
        (SMALL, (70, 67, 33)), (SMALL, (64, 64, 16)), (SMALL, (1, 1, 1)), (SMALL, (64, 64, 0)),
        ({}, (5, 131, 17)),
    ],
)  # fmt: skip
def test_without_epilogue_it_is_rung_10_bit_for_bit(how, shape):
    """But where both factors round: one rounds alpha * A @ B before it adds, the other beta * C."""
    m, n, k = shape
    A, B, C = (random_matrix(*size, 7) for size in ((m, k), (k, n), (m, n)))
    plain, bare = gl.load("10_register_banks", **how), fused("none", how)
    for alpha, beta in ((1.0, 0.0), (-1.5, 0.0), (0.0, 0.75), (-1.0, 2.0)):
        without, of_plain = (kernel(A, B, C, alpha=alpha, beta=beta) for kernel in (bare, plain))
        assert np.array_equal(without.view(np.uint32), of_plain.view(np.uint32))


@pytest.mark.parametrize(
    ("bias", "message"),
    [
        (BIAS[:-1], r"bias has 66 elements; it needs 67"),
        (random_matrix(1, 70, 3)[0], r"bias has 70 elements; it needs 67"),
        (BIAS.astype(np.float64), r"bias is float64: 11_.* takes float32; use bias.astype"),
        (BIAS[None], r"bias has 2 axes: 11_fused_epilogue takes a bias with one"),
        (np.float32(1.0), r"bias is numpy.float32: 11_fused_epilogue takes NumPy arrays"),
        (BIAS.tolist(), r"bias is builtins.list: .* all of one kind"),
        (random_matrix(67, 2, 3)[:, 0], r"bias is not row-major .* np.ascontiguousarray\(bias\)"),
    ],
)
def test_an_invalid_bias_is_refused(bias, message):
    with pytest.raises(ArgumentError, match=message):
        fused("ReLU")(A, B, bias=bias)


@pytest.mark.parametrize("name", ["01_naive", "10_register_banks"])
def test_a_rung_without_bias_says_which_has_one(name):
    with pytest.raises(ArgumentError, match=rf"^{name} takes no bias; rung {NAME} does$"):
        gl.load(name)(A, B, bias=BIAS)


def test_the_checks_find_nothing_in_the_fused_kernel():
    report = fused("GELU by erf").check()
    assert report.passed and all(case.biased for case in report.cases), report


# ---- what is counted -----------------------------------------------------------------------------


@pytest.mark.parametrize("how", [SMALL, {}], ids=["small", "default"])
def test_c_is_stored_once_and_never_loaded_and_the_bias_once_by_every_thread(how):
    kernel = fused("GELU by tanh", how)
    rows, columns = kernel.rung.tile(kernel.settings)
    m, n = 2 * rows, columns
    trace = kernel.trace(m, n, 2 * kernel.settings["BK"])
    traffic = trace.lines.query("space == 'global'").groupby(["array", "op"])
    bytes_asked, requests = traffic["bytes_asked"].sum(), traffic["requests"].sum()
    assert set(bytes_asked.index) == {(x, "load") for x in ("A", "B", "bias")} | {("C", "store")}
    assert bytes_asked["C", "store"] == 4 * m * n
    threads = np.prod(trace.grid) * np.prod(trace.block)
    assert bytes_asked["bias", "load"] == 4 * threads * kernel.settings["TN"]
    assert requests["bias", "load"] == threads // 32 * kernel.settings["TN"] // 4
    access = trace.warp_access("bias")
    assert access.shape == (1, n) and access.sectors == 4  # eight lanes across, 16 bytes each
    assert set(access.elements[..., 1].ravel()) == set(range(32))


# ---- planted mistakes ----------------------------------------------------------------------------

LOAD = "const float4 of_columns = load_float4(bias, 0, col_of(col, q), 1, N, in_bounds);"
ADD = "for (int i = 0; i < TM; ++i) add(&accumulators[i][4 * q], 1.0f, of_columns);"
ACTIVATE = """\
    #pragma unroll
    for (int i = 0; i < TM; ++i)
        #pragma unroll
        for (int j = 0; j < TN; ++j) accumulators[i][j] = activation(accumulators[i][j]);
"""


def earlier(before):
    """The activations moved up to before this line."""
    return ((ACTIVATE, ""), (before, ACTIVATE + before))


MISTAKES = {
    "the bias by rows": (
        (ADD, "for (int i = 0; i < TM; ++i) { const float b = bias[min(row_of(row, i), N - 1)]; "
              "add(&accumulators[i][4 * q], 1.0f, make_float4(b, b, b, b)); }"),
    ),
    "the bias read past its end": ((LOAD, LOAD.replace("in_bounds", "true")),),
    "the bias times alpha": ((ADD, ADD.replace("1.0f", "alpha")),),
    "a bias that has to be there": (("    if (bias) {", "    {"),),
    "the bias after the activation": earlier("    if (bias) {\n"),
    "the activation before C is added": earlier("    if (beta != 0.0f) { "),
    "no activation": ((ACTIVATE, ""),),
}  # fmt: skip
FORMS = {
    "a digit of erf": (GELUS[1], ("0.284496736f", "0.284486736f")),
    "a digit of tanh": (GELUS[0], ("0.044715f", "0.044725f")),
}  # fmt: skip


@pytest.fixture
def few_cases(monkeypatch):
    """Of verification's: some shapes, and one pair of factors."""
    monkeypatch.setattr(verify, "FACTORS", verify.FACTORS[:2])
    monkeypatch.setattr(verify, "shapes", lambda kernel: [(7, 5, 3), (33, 29, 0)])


def test_without_a_mistake_all_cases_pass(few_cases):
    for activation in ACTIVATIONS:
        fused(activation).verify().require()


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name, few_cases):
    assert not changed(*MISTAKES[name]).verify().passed


@pytest.mark.parametrize("name", FORMS)
def test_another_formula_for_gelu_is_found(name, few_cases):
    activation, *pairs = FORMS[name]
    assert not changed(*pairs, activation=activation).verify().passed
