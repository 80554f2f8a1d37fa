"""Functions of the driver that CuPy lacks: programmatic dependent launch, and tensor maps.

A launch may begin while the one before it ends: see programmatic_launch.cuh. A tensor map tells the
copy engine how to find a box of a matrix.
"""

import ctypes
from collections.abc import Sequence
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


class PackedLaunch:
    """The launch of a kernel (cupy.RawKernel) whose arguments are packed once; a call enqueues it.

    `args`: NumPy scalars, and NumPy arrays of one element, all passed by value; an address is a
    uint64. `early`: it may begin while the launch before it on the stream ends.

    cells: of each number, in the order of the arguments, what holds its `value`; it can be set.
    """

    def __init__(
        self, function: Any, grid: Sequence[int], block: Sequence[int], args: Sequence[Any],
        shared_bytes: int, early: bool = False,
    ) -> None:  # fmt: skip
        self._values = [np.atleast_1d(value).copy() for value in args]
        self._addresses = (ctypes.c_void_p * len(args))(*(v.ctypes.data for v in self._values))
        self.cells: list[Any] = [  # None of a structure
            None if value.dtype.kind == "V"
            else np.ctypeslib.as_ctypes_type(value.dtype).from_buffer(value)
            for value in self._values
        ]  # fmt: skip
        attribute = _Attribute(id=OVERLAPS, value=1)
        config = _Config(
            (ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block), shared_bytes, None,
            ctypes.pointer(attribute), int(early),
        )  # fmt: skip
        self._config, self._reference, self._stream = config, ctypes.byref(config), 0
        self._kernel = ctypes.c_void_p(function.kernel.ptr)
        self._launch = driver().cuLaunchKernelEx

    def pass_instead(self, at: int, structure: np.ndarray, address: int) -> None:
        """Exchange an argument: an array of one element, and where it lies."""
        self._values[at], self._addresses[at] = structure, address

    def __call__(self, stream: int) -> None:
        """`stream`: the address of a CUDA stream. Raises cupy.cuda.driver.CUDADriverError."""
        if stream != self._stream:
            self._config.stream = self._stream = stream
        if code := self._launch(self._reference, self._kernel, self._addresses, None):
            import cupy

            raise cupy.cuda.driver.CUDADriverError(code)


# ---- tensor maps ---------------------------------------------------------------------------------

MAP_BYTES, MAP_ALIGNMENT = 128, 64
# Of CUtensorMapDataType and CUtensorMapSwizzle.
TYPES = {
    "uint8": 0, "int8": 0, "uint16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5,
    "float16": 6, "float32": 7, "float64": 8, "tf32": 11,
}  # fmt: skip
SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}


def tensor_map(array: Any, box: tuple[int, ...], swizzle: str, element: str = "") -> np.ndarray:
    """The map of a CuPy array (C-contiguous, 1 to 5 axes), as an argument of a launch: (1,) V128.

    `box`: elements along each axis of the array, in its order; what is outside is loaded as zeros.
    `element`: one of TYPES, where it is not the array's. Raises RuntimeError where the driver
    refuses it.
    """
    axes = array.ndim
    room = np.zeros(2 * MAP_BYTES, np.uint8)
    begin = -room.ctypes.data % MAP_ALIGNMENT
    made = room[begin : begin + MAP_BYTES]

    def numbers(kind: Any, values: Sequence[int]) -> Any:
        return (kind * max(len(values), 1))(*values)

    # The driver's order of axes is the reverse of NumPy's.
    code = driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(made.ctypes.data), TYPES[element or array.dtype.name], axes,
        ctypes.c_void_p(array.data.ptr), numbers(ctypes.c_uint64, array.shape[::-1]),
        numbers(ctypes.c_uint64, array.strides[-2::-1]), numbers(ctypes.c_uint32, box[::-1]),
        numbers(ctypes.c_uint32, (1,) * axes), 0, SWIZZLES[swizzle], 0, 0,
    )  # fmt: skip
    if code:
        raise RuntimeError(
            f"cuTensorMapEncodeTiled refused a map of {array.dtype} {array.shape} with boxes of "
            f"{box}, swizzle {swizzle} (CUDA error {code}): rows begin at multiples of 16 bytes"
        )
    return made.view(f"V{MAP_BYTES}")


@cache
def driver() -> Any:
    """The driver's functions. Raises OSError where there is none."""
    return ctypes.CDLL("libcuda.so.1")
