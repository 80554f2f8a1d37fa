"""Kernels of Triton, Numba-CUDA and CuTe DSL: results, counters, mistakes at the Python line.

They need these packages, so `make test-dsl` runs them, in an environment of its own.
"""

import json
import lzma
from functools import partial
from importlib import util
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import ptxsim

pytest.importorskip("triton", reason="make test-dsl installs Triton, Numba-CUDA and CuTe DSL")

from dsl import cute_kernels, numba_kernels, triton_kernels
from ptxsim import cute, numba, triton

RANDOM = np.random.default_rng(0)
M, N, K = 72, 104, 80
A, B = RANDOM.standard_normal((M, K)), RANDOM.standard_normal((K, N))
HALF_A, HALF_B = A.astype(np.float16), B.astype(np.float16)
HALF_C = HALF_A.astype(np.float64) @ HALF_B.astype(np.float64)
near = partial(np.testing.assert_allclose, rtol=2e-3, atol=2e-2)


def line_of(module, text: str) -> int:
    (number,) = (
        at
        for at, line in enumerate(Path(module.__file__).read_text("utf-8").splitlines(), 1)
        if text in line
    )
    return number


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("how", [{}, {"count": True}, {"check": True}], ids=str)
def test_a_product_of_triton_is_right(arch, how):
    c = np.full((M, N), np.nan, np.float16)
    blocks = {"BM": 64, "BN": 64, "BK": 32}
    run = triton.launch(
        triton_kernels.product, (2, 2), HALF_A, HALF_B, c, M, N, K, arch=arch, **blocks, **how
    )
    near(c.astype(np.float64), HALF_C)
    assert run.findings == []
    if "count" in how:
        assert {line.array for line in run.lines if line.space == "global"} == {"a", "b", "c"}


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


@pytest.mark.parametrize(
    ("kind", "vector"), [("e4m3", 32), ("e5m2", 32), ("e2m1", 32), ("e2m1", 16)]
)
def test_products_with_scales_of_triton_are_right_on_blackwell(kind, vector):
    """Triton lays out operands and scales in tensor memory by itself."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    m, n, k, packed = 128, 128, 256, 2 if kind == "e2m1" else 1
    if kind == "e2m1":
        codes = [RANDOM.integers(0, 16, (rows, k)) for rows in (m, n)]
        values = [E2M1[x & 7] * np.where(x & 8, -1, 1) for x in codes]
        given = [(x[:, 0::2] | x[:, 1::2] << 4).astype(np.uint8) for x in codes]
    else:
        dtype = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[kind]
        given = [RANDOM.standard_normal((rows, k)).astype(dtype) for rows in (m, n)]
        values = [x.astype(np.float64) for x in given]
    if vector == 32:
        scales = [RANDOM.integers(122, 132, (x, k // vector)).astype(np.uint8) for x in (m, n)]
        factors = [2.0 ** (s.astype(int) - 127) for s in scales]
    else:
        near_one = [RANDOM.uniform(0.1, 4, (rows, k // vector)) for rows in (m, n)]
        scales = [s.astype(ml_dtypes.float8_e4m3fn) for s in near_one]
        factors = [s.astype(np.float64) for s in scales]
    left, right = (x * np.repeat(f, vector, axis=1) for x, f in zip(values, factors, strict=True))
    c = np.zeros((m, n), np.float32)
    run = triton.launch(
        triton_kernels.scaled_product, (1,), *given, *scales, c, k, KIND=kind, PACKED=packed,
        VECTOR=vector, BM=m, BN=n, BK=128, arch="sm_100", check=True,
    )  # fmt: skip
    assert run.findings == []
    assert (abs(c - left @ right.T) <= 2.0**-20 * (abs(left) @ abs(right).T)).all()


@pytest.mark.parametrize("blocks", [(64, 64, 64), (128, 32, 64)], ids=str)
def test_descriptors_of_the_host_are_tensor_maps(blocks):
    c, turned = np.zeros((M, N), np.float16), np.ascontiguousarray(HALF_B.T)
    bm, bn, bk = blocks
    maps = [
        ptxsim.TensorMap(array, box)
        for array, box in ((HALF_A, (bm, bk)), (turned, (bn, bk)), (c, (bm, bn)))
    ]
    grid = -(-M // bm), -(-N // bn)
    run = triton.launch(
        triton_kernels.product_by_descriptors, grid, *maps, K, BM=bm, BN=bn, BK=bk, check=True
    )
    near(c.astype(np.float64), HALF_C)
    assert run.findings == []


def test_a_softmax_of_triton_and_its_grid_as_a_function():
    x = RANDOM.standard_normal((5, 300), np.float32)
    out = np.zeros_like(x)
    run = triton.launch(
        triton_kernels.softmax, lambda constants: (5,), x, out, 300, BLOCK=512, num_warps=8,
        check=True,
    )  # fmt: skip
    powers = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(out, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)
    assert run.findings == []


def test_a_finding_is_at_the_line_of_triton_s_source():
    x = np.zeros((5, 300), np.float32)
    run = triton.launch(triton_kernels.softmax, 6, x, np.zeros_like(x), 300, BLOCK=512)
    read, written = run.findings
    assert read.kind == "out-of-bounds read"
    assert read.line == line_of(triton_kernels, "values = tl.load")
    assert written.line == line_of(triton_kernels, "tl.store(out")


@pytest.mark.parametrize(
    "args, message",
    [
        ((np.zeros(4, np.complex64), np.zeros(4, np.float32), 4), "x is an array of complex64"),
        ((np.zeros(4, np.float32), [1.0], 4), r"out = \[1.0\] is no array"),
        ((np.zeros(4, np.float32),), "missing a required argument: 'out'"),
    ],
)
def test_what_triton_does_not_take_is_refused(args, message):
    with pytest.raises(ptxsim.LaunchError, match=message):
        triton.launch(triton_kernels.softmax, 1, *args, BLOCK=4)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_a_product_of_numba_is_right(arch):
    a, b, c = A.astype(np.float32), B.astype(np.float32), np.zeros((M, N), np.float32)
    run = numba.launch(numba_kernels.product, (7, 5), (16, 16), a, b, c, arch=arch, check=True)
    np.testing.assert_allclose(c, A @ B, rtol=1e-4, atol=1e-4)
    assert run.findings == []


def test_a_sum_of_numba_by_shuffles_and_atomics():
    x, out = RANDOM.standard_normal(3000).astype(np.float32), np.zeros(1, np.float32)
    run = numba.launch(numba_kernels.total, 4, 128, x, out, check=True, count=True)
    np.testing.assert_allclose(out[0], x.sum(dtype=np.float64), atol=1e-3)
    assert run.findings == [] and run.counters["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]


def test_numba_without_its_barrier_races_at_the_line_of_the_source(tmp_path, monkeypatch):
    text = Path(numba_kernels.__file__).read_text("utf-8")
    (tmp_path / "hasty.py").write_text(text.replace("        cuda.syncthreads()\n", "", 1))
    monkeypatch.syspath_prepend(tmp_path)
    import hasty

    a, b, c = A.astype(np.float32), B.astype(np.float32), np.zeros((M, N), np.float32)
    run = numba.launch(hasty.product, (7, 5), (16, 16), a, b, c, check=True)
    lines = {finding.line for finding in run.findings if "race" in finding.kind}
    assert line_of(hasty, "total += tile_a") in lines


def test_numba_says_which_arguments_are_missing():
    with pytest.raises(ptxsim.LaunchError, match="takes 3 arguments, not 1: a, b, c"):
        numba.launch(numba_kernels.product, 1, 1, np.zeros((2, 2), np.float32))


def test_a_sum_of_cute_and_its_lines():
    a, b = RANDOM.standard_normal((2, 300), np.float32)
    c = np.zeros_like(a)
    run = cute.launch(cute_kernels.add, a, b, c, 300, count=True)
    np.testing.assert_array_equal(c, a + b)
    line = line_of(cute_kernels, "c[i] = a[i] + b[i]")
    assert {(each.array, each.line) for each in run.lines} == {(x, line) for x in "abc"}


def test_cute_s_kernels_take_floats():
    a = RANDOM.standard_normal(cute_kernels.THREADS, np.float32)
    b = np.zeros_like(a)
    cute.launch(cute_kernels.scale, a, 0.5, -3.0, b)
    np.testing.assert_allclose(b, a / 2 - 3, rtol=1e-6, atol=1e-6)


def test_a_constant_of_cute_s_host_function_may_be_the_size_of_a_cluster():
    a = np.full((6, cute_kernels.THREADS), -1, np.int32)
    cute.launch(cute_kernels.ranks, 2, a)
    np.testing.assert_array_equal(a, np.tile([[0], [1]], (3, cute_kernels.THREADS)))


@pytest.mark.parametrize("how", [{}, {"count": True}, {"check": True}], ids=str)
def test_a_product_of_cute_is_right(how):
    a, b = A[:64].astype(np.float32), B[:, :96].astype(np.float32).copy()
    c = np.zeros((64, 96), np.float32)
    run = cute.launch(cute_kernels.product, a, b, c, **how)
    np.testing.assert_allclose(c, A[:64] @ B[:, :96], rtol=1e-4, atol=1e-4)
    assert run.findings == []


def test_cute_without_its_barrier_races_at_the_line_of_the_source(tmp_path, monkeypatch):
    text = Path(cute_kernels.__file__).read_text("utf-8")
    barrier = "        cute.arch.sync_threads()\n        for"
    (tmp_path / "hasty_cute.py").write_text(text.replace(barrier, "        for", 1))
    monkeypatch.syspath_prepend(tmp_path)
    import hasty_cute

    a, b, c = (np.ones((32, 32), np.float32) for _ in "abc")
    run = cute.launch(hasty_cute.product, a, b, c, check=True)
    lines = {finding.line for finding in run.findings if "race" in finding.kind}
    assert line_of(hasty_cute, "total += tile_a") in lines


def test_cute_out_of_bounds_is_found_at_its_line():
    a = np.zeros(300, np.float32)
    run = cute.launch(cute_kernels.add, a, a.copy(), a.copy(), 301)
    assert {f.kind for f in run.findings} == {"out-of-bounds read", "out-of-bounds write"}
    assert {f.line for f in run.findings} == {line_of(cute_kernels, "c[i] = a[i] + b[i]")}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32, ml_dtypes.bfloat16], ids=str)
def test_tensor_maps_of_cute_s_host_code_are_read(dtype):
    a = np.arange(32 * 64).reshape(32, 64).astype(dtype)
    b = np.zeros_like(a)
    run = cute.launch(cute_kernels.copied_by_tensor_map, a, b, check=True)
    np.testing.assert_array_equal(b, a)
    assert run.findings == []


@pytest.mark.parametrize(
    "host, args, message",
    [
        ("add", (np.zeros(4, np.float32),), "add takes 4 arguments, not 1: a, b, c, n"),
        ("add", (*np.zeros((3, 4), np.complex64), 4), "an array of complex64"),
        ("add", (*(np.zeros(9, np.float32)[1:] for _ in "abc"), 8), "multiples of 16 bytes"),
        ("twice", (*(np.zeros(8, np.float32) for _ in "abc"), 8), "launches 2 kernels"),
    ],
)
def test_what_cute_does_not_take_is_refused(host, args, message):
    with pytest.raises(ptxsim.LaunchError, match=message):
        cute.launch(getattr(cute_kernels, host), *args)


def test_kernels_that_come_compiled_are_what_the_compilers_make_of_their_sources():
    folder = Path(__file__).resolve().parents[2] / "kernels" / "25_four_languages"
    spec = util.spec_from_file_location("compile_four_languages", folder / "compile.py")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    there = json.loads(lzma.decompress((folder / "ptx.json.xz").read_bytes()))
    made = module.compiled()
    assert there.keys() == made.keys()
    for name, kernel in made.items():
        assert kernel == there[name], f"{name}: run python kernels/25_four_languages/compile.py"
