"""gl.matmul: right for whatever BLAS would take, of the rung that choose() names, and refusing."""

import itertools

import numpy as np
import pytest

import gemmlab as gl
from gemmlab.cuda.device import gpu, why_no_gpu
from gemmlab.kernel.arguments import ArgumentError
from gemmlab.kernel.bounds import error_bound, reference
from gemmlab.ladder import BRAIN, HALF, SINGLE
from gemmlab.products import call, choosing


def matrix(*shape, seed=1):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def bits(X):
    """The nearest bfloat16, as they are stored."""
    return BRAIN.a.encode(X, BRAIN.a.storage)


def halves(X):
    return X.astype(np.float16)


of_sixteen_bits = pytest.mark.parametrize(("precision", "store"), [(HALF, halves), (BRAIN, bits)])


def right(got, A, B, C=None, alpha=1.0, beta=0.0, bias=None, activation="none", precision=SINGLE):
    """Whether a product of A and B, as they are multiplied, is within its bound."""
    A, B = precision.a.decode(A), precision.b.decode(B)
    C = None if C is None else precision.c.decode(C)
    expected = reference(A, B, C, alpha, beta, bias, activation)
    bound = error_bound(A, B, C, alpha, beta, precision, bias, activation)
    assert got.shape == expected.shape and got.dtype == precision.c.storage
    assert got.flags.c_contiguous
    assert (abs(precision.c.decode(got) - expected) <= bound).all()
    return True


# ---- ways that operands come ---------------------------------------------------------------------

WAYS = {
    "as it is": lambda X: X,
    "by columns": np.asfortranarray,
    "a view of more columns": lambda X: np.pad(X, [(0, 0)] * (X.ndim - 1) + [(0, 3)])[..., :-3],
    "a view of more rows, transposed": lambda X: np.pad(
        X.swapaxes(-1, -2), [(0, 0)] * (X.ndim - 1) + [(2, 1)]
    )[..., 2:-1].swapaxes(-1, -2),
    "backwards": lambda X: X[..., ::-1, :].copy()[..., ::-1, :],
    "every second column": lambda X: np.repeat(X, 2, axis=-1)[..., ::2],
}


@pytest.mark.parametrize(("way_a", "way_b"), list(itertools.product(WAYS, WAYS)))
def test_operands_of_any_strides(way_a, way_b):
    A, B = matrix(13, 9), matrix(9, 21, seed=2)
    first, second = WAYS[way_a](A), WAYS[way_b](B)
    assert np.array_equal(first, A) and np.array_equal(second, B)
    assert right(gl.matmul(first, second), A, B)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ops", ["NN", "NT", "TN", "TT"])
def test_batches_of_any_strides(way, ops):
    A, B = matrix(3, 13, 9), matrix(3, 9, 21, seed=2)
    stored = [np.ascontiguousarray(X.swapaxes(1, 2)) if op == "T" else X
              for X, op in zip((A, B), ops, strict=True)]  # fmt: skip
    how = {"transpose_a": ops[0] == "T", "transpose_b": ops[1] == "T"}
    assert right(gl.matmul(*map(WAYS[way], stored), **how), A, B)


@pytest.mark.parametrize(("m", "n", "k"), [(0, 3, 5), (4, 0, 5), (4, 3, 0), (0, 0, 0)])
def test_empty_products(m, n, k):
    A, B, C = np.zeros((m, k), np.float32), np.zeros((k, n), np.float32), matrix(m, n)
    assert np.array_equal(gl.matmul(A, B), np.zeros((m, n), np.float32))
    assert np.array_equal(gl.matmul(A, B, beta=2.0, C=C), 2 * C)


# ---- factors, epilogues, types -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alpha", "beta"), [(1, 0), (0.5, 2), (-1.5, 0), (0, 1), (np.float32(2), -1)]
)
def test_alpha_and_beta(alpha, beta):
    A, B, C = matrix(17, 6), matrix(6, 11, seed=2), matrix(17, 11, seed=3)
    before = [X.copy() for X in (A, B, C)]
    for given in (C, np.asfortranarray(C), C[::-1].copy()[::-1]):
        got = gl.matmul(A, B, alpha, beta, given)
        assert right(got, A, B, C, float(alpha), float(beta)) and not np.shares_memory(got, given)
    assert all(np.array_equal(*pair) for pair in zip((A, B, C), before, strict=True))


@pytest.mark.parametrize("activation", [None, "none", "ReLU", "GELU by tanh", "GELU by erf"])
@pytest.mark.parametrize("biased", [False, True])
def test_a_bias_and_an_activation_are_fused(activation, biased):
    A, B, C = matrix(17, 6), matrix(6, 11, seed=2), matrix(17, 11, seed=3)
    bias = matrix(11, seed=4) if biased else None
    got = gl.matmul(A, B, 0.5, 2.0, C, bias, activation)
    assert right(got, A, B, C, 0.5, 2.0, bias, activation or "none")
    plan = call.planned(A, B, bias, activation, False, False)
    fused = biased or activation not in (None, "none")
    assert (plan.chosen.rung == "11_fused_epilogue") == fused


@pytest.mark.parametrize("shape", [(70, 72, 64), (17, 11, 6)])  # rows at 16 bytes, and off them
@of_sixteen_bits
def test_sixteen_bits_of_any_strides_transposed_and_in_batches(precision, store, shape):
    m, n, k = shape
    A, B, C = store(matrix(m, k)), store(matrix(k, n, seed=2)), store(matrix(m, n, seed=3))
    how = {"dtype": precision.name}
    assert right(gl.matmul(A, B, **how), A, B, precision=precision)
    assert right(gl.matmul(A, B, 0.5, 2.0, C, **how), A, B, C, 0.5, 2.0, precision=precision)
    for turn in (np.ascontiguousarray, lambda X: X):  # as it is stored, and as a view
        got = gl.matmul(turn(A.T), turn(B.T), transpose_a=True, transpose_b=True, **how)
        assert right(got, A, B, precision=precision)
        assert right(gl.matmul(A, turn(B.T), transpose_b=True, **how), A, B, precision=precision)
    spread = np.repeat(A, 2, axis=1)[:, ::2]
    assert right(gl.matmul(spread, np.asfortranarray(B), **how), A, B, precision=precision)
    several = np.stack([A, A[::-1]])
    assert right(gl.matmul(several, np.stack([B, B]), **how), several, np.stack([B, B]),
                 precision=precision)  # fmt: skip


@pytest.mark.parametrize("activation", ["none", "ReLU", "GELU by tanh", "GELU by erf"])
@of_sixteen_bits
def test_a_bias_and_an_activation_are_fused_for_sixteen_bits_too(precision, store, activation):
    A, B, C = store(matrix(17, 8)), store(matrix(8, 24, seed=2)), store(matrix(17, 24, seed=3))
    bias, how = matrix(24, seed=4), {"dtype": precision.name}
    got = gl.matmul(A, B, 0.5, 2.0, C, bias, activation, **how)
    assert right(got, A, B, C, 0.5, 2.0, bias, activation, precision)
    got = gl.matmul(A, B, activation=activation, **how)
    assert right(got, A, B, activation=activation, precision=precision)


# ---- what is kept --------------------------------------------------------------------------------


def test_a_plan_is_reused_for_calls_of_the_same_kind_alone():
    A, B = matrix(13, 9), matrix(9, 21)
    plan = call.planned(A, B, None, None, False, False)
    assert call.planned(A + 1, B - 1, None, None, False, False) is plan
    others = [
        call.planned(np.asfortranarray(A), B, None, None, False, False),
        call.planned(A, B, None, "ReLU", False, False),
        call.planned(A, B, matrix(21), None, False, False),
        call.planned(A[:5], B, None, None, False, False),
        call.planned(A.astype(np.float16), B.astype(np.float16), None, None, False, False),
        call.planned(A.T, B, None, None, True, False),
    ]
    assert plan not in others


# ---- rows off 16 bytes ---------------------------------------------------------------------------


@pytest.fixture
def copied(monkeypatch):
    """Copies into longer rows cost nothing: they are made wherever they can be."""
    kept = (call._plans, choosing._choose, choosing.by_model)

    def forget():
        kept[0].clear()
        for each in kept[1:]:
            each.cache_clear()

    forget()
    monkeypatch.setattr(choosing, "WORTH_COPYING", 1e9)
    yield
    forget()


@pytest.mark.parametrize(("precision", "store"), [(SINGLE, lambda X: X), (HALF, halves)])
@pytest.mark.parametrize("ops", ["NN", "TT"])
@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_products_on_copies_in_longer_rows(copied, precision, store, ops, beta):
    A, B, C = store(matrix(13, 9)), store(matrix(9, 21, seed=2)), store(matrix(13, 21, seed=3))
    stored = [np.ascontiguousarray(X.T) if op == "T" else X
              for X, op in zip((A, B), ops, strict=True)]  # fmt: skip
    how = {"transpose_a": ops[0] == "T", "transpose_b": ops[1] == "T"}
    plan = call.planned(*stored, None, None, *how.values())
    assert plan.problem.n == 24 and plan.problem.k == (9 if precision is SINGLE else 16)
    assert "copied before into rows of 13×24" in repr(plan.chosen)
    got = gl.matmul(*stored, 2.0, beta, C, **how)
    assert right(got, A, B, C, 2.0, beta, precision=precision)


def test_a_large_product_off_16_bytes_is_worth_the_copies_and_a_small_one_is_not():
    assert gl.choose((3000, 3001, 3001), "float16").padded.shape == (3000, 3008, 3008)
    assert gl.choose((3000, 3008, 3008), "float16").padded is None
    assert gl.choose((33, 33, 33), "float16").padded is None


# ---- one matrix for a whole batch ----------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("ops", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("which", ["A", "B"])
def test_one_matrix_is_multiplied_with_each_of_a_batch(which, ops, dtype):
    A, B, C = matrix(3, 13, 9), matrix(3, 9, 21, seed=2), matrix(3, 13, 21, seed=3)
    A, B, C = (X.astype(dtype) for X in (A, B, C))
    A, B = (A[0], B) if which == "A" else (A, B[0])
    stored = [np.ascontiguousarray(X.swapaxes(-1, -2)) if op == "T" else X
              for X, op in zip((A, B), ops, strict=True)]  # fmt: skip
    how = {"transpose_a": ops[0] == "T", "transpose_b": ops[1] == "T"}
    got = gl.matmul(*stored, 2.0, 0.5, C, **how)
    whole = [np.broadcast_to(X, (3, *X.shape[-2:])) for X in (A, B)]
    assert right(got, *whole, C, 2.0, 0.5, precision=HALF if dtype == np.float16 else SINGLE)


def test_a_batch_with_one_matrix_on_its_right_is_a_single_product():
    plan = call.planned(matrix(3, 13, 9), matrix(9, 21), None, None, False, False)
    assert plan.flat and plan.problem.shape == (39, 21, 9) and plan.problem.batch == 1


# ---- into an array that is there -----------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("beta", [0.0, -1.5])
def test_out_is_written_in_place_whatever_its_strides(way, beta):
    A, B, C = matrix(13, 9), matrix(9, 21, seed=2), matrix(13, 21, seed=3)
    out = WAYS[way](np.full_like(C, np.nan))
    assert gl.matmul(A, B, 2.0, beta, C, out=out) is out
    assert right(np.ascontiguousarray(out), A, B, C, 2.0, beta)


def test_out_may_be_c_itself():
    A, B, C = matrix(13, 9), matrix(9, 21, seed=2), matrix(13, 21, seed=3)
    before = C.copy()
    assert gl.matmul(A, B, 2.0, 0.5, C, out=C) is C
    assert right(C, A, B, before, 2.0, 0.5)


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_bfloat16_of_ml_dtypes(beta):
    import ml_dtypes

    A, B, C = (bits(matrix(*shape)) for shape in ((16, 24), (24, 8), (16, 8)))
    typed = [X.view(ml_dtypes.bfloat16) for X in (A, B, C)]
    got = gl.matmul(*typed[:2], 2.0, beta, typed[2])
    assert got.dtype == ml_dtypes.bfloat16
    assert np.array_equal(got.view(np.uint16), gl.matmul(A, B, 2.0, beta, C, dtype="bfloat16"))
    out = np.empty_like(typed[2])
    assert gl.matmul(*typed[:2], 2.0, beta, typed[2], out=out) is out
    assert np.array_equal(out.view(np.uint16), got.view(np.uint16))


# ---- on a GPU ------------------------------------------------------------------------------------

on_a_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(gpu() is None, reason=f"needs a GPU: {why_no_gpu()}"),
]
SHAPES = [
    (64, 64, 64), (1, 512, 300), (300, 1, 512), (257, 129, 65), (256, 512, 128), (1024, 1024, 1024),
    (16, 4096, 512), (5, 7, 3), (64, 64, 0),
]  # fmt: skip


class TestOnAGpu:
    """Arguments are packed once, and exchanged with each call."""

    pytestmark = on_a_gpu

    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    @pytest.mark.parametrize("precision", [SINGLE, HALF, BRAIN], ids=lambda each: each.name)
    def test_repeated_calls_see_new_arrays_and_factors(self, shape, precision):
        import cupy

        m, n, k = shape
        for seed, (alpha, beta) in enumerate([(1.0, 0.0), (2.0, 0.5), (-1.0, 0.0), (1.0, 1.0)]):
            A, B, C = (
                precision.a.encode(matrix(*size, seed=3 * seed + i), precision.a.storage)
                for i, size in enumerate([(m, k), (k, n), (m, n)])
            )
            a, b, c = map(cupy.asarray, (A, B, C))
            got = gl.matmul(a, b, alpha, beta, c, dtype=precision.name)
            out = cupy.empty_like(c)
            assert gl.matmul(a, b, alpha, beta, c, dtype=precision.name, out=out) is out
            for each in (got, out):
                assert right(cupy.asnumpy(each), A, B, C, alpha, beta, precision=precision)

    def test_other_streams_have_other_workspaces(self):
        import cupy

        A, B = (cupy.asarray(matrix(*size)) for size in ((64, 16384), (16384, 64)))
        expected = gl.matmul(A, B)
        streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
        cupy.cuda.Device().synchronize()
        results = []
        for _ in range(20):
            for stream in streams:
                with stream:
                    results.append(gl.matmul(A, B))
        cupy.cuda.Device().synchronize()
        assert all((each == expected).all() for each in results)

    @pytest.mark.parametrize("dtype", [np.float32, np.float16])
    def test_it_is_captured_into_a_graph(self, dtype):
        import cupy

        A, B = (cupy.asarray(matrix(512, 512, seed=i).astype(dtype)) for i in (1, 2))
        out = cupy.empty((512, 512), dtype)
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            expected = gl.matmul(A, B)
            gl.matmul(A, B, out=out)
            stream.begin_capture()
            gl.matmul(A, B, out=out)
            graph = stream.end_capture()
            A *= -1
            graph.launch()
            stream.synchronize()
        assert (out == -expected).all()

    @pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
    @pytest.mark.parametrize("device", ["cuda", "cpu"])
    def test_tensors_of_pytorch(self, name, device):
        import torch

        dtype = getattr(torch, name)
        A, B = (torch.rand(size, device=device).to(dtype) for size in ((64, 128), (128, 32)))
        C = torch.ones((64, 32), device=device).to(dtype)
        got = gl.matmul(A, B, 1.0, 1.0, C)
        assert got.dtype == dtype and got.device == A.device
        torch.testing.assert_close(got.double(), A.double() @ B.double() + 1, rtol=2e-2, atol=1e-2)
        out = torch.empty_like(C)
        gl.matmul(A, B, 1.0, 1.0, C, out=out)
        assert torch.equal(out, got)

    def test_bfloat16_of_cupy(self):
        import cupy
        import ml_dtypes

        A, B = (cupy.asarray(bits(matrix(64, 64, seed=i))) for i in (1, 2))
        got = gl.matmul(A.view(ml_dtypes.bfloat16), B.view(ml_dtypes.bfloat16))
        assert got.dtype == ml_dtypes.bfloat16
        assert (got.view(np.uint16) == gl.matmul(A, B, dtype="bfloat16")).all()


# ---- refused in a sentence -----------------------------------------------------------------------

A, B, C = matrix(5, 7), matrix(7, 3), matrix(5, 3)
BITS_A, BITS_B = bits(A), bits(B)
SQUARE, TWO_SQUARES, FROZEN = matrix(5, 5), matrix(10, 5), C.copy()
FROZEN.flags.writeable = False


@pytest.mark.parametrize(
    ("arguments", "how", "message"),
    [
        ((A.tolist(), B), {}, "A is builtins.list: gl.matmul takes NumPy arrays"),
        ((A, np.ma.masked_array(B)), {}, "B is numpy.*MaskedArray: gl.matmul takes NumPy arrays"),
        ((A, B.astype(np.float64)), {}, "B is float64: gl.matmul takes float16 and float32"),
        ((A, B.astype(np.float16)), {}, "A is float32 and B is float16: they must be of one type"),
        ((A[0], B), {}, "A has 1 axes: gl.matmul takes matrices, or batches"),
        ((A, A), {}, "A is 5×7 and B is 5×7: the inner sizes differ"),
        ((A, B), {"transpose_a": True}, "A is 7×5 and B is 7×3 after transposing"),
        ((A, B), {"transpose_a": 1}, "transpose_a is 1: it must be True or False"),
        ((np.stack([A, A]), B[None]), {}, "the batches differ"),
        ((A, B), {"out": C[:4]}, r"out is float32 \(4, 3\); .* must be float32 \(5, 3\)"),
        ((A, B), {"out": FROZEN}, "out is read-only"),
        ((SQUARE, SQUARE + 1), {"out": SQUARE}, "out shares memory with A, which is not allowed"),
        ((SQUARE + 1, SQUARE), {"out": SQUARE.T}, "out shares memory with B"),
        (
            (SQUARE, SQUARE),
            {"beta": 1, "C": TWO_SQUARES[:5], "out": TWO_SQUARES[1:6]},
            "out shares memory with C, which is not allowed, unless it is C itself",
        ),
        ((A, B), {"beta": 1}, "C is None; A and B are numpy arrays"),
        ((A, B), {"beta": 1, "C": C.T}, r"C is float32 \(3, 5\); .* must be float32 \(5, 3\)"),
        ((A, B), {"bias": C[:, 0]}, r"bias is float32 \(5,\); .* must be float32 \(3,\)"),
        ((A, B), {"activation": "relu"}, "no activation 'relu'; there are 'none', 'ReLU'"),
        ((A, B), {"alpha": "2"}, "alpha is '2'"),
        ((A, B), {"beta": np.nan}, "beta is nan"),
        (
            (BITS_A, BITS_B),
            {},
            "A is uint16: .*the bits of bfloat16 as uint16 with dtype",
        ),
        ((A, B), {"dtype": "bfloat16"}, "A is float32: gl.matmul takes uint16 with dtype='bfloat"),
        ((A, B), {"dtype": "float64"}, "dtype is 'float64'; it must be one of float32, float16"),
        (
            (BITS_A, BITS_B),
            {"dtype": "bfloat16", "bias": BITS_A[0, :3]},
            r"bias is uint16 \(3,\); .* must be float32 \(3,\)",
        ),
    ],
)
def test_wrong_arguments_are_refused(arguments, how, message):
    with pytest.raises(ArgumentError, match=message):
        gl.matmul(*arguments, **how)
