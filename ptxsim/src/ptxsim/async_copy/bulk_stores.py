"""Bulk copies from shared to global memory, and the groups in which a thread waits for them.

They are late, as loads are: the source is read when the thread that started the store waits for
that (wait_group.read), global memory is written when it waits for all of it (wait_group), or after
the last thread has returned. A source that the thread never waits for is read then, too: PTX does
not promise it, but an NVIDIA H200 keeps a block's shared memory until the copy engine has read it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ptxsim.async_copy import counted
from ptxsim.async_copy.bulk import (
    BOX_ALIGNMENT,
    aligned,
    aligned_corner,
    aligned_stretch,
    begins,
    by_size,
    corners_of,
    inside_shared,
    maps_at,
    of_lanes,
)
from ptxsim.async_copy.tensor_map import MOVED, UNIT
from ptxsim.memory import atomics, global_memory
from ptxsim.types import Unknown

# Of a tensor map's elements: the type of PTX that a reduction takes them for.
REDUCIBLE = {
    "uint32": "u32", "int32": "s32", "uint64": "u64", "int64": "s64",
    "float16": "f16", "float32": "f32", "float64": "f64",
}  # fmt: skip


@dataclass
class BulkStore:
    """Stores of one size that the lanes of `mask` started, n of them.

    `places`: (n, units) bytes in shared memory, from the start of all blocks'; `write`: puts the
    units of some of the n where they belong. `group`: (n,) how many groups the lane had committed
    before.
    """

    index: int
    size: int
    source: np.ndarray
    mask: np.ndarray
    places: np.ndarray
    write: Callable
    group: np.ndarray

    def __post_init__(self):
        self.values = np.zeros(self.places.shape, MOVED)
        self.is_read, self.is_written = np.zeros((2, len(self.places)), bool)

    def lanes_of(self, rows) -> np.ndarray:
        """The mask of lanes for some of the n."""
        found = np.zeros(self.mask.shape, bool)
        found[self.mask] = rows
        return found


class BulkStores:
    """The bulk stores of a chunk that are not finished."""

    def __init__(self, lanes):
        self.lanes = lanes
        self._flying: list[BulkStore] = []
        self._committed = 0  # groups of each lane

    def store(self, index: int, target, source, size, operation, mask) -> None:
        """Each lane of `mask` starts a copy of `size` bytes to the global address `target`.

        `operation`: (atomics.Operation, dtype) of a reduction, or None.
        """
        lanes, target, source = self.lanes, np.asarray(target), np.asarray(source)
        for one, mine in by_size(lanes, size, mask):
            here = aligned_stretch(lanes, index, (target, source), one, mine)
            here = inside_shared(lanes, index, source, one, here, "read")
            if lanes.launch.count:
                what, issued = "tma_red", here
                if operation is None:
                    what = "tma_st"
                    issued = counted.issued_stores(lanes, (target, source), here)
                begin = of_lanes(lanes, target, issued)
                counted.count_stretches(lanes, index, what, begin, one, len(begin))
            steps = np.arange(0, one, UNIT)
            self._start(index, source, one, here, lambda begin, s=steps: begin[:, None] + s,
                        self._to_addresses(index, one, target, operation))  # fmt: skip

    def store_box(self, index: int, source, address, coordinates, how, mask) -> None:
        """Each lane of `mask` starts a copy of a box to `coordinates`, the last axis first.

        `how`: the name of the operation of a reduction, or None.
        """
        lanes, source = self.lanes, np.asarray(source)
        for used, here in maps_at(lanes, index, address, len(coordinates), mask):
            here = aligned(lanes, index, source, BOX_ALIGNMENT, here)
            here = aligned_corner(lanes, index, used, coordinates, here)
            here = self._not_negative(index, used, coordinates, here)
            here = inside_shared(lanes, index, source, used.map.shared_bytes, here, "read")
            corners = corners_of(lanes, coordinates, here)
            change = self._change_of(index, how, used, here) if how else None
            if how and change is None:
                continue
            what, issued = "tma_red", here
            if how is None:
                what = "tma_st"
                issued = counted.issued_stores(lanes, (source, *coordinates), here)
            if lanes.launch.count:
                boxes = corners_of(lanes, coordinates, issued)
                counted.count_bulk(
                    lanes, index, what, used.name, len(boxes), counted.stored(used.map, boxes),
                    len(boxes) * used.map.bytes,
                )  # fmt: skip
            if lanes.record is not None:
                lanes.counting.boxes(index, "store", used, coordinates, source, issued)

            def write(store, rows, used=used, corners=corners, change=change):
                used.store(corners[rows], store.values[rows], change)

            self._start(index, source, used.map.shared_bytes, here, used.map.places, write)

    def commit(self, mask) -> None:
        """What the lanes have started so far, and not committed, is a group."""
        self._committed = self._committed + np.broadcast_to(mask, self.lanes.shape)

    def wait(self, most: int, only_read: bool, mask) -> None:
        """All but the `most` latest groups of the lanes have been read, and are written too."""
        committed = np.broadcast_to(self._committed, self.lanes.shape)
        waiting = np.broadcast_to(mask, self.lanes.shape)
        for store in self._flying:
            due = (store.group < committed[store.mask] - most) & waiting[store.mask]
            self._read(store, due & ~store.is_read)
            if not only_read:
                self._write(store, due & ~store.is_written)
        self._flying = [store for store in self._flying if not store.is_written.all()]

    def finish(self) -> None:
        """All threads have returned."""
        for store in self._flying:
            if not store.is_read.all():
                what = "the thread returns before it has waited until its source is read"
                wrong = store.lanes_of(~store.is_read)
                self.lanes.find("bulk store not waited for", store.index, what, wrong)
                self._read(store, ~store.is_read)
            self._write(store, ~store.is_written)
        self._flying = []

    def _start(self, index, source, size: int, mask, places, write) -> None:
        lanes = self.lanes
        if not mask.any():
            return
        if lanes.checker:
            lanes.checker.source_started(index, source, size, mask)
        begin = of_lanes(lanes, source, mask)
        offsets = (begins(lanes, source, mask) - begin)[:, None]
        group = of_lanes(lanes, self._committed, mask)
        places = places(begin) + offsets
        self._flying.append(BulkStore(index, size, source, mask, places, write, group))

    def _not_negative(self, index: int, used, coordinates, mask) -> np.ndarray:
        """The lanes whose box begins in the array or behind it: no other can be stored."""
        wrong = np.zeros(self.lanes.shape, bool)
        for one in coordinates:
            wrong |= (one < 0) & mask
        if wrong.any():
            corner = tuple(corners_of(self.lanes, coordinates, wrong)[0].tolist())
            what = f"a box is stored at {corner} of {used.name}: a coordinate is negative"
            self.lanes.find("negative coordinate", index, what, wrong)
        return mask & ~wrong

    def _read(self, store: BulkStore, rows) -> None:
        if not rows.any():
            return
        store.values[rows] = self.lanes.shared.buffer.view(MOVED)[store.places[rows] // UNIT]
        store.is_read |= rows
        if self.lanes.checker:
            here = store.lanes_of(rows)
            self.lanes.checker.source_released(store.index, store.source, store.size, here)

    def _write(self, store: BulkStore, rows) -> None:
        if rows.any():
            store.write(store, rows)
            store.is_written |= rows

    def _change_of(self, index: int, how: str, used, mask):
        """What a reduction does with an element there and a new one; None is a finding."""
        name = used.map.array.dtype.name
        try:
            if name == "int64" and how not in ("min", "max"):
                raise Unknown
            return atomics.operation_of(how, REDUCIBLE[name])
        except (KeyError, Unknown):
            what = f"the elements of {used.name}, {name}, cannot be reduced by {how}"
            self.lanes.find("wrong tensor map", index, what, mask)
            return None

    def _to_addresses(self, index: int, size: int, target, operation):
        lanes, steps = self.lanes, np.arange(0, size, UNIT)

        def write(store, rows):
            here = store.lanes_of(rows)
            addresses = of_lanes(lanes, target, here)[:, None] + steps
            memory, values = lanes.launch.memory, store.values[rows]
            if operation is None:
                bad = global_memory.store(memory, addresses, [values], MOVED, True)
            else:
                bad = _reduce(memory, addresses, values, *operation)
            for access in bad:
                wrong = np.zeros(lanes.shape, bool)
                wrong[here] = np.broadcast_to(access.lanes, addresses.shape).any(axis=1)
                lanes.find(f"{access.problem} write", index, access.what, wrong)
            if lanes.checker and lanes.launch.memory.unwritten:
                for step in steps:
                    lanes.checker.access(index, "global", "store", target + step, UNIT, here)

        return write


def _reduce(memory, addresses, values, operation: atomics.Operation, dtype: np.dtype):
    """Reduce units of 16 bytes (n, units) into those at `addresses`; a list of BadAccess."""
    located, bad = memory.locate(addresses, UNIT, True)
    for buffer, offsets, inside in located:
        allowed, wrong = buffer.protect(offsets, inside)
        bad += wrong
        allowed = np.broadcast_to(allowed, addresses.shape)
        buffer.written = True
        elements = offsets[allowed][:, None] // dtype.itemsize + np.arange(UNIT // dtype.itemsize)
        given = np.ascontiguousarray(values[allowed]).view(dtype)
        if len(given):
            atomics.take_turns(buffer.view(dtype), elements.reshape(-1), [given], operation.change)
    return bad
