"""Asynchronous copies: cp.async to shared memory, its groups and its mbarriers.

Copies land late. From its start on, a copy's destination holds poison; the bytes come when the
thread that started it waits for it, or, where an mbarrier tells of the copy, when no thread can go
on otherwise. So a thread that reads too early gets NaN, and a copy that nobody waits for never
lands. The source is read at the start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxsim.async_copy.bulk import BulkCopies, BulkStores
from ptxsim.async_copy.mbarrier import Mbarriers
from ptxsim.memory import global_memory

# What moves so many bytes at once. NumPy has no wider integer; complex numbers move as they are.
MOVED: dict[int, np.dtype] = {4: np.dtype("u4"), 8: np.dtype("u8"), 16: np.dtype("c16")}


@dataclass
class Copy:
    """One instruction's copies. `group`: per lane, how many groups it had committed before."""

    index: int
    size: int
    destination: np.ndarray
    value: np.ndarray
    group: np.ndarray | int
    mask: np.ndarray | bool  # lanes whose copy has not landed


class Copies:
    def __init__(self, lanes):
        self.lanes = lanes
        self.mbarriers = Mbarriers(lanes)
        self.bulk = BulkCopies(lanes, self.mbarriers)
        self.bulk_stores = BulkStores(lanes)
        self._flying: list[Copy] = []
        # Lanes that arrive at an mbarrier once their copies so far have landed: (instruction,
        # address, mask, copies).
        self._arrivals: list[tuple] = []
        self._committed = 0  # groups of each lane

    def start(
        self, index: int, size: int, destination, source, bytes_read, ignored, past_l1, mask
    ) -> None:
        """cp.async: `size` bytes per lane, the first `bytes_read` from the source, then zeros."""
        lanes, destination = self.lanes, np.asarray(destination)
        lanes.count_idle_loads(index, mask)
        to = destination if past_l1 else None
        value = self._read(index, size, np.asarray(source), to, bytes_read, ignored, mask)
        [(_, _, allowed)], bad = lanes.shared.locate(destination, size, mask)
        lanes.find_bad(index, "write", bad)
        if lanes.checker:
            lanes.checker.copy_started(index, destination, size, allowed)
        if lanes.record is not None:
            lanes.note(index, "shared", "copy", destination, size, allowed, [])
        poison = global_memory.poison(MOVED[size])
        global_memory.store(lanes.shared, destination, [poison], MOVED[size], allowed)
        self._flying.append(Copy(index, size, destination, value, self._committed, allowed))

    def commit(self, mask) -> None:
        """What the lanes have started so far, and not committed, is a group."""
        self._committed = self._committed + np.asarray(mask, np.int64)

    def wait(self, most: int, mask) -> None:
        for copy in self._flying:
            old = np.less(copy.group, self._committed - most)
            done = self.lanes.both(mask, True if old.all() else old)
            self._land(copy, self.lanes.both(copy.mask, done))
        self._forget()

    def arrive(self, index: int, address, no_increment: bool, mask) -> None:
        """cp.async.mbarrier.arrive: the arrival comes when the lanes' copies so far have landed."""
        if not no_increment:
            self.mbarriers.expect_arrivals(index, address, mask)
        self._arrivals.append((index, address, mask, list(self._flying)))

    def finish(self) -> None:
        self.bulk_stores.finish()
        self.bulk.advance()
        self.mbarriers.finish()

    def advance(self) -> bool:
        """Nobody can go on: let mbarriers know what has landed. Whether a phase was completed."""
        for index, address, mask, copies in self._arrivals:
            for copy in copies:
                self._land(copy, self.lanes.both(copy.mask, mask), address)
            self.mbarriers.arrive(index, address, 1, 0, mask)
        self._arrivals = []
        self._forget()
        self.bulk.advance()
        changed, self.mbarriers.changed = self.mbarriers.changed, False
        return changed

    def _read(self, index, size, source, destination, bytes_read, ignored, mask):
        """What each lane copies. `destination`: where to, if past the L1 cache; else None."""
        reading, zero = mask, MOVED[size].type(0)
        if ignored is not None:
            reading = self.lanes.both(mask, ~np.asarray(ignored))
        if bytes_read is None:
            full, part = reading, False
        else:
            bytes_read = np.asarray(bytes_read).view(np.uint32)
            wrong = (bytes_read > size) & reading
            what = f"more bytes are to be read than the {size} that are copied"
            self.lanes.find("wrong source size", index, what, wrong)
            full = self.lanes.both(reading, bytes_read >= size)
            part = (bytes_read > 0) & (bytes_read < size) & reading
            reading = self.lanes.both(reading, bytes_read > 0)
        if not np.any(reading):
            return zero
        value = self._load(index, source, MOVED[size], size, full) if np.any(full) else zero
        if full is not mask:
            value = np.where(full, value, zero)
        if np.any(part):  # byte by byte
            data = np.zeros((*self.lanes.shape, size), np.uint8)
            for i in range(int(self.lanes.layout.of(bytes_read, part).max())):
                here = part & (bytes_read > i)
                at = source + np.int64(i)
                data[..., i] = np.where(here, self._load(index, at, np.dtype("u1"), 1, here), 0)
            value = np.where(part, data.view(MOVED[size])[..., 0], value)
        if self.lanes.observed:
            self.lanes.counting.access(index, "global", "load", source, size, reading, destination)
        return value

    def _load(self, index, source, dtype, size, mask):
        lanes = self.lanes
        (value,), bad = global_memory.load(lanes.launch.memory, source, dtype, 1, mask)
        lanes.forget_sums(source)
        if bad or lanes.checker:
            lanes.check_access(index, "global", "load", source, size, mask, bad)
        return value

    def _land(self, copy: Copy, lanes, mbarrier=None) -> None:
        if not np.any(lanes):
            return
        global_memory.store(
            self.lanes.shared, copy.destination, [copy.value], MOVED[copy.size], lanes
        )
        if self.lanes.checker:
            self.lanes.checker.copy_landed(copy.index, copy.destination, copy.size, lanes, mbarrier)
        copy.mask = False if lanes is copy.mask else self.lanes.both(copy.mask, ~np.asarray(lanes))

    def _forget(self) -> None:
        self._flying = [copy for copy in self._flying if np.any(copy.mask)]
