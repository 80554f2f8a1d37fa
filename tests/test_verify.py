"""The gate: planted mistakes are found and placed (right kernels pass it in test_settings.py)."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmlab.kernel import verify
from gemmlab.kernel.bounds import error_bound, reference
from gemmlab.kernel.kernel import from_source
from gemmlab.kernel.operands import Operands, random_matrix
from gemmlab.ladder import SINGLE, Problem
from gemmlab.ladder.precision import PRECISIONS
from gemmlab.loading import load

SOURCE = load("02_coalescing").text

# What is planted -> (old, new, what the message of the first case that fails must say).
MISTAKES = {
    "the last product is lost": ("k < K; ++k", "k < K - 1; ++k", r"C\[0, 0\] is"),
    "the stride of A": ("(size_t)row * K + k", "(size_t)row * N + k", r"C\[\d+, \d+\]|A\["),
    "the stride of B": ("(size_t)k * N + col", "(size_t)k * K + col", r"C\[\d+, \d+\]|B\["),
    "the stride of C": ("(size_t)row * N + col;", "(size_t)row * M + col;", r"C\["),
    "the last row": ("row >= M ||", "row >= M - 1 ||", "never written"),
    "the last column": ("col >= N)", "col >= N - 1)", "never written"),
    "no edge": ("if (row >= M || col >= N) return;", "", r"out-of-bounds .*, line \d+"),
    "beta is forgotten": ("alpha * sum + beta * C[index]", "alpha * sum", "beta=2"),
    "C is read where beta is 0": ("if (beta == 0.0f)", "if (beta == 7.0f)", "is nan"),
    "one element": (
        "C[index] = alpha * sum;",
        "if (row != 5 || col != 3) C[index] = alpha * sum;",
        r"C\[5, 3\] is nan.*no other element",
    ),
    "a sum with 10 bits": (
        "C[index] = alpha * sum;",
        "C[index] = __int_as_float(__float_as_int(alpha * sum) & 0xffffe000);",
        r"C\[\d+, \d+\] is .*, expected .* within",
    ),
}


@pytest.fixture
def small_shapes(monkeypatch):
    """Without the largest of the shapes, which takes longer than all others together."""
    shapes = verify.shapes
    monkeypatch.setattr(verify, "shapes", lambda kernel: [s for s in shapes(kernel) if s[0] < 1000])


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found_and_placed(name, small_shapes):
    old, new, message = MISTAKES[name]
    assert SOURCE.count(old) == 1
    report = from_source(SOURCE.replace(old, new), like="02_coalescing").verify()
    assert not report.passed
    failed = "\n".join(str(case) for case in report.cases if not case.passed)
    assert re.search(message, failed), failed
    with pytest.raises(verify.VerificationError, match="cases fail"):
        report.require()


class Careless:
    """Stands in for a kernel on a GPU, where nothing stops a write outside: only guards see it."""

    name, on_gpu, array_module = "careless", True, np
    rung, settings = load("01_naive").rung, load("01_naive").settings
    activation, precision, dtype, takes_bias = "none", SINGLE, "float32", False

    class Mistake(Exception):
        pass

    def __init__(self, before=0, after=0):
        self.before, self.after = before, after

    def problem(self, m, n, k, batch=None):
        return Problem(m, n, k)

    def takes(self, name):
        return False

    def operands(self, problem, seed, written=True, gap=0):
        return Operands.from_seed(problem, SINGLE, seed, written=written)

    def launch(self, operands, alpha, beta):
        self.launch_into(operands.A, operands.B, operands.C, alpha, beta)

    def launch_into(self, A, B, C, alpha=1.0, beta=0.0):
        C[...] = reference(A, B, C, alpha, beta).astype(np.float32)
        if not (self.before or self.after):
            return
        flat = C.base
        start = (C.__array_interface__["data"][0] - flat.__array_interface__["data"][0]) // 4
        flat[start - self.before : start] = 1.0
        flat[start + C.size : start + C.size + self.after] = 1.0

    def to_device(self, array):
        return array

    to_host = to_device


def test_guard_cells_see_what_a_gpu_lets_pass():
    def message(**how):
        return verify.check(Careless(**how), 7, 5, 3, 1.0, 0.0, seed=1).message

    assert message() == ""
    assert "1 elements past the end of C, 1 guard cells" in message(after=1)
    assert "3 elements before the start of C, 3 guard cells" in message(before=3)


@pytest.mark.parametrize("which", ["A", "B"])
def test_a_kernel_that_writes_to_its_input_on_a_gpu_is_found(which):
    class Overwrites(Careless):
        def launch_into(self, A, B, C, alpha=1.0, beta=0.0):
            super().launch_into(A, B, C, alpha, beta)
            {"A": A, "B": B}[which].reshape(-1)[4] += 1

    case = verify.check(Overwrites(), 7, 5, 3, 1.0, 0.0, seed=1)
    assert case.message == f"wrote to {which}[4], and {which} is an input"


def test_inputs_are_fresh_but_can_be_made_again(small_shapes):
    seeds = [{case.seed for case in verify.verify(Careless()).cases} for _ in range(2)]
    assert not seeds[0] & seeds[1]
    once, again = (random_matrix(3, 4, seed=5) for _ in range(2))
    assert np.array_equal(once, again) and once.dtype == np.float32
    assert not np.array_equal(once, random_matrix(3, 4, seed=6))


@settings(deadline=None, max_examples=50)
@given(
    st.integers(0, 10**6),
    st.integers(1, 300),
    st.floats(1e-3, 1e3),
    st.sampled_from(["forward", "backward", "pairs", "shuffled"]),
)
def test_no_order_of_float32_additions_leaves_the_bound(seed, k, scale, order):
    a = random_matrix(1, k, seed) * np.float32(scale)
    b = random_matrix(k, 1, seed + 1)
    products = a[0] * b[:, 0]
    if order == "backward":
        products = products[::-1]
    elif order == "shuffled":
        np.random.default_rng(seed).shuffle(products)
    if order == "pairs":
        while len(products) > 1:
            tail = products[-1:] if len(products) % 2 else products[:0]
            products = np.concatenate([products[0:-1:2] + products[1::2], tail])
        total = products[0]
    else:
        total = np.float32(0)
        for product in products:
            total = np.float32(total + product)
    error = abs(float(total) - reference(a, b, None, 1.0, 0.0)[0, 0])
    assert error <= error_bound(a, b, None, 1.0, 0.0)[0, 0]


def test_the_bound_follows_the_numbers_and_k():
    a, b = random_matrix(2, 50, 1), random_matrix(50, 2, 2)
    bound = error_bound(a, b, None, 1.0, 0.0)
    assert np.allclose(error_bound(8 * a, b, None, 1.0, 0.0), 8 * bound)
    # Twice the terms: twice the sum of magnitudes and twice the roundings.
    twice = error_bound(np.hstack([a, a]), np.vstack([b, b]), None, 1.0, 0.0)
    assert np.allclose(twice, 4 * bound, rtol=0.05)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_never_pass(bad):
    class Bad(Careless):
        def launch_into(self, A, B, C, alpha=1.0, beta=0.0):
            super().launch_into(A, B, C, alpha, beta)
            C[-1, -1] = bad

    case = verify.check(Bad(), 7, 5, 3, 1.0, 0.0, seed=1)
    assert not case.passed and "C[6, 4]" in case.message
    with pytest.raises(verify.VerificationError, match=r"C\[99, 4\] is not finite"):
        verify.check_sample(Bad(), Problem(100, 5, 3))


def test_a_sample_finds_a_wrong_last_row_and_passes_a_right_product():
    verify.check_sample(Careless(), Problem(500, 20, 30), rows=4)

    class LastRow(Careless):
        def launch_into(self, A, B, C, alpha=1.0, beta=0.0):
            super().launch_into(A, B, C, alpha, beta)
            C[-1] += 1

    with pytest.raises(verify.VerificationError, match=r"C\[499, 0\]"):
        verify.check_sample(LastRow(), Problem(500, 20, 30), rows=4)


@pytest.mark.parametrize(
    ("dtype", "roundings", "at_the_end"), [("float32", 1, 0.0), ("float16", 3, 2.0**-11)]
)
def test_the_bound_leaves_no_more_room_than_its_roundings(dtype, roundings, at_the_end):
    """Each product costs one in float32; cut off by a tensor core, 3/2 of twice the size."""
    k, ones = 100, np.ones((1, 100), dtype)
    bound = error_bound(ones, ones.T, None, 1.0, 0.0, PRECISIONS[dtype])[0, 0]
    sums = roundings * (k + 8) * 2.0**-24 * k
    assert 0.9 * roundings * k * 2.0**-24 * k < bound < 1.01 * (sums + at_the_end * k)
