"""A kernel that is called: what it takes, what it gives, and what it refuses."""

import subprocess
import sys

import numpy as np
import pytest

import gemmlab as gl
from gemmlab.kernel import ArgumentError, KernelMistake

A, B, C = (gl.random_matrix(*shape, seed=i) for i, shape in enumerate([(5, 7), (7, 3), (5, 3)]))


@pytest.fixture(scope="module", params=["01_naive", "02_coalescing"])
def kernel(request):
    return gl.load(request.param)


def test_the_product_is_a_new_array_of_the_same_kind(kernel):
    before = C.copy()
    result = kernel(A, B, C, alpha=0.5, beta=-2.0)
    assert type(result) is np.ndarray and result.dtype == np.float32 and result.shape == (5, 3)
    assert np.allclose(result, 0.5 * (A @ B) - 2 * C, atol=1e-5)
    assert np.array_equal(C, before) and not np.shares_memory(result, C)


def test_k_of_0_leaves_beta_times_c(kernel):
    empty_a, empty_b = np.zeros((5, 0), np.float32), np.zeros((0, 3), np.float32)
    assert np.array_equal(kernel(empty_a, empty_b, C, beta=3.0), 3 * C)
    assert np.array_equal(kernel(empty_a, empty_b), np.zeros((5, 3), np.float32))


@pytest.mark.parametrize(("m", "n"), [(0, 3), (5, 0), (0, 0)])
def test_an_empty_c_is_an_empty_result(kernel, m, n):
    result = kernel(np.zeros((m, 7), np.float32), np.zeros((7, n), np.float32))
    assert result.shape == (m, n) and result.dtype == np.float32


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((A.astype(np.float64), B), "A is float64.*takes float32; use A.astype"),
        ((A, B.astype(np.int32)), "B is int32"),
        ((A.tolist(), B), "A is builtins.list.*takes NumPy arrays"),
        ((A, B[0]), "B has 1 axes"),
        ((A, np.asfortranarray(B)), "B is not row-major.*np.ascontiguousarray"),
        ((A[:, ::2], B), "A is not row-major"),
        ((A, A), "A is 5×7 and B is 5×7: the inner sizes differ"),
        ((A, B, None, 1.0, 0.5), "beta is 0.5, so 0._.* needs C"),
        ((A, B, C.T.copy(), 1.0, 0.5), "C is 3×5, A @ B is 5×3"),
    ],
)
def test_what_a_kernel_does_not_take_is_named(kernel, arguments, says):
    with pytest.raises(ArgumentError, match=says):
        kernel(*arguments)


def test_c_may_be_anything_where_beta_is_0(kernel):
    assert np.isfinite(kernel(A, B, np.full((9, 9), np.nan))).all()


def test_a_mistake_in_the_simulator_names_line_thread_and_element():
    source = gl.load("02_coalescing").text.replace("row >= M ||", "row > M ||")
    line = 1 + source[: source.index("C[here] = alpha * sum;")].count("\n")
    with pytest.raises(KernelMistake, match=rf"write .*, line {line}: C\[15\] of 15 elements, by"):
        gl.from_source(source, like="02_coalescing")(A, B)


def test_source_and_diff_are_the_files():
    kernel = gl.load("02_coalescing")
    assert kernel.source().text == kernel.rung.path.read_text(encoding="utf-8").rstrip()
    changes = kernel.diff("01_naive").text.splitlines()
    assert "+    const int col = blockIdx.x * BLOCK_X + threadIdx.x;" in changes
    assert "-    const int row = blockIdx.x * BLOCK_X + threadIdx.x;" in changes
    assert "<pre" in kernel.source()._repr_html_()


def test_settings_reach_the_kernel_and_its_trace():
    wide = gl.load("02_coalescing", BLOCK_X=8, BLOCK_Y=32)
    trace = wide.trace(40, 24, 16)
    assert trace.block == (8, 32, 1) and trace.grid == (3, 2, 1)
    assert trace.warp_access("A").sectors == 4 and trace.warp_access("B").sectors == 1
    assert list(wide.resources("sm_80", "sm_90a")["threads per block"]) == [256, 256]


def test_a_trace_says_what_there_is_to_see():
    trace = gl.load("01_naive").trace(40, 24, 3)
    access = trace.warp_access("A", warp=1, occurrence=2)
    assert access.op == "load" and access.shape == (40, 3)
    assert access.elements[:, 0].tolist() == [[row, 2] for row in range(32, 40)]
    with pytest.raises(LookupError, match=r"3 loads of A .* none numbered 3"):
        trace.warp_access("A", occurrence=3)


def test_importing_the_package_imports_nothing_slow():
    slow = ("cupy", "pandas", "matplotlib")
    code = f"import gemmlab, sys; print([m for m in {slow} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_check_goes_through_a_second_step_along_k():
    """Without the barrier at a step's end, the next step's tiles overwrite what is still read."""
    source = gl.load("03_shared_memory").text
    barrier = "__syncthreads();                         // nobody reads them any more"
    assert barrier in source
    report = gl.from_source(source.replace(barrier, ""), "03_shared_memory").check()
    assert not report.passed and "race" in repr(report)


def test_check_finds_what_the_hardware_hides():
    right = gl.load("02_coalescing")
    assert right.check().passed and len(right.check().cases) >= 5
    reads_c = right.text.replace("if (beta == 0.0f)", "if (beta == 9.0f)")
    report = gl.kernel.from_source(reads_c, "02_coalescing").check()
    assert [case.passed for case in report.cases] == [case.beta != 0 for case in report.cases]
    assert "uninitialised read" in str(report) and "C[0] was never written" in str(report)
    waits = right.text.replace("float sum = 0.0f;", "float sum = 0.0f;\n__syncthreads();")
    report = gl.kernel.from_source(waits, "02_coalescing").check()
    assert not report.passed and "missed barrier" in report.cases[0].message
