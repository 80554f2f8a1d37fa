"""cuBLAS's FP32 product, called directly.

CuPy refuses cuBLAS calls while a stream is captured, and short products must be captured into CUDA
graphs to be timed fairly. So the library that CuPy uses is called here through its C interface.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

WORKSPACE_BYTES = 32 * 2**20  # what cuBLAS's manual recommends for Hopper; less elsewhere
OPERATION_N = 0  # CUBLAS_OP_N: not transposed


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
                f"{name}={os.environ[name]} asks cuBLAS for {meaning}, which is no fair baseline "
                f"for an FP32 kernel; unset it."
            )


@cache
def _library() -> ctypes.CDLL:
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        return ctypes.CDLL(load_nvidia_dynamic_lib("cublas").abs_path)
    except (ImportError, RuntimeError, OSError) as error:
        raise CublasError(f"cuBLAS cannot be loaded: {str(error).splitlines()[0]}") from error


def _check(function: str, status: int) -> None:
    if status != 0:
        raise CublasError(f"{function} returned status {status}.")


def version() -> str | None:
    """The version of cuBLAS, as "13.1.0"; None where the library is not installed."""
    try:
        library = _library()
    except CublasError:
        return None
    parts = []
    for part in range(3):  # MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL
        value = ctypes.c_int()
        _check("cublasGetProperty", library.cublasGetProperty(part, ctypes.byref(value)))
        parts.append(str(value.value))
    return ".".join(parts)


class Cublas:
    """A cuBLAS handle bound to one CuPy stream, with a workspace of its own.

    It is launched, and its samples are checked, as a Kernel's. The workspace is set before any
    capture, so that no capture has to allocate. Use as a context manager: leaving it frees the
    handle.
    """

    name = "cublas"

    def __init__(self, stream) -> None:
        import cupy

        refuse_reduced_precision()
        self.array_module, self.to_host = cupy, cupy.asnumpy
        self._library = _library()
        self._handle = ctypes.c_void_p()
        self._one, self._zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
        self._workspace = cupy.empty(WORKSPACE_BYTES, dtype=cupy.uint8)
        self._call("cublasCreate_v2", ctypes.byref(self._handle))
        # In this order: setting a stream resets the workspace.
        self._call("cublasSetStream_v2", self._handle, ctypes.c_void_p(stream.ptr))
        self._call(
            "cublasSetWorkspace_v2",
            self._handle,
            ctypes.c_void_p(self._workspace.data.ptr),
            ctypes.c_size_t(WORKSPACE_BYTES),
        )

    def _call(self, function: str, *arguments) -> None:
        _check(function, getattr(self._library, function)(*arguments))

    def launch_into(self, A, B, C) -> None:
        """C = A @ B for C-contiguous float32 CuPy matrices; no checks, no synchronisation.

        cuBLAS stores by columns. Row-major A, B and C are, read by columns, their transposes, and
        the transpose of A @ B is B.T @ A.T: hence B before A, and N before M.
        """
        m, k = A.shape
        n = B.shape[1]
        self._call(
            "cublasSgemm_v2",
            self._handle,
            OPERATION_N,
            OPERATION_N,
            n,
            m,
            k,
            ctypes.byref(self._one),
            ctypes.c_void_p(B.data.ptr),
            n,
            ctypes.c_void_p(A.data.ptr),
            k,
            ctypes.byref(self._zero),
            ctypes.c_void_p(C.data.ptr),
            n,
        )

    def __enter__(self) -> Cublas:
        return self

    def __exit__(self, *_) -> None:
        self._call("cublasDestroy_v2", self._handle)
