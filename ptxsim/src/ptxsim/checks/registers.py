"""The registers that warps give up and take by setmaxnreg.

ptxas gives each thread of such a kernel as many registers as `__launch_bounds__` leaves room for, a
multiple of REGISTER_STEP. What all threads of a block have together is the block's; `inc` waits
until others have given up enough. Without launch bounds ptxas ignores the instruction.
"""

from __future__ import annotations

import numpy as np

from ptxsim.architectures import MAX_REGISTERS_PER_THREAD, REGISTERS_PER_SM

REGISTER_STEP = 8


class Registers:
    """How many registers each thread of a chunk has, as far as setmaxnreg has set it."""

    def __init__(self, lanes):
        self.lanes, self.layout = lanes, lanes.layout
        kernel = lanes.launch.kernel
        compiled_for = kernel.most_threads or int(np.prod(kernel.block or (0,)))
        self._first = None
        if compiled_for:
            per_thread = min(REGISTERS_PER_SM // compiled_for, MAX_REGISTERS_PER_THREAD + 1)
            self._first = per_thread // REGISTER_STEP * REGISTER_STEP
        self._counts, self._index = None, -1

    def set(self, index: int, count: int, grows: bool, mask) -> None:
        """The lanes of `mask` have `count` registers from now on: `grows` for `inc`."""
        if self._first is None:
            what = "without __launch_bounds__ ptxas ignores setmaxnreg"
            self.lanes.find("setmaxnreg ignored", index, what, mask)
            return
        if self._counts is None:
            self._counts = np.full(self.layout.shape, self._first)
        mask = np.broadcast_to(mask, self.layout.shape)
        wrong = mask & ((self._counts > count) if grows else (self._counts < count))
        if wrong.any():
            has = int(self._counts[wrong][0])
            how, other = ("inc", "more") if grows else ("dec", "less")
            what = f"setmaxnreg.{how} asks for {count} registers, and the thread has {has}, {other}"
            self.lanes.find("wrong number of registers", index, what, wrong)
        self._counts, self._index = np.where(mask, count, self._counts), index

    def look_at_the_sum(self) -> None:
        """All threads have returned: find blocks that asked for more than they have."""
        if self._counts is None:
            return
        budget = self._first * self.layout.threads
        asked = self.layout.per_block(self._counts)
        over = self.layout.of_block(asked > budget) & (self._counts > self._first)
        if over.any():
            what = (
                f"the threads of the block ask for {int(asked.max())} registers together, and have "
                f"{budget}: {self._first} for each of {self.layout.threads}"
            )
            self.lanes.find("registers over the budget", self._index, what, over)
