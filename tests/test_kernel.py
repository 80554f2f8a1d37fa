"""A kernel that is called: what it takes, what it gives, and what it refuses."""

import numpy as np
import pytest

import gemmlab as gl
from gemmlab.kernel import faults, in_simulator
from gemmlab.kernel.arguments import ArgumentError
from gemmlab.kernel.kernel import Kernel, KernelMistake
from gemmlab.kernel.verify import check as check_product
from ptxsim import LaunchError, TakesTooLong, UnknownInstruction

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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((A.astype(np.float64), B), "A is float64.*takes float32; use A.astype"),
        ((A, B.astype(np.int32)), "B is int32"),
        ((A.tolist(), B), "A is builtins.list.*takes NumPy arrays"),
        ((None, B), "A is None: 0.* takes NumPy arrays"),
        ((A, B[0]), "B has 1 axes"),
        ((A, np.asfortranarray(B)), "B is not row-major.*np.ascontiguousarray"),
        ((A, A), "A is 5×7 and B is 5×7: the inner sizes differ"),
        ((A, B, None, 1.0, 0.5), "beta is 0.5, so 0._.* needs C"),
        ((A, B, C.T.copy(), 1.0, 0.5), "C is 3×5; it must be 5×3"),
    ],
)
def test_wrong_arguments_are_refused_with_the_reason(kernel, arguments, message):
    with pytest.raises(ArgumentError, match=message):
        kernel(*arguments)


@pytest.mark.parametrize(
    "value", [1e40, -1e40, 10**400, np.inf, np.nan, "2", None, 1j, True, np.ones(2)], ids=repr
)
@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_a_factor_that_float32_does_not_hold_is_refused(kernel, name, value):
    with pytest.raises(ArgumentError, match=rf"{name} is .* from -3\.40.*e\+38 to 3\.40.*e\+38"):
        kernel(A, B, C, **{name: value})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, r"source is None: from_source takes CUDA C\+\+ as text"),
        (b"int;", "source is builtins.bytes"),
        ("my kernels/mine.cu", r"name of a file, 'my kernels/mine.cu': .*Path"),
    ],
)
def test_a_source_that_is_not_text_is_refused(source, message):
    with pytest.raises(ArgumentError, match=message):
        gl.from_source(source, like="01_naive")


def test_source_and_diff_are_the_files():
    kernel = gl.load("02_coalescing")
    assert kernel.source().text == kernel.rung.path.read_text(encoding="utf-8").rstrip()
    changes = kernel.diff("01_naive").text.splitlines()
    assert "+    const int col = blockIdx.x * BLOCK_X + threadIdx.x;" in changes
    assert "-    const int row = blockIdx.x * BLOCK_X + threadIdx.x;" in changes
    assert "<pre" in kernel.source()._repr_html_()


def test_check_finds_what_the_hardware_hides():
    right = gl.load("02_coalescing")
    assert right.check().passed and len(right.check().cases) >= 5
    reads_c = right.text.replace("if (beta == 0.0f)", "if (beta == 9.0f)")
    report = gl.from_source(reads_c, "02_coalescing").check()
    assert [case.passed for case in report.cases] == [case.beta != 0 for case in report.cases]
    assert "uninitialised read" in str(report) and "C[0] was never written" in str(report)
    waits = right.text.replace("float sum = 0.0f;", "float sum = 0.0f;\nif (col) __syncthreads();")
    report = gl.from_source(waits, "02_coalescing").check()
    assert not report.passed and "missed barrier" in str(report)


# ---- before a GPU sees it ------------------------------------------------------------------------


class FakeGpu:
    """Stands in for on_gpu.GpuKernels: notes what is launched and gives zeros, or an error."""

    def __init__(self, error):
        self.launches, self.error = [], error

    def run(self, launches, values):
        self.launches += launches
        if self.error is not None:
            raise self.error
        values["C"][...] = 0


@pytest.fixture
def on_gpu(monkeypatch):
    """A function that puts a kernel on a GPU where nothing runs; it gives the list of launches."""
    monkeypatch.setattr(Kernel, "array_module", np)

    def put(kernel, error=None):
        gpu = FakeGpu(error)
        kernel.on_gpu, kernel._loaded = True, gpu
        return gpu.launches

    return put


@pytest.fixture(autouse=True)
def sound_gpu(monkeypatch):
    monkeypatch.setattr(faults, "_lost", "")


TEXT = gl.load("02_coalescing").text
UNBOUNDED = TEXT.replace("if (row >= M || col >= N) return;", "")
UNKNOWN = TEXT.replace("float sum = 0.0f;", 'float sum = 0.0f; asm volatile("pmevent 1;");')


def test_an_edited_kernel_is_checked_once_before_its_first_launch(on_gpu, monkeypatch):
    checks, check = [], Kernel.check
    monkeypatch.setattr(Kernel, "check", lambda kernel: checks.append(kernel) or check(kernel))
    for kernel, times in (
        (gl.load("02_coalescing"), 0),
        (gl.from_source(TEXT, "02_coalescing"), 0),  # the text of the rung itself
        (gl.from_source(TEXT + "// mine", "02_coalescing"), 1),
    ):
        checks.clear()
        launches = on_gpu(kernel)
        kernel(A, B)
        kernel(A, B)
        kernel.verify()
        assert len(launches) > 2 and len(checks) == times


def test_what_could_fault_is_not_launched_and_verify_reports_it(on_gpu):
    kernel = gl.from_source(UNBOUNDED, "02_coalescing")
    launches = on_gpu(kernel)
    with pytest.raises(KernelMistake, match=r"out-of-bounds read in kernel 'coalescing', line \d+"):
        kernel(A, B)
    report = kernel.verify()
    assert not report.passed and not launches
    failed = [case for case in report.cases if not case.passed]
    assert failed and all(case.findings for case in failed)
    with pytest.raises(gl.VerificationError, match="out-of-bounds"):
        report.require()


def test_a_stride_that_is_wrong_for_thin_matrices_alone_is_not_launched(on_gpu):
    kernel = gl.from_source(TEXT.replace("(size_t)k * N", "(size_t)k * K"), "02_coalescing")
    launches = on_gpu(kernel)
    assert kernel.check().passed and not kernel.verify().passed
    with pytest.raises(KernelMistake, match=r"line \d+: B\["):
        kernel(A, B)
    assert not launches


def test_a_race_is_launched_for_its_result_may_be_right(on_gpu):
    text = gl.load("03_shared_memory").text
    barrier = "__syncthreads();                         // all threads have read them"
    kernel = gl.from_source(text.replace(barrier, ""), "03_shared_memory")
    launches = on_gpu(kernel)
    kernel(A, B)
    assert len(launches) == 1
    report = kernel.check()  # whose second step along K overwrites what is still read
    assert not report.passed and "race" in repr(report)


def test_what_the_simulator_cannot_judge_is_launched_only_if_trusted(on_gpu):
    kernel = gl.from_source(UNKNOWN, "02_coalescing")
    launches = on_gpu(kernel)
    for run in (lambda: kernel(A, B), kernel.verify):
        with pytest.raises(UnknownInstruction, match=r"pmevent.*GPU only after.*kernel\.trust\(\)"):
            run()
    assert not launches
    kernel.trust()
    kernel(A, B)
    assert len(launches) == 1


@pytest.mark.parametrize("number", [700, 716, 719])
def test_a_fault_names_the_kernel_and_stays_the_answer(number, on_gpu):
    from cupy.cuda.runtime import CUDARuntimeError

    kernel, other = gl.load("02_coalescing"), gl.load("01_naive")
    on_gpu(kernel, CUDARuntimeError(number))
    launches = on_gpu(other)
    with pytest.raises(gl.GpuFault) as first:
        kernel(A, B)
    assert "02_coalescing at M=5 N=3 K=7" in str(first.value) and "restart" in str(first.value)
    later = (lambda: other(A, B), other.verify, lambda: other.to_host(object()))
    for run in later:
        with pytest.raises(gl.GpuFault) as again:
            run()
        assert str(again.value) == str(first.value)
    assert not launches


def test_other_errors_of_cuda_leave_the_gpu_usable(on_gpu):
    from cupy.cuda.runtime import CUDARuntimeError

    kernel = gl.load("02_coalescing")
    on_gpu(kernel, CUDARuntimeError(701))
    with pytest.raises(LaunchError, match="registers or shared memory"):
        kernel(A, B)
    on_gpu(kernel, CUDARuntimeError(2))
    with pytest.raises(CUDARuntimeError):
        kernel(A, B)
    on_gpu(kernel)
    kernel(A, B)


@pytest.mark.parametrize("name", ["A", "B"])
def test_a_write_to_an_input_is_a_mistake_with_its_line(name):
    text = TEXT.replace("float sum = 0.0f;", f"float sum = 0.0f; ((float*){name})[2] = 0.0f;")
    kernel = gl.from_source(text, "02_coalescing")
    line = 1 + text[: text.index("[2] = 0.0f")].count("\n")
    before = A.copy(), B.copy()
    with pytest.raises(KernelMistake, match=rf"line {line}: writes to {name}\[2\], and {name} is"):
        kernel(A, B)
    assert np.array_equal(A, before[0]) and np.array_equal(B, before[1])
    case = check_product(kernel, 5, 3, 7, 1.0, 0.0, seed=1)
    assert not case.passed and {finding.kind for finding in case.findings} == {"forbidden write"}


# ---- how long it may take ------------------------------------------------------------------------


def test_a_small_product_is_given_up_soon_and_a_waiting_reader_waits(monkeypatch):
    monkeypatch.setattr(in_simulator, "SMALL_S", 0.2)
    slow = TEXT
    for old, new in {
        "float sum = 0.0f;": "float sum = 0.0f; const int times = K == 7 ? 4000 : 1;",
        "k < K; ++k": "k < K * times; ++k",
        "(size_t)row * K + k]": "(size_t)row * K + k % K]",
        "(size_t)k * N": "(size_t)(k % K) * N",
    }.items():
        slow = slow.replace(old, new)
    kernel = gl.from_source(slow, "02_coalescing")
    with pytest.raises(
        TakesTooLong, match=r"M=5 N=3 K=7 was given up after 0.2 .*limit_s"
    ) as caught:
        kernel(A, B)
    assert "does not end" not in str(caught.value) and "blocks=" not in str(caught.value)
    kernel.limit_s = None
    assert np.allclose(kernel(A, B), 4000 * (A @ B), rtol=1e-2, atol=1)


def test_a_product_far_beyond_the_time_limit_is_refused_before_memory_is_allocated():
    kernel = gl.load("03_shared_memory")
    huge = np.broadcast_to(np.float32(1), (1 << 14, 1 << 14))  # which nobody may look at
    with pytest.raises(TakesTooLong, match=r"more than 137 minutes .* limit of 120 seconds"):
        kernel.launch(kernel.given(huge, huge, huge), 1.0, 0.0)
    with pytest.raises(TakesTooLong, match=r"more than .* minutes"):
        kernel.trace(1 << 16, 1 << 16, 1 << 16)  # there may be no memory for these
