"""Bulk copies to shared memory: one thread has a stretch of global memory brought, or a box.

They land when no thread can go on otherwise, and then tell their mbarrier how many bytes they have
brought. Until then the destination holds poison. The source is read at the start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmlab.simulator.arithmetic import exactness
from gemmlab.simulator.async_copy.tensor_map import MOVED, UNIT
from gemmlab.simulator.memory import global_memory

POISON = np.frombuffer(np.full(4, global_memory.POISON, np.uint32).tobytes(), MOVED)[0]
BOX_ALIGNMENT = 128  # bytes, of a box in shared memory


@dataclass
class BulkCopy:
    """Copies that the lanes of `mask` started, n of them; `size`: bytes in shared memory, of each.

    `places`: (n, units) bytes from the start of all blocks' shared memory; `values`: (n, units).
    """

    index: int
    size: int
    destination: np.ndarray
    mbarrier: np.ndarray
    mask: np.ndarray
    places: np.ndarray
    values: np.ndarray


class BulkCopies:
    """The bulk copies in flight of a chunk."""

    def __init__(self, lanes, mbarriers):
        self.lanes, self.mbarriers = lanes, mbarriers
        self._flying: list[BulkCopy] = []

    def load(self, index: int, destination, source, size, mbarrier, mask) -> None:
        """Each lane of `mask` starts a copy of `size` bytes, of which `mbarrier` is told."""
        size, active = np.asarray(size), np.broadcast_to(mask, self.lanes.shape)
        destination, source = np.asarray(destination), np.asarray(source)
        given = source, size, mask
        for one in np.unique(np.broadcast_to(size, self.lanes.shape)[active]).tolist():
            here = (size == one) & active
            self._load(index, destination, source, one, mbarrier, here, given)

    def load_box(self, index: int, destination, address, coordinates, mbarrier, mask) -> None:
        """Each lane of `mask` starts a copy of the box at `coordinates`, the last axis first.

        `address`: of a tensor map.
        """
        lanes, destination = self.lanes, np.asarray(destination)
        for used, here in maps_at(lanes, index, address, len(coordinates), mask):
            size = used.map.shared_bytes
            here = aligned(lanes, index, destination, BOX_ALIGNMENT, here)
            here = aligned_corner(lanes, index, used, coordinates, here)
            here = inside_shared(lanes, index, destination, size, here, "write")
            begin, corners = (
                of_lanes(lanes, destination, here),
                corners_of(lanes, coordinates, here),
            )
            if any(one.has_written() for one in lanes.launch.maps.values()):
                lanes.known_sums = exactness.nothing_known()
            if lanes.checker and used.unwritten is not None:
                self._look_for_unwritten(index, used, corners, here)
            places = used.map.places(begin) + block_offsets(lanes, here)[:, None]
            values = used.map.read(corners)
            given = (*coordinates, mask)
            self._start(index, size, destination, mbarrier, here, places, values, given)

    def advance(self) -> None:
        """All copies land, and their mbarriers are told."""
        layout, flying = self.lanes.layout, self._flying
        self._flying = []
        for copy in flying:
            self._put(copy.places, copy.values)
            if self.lanes.checker:
                self.lanes.checker.copy_landed(
                    copy.index, copy.destination, copy.size, copy.mask, copy.mbarrier
                )
            told = np.broadcast_to(copy.mbarrier, self.lanes.shape)
            for address in np.unique(told[copy.mask]):
                here = copy.mask & (told == address)
                brought = layout.per_block(here) * (copy.values.shape[1] * UNIT)
                self.mbarriers.brought(copy.index, int(address), brought, here)

    def _load(self, index, destination, source, size: int, mbarrier, mask, given) -> None:
        lanes = self.lanes
        mask = aligned_stretch(lanes, index, (destination, source), size, mask)
        mask = inside_shared(lanes, index, destination, size, mask, "write")
        steps = np.arange(0, size, UNIT)
        addresses = of_lanes(lanes, source, mask)[:, None] + steps
        if not addresses.size:
            return
        (values,), bad = global_memory.load(lanes.launch.memory, addresses, MOVED, 1, True)
        for access in bad:
            wrong = np.zeros(lanes.shape, bool)
            wrong[mask] = np.broadcast_to(access.lanes, addresses.shape).any(axis=1)
            lanes.find(f"{access.problem} read", index, access.what, wrong)
        if lanes.launch.memory.has_written(addresses):
            lanes.known_sums = exactness.nothing_known()
        if lanes.checker and lanes.launch.memory.unwritten:
            for step in steps:
                lanes.checker.access(index, "global", "load", source + step, UNIT, mask)
        places = of_lanes(lanes, destination, mask)[:, None] + steps
        places = places + block_offsets(lanes, mask)[:, None]
        values = np.broadcast_to(values, places.shape)
        self._start(index, size, destination, mbarrier, mask, places, values, given)

    def _start(self, index, size, destination, mbarrier, mask, places, values, given) -> None:
        """`given`: what the values depend on, in shapes that tell which blocks may differ."""
        if not mask.any():
            return
        if self.lanes.checker:
            self.lanes.checker.copy_started(index, destination, size, mask)
        self.lanes.shared.stored(destination, -(-size // BOX_ALIGNMENT) * BOX_ALIGNMENT, *given)
        self._put(places, POISON)
        self._flying.append(BulkCopy(index, size, destination, mbarrier, mask, places, values))

    def _put(self, places, values) -> None:
        self.lanes.shared.buffer.view(MOVED)[places // UNIT] = values
        self.lanes.shared.changed(places)

    def _look_for_unwritten(self, index, used, corners, mask) -> None:
        wrong = used.unwritten.read(corners).view(np.uint8).any(axis=1)
        if wrong.any():
            lanes = np.zeros(self.lanes.shape, bool)
            lanes[mask] = wrong
            corner = tuple(corners[wrong.argmax()].tolist())
            what = f"the box at {corner} of {used.name} has elements that were never written"
            self.lanes.find("uninitialised read", index, what, lanes)


# --- what loads and stores have in common ---------------------------------------------------------


def of_lanes(lanes, values, mask) -> np.ndarray:
    """(n,) int64: the values of the lanes in `mask`."""
    return np.broadcast_to(values, lanes.shape)[mask].astype(np.int64)


def corners_of(lanes, coordinates, mask) -> np.ndarray:
    """int64 (n, axes): the coordinates in the order of the array's axes."""
    return np.stack([of_lanes(lanes, one, mask) for one in reversed(coordinates)], axis=1)


def block_offsets(lanes, mask) -> np.ndarray:
    """(n,): where the shared memory of each lane's block begins."""
    return of_lanes(lanes, lanes.shared.block_offsets, mask)


def maps_at(lanes, index: int, address, axes: int, mask):
    """[(MapInUse, lanes)]: the tensor maps that the lanes name, for copies of so many axes."""
    address, mask = (np.broadcast_to(v, lanes.shape) for v in (address, mask))
    found = []
    for one in np.unique(address[mask]):
        here, used = mask & (address == one), lanes.launch.maps.get(int(one))
        if used is None:
            what = f"address {int(one):#x} is not that of a parameter with a tensor map"
            lanes.find("wrong tensor map", index, what, here)
        elif len(used.map.box) != axes:
            what = f"a copy of {axes}d, and the tensor map {used.name} has {len(used.map.box)} axes"
            lanes.find("wrong tensor map", index, what, here)
        else:
            found.append((used, here))
    return found


def aligned(lanes, index: int, addresses, alignment: int, mask) -> np.ndarray:
    """The lanes whose address in shared memory is a multiple of `alignment`."""
    wrong = (addresses % alignment != 0) & mask
    if wrong.any():
        first = int(np.broadcast_to(addresses, lanes.shape)[wrong][0])
        what = f"a box at byte {first} of shared memory, which is no multiple of {alignment}"
        lanes.find("misaligned bulk copy", index, what, wrong)
    return mask & ~wrong


def aligned_corner(lanes, index: int, used, coordinates, mask) -> np.ndarray:
    """The lanes whose box begins at a multiple of 16 bytes of a row of the array."""
    column, size = coordinates[0], used.map.array.itemsize
    wrong = (column * np.int64(size) % UNIT != 0) & mask
    if wrong.any():
        first = int(np.broadcast_to(column, lanes.shape)[wrong][0])
        what = (
            f"a box that begins at element {first} of a row of {used.name}, {first * size} bytes, "
            f"which is no multiple of {UNIT}"
        )
        lanes.find("misaligned bulk copy", index, what, wrong)
    return mask & ~wrong


def aligned_stretch(lanes, index: int, addresses, size: int, mask) -> np.ndarray:
    """The lanes all of whose addresses, and the size, are multiples of UNIT."""
    wrong = np.zeros(lanes.shape, bool)
    for one in (*addresses, np.asarray(size)):
        wrong |= (one % UNIT != 0) & mask
    if wrong.any():
        what = f"a bulk copy's size and addresses are multiples of {UNIT} bytes"
        lanes.find("misaligned bulk copy", index, what, wrong)
    return mask & ~wrong


def inside_shared(lanes, index: int, addresses, size: int, mask, does: str) -> np.ndarray:
    """The lanes for which `size` bytes from their address are in shared memory."""
    total = lanes.shared.bytes_per_block
    wrong = ((addresses < 0) | (addresses + np.int64(size) > total)) & mask
    if wrong.any():
        first = int(np.broadcast_to(addresses, lanes.shape)[wrong][0])
        what = f"{size} bytes at byte {first} of shared memory, which has {total}"
        lanes.find(f"out-of-bounds {does}", index, what, wrong)
    return mask & ~wrong
