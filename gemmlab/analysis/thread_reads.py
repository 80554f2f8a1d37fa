"""What one thread reads of the tiles for its elements of C, and which lanes read the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gemmlab.analysis.block_replay import NOTHING, Played
from gemmlab.kernel.trace import Trace
from ptxsim.architectures import WARP


@dataclass(frozen=True)
class ThreadReads:
    """What one thread stores in C, and reads of A and B in the first step along K.

    `loads`: of each instruction with which the thread reads in this step, the elements that its
    warp gets, int (32, words), numbered as a Move has them.
    """

    played: Played
    thread: int
    loads: list[np.ndarray]

    @classmethod
    def of(
        cls, trace: Trace, block: tuple[int, int, int], thread: int | Sequence[int], who: str
    ) -> ThreadReads:
        """thread: its number in the block, or its threadIdx.

        Raises LaunchError for a block that is not there, ValueError for a thread that is not there
        or owns nothing, and for a kernel without shared memory; `who` asks.
        """
        number = _number(trace, thread, who)
        played = Played.of(trace, block)
        played.require_reads(who)
        if not (played.owner == number).any():
            raise ValueError(f"{who}: thread {number} of block {block} stores nothing in C.")
        warp, lane = divmod(number, WARP)
        step = min(trace.settings["BK"], trace.k)
        loads = []
        for read in played.reads:
            along = played.along(read.elements[lane])
            if read.warp == warp and ((along != NOTHING) & (along < step)).all():
                loads.append(read.elements)
        return cls(played, number, loads)

    @property
    def trace(self) -> Trace:
        return self.played.trace

    @property
    def warp(self) -> int:
        return self.thread // WARP

    @property
    def lane(self) -> int:
        return self.thread % WARP

    @property
    def ks(self) -> range:
        """The k of the step."""
        return range(min(self.trace.settings["BK"], self.trace.k))

    @property
    def owned(self) -> np.ndarray:
        """bool (M, N): the thread's elements of C."""
        return self.played.owner == self.thread

    @property
    def lanes(self) -> np.ndarray:
        """int (M, N): the lane of the thread's warp that stores an element of C, or NOTHING."""
        owner = self.played.owner
        return np.where(owner // WARP == self.warp, owner % WARP, NOTHING)

    def read_by(self, lanes: int | slice) -> dict[str, np.ndarray]:
        """Which elements some lanes read in the step: "A", bool (M, K), and "B", bool (K, N)."""
        mine = np.concatenate([load[lanes].ravel() for load in self.loads])
        mine = mine[(mine != NOTHING) & (self.played.along(mine) < len(self.ks))]
        both = self.played.matrices(mine)
        return {name: counts > 0 for name, counts in zip("AB", both, strict=True)}

    def readers(self, k: int) -> dict[str, list[frozenset[int]]]:
        """The lanes that read each row of A, "A", and each column of B, "B", at one k."""
        by_lane = [self.read_by(lane) for lane in range(WARP)]
        at_k = {
            "A": np.stack([read_by_lane["A"][:, k] for read_by_lane in by_lane]),
            "B": np.stack([read_by_lane["B"][k] for read_by_lane in by_lane]),
        }
        return {
            name: [frozenset(np.flatnonzero(column).tolist()) for column in read.T]
            for name, read in at_k.items()
        }

    def loads_at(self, k: int) -> dict[str, list[np.ndarray]]:
        """What the thread gets with each of its loads that bring an element of this k. "A" and "B":
        of each load the elements, int (words, 2), as row and column."""
        m, n, depth = self.trace.m, self.trace.n, self.trace.k
        loads: dict[str, list[np.ndarray]] = {"A": [], "B": []}
        for load in self.loads:
            words = load[self.lane]
            if k in self.played.along(words):
                name, first, width = (
                    ("A", 0, depth) if words[0] < m * depth else ("B", m * depth, n)
                )
                loads[name].append(np.stack(np.divmod(words - first, width), axis=1))
        return loads


def _number(trace: Trace, thread: int | Sequence[int], who: str) -> int:
    """A thread by its number in the block, or by its threadIdx."""
    x, y, z = trace.block
    if isinstance(thread, int):
        there = 0 <= thread < x * y * z
        number = thread
    else:
        there = all(0 <= i < size for i, size in zip(thread, trace.block, strict=True))
        number = thread[0] + x * (thread[1] + y * thread[2])
    if not there:
        raise ValueError(
            f"{who}: there is no thread {thread}; a block of {trace.kernel_name} has "
            f"{x} × {y} × {z} threads."
        )
    return number
