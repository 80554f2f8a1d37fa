"""Products and sums that ptxas fuses: an NVIDIA H200's bits, and what is not known."""

import json
import re
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

import ptxsim
import record_contraction as recorder
from ptxsim import ptx
from ptxsim.arithmetic.special_functions import reciprocal
from ptxsim.compile import nvrtc
from ptxsim.contraction import contracted

f4, f8 = np.float32, np.float64
RECORD = Path(__file__).parent / "recorded" / "contraction.npz"
SIZES = (1, 1, 1), (recorder.THREADS, 1, 1)


def simulated(source: str, name: str, kernel, options=()) -> tuple[np.ndarray, ptxsim.Run]:
    """The results as bits, and the run."""
    x = recorder.inputs(kernel.ptx_type)
    y = recorder.results(kernel, x)
    element = {"f32": f4, "f64": f8}.get(kernel.ptx_type, x.dtype)
    arrays = [x.view(element), y.view(element)]
    run = ptxsim.launch(source, name, *SIZES, arrays, options=options, check=True)
    assert run.findings == []
    return y, run


def test_a_division_that_ends_in_a_sum_is_rounded_once():
    """a / b less what that rounds to: only a fused multiply-add has the remainder."""
    source = """extern "C" __global__ void k(const float* a, const float* b, float* c) {
        c[threadIdx.x] = __fdividef(a[threadIdx.x], b[threadIdx.x]) - c[threadIdx.x];
    }"""
    a, b = np.random.default_rng(1).uniform(1, 2, (2, 64)).astype(f4)
    quotients = a * reciprocal(b)
    c = quotients.copy()
    ptxsim.launch(source, "k", *SIZES, [a, b, c])
    assert c.tobytes() == (f8(a) * f8(reciprocal(b)) - f8(quotients)).astype(f4).tobytes()
    assert np.count_nonzero(c) > 32


# --- what is not known ----------------------------------------------------------------------------

TWICE = """extern "C" __global__ void k(const float* x, float* y) {
    float a = x[0], b = x[1], s;
    asm("{.reg .f32 t<2>; mul.f32 t0, %1, %2; mul.f32 t1, %1, %2; add.f32 %0, t0, t1;}" : ASM);
    y[0] = s;
}""".replace("ASM", '"=f"(s) : "f"(a), "f"(b)')


def test_the_sum_of_two_equal_products_is_noted_with_its_line():
    with pytest.warns(UserWarning, match="line 3: .*two equal products"):
        run = ptxsim.launch(TWICE, "k", (1, 1, 1), (1, 1, 1), [np.ones(2, f4), np.ones(1, f4)])
    (note,) = run.notes
    assert note.kernel == "k" and note.lines == (3,) and run.findings == []


def test_another_compiler_is_noted_where_there_is_something_to_fuse():
    source = 'extern "C" __global__ void k(float* y) { y[0] = y[1] * y[2] - y[3] * y[4]; }'
    program = nvrtc.compile_source(source, "kernel.cu")
    release = re.search(r"release ([\d.]+)", program.ptx)[1]
    other = program.ptx.replace(f"release {release}", "release 99.9")
    _, notes = contracted(ptx.parse(other, "kernel.cu")["k"])
    assert "99.9" in str(notes[0]) and notes[0].lines == (1,)
    plain = other.replace("mul.ftz", "mul.rn.ftz")
    kernel = ptx.parse(plain, "kernel.cu")["k"]
    assert contracted(kernel) == (kernel, ())


# --- an H200 --------------------------------------------------------------------------------------


@lru_cache
def record() -> dict[str, np.ndarray]:
    with np.load(RECORD) as file:
        return dict(file)


@pytest.mark.parametrize("group", recorder.groups())
def test_an_h200_computes_the_same_bits(group):
    kernels = recorder.groups()[group]
    source, options = recorder.module(kernels)
    assert group not in json.loads(str(record()["about"]))["failed"]
    for name, kernel in kernels.items():
        given = record()[f"inputs {kernel.ptx_type}"]
        assert given.tobytes() == recorder.inputs(kernel.ptx_type).tobytes()
        got, run = simulated(source, name, kernel, options)
        assert run.notes == []
        different = got != record()[name]
        assert not (different & ~(is_nan(kernel, got) & is_nan(kernel, record()[name]))).any(), name


def is_nan(kernel, bits: np.ndarray) -> np.ndarray:
    """Any NaN is as good as any other; a pair with one counts as one."""
    largest = {"f32": 0x7F800000, "f64": 0x7FF0000000000000, "f16": 0x7C00, "bf16": 0x7F80}
    ptx_type = kernel.ptx_type.removesuffix("x2")
    infinity = bits.dtype.type(largest[ptx_type])
    if ptx_type == kernel.ptx_type:
        return (bits & ~(bits.dtype.type(1) << bits.dtype.type(8 * bits.itemsize - 1))) > infinity
    return np.logical_or(*((bits >> s & 0x7FFF) > infinity for s in (np.uint32(0), np.uint32(16))))
