"""Local memory: a part for each thread, which holds its arrays that registers cannot."""

from __future__ import annotations

import numpy as np

from ptxsim.memory.global_memory import ALIGNMENT, POISON, Buffer, MaskCache

ELEMENT = 4  # bytes, of an element in messages, unless the access has fewer


class LocalPart(Buffer):
    """The local memory of one thread, which describes places by elements."""

    def _describe(self, problem: str, offset: int, size: int) -> str:
        if problem == "misaligned":
            return f"{size} bytes at byte {offset} of {self.name}, which {size} does not divide"
        width = min(size, ELEMENT)
        elements = self.bytes // width
        return f"{self.name}[{offset // width}] of {elements} elements of {width} bytes"


class LocalMemory:
    """The local memory of all lanes of a Layout, one after the other; filled with poison."""

    def __init__(self, layout, bytes_per_thread: int):
        self.bytes_per_thread = bytes_per_thread
        stride = -(-bytes_per_thread // ALIGNMENT) * ALIGNMENT
        lanes = int(np.prod(layout.shape))
        self.lane_offsets = np.arange(lanes, dtype=np.int64).reshape(layout.shape) * stride
        raw = np.full(lanes * stride // 4, POISON, np.uint32).view(np.uint8)
        self.buffer = Buffer("local memory", raw, 0, 1)
        self._own = LocalPart("local memory", raw[:bytes_per_thread], 0, 1)
        self._masks = MaskCache()

    def take(self, addresses, dtype: np.dtype, count: int, mask):
        """As GlobalMemory.take; `addresses` (int64) count from the start of the thread's part."""
        addresses = self._masks.only_active(addresses, mask)
        end = int(addresses.max()) + dtype.itemsize * count
        if end > self.bytes_per_thread or int(addresses.min()) < 0:
            raise IndexError("outside")
        return self.buffer.take(addresses + self.lane_offsets, dtype, count)

    def locate(self, addresses, size: int, mask):
        """As GlobalMemory.locate; `addresses` count from the start of the thread's own part."""
        allowed, bad = self._own.check(addresses, size, mask)
        return [(self.buffer, addresses + self.lane_offsets, allowed)], bad

    def stored(self, addresses, size: int, *given) -> None:
        """Nothing to take note of."""
