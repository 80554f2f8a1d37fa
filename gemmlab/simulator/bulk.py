"""Bulk copies: one thread has a stretch of global memory brought to shared memory.

They land when no thread can go on otherwise, and then tell their mbarrier how many bytes they have
brought. Until then the destination holds poison. The source is read at the start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import exactness, memory

UNIT = 16  # bytes: sizes and addresses are multiples of it
MOVED = np.dtype("c16")  # NumPy has no wider integer; complex numbers move as they are
POISON = np.frombuffer(np.full(4, memory.POISON, np.uint32).tobytes(), MOVED)[0]


@dataclass
class BulkCopy:
    """Copies of one size that the lanes of `mask` started. `values`: by UNIT, one of each lane."""

    index: int
    size: int
    destination: np.ndarray
    values: list[np.ndarray]
    mbarrier: np.ndarray
    mask: np.ndarray | bool


class BulkCopies:
    """The bulk copies in flight of a chunk."""

    def __init__(self, lanes, mbarriers):
        self.lanes, self.mbarriers = lanes, mbarriers
        self._flying: list[BulkCopy] = []

    def load(self, index: int, destination, source, size, mbarrier, mask) -> None:
        """Each lane of `mask` starts a copy of `size` bytes, of which `mbarrier` is told."""
        size = np.asarray(size)
        for one in np.unique(np.broadcast_to(size, self.lanes.shape)[self._active(mask)]):
            here = mask if size.ndim == 0 else (size == one) & mask
            self._load(index, np.asarray(destination), np.asarray(source), int(one), mbarrier, here)

    def advance(self) -> None:
        """All copies land, and their mbarriers are told."""
        layout, flying = self.lanes.layout, self._flying
        self._flying = []
        for copy in flying:
            self._store(copy.destination, copy.values, copy.mask)
            if self.lanes.checker:
                self.lanes.checker.copy_landed(
                    copy.index, copy.destination, copy.size, copy.mask, copy.mbarrier
                )
            told = np.broadcast_to(copy.mbarrier, self.lanes.shape)
            active = self._active(copy.mask)
            for address in np.unique(told[active]):
                here = active & (told == address)
                brought = layout.per_block(here) * copy.size
                self.mbarriers.brought(copy.index, int(address), brought, here)

    def _load(self, index, destination, source, size: int, mbarrier, mask) -> None:
        lanes = self.lanes
        wrong = ((destination % UNIT != 0) | (source % UNIT != 0) | (size % UNIT != 0)) & mask
        if np.any(wrong):
            what = f"a bulk copy's size and addresses are multiples of {UNIT} bytes"
            lanes.find("misaligned bulk copy", index, what, wrong)
            mask = lanes.both(mask, ~wrong)
        values, allowed = [], mask
        for start in range(0, size, UNIT):
            (value,), bad = memory.load(
                lanes.launch.memory, source + np.int64(start), MOVED, 1, allowed
            )
            values.append(value)
            for access in bad:
                lanes.find(f"{access.problem} read", index, access.what, access.lanes)
                allowed = lanes.both(allowed, ~access.lanes)
        if lanes.launch.memory.has_written(source):
            lanes.known_sums = exactness.nothing_known()
        [(_, _, inside)], bad = lanes.shared.locate(destination, 1, allowed)
        for access in bad:
            lanes.find(f"{access.problem} write", index, access.what, access.lanes)
        if lanes.checker:
            lanes.checker.copy_started(index, destination, size, inside)
        self._store(destination, [POISON] * len(values), inside)
        self._flying.append(BulkCopy(index, size, destination, values, mbarrier, inside))

    def _store(self, destination, values, mask) -> None:
        for number, value in enumerate(values):
            place = destination + np.int32(number * UNIT)
            memory.store(self.lanes.shared, place, [value], MOVED, mask)

    def _active(self, mask):
        return np.broadcast_to(mask, self.lanes.shape)
