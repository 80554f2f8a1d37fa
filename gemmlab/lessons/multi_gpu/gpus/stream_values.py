"""Numbers in GPU memory that a stream writes, or waits for: the driver's memory operations.

They run on no SM. An address may lie on another GPU, if it is mapped here. After "Stream Memory
Operations" in NVIDIA's CUDA Driver API.
"""

from __future__ import annotations

import ctypes
from functools import cache

AT_LEAST = 0  # CU_STREAM_WAIT_VALUE_GEQ: the difference, as a signed number, is not negative
WITH_BARRIER = 0  # what the stream did before is seen by whoever sees the number


class StreamValueError(RuntimeError):
    """The driver refused; the message says what and with which error."""


def write(stream: int, address: int, value: int) -> None:
    """Enqueue on a stream, given by its pointer: store `value`, 32 bits, at an address.

    Raises StreamValueError, as all here do.
    """
    _call("cuStreamWriteValue32_v2", stream, address, value, WITH_BARRIER)


def wait(stream: int, address: int, value: int) -> None:
    """Enqueue: go on when the 32 bits at an address of this GPU are `value`, or more."""
    _call("cuStreamWaitValue32_v2", stream, address, value, AT_LEAST)


def _call(name: str, stream: int, address: int, value: int, flags: int) -> None:
    _check(name, getattr(_driver(), name)(
        ctypes.c_void_p(stream), ctypes.c_uint64(address), ctypes.c_uint32(value),
        ctypes.c_uint(flags),
    ))  # fmt: skip


def allocation_of(address: int) -> int:
    """Where the allocation begins in which an address of GPU memory lies."""
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    _check("cuMemGetAddressRange_v2", _driver().cuMemGetAddressRange_v2(
        ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(address)
    ))  # fmt: skip
    return base.value


def _check(name: str, code: int) -> None:
    if code:
        raise StreamValueError(f"{name} failed (CUDA error {code})")


@cache
def _driver():
    return ctypes.CDLL("libcuda.so.1")
