"""A fault of a kernel on a GPU: it ends CUDA in this process, and every later call must say so.

After an access out of bounds, CUDA answers whatever this process asks of the GPU with the same
error. It comes late, for a launch does not wait: often only when a result is fetched.
"""

import sys
from contextlib import ContextDecorator
from typing import Any

from ptxsim import LaunchError

OUT_OF_RESOURCES = 701
# Errors of CUDA after which nothing works: ECC, illegal address, timeout, assert, stack, illegal
# instruction, misaligned address, address space, program counter, launch failure.
FAULTS = {214, 700, 702, 710, 714, 715, 716, 717, 718, 719}
_lost = ""  # why nothing works any more
_last: tuple[str, int, int, int] | None = None  # what was launched last


class GpuFault(RuntimeError):
    """A kernel made a fault on the GPU, and this process can use it no more."""


def launched(name: str, m: int, n: int, k: int) -> None:
    """Remember what is launched now, to name it if there is a fault. Raises GpuFault after one."""
    global _last
    if _lost:
        raise GpuFault(_lost)
    _last = name, m, n, k


class reported(ContextDecorator):
    """Around whatever uses the GPU: a fault becomes a GpuFault, and so does all that follows it. A
    launch that requests more than the GPU has is a LaunchError. Other errors pass."""

    def __enter__(self) -> None:
        if _lost:
            raise GpuFault(_lost)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception):
            report(error)


def report(error: Exception) -> None:
    """Raise what stands for this error, if something does."""
    global _lost
    if isinstance(error, GpuFault):
        return
    number = _number(error)
    if number in FAULTS:
        last = "a kernel" if _last is None else "{} at M={} N={} K={}".format(*_last)
        _lost = (
            f"a kernel made a fault on the GPU: {error}. The last one launched is {last}. "
            "The CUDA context of this process is lost with all that was on the GPU, and "
            "nothing more can run there: restart the kernel of the notebook, or Python. With "
            "GEMMLAB_DEVICE=simulator in its environment it finds the line without a GPU."
        )
    if _lost:
        raise GpuFault(_lost) from None
    if number == OUT_OF_RESOURCES:
        raise LaunchError(
            "the GPU refuses the launch: a block takes more registers or shared memory than a "
            "multiprocessor has; kernel.resources() shows what it takes"
        ) from None


def _number(error: Exception) -> int | None:
    """The number of an error of CUDA; None for another error."""
    if "cupy.cuda" not in sys.modules:
        return None
    from cupy.cuda import driver, runtime

    of_cuda = runtime.CUDARuntimeError, driver.CUDADriverError
    return getattr(error, "status", None) if isinstance(error, of_cuda) else None
