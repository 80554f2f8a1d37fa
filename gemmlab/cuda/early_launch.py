"""Programmatic dependent launch, which CuPy does not offer: see early_launch.cuh."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

OVERLAPS = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute; its value is a union of 64 bytes, of which an int is used here."""

    _fields_ = (
        ("id", ctypes.c_int), ("padding", ctypes.c_char * 4), ("value", ctypes.c_int),
        ("rest", ctypes.c_char * 60),
    )  # fmt: skip


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(_Attribute)),
        ("attribute_count", ctypes.c_uint),
    )  # fmt: skip


def prepared(
    function: Any, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], shared_bytes: int
) -> Callable[[], None]:
    """What launches a kernel (cupy.RawKernel) on the current stream each time it is called.

    It may begin while the launch before it ends. `args`: CuPy arrays, NumPy scalars, and NumPy
    arrays of one element, which are passed by value. Raises cupy.cuda.driver.CUDADriverError.
    """
    import cupy

    values = [_by_value(value) for value in args]  # kept as long as what is returned
    pointers = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
    attribute = _Attribute(id=OVERLAPS, value=1)
    config = _Config(
        (ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block), shared_bytes, None,
        ctypes.pointer(attribute), 1,
    )  # fmt: skip
    kernel = ctypes.c_void_p(function.kernel.ptr)

    def run(_kept: object = (args, values)) -> None:
        config.stream = cupy.cuda.get_current_stream().ptr
        if code := _launch()(ctypes.byref(config), kernel, pointers, None):
            raise cupy.cuda.driver.CUDADriverError(code)

    return run


def _by_value(value: Any) -> np.ndarray:
    """What is copied to the kernel: an array on the GPU goes as its address."""
    pointer = getattr(getattr(value, "data", None), "ptr", None)
    return np.atleast_1d(value if pointer is None else np.uint64(pointer))


@cache
def _launch() -> Any:
    return ctypes.CDLL("libcuda.so.1").cuLaunchKernelEx
