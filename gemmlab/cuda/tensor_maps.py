"""Tensor maps as the driver makes them: how the copy engine finds a box of a matrix on a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

MAP_BYTES, MAP_ALIGNMENT = 128, 64
# Of CUtensorMapDataType and CUtensorMapSwizzle.
TYPES = {
    "uint8": 0, "uint16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6,
    "float32": 7, "float64": 8,
}  # fmt: skip
SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}


class TensorMapError(RuntimeError):
    """The driver refused a tensor map. The message says of which array, box and swizzle."""


def encode(array: Any, box: tuple[int, ...], swizzle: str) -> np.ndarray:
    """The map of a CuPy array (C-contiguous, 1 to 5 axes), as an argument of a launch: (1,) V128.

    `box`: elements along each axis of the array, in its order; what is outside is loaded as zeros.
    Raises TensorMapError.
    """
    axes = array.ndim
    room = np.zeros(2 * MAP_BYTES, np.uint8)
    begin = -room.ctypes.data % MAP_ALIGNMENT
    made = room[begin : begin + MAP_BYTES]

    def numbers(kind: Any, values: Sequence[int]) -> Any:
        return (kind * max(len(values), 1))(*values)

    # The driver's order of axes is the reverse of NumPy's.
    code = _encode_tiled()(
        ctypes.c_void_p(made.ctypes.data), TYPES[array.dtype.name], axes,
        ctypes.c_void_p(array.data.ptr), numbers(ctypes.c_uint64, array.shape[::-1]),
        numbers(ctypes.c_uint64, array.strides[-2::-1]), numbers(ctypes.c_uint32, box[::-1]),
        numbers(ctypes.c_uint32, (1,) * axes), 0, SWIZZLES[swizzle], 0, 0,
    )  # fmt: skip
    if code:
        raise TensorMapError(
            f"cuTensorMapEncodeTiled refused a map of {array.dtype} {array.shape} with boxes of "
            f"{box} and swizzle {swizzle} (CUDA error {code}): rows begin at multiples of 16 bytes"
        )
    return made.view(f"V{MAP_BYTES}")


@cache
def _encode_tiled() -> Any:
    return ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled
