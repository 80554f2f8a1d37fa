"""A fault of a kernel on a GPU: it ends CUDA in this process, and every later call must say so.

After an access out of bounds, CUDA answers whatever this process asks of the GPU with the same
error. It comes late, for a launch does not wait: often only when a result is fetched.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager

from ptxsim import LaunchError

OUT_OF_RESOURCES = 701
FAULTS = {  # the number of an error of CUDA after which nothing works -> what happened
    214: "an error in memory that cannot be corrected",
    700: "an access to an illegal address",
    702: "it ran for longer than the system allows",
    710: "a failed assert",
    714: "an overflow of the stack, or an error in it",
    715: "an illegal instruction",
    716: "an access to an address that is not aligned to its size",
    717: "an access to memory of another kind than the instruction is for",
    718: "a jump to an invalid address",
    719: "a failed launch",
}
_lost = ""  # why nothing works any more
_last = None  # (name, M, N, K) of the product that was launched last


class GpuFault(RuntimeError):
    """A kernel made a fault on the GPU, and this process can use it no more."""


def launched(name: str, m: int, n: int, k: int) -> None:
    """Remember what is launched now, to name it if there is a fault."""
    global _last
    _last = name, m, n, k


@contextmanager
def told():
    """Around whatever uses the GPU: a fault becomes a GpuFault, and so does all that follows it.

    A launch that asks for more than the GPU has is a LaunchError. Other errors pass.
    """
    global _lost
    if _lost:
        raise GpuFault(_lost)
    try:
        yield
    except GpuFault:
        raise
    except Exception as error:
        number = _number(error)
        if number in FAULTS:
            _lost = _sentence(FAULTS[number])
        if _lost:
            raise GpuFault(_lost) from None
        if number == OUT_OF_RESOURCES:
            raise LaunchError(
                "the GPU refuses the launch: a block takes more registers or shared memory than a "
                "multiprocessor has; kernel.resources() shows what it takes"
            ) from None
        raise


def _number(error: Exception) -> int | None:
    """The number of an error of CUDA; None for another error."""
    if "cupy.cuda" not in sys.modules:
        return None
    from cupy.cuda import driver, runtime

    is_of_cuda = isinstance(error, (runtime.CUDARuntimeError, driver.CUDADriverError))
    return error.status if is_of_cuda else None


def _sentence(what: str) -> str:
    name, m, n, k = _last or ("a kernel", "?", "?", "?")
    return (
        f"a kernel made a fault on the GPU: {what}. The last that was launched is {name} at M={m} "
        f"N={n} K={k}. The CUDA context of this process is lost with all that was on the GPU, and "
        "nothing more can run there: restart the kernel of the notebook, or Python. With "
        "GEMMLAB_DEVICE=simulator in its environment it finds the line without a GPU."
    )
