"""How a block's registers are divided among its roles: at its launch, and after setmaxnreg."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gemmlab.kernel.kernel import Kernel

GROUP_THREADS = 128  # setmaxnreg is for a whole warpgroup
MOVED = re.compile(r"setmaxnreg\.(inc|dec)\.sync\.aligned\.u32 (\d+)")


@dataclass(frozen=True)
class Share:
    """What `threads` threads of one role have: registers of each, at the launch and then."""

    role: str
    threads: int
    at_launch: int
    then: int


def of(kernel: Kernel) -> tuple[Share, Share]:
    """The shares of the producer and of the consumers.

    Registers at the launch are what the assembler gave a thread, the others what the kernel's
    setmaxnreg asks for. Raises TypeError for anything but a kernel, and ValueError for one that
    moves no registers.
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"register_budget takes a kernel, as gl.load(name) gives, not {kernel!r}.")
    moved = dict(MOVED.findall(kernel.compiled.ptx))
    if set(moved) != {"inc", "dec"}:
        raise ValueError(f"{kernel} moves no registers between warpgroups: it has no setmaxnreg.")
    rows, columns = kernel.rung.tile(kernel.settings)
    (launch, *_) = kernel.launches(kernel.problem(rows, columns, GROUP_THREADS))
    consumers = launch.block[0] - GROUP_THREADS
    at_launch = kernel.compiled.entries[launch.entry].registers
    return (
        Share("producer", GROUP_THREADS, at_launch, int(moved["dec"])),
        Share("consumers", consumers, at_launch, int(moved["inc"])),
    )
