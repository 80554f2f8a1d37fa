"""cuBLAS's product in FP32, or on tensor cores with FP32 sums, called directly.

CuPy refuses cuBLAS calls while a stream is captured, and short products must be captured into CUDA
graphs to be timed fairly. So the library that CuPy uses is called here through its C interface.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

WORKSPACE_BYTES = 32 * 2**20  # what cuBLAS's manual recommends for Hopper; less elsewhere
OPERATIONS = {"N": 0, "T": 1}  # CUBLAS_OP_N, CUBLAS_OP_T: as it is, transposed
COMPUTE_32F = 68  # CUBLAS_COMPUTE_32F: float32 factors and sums
COMPUTE_TF32 = 77  # CUBLAS_COMPUTE_32F_FAST_TF32
SINGLE, HALF, BRAIN = 0, 2, 14  # CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF
TYPES = {  # of A and B, of C, and how it computes, of products on tensor cores
    "float16": (HALF, HALF, COMPUTE_32F),
    "bfloat16": (BRAIN, BRAIN, COMPUTE_32F),
    "float16 to float32": (HALF, SINGLE, COMPUTE_32F),
    "bfloat16 to float32": (BRAIN, SINGLE, COMPUTE_32F),
    "tf32": (SINGLE, SINGLE, COMPUTE_TF32),
}
ALGORITHM = -1  # CUBLAS_GEMM_DEFAULT: cuBLAS chooses
# CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION: sums of parts of K are not rounded to 16 bits.
FULL_SUMS = 16


class CublasError(RuntimeError):
    """cuBLAS cannot be loaded or returned an error, or would not compute in plain FP32."""


def refuse_reduced_precision() -> None:
    """Raise CublasError if the environment lets cuBLAS compute float32 in less than FP32."""
    for name, meaning in (
        ("CUPY_TF32", "TF32"),
        ("NVIDIA_TF32_OVERRIDE", "TF32"),
        ("CUBLAS_EMULATE_SINGLE_PRECISION", "FP32 emulated in BF16"),
    ):
        if os.environ.get(name, "0") not in ("", "0"):
            raise CublasError(
                f"{name}={os.environ[name]} makes cuBLAS use {meaning}, which is no fair baseline "
                "for an FP32 kernel; unset it."
            )


@cache
def library(name: str) -> ctypes.CDLL:
    """The library "cublas" or "cublasLt" that CuPy uses. Raises CublasError."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        return ctypes.CDLL(load_nvidia_dynamic_lib(name).abs_path)
    except (ImportError, RuntimeError, OSError) as error:
        raise CublasError(
            f"{name} cannot be loaded: {str(error).splitlines()[0]}; install the CUDA toolkit, or "
            "the package nvidia-cublas."
        ) from error


def version() -> str | None:
    """The version of cuBLAS, as "13.1.0"; None where the library is not installed."""
    try:
        get_property = library("cublas").cublasGetProperty
    except CublasError:
        return None
    parts = [ctypes.c_int() for _ in range(3)]
    for number, part in enumerate(parts):  # MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL
        get_property(number, ctypes.byref(part))
    return ".".join(str(part.value) for part in parts)


class Cublas:
    """A cuBLAS handle bound to one CuPy stream, with a workspace of its own.

    It is launched, and its samples are checked, as a Kernel's. `dtype` is the name of a Precision:
    "float32", or one of TYPES; factors and sums are float32 for all. `pointers`: batches by arrays
    of addresses instead of strides. The workspace is set before any capture, so that no capture
    has to allocate. Use as a context manager: leaving it frees the handle.
    """

    name = "cublas"
    activation = "none"
    takes_bias = False

    def __init__(self, stream: Any, dtype: str = "float32", pointers: bool = False) -> None:
        import cupy

        self.dtype, self.pointers = dtype, pointers
        if dtype == "float32":
            refuse_reduced_precision()
        self.array_module, self.to_host, self.to_device = cupy, cupy.asnumpy, cupy.asarray
        self._library = library("cublas")
        self._handle = ctypes.c_void_p()
        self._workspace = cupy.empty(WORKSPACE_BYTES, dtype=cupy.uint8)
        self._call("cublasCreate_v2", ctypes.byref(self._handle))
        # In this order: setting a stream resets the workspace.
        self._call("cublasSetStream_v2", self._handle, ctypes.c_void_p(stream.ptr))
        room = ctypes.c_void_p(self._workspace.data.ptr), ctypes.c_size_t(WORKSPACE_BYTES)
        self._call("cublasSetWorkspace_v2", self._handle, *room)
        if dtype in TYPES:
            self._call("cublasSetMathMode", self._handle, FULL_SUMS)

    def _call(self, function: str, *arguments: Any) -> None:
        if status := getattr(self._library, function)(*arguments):
            raise CublasError(f"{function} returned status {status}.")

    def launch_into(self, A: Any, B: Any, C: Any) -> None:
        """C = A @ B for C-contiguous CuPy matrices of the dtype; no checks, no synchronisation."""
        m, k = A.shape
        n = B.shape[1]
        self._call(*self._one_product("NN", (m, n, k), (A, B, C), (k, n, n), 1.0, 0.0))

    def launch(self, operands: Any, alpha: float, beta: float) -> None:
        """As a Kernel's, for kernel.operands.Operands: one product, or a batch of float32.

        C = alpha * op(A) @ op(B) + beta * C, of leading dimensions and strides as they are. Raises
        CublasError for a batch of another type.
        """
        self.prepared(operands, alpha, beta)()

    def prepared(self, operands: Any, alpha: float, beta: float) -> Callable[[], None]:
        """What launches it each time it is called, with arguments that are made once."""
        problem, values = operands.problem, operands.values(alpha, beta)
        matrices = operands.A, operands.B, operands.C
        leading = tuple(int(values[name]) for name in ("lda", "ldb", "ldc"))
        if operands.A.ndim < 3:
            call = self._one_product(problem.ops, problem.shape, matrices, leading, alpha, beta)
            return partial(self._call, *call)
        if self.dtype != "float32":
            raise CublasError(f"batches are multiplied in float32 here, not in {self.dtype}.")
        places: Iterable[tuple[Any, ...]]
        if self.pointers:
            function = "cublasSgemmBatched"
            addresses = (operands.pointers[f"pointers_{name}"].data.ptr for name in "abc")
            places = zip(addresses, leading, strict=True)
        else:
            function = "cublasSgemmStridedBatched"
            steps = (ctypes.c_longlong(int(values[f"stride_{name}"])) for name in "abc")
            places = zip((X.data.ptr for X in matrices), leading, steps, strict=True)
        by_columns = _by_columns(problem.ops, problem.shape, places, alpha, beta)
        return partial(self._call, function, self._handle, *by_columns, problem.batch)

    def _one_product(
        self, ops: str, shape: Sequence[int], matrices: Iterable[Any], leading: Sequence[int],
        alpha: float, beta: float,
    ) -> tuple[Any, ...]:  # fmt: skip
        """The function, and its arguments."""
        addresses = (X.data.ptr for X in matrices)
        if self.dtype == "float32":
            places = zip(addresses, leading, strict=True)
            by_columns = _by_columns(ops, shape, places, alpha, beta)
            return "cublasSgemm_v2", self._handle, *by_columns
        given, result, compute = TYPES[self.dtype]
        typed = zip(addresses, (given, given, result), leading, strict=True)
        by_columns = _by_columns(ops, shape, typed, alpha, beta)
        return "cublasGemmEx", self._handle, *by_columns, compute, ALGORITHM

    def prepared_grouped(self, products: Sequence[tuple[Any, Any, Any]]) -> Callable[[], None]:
        """What launches C = A @ B of several products of 16 bits in one call: each a group of one,
        for cuBLAS wants products of different heights in different groups. A, B and C: C-contiguous
        CuPy matrices with rows, K and N the same for all."""
        import cupy

        count, (k, n) = len(products), products[0][1].shape
        given, result, compute = TYPES[self.dtype]

        def of_each(kind: Any, values: Iterable[Any]) -> Any:
            return (kind * count)(*values)

        def addresses(at: int) -> Any:
            pointers = [matrices[at].data.ptr for matrices in products]
            return cupy.asarray(np.array(pointers, np.uint64))

        kept = tuple(map(addresses, range(3)))
        heights = of_each(ctypes.c_int, (len(A) for A, _, _ in products))
        ones = of_each(ctypes.c_int, [1] * count)
        as_it_is = of_each(ctypes.c_int, [OPERATIONS["N"]] * count)
        wide, deep = (of_each(ctypes.c_int, [size] * count) for size in (n, k))
        alpha, beta = (of_each(ctypes.c_float, [factor] * count) for factor in (1.0, 0.0))
        a, b, c = (ctypes.c_void_p(X.data.ptr) for X in kept)
        call = (
            "cublasGemmGroupedBatchedEx", self._handle, as_it_is, as_it_is, wide, heights, deep,
            alpha, b, given, wide, a, given, deep, beta, c, result, wide, count, ones, compute,
        )  # fmt: skip

        def launch(_kept: object = kept) -> None:  # as long as arrays may be used
            self._call(*call)

        return launch

    def __enter__(self) -> Cublas:
        return self

    def __exit__(self, *_: object) -> None:
        self._call("cublasDestroy_v2", self._handle)


def _by_columns(
    ops: str, shape: Sequence[int], places: Iterable[tuple[Any, ...]], alpha: float, beta: float
) -> list[Any]:
    """The arguments of a product from the operations on, as cuBLAS has them.

    cuBLAS stores by columns. Row-major A, B and C are, read by columns, their transposes, and the
    transpose of A @ B is B.T @ A.T: hence B before A, and N before M. `places`: of A, B and C the
    address and what follows it among the arguments.
    """
    (m, n, k), (a, b, c) = shape, places
    factors = [ctypes.byref(ctypes.c_float(factor)) for factor in (alpha, beta)]
    first, second, result = ([ctypes.c_void_p(at), *more] for at, *more in (b, a, c))
    operations = [OPERATIONS[letter] for letter in reversed(ops)]
    return [*operations, n, m, k, factors[0], *first, *second, factors[1], *result]
