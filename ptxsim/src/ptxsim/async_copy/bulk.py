"""Bulk copies to shared memory: one thread has a stretch of memory brought, or a box of an array.

They come from global memory, into the own block or into several of the cluster at once (multicast),
or from shared memory into another block. So do the stores and reductions that tell an mbarrier
(st.async, red.async), of a few bytes each. All land when no thread can go on otherwise, and then
tell their mbarrier how many bytes they have brought. Until then the destination holds poison, but
that of a reduction. Global memory is read at the start, shared memory at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ptxsim.arithmetic import exactness
from ptxsim.async_copy import counted, map_bytes
from ptxsim.async_copy.tensor_map import MOVED, UNIT
from ptxsim.memory import atomics, global_memory
from ptxsim.threads import clusters

BOX_ALIGNMENT = 128  # bytes, of a box in shared memory


@dataclass
class BulkCopy:
    """Copies that the lanes of `mask` started, n of them; `size`: bytes in shared memory, of each.

    `places`: (n, values) bytes from the start of all blocks' shared memory; `values`: gives the
    (n, values) that go there, of `dtype`, when they land. `brought`: the bytes that the mbarrier is
    told of. `operation`: what is done with the values and what is there, None for a plain copy.
    `source`: addresses in shared memory, where they come from there.
    """

    index: int
    size: int
    destination: np.ndarray
    mbarrier: np.ndarray
    mask: np.ndarray
    places: np.ndarray
    values: Callable[[], np.ndarray]
    brought: int
    dtype: np.dtype = MOVED
    operation: atomics.Operation | None = None
    source: np.ndarray | None = None


class BulkCopies:
    """The bulk copies in flight of a chunk."""

    def __init__(self, lanes, mbarriers):
        self.lanes, self.mbarriers = lanes, mbarriers
        self._flying: list[BulkCopy] = []

    def load(self, index: int, destination, source, size, mbarrier, ranks, mask) -> None:
        """Each lane of `mask` starts a copy of `size` bytes, of which `mbarrier` is told.

        `ranks`: a bit for each block of the cluster that gets it, or None for where `destination`
        leads.
        """
        destination, mbarrier = np.asarray(destination), np.asarray(mbarrier)
        for one, here in by_size(self.lanes, size, mask):
            copies = int(here.sum())
            for to, told, some in self._to_ranks(index, destination, mbarrier, ranks, here):
                if self.lanes.launch.count:
                    begin = of_lanes(self.lanes, source, some)
                    counted.count_stretches(self.lanes, index, "tma_ld", begin, one, copies)
                    copies = 0  # one instruction, also of several destinations
                self._load(index, to, np.asarray(source), one, told, some, (source, size, mask))

    def load_box(self, index: int, destination, address, coordinates, mbarrier, ranks, mask):
        """Each lane of `mask` starts a copy of the box at `coordinates`, the last axis first.

        `address`: of a tensor map; `ranks`: as for `load`.
        """
        lanes = self.lanes
        destination, mbarrier = np.asarray(destination), np.asarray(mbarrier)
        for used, named in maps_at(lanes, index, address, len(coordinates), mask):
            if any(one.has_written() for one in lanes.launch.maps.values()):
                lanes.known_sums = exactness.nothing_known()
            copies = int(named.sum())
            if lanes.record is not None:
                given = None if ranks is None else np.asarray(ranks)
                lanes.counting.boxes(index, "load", used, coordinates, destination, named, given)
            for to, told, here in self._to_ranks(index, destination, mbarrier, ranks, named):
                if lanes.launch.count:
                    corners = corners_of(lanes, coordinates, here)
                    sectors = counted.loaded(used.map, corners, ranks is not None)
                    brought = len(corners) * used.map.bytes
                    counted.count_bulk(lanes, index, "tma_ld", used.name, copies, sectors, brought)
                    copies = 0  # one instruction, also of several destinations
                self._load_box(index, used, to, coordinates, told, here, (address, mask))

    def copy_across(self, index: int, destination, source, size, mbarrier, operation, mask) -> None:
        """As `load`, from the own block's shared memory to a place in any block's.

        `operation`: (atomics.Operation, dtype) of a reduction, or None.
        """
        lanes, destination, source = self.lanes, np.asarray(destination), np.asarray(source)
        for one, mine in by_size(lanes, size, mask):
            here = aligned_stretch(lanes, index, (destination, source), one, mine)
            here = inside_shared(lanes, index, destination, one, here, "write")
            here = inside_shared(lanes, index, source, one, here, "read")
            if not here.any():
                continue
            how, dtype = operation or (None, MOVED)
            if lanes.launch.count:
                number = int(here.sum())
                what = "dshared_tma_red" if operation else "dshared_tma_st"
                counted.count(lanes, what, number, number * counted.stretch(0, one))
            steps = np.arange(0, one, dtype.itemsize)
            begin = begins(lanes, source, here)[:, None] + steps
            if lanes.checker:
                lanes.checker.source_started(index, source, one, here)
            self._start(
                BulkCopy(
                    index, one, destination, np.asarray(mbarrier), here,
                    begins(lanes, destination, here)[:, None] + steps,
                    partial(self._in_shared, begin, dtype),
                    one, dtype, how, source,
                ), (lanes.layout.block_number,),
            )  # fmt: skip

    def store_async(self, index: int, destination, values, dtype, mbarrier, operation, mask):
        """Each lane of `mask` has `values` stored, neighbours of `dtype`, and `mbarrier` told.

        `operation`: an atomics.Operation of a reduction, or None.
        """
        lanes, destination = self.lanes, np.asarray(destination)
        size = dtype.itemsize * len(values)
        _, bad = lanes.space(lanes.far).locate(destination, size, mask)
        mask = np.broadcast_to(mask, lanes.shape)
        for access in bad:
            lanes.find(f"{access.problem} write", index, access.what, access.lanes)
            mask = mask & ~access.lanes
        if not mask.any():
            return
        if lanes.launch.count:
            lanes.count_far("dshared_redas" if operation else "dshared_stas", destination, mask)
        given = np.stack([np.broadcast_to(v, lanes.shape)[mask] for v in values], axis=1)
        given = given.astype(dtype, copy=False)
        places = begins(lanes, destination, mask)[:, None] + np.arange(0, size, dtype.itemsize)
        self._start(
            BulkCopy(index, size, destination, np.asarray(mbarrier), mask, places,
                     lambda: given, size, dtype, operation),
            (lanes.layout.block_number,),
        )  # fmt: skip

    def advance(self) -> None:
        """All copies land, and their mbarriers are told."""
        flying, self._flying = self._flying, []
        for copy in flying:
            self.mbarriers.comes(copy.index, copy.mbarrier, copy.brought, copy.mask)
        self.mbarriers.look_at_what_comes()
        for copy in flying:
            self._put(copy, copy.values())
            if self.lanes.checker:
                self._tell_checker(copy)
            self.mbarriers.brought(copy.index, copy.mbarrier, copy.brought, copy.mask)

    def _tell_checker(self, copy: BulkCopy) -> None:
        checker, of_copy = self.lanes.checker, (copy.index, copy.destination, copy.size, copy.mask)
        if copy.source is not None:
            checker.source_released(copy.index, copy.source, copy.size, copy.mask)
        if copy.operation is None:
            checker.copy_landed(*of_copy, copy.mbarrier)
        else:
            checker.reduced(copy.mbarrier, copy.mask)

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
        places = begins(lanes, destination, mask)[:, None] + steps
        values = np.broadcast_to(values, places.shape)
        copy = BulkCopy(index, size, destination, mbarrier, mask, places, lambda: values, size)
        self._start(copy, given)

    def _load_box(self, index, used, destination, coordinates, mbarrier, here, given) -> None:
        lanes, size = self.lanes, used.map.shared_bytes
        here = aligned(lanes, index, destination, BOX_ALIGNMENT, here)
        here = aligned_corner(lanes, index, used, coordinates, here)
        here = inside_shared(lanes, index, destination, size, here, "write")
        if not here.any():
            return
        corners = corners_of(lanes, coordinates, here)
        if lanes.checker and used.unwritten is not None:
            self._look_for_unwritten(index, used, corners, here)
        place = of_lanes(lanes, clusters.place_of(destination), here)
        offsets = begins(lanes, destination, here) - place
        places, values = used.map.places(place) + offsets[:, None], used.map.read(corners)
        copy = BulkCopy(
            index, size, destination, mbarrier, here, places, lambda: values, used.map.bytes
        )
        self._start(copy, (*coordinates, *given))

    def _to_ranks(self, index: int, destination, mbarrier, ranks, mask):
        """[(destination, mbarrier, lanes)]: of each block that `ranks` has the bit of."""
        if ranks is None:
            return [(destination, mbarrier, mask)]
        lanes, size = self.lanes, self.lanes.layout.cluster_size
        ranks = np.asarray(ranks).astype(np.int32) & 0xFFFF
        wrong = (ranks >> size != 0) & mask
        if wrong.any():
            first = int(np.broadcast_to(ranks, lanes.shape)[wrong][0])
            what = f"the blocks {first:#x} are named, and the cluster has {size}"
            lanes.find("wrong cluster rank", index, what, wrong)
        if size == 1:
            return [(destination, mbarrier, mask & (ranks & 1 == 1))]
        found = []
        for rank in range(size):
            here, named = mask & (ranks >> rank & 1 == 1), np.int32(rank + 1 << clusters.RANK_SHIFT)
            if here.any():
                places = (clusters.place_of(v) | named for v in (destination, mbarrier))
                found.append((*places, here))
        return found

    def _start(self, copy: BulkCopy, given) -> None:
        """`given`: what the values depend on, in shapes that tell which blocks may differ."""
        lanes, shared = self.lanes, self.lanes.shared
        if not copy.mask.any():
            return
        if lanes.checker:
            if copy.operation is None:
                lanes.checker.copy_started(copy.index, copy.destination, copy.size, copy.mask)
            else:
                lanes.checker.access(
                    copy.index, lanes.far, "atomic", copy.destination, copy.size, copy.mask
                )
        size = -(-copy.size // BOX_ALIGNMENT) * BOX_ALIGNMENT
        if lanes.layout.cluster_size > 1:
            given = (*given, lanes.layout.block_number)
        shared.stored(clusters.place_of(copy.destination), size, *given)
        if copy.operation is None:
            poison = np.full(UNIT // 4, global_memory.POISON, np.uint32).view(copy.dtype)[0]
            shared.buffer.view(copy.dtype)[copy.places // copy.dtype.itemsize] = poison
        self._flying.append(copy)

    def _put(self, copy: BulkCopy, values) -> None:
        view = self.lanes.shared.buffer.view(copy.dtype)
        elements = copy.places // copy.dtype.itemsize
        if copy.operation is None:
            view[elements] = values
        else:
            given = [np.ascontiguousarray(values).reshape(-1)]
            atomics.take_turns(view, elements.reshape(-1), given, copy.operation.change)
        self.lanes.shared.changed(copy.places)

    def _in_shared(self, places, dtype) -> np.ndarray:
        return self.lanes.shared.buffer.view(dtype)[places // dtype.itemsize]

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


def begins(lanes, addresses, mask) -> np.ndarray:
    """(n,): where the addresses of the lanes are, from the start of all blocks' shared memory."""
    if lanes.layout.cluster_size == 1:
        return of_lanes(lanes, addresses + lanes.shared.block_offsets, mask)
    block, _ = clusters.owners(lanes.layout, addresses)
    return of_lanes(lanes, clusters.place_of(addresses) + block * lanes.shared.stride, mask)


def by_size(lanes, size, mask):
    """[(size, lanes)], for each size that the lanes of `mask` name."""
    size, mask = (np.broadcast_to(v, lanes.shape) for v in (size, mask))
    return [(one, (size == one) & mask) for one in np.unique(size[mask]).tolist()]


def maps_at(lanes, index: int, address, axes: int, mask):
    """[(MapInUse, lanes)]: the tensor maps that the lanes name, for copies of so many axes."""
    address, mask = (np.broadcast_to(v, lanes.shape) for v in (address, mask))
    found = []
    for one in np.unique(address[mask]):
        here = mask & (address == one)
        try:
            used = lanes.launch.maps.at(int(one))
        except ValueError as error:
            lanes.find("wrong tensor map", index, str(error), here)
            continue
        if lanes.checker and (unseen := map_bytes.not_fenced(lanes, int(one), here)).any():
            what = (
                f"{used.name} was changed, and no fence.proxy.tensormap::generic, release and then "
                "acquire, makes it known to the copies of this block"
            )
            lanes.find("tensor map not fenced", index, what, unseen)
        if len(used.map.box) != axes:
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
    """The lanes for which `size` bytes from their address are in some block's shared memory."""
    total = lanes.shared.bytes_per_block
    if lanes.layout.cluster_size > 1:
        addresses = clusters.place_of(addresses)
    wrong = ((addresses < 0) | (addresses + np.int64(size) > total)) & mask
    if wrong.any():
        first = int(np.broadcast_to(addresses, lanes.shape)[wrong][0])
        what = f"{size} bytes at byte {first} of shared memory, which has {total}"
        lanes.find(f"out-of-bounds {does}", index, what, wrong)
    return mask & ~wrong
