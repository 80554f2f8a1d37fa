"""cuBLAS's products as they are called here, on a BLAS of our own that stores by columns."""

import ctypes
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from gemmlab.cuda.cublas import Cublas, CublasError
from gemmlab.kernel.operands import Operands
from gemmlab.ladder import HALF, SINGLE, Problem
from gemmlab.ladder.launch import POINTERS

TYPES = {2: np.float16}  # by the number of cuBLAS's type; none: float32


class Placed(np.ndarray):
    """A NumPy array that says where it lies as a CuPy array does."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)


def matrix(address: int, rows: int, columns: int, ld: int, dtype=np.float32) -> np.ndarray:
    """Memory read by columns, `ld` elements from one to the next."""
    size = np.dtype(dtype).itemsize
    raw = (ctypes.c_byte * (size * (ld * (columns - 1) + rows))).from_address(address)
    flat = np.frombuffer(raw, dtype)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (size, size * ld))


def multiply(ops, m, n, k, alpha, beta, a, b, c):
    """C = alpha * op(A) @ op(B) + beta * C by columns; a, b, c: address, ld, and the type."""
    A, B = (
        matrix(at, *((columns, rows) if op else (rows, columns)), *more)
        for op, (at, *more), rows, columns in zip(ops, (a, b), (m, k), (k, n), strict=True)
    )
    A, B = (X.T if op else X for X, op in zip((A, B), ops, strict=True))
    C = matrix(c[0], m, n, *c[1:])
    done = alpha * (A.astype(np.float64) @ B.astype(np.float64))
    C[...] = done + (beta * C if beta else 0)


def factor(reference) -> float:
    return reference._obj.value


class ByColumns:
    """The functions of cuBLAS that are called, after its manual, for addresses of the host."""

    def cublasSgemm_v2(self, handle, opa, opb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
        places = (a.value, lda), (b.value, ldb), (c.value, ldc)
        multiply((opa, opb), m, n, k, factor(alpha), factor(beta), *places)
        return 0

    def cublasGemmEx(
        self, handle, opa, opb, m, n, k, alpha, a, ta, lda, b, tb, ldb, beta, c, tc, ldc, kind, how
    ):  # fmt: skip
        assert (kind, how) == (68, -1)
        places = (
            (x.value, ld, TYPES[t]) for x, ld, t in ((a, lda, ta), (b, ldb, tb), (c, ldc, tc))
        )
        multiply((opa, opb), m, n, k, factor(alpha), factor(beta), *places)
        return 0

    def cublasSgemmStridedBatched(
        self, handle, opa, opb, m, n, k, alpha, a, lda, sa, b, ldb, sb, beta, c, ldc, sc, batch
    ):  # fmt: skip
        assert all(isinstance(step, ctypes.c_longlong) for step in (sa, sb, sc))
        for i in range(batch):
            places = (
                (x.value + 4 * i * step.value, ld)
                for x, ld, step in ((a, lda, sa), (b, ldb, sb), (c, ldc, sc))
            )
            multiply((opa, opb), m, n, k, factor(alpha), factor(beta), *places)
        return 0

    def cublasSgemmBatched(
        self, handle, opa, opb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, batch
    ):  # fmt: skip
        addresses = [(ctypes.c_uint64 * batch).from_address(x.value) for x in (a, b, c)]
        for i in range(batch):
            places = ((x[i], ld) for x, ld in zip(addresses, (lda, ldb, ldc), strict=True))
            multiply((opa, opb), m, n, k, factor(alpha), factor(beta), *places)
        return 0


def cublas(dtype="float32", pointers=False) -> Cublas:
    made = object.__new__(Cublas)
    made.dtype, made.pointers, made._library, made._handle = dtype, pointers, ByColumns(), None
    return made


def launched(problem: Problem, gap=0, precision=SINGLE, alpha=0.5, beta=2.0, pointers=False):
    """C after a launch, and what it should be."""
    given = Operands.from_seed(problem, precision, 3, gap=gap)
    A, B, C = given.numbers()
    expected = alpha * (A @ B) + beta * C
    given = given.changed(lambda array: array.view(Placed))
    addresses = {
        name: np.array([matrix.ctypes.data for matrix in array], np.uint64).view(Placed)
        for name, array in zip(POINTERS, (given.A, given.B, given.C), strict=True)
        if pointers
    }
    operands = SimpleNamespace(
        problem=problem, A=given.A, B=given.B, C=given.C, values=given.values, pointers=addresses
    )
    cublas(precision.name, pointers).launch(operands, alpha, beta)
    return np.asarray(given.C), expected


OPS = ("NN", "NT", "TN", "TT")


@pytest.mark.parametrize(("ops", "gap"), list(product(OPS, (0, 3))))
def test_a_product_by_rows_from_a_library_by_columns(ops, gap):
    for alpha, beta in ((1.0, 0.0), (0.5, 2.0)):
        got, expected = launched(Problem(5, 3, 7, ops=ops), gap, alpha=alpha, beta=beta)
        assert np.allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize(("ops", "gap", "pointers"), list(product(OPS, (0, 3), (False, True))))
def test_a_batch_by_strides_and_by_addresses(ops, gap, pointers):
    got, expected = launched(Problem(5, 3, 7, 4, ops), gap, pointers=pointers)
    assert got.shape == (4, 5, 3) and np.allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("ops", OPS)
def test_products_in_float16(ops):
    got, expected = launched(Problem(5, 3, 7, ops=ops), precision=HALF)
    assert got.dtype == np.float16 and np.allclose(got, expected, atol=1e-2)
    with pytest.raises(CublasError, match="batches are multiplied in float32"):
        launched(Problem(5, 3, 7, 2), precision=HALF)


def test_an_error_of_the_library_is_told():
    made = cublas()
    made._library = SimpleNamespace(cublasSgemm_v2=lambda *_: 7)
    matrix = np.ones((2, 2), np.float32).view(Placed)
    with pytest.raises(CublasError, match="cublasSgemm_v2 returned status 7"):
        made.launch_into(matrix, matrix, matrix)
