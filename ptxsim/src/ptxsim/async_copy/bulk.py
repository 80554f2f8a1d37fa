"""Bulk copies: one thread has a stretch of memory brought or stored, or a box of an array.

Copies to shared memory come from global memory, into the own block or into several of the cluster
at once (multicast), or from shared memory into another block. So do the stores and reductions that
tell an mbarrier (st.async, red.async), of a few bytes each. All land when no thread can go on
otherwise, and then tell their mbarrier how many bytes they have brought. Until then the destination
holds poison, but that of a reduction. Global memory is read at the start, shared memory at the end.

Stores to global memory are late, too, and in groups: the source is read when the thread that
started the store waits for that (wait_group.read), global memory is written when it waits for all
of it (wait_group), or after the last thread has returned. A source that the thread never waits for
is read then, too: PTX does not promise it, but an NVIDIA H200 keeps a block's shared memory until
the copy engine has read it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ptxsim.architectures import base
from ptxsim.async_copy import counted, map_bytes
from ptxsim.async_copy.tensor_map import MAP_BYTES, MOVED, PACKED, UNIT
from ptxsim.memory import atomics, global_memory
from ptxsim.ptx import Unknown
from ptxsim.threads import clusters

BOX_ALIGNMENT = 128  # bytes, of a box in shared memory
# Of a tensor map's elements: the type of PTX that a reduction takes them for.
REDUCIBLE = {
    "uint32": "u32", "int32": "s32", "uint64": "u64", "int64": "s64",
    "float16": "f16", "float32": "f32", "float64": "f64",
}  # fmt: skip


@dataclass
class BulkCopy:
    """Copies to shared memory that the n lanes of `mask` started."""

    index: int
    size: int
    destination: np.ndarray
    mbarrier: np.ndarray
    mask: np.ndarray
    places: np.ndarray  # (n, values) bytes from the start of all blocks' shared memory
    values: np.ndarray | None  # (n, values) of `dtype`
    brought: int  # bytes that the mbarrier is told of
    dtype: np.dtype = MOVED
    operation: atomics.Operation | None = None  # of a reduction
    # Where values are read from shared memory when they land: addresses, and places as above.
    source: np.ndarray | None = None
    places_read: np.ndarray | None = None
    map_address: int | None = None  # of the tensor map that it reads


class BulkCopies:
    def __init__(self, lanes, mbarriers):
        self.lanes, self.mbarriers = lanes, mbarriers
        self._flying: list[BulkCopy] = []

    def load(self, index: int, destination, source, size, mbarrier, ranks, mask) -> None:
        """Each lane starts a copy, also to all blocks of `ranks`, of which `mbarrier` is told."""
        destination, mbarrier = np.asarray(destination), np.asarray(mbarrier)
        for bytes_each, here in self.lanes.layout.by_value(size, mask):
            copies = int(here.sum())
            for to, notified, some in self.to_ranks(index, destination, mbarrier, ranks, here):
                begin = of_lanes(self.lanes, source, some)
                counted.count_stretches(self.lanes, index, "tma_ld", begin, bytes_each, copies)
                copies = 0  # one instruction, also of several destinations
                self._load(index, to, np.asarray(source), bytes_each, notified, some,
                           (source, size, mask))  # fmt: skip

    def load_box(
        self, index: int, destination, address, coordinates, mbarrier, ranks, by_pairs: bool, mask
    ) -> None:
        """As `load`, the box at `coordinates`, the last axis first; `address`: of a tensor map.

        `by_pairs`: of each pair of blocks the even one's mbarrier is told, if that of `mbarrier` is
        an even one, or the odd one's.
        """
        lanes = self.lanes
        destination, mbarrier = np.asarray(destination), np.asarray(mbarrier)
        for used, named, place in maps_at(lanes, index, address, len(coordinates), mask):
            if any(other.buffer.written for other in lanes.launch.maps.values()):
                lanes.forget_sums()
            copies = int(named.sum())
            if lanes.record is not None:
                given = None if ranks is None else np.asarray(ranks)
                lanes.counting.boxes(index, "load", used, coordinates, destination, named, given)
            parts = self.to_ranks(index, destination, mbarrier, ranks, named, by_pairs)
            for to, notified, here in parts:
                if lanes.launch.count:
                    corners = corners_of(lanes, coordinates, here)
                    sectors = counted.loaded(used.map, corners, ranks is not None)
                    brought = len(corners) * used.map.bytes
                    counted.count_bulk(lanes, index, "tma_ld", used.name, copies, sectors, brought)
                    copies = 0  # one instruction, also of several destinations
                self._load_box(index, used, to, coordinates, notified, here, (address, mask), place)

    def copy_across(self, index: int, destination, source, size, mbarrier, operation, mask) -> None:
        """As `load`, from the own block's shared memory to any block's, or a reduction."""
        lanes, destination, source = self.lanes, np.asarray(destination), np.asarray(source)
        for bytes_each, mine in lanes.layout.by_value(size, mask):
            here = aligned_stretch(lanes, index, (destination, source), bytes_each, mine)
            here = inside_shared(lanes, index, destination, bytes_each, here, "write")
            here = inside_shared(lanes, index, source, bytes_each, here, "read")
            if not here.any():
                continue
            how, dtype = operation or (None, MOVED)
            number = int(here.sum())
            what = "dshared_tma_red" if operation else "dshared_tma_st"
            counted.count(lanes, what, number, number * counted.stretch(0, bytes_each))
            steps = np.arange(0, bytes_each, dtype.itemsize)
            if lanes.checker:
                lanes.checker.races.source_started(index, source, bytes_each, here)
            self.start(
                BulkCopy(
                    index, bytes_each, destination, np.asarray(mbarrier), here,
                    begins(lanes, destination, here)[:, None] + steps, None, bytes_each, dtype, how,
                    source, begins(lanes, source, here)[:, None] + steps,
                ), (lanes.layout.block_number,),
            )  # fmt: skip

    def store_async(self, index: int, destination, values, dtype, mbarrier, operation, mask):
        """Each lane of `mask` has `values` stored, neighbours of `dtype`, and `mbarrier` told."""
        lanes, destination = self.lanes, np.asarray(destination)
        size = dtype.itemsize * len(values)
        _, bad = lanes.space(lanes.far).locate(destination, size, mask)
        mask = lanes.layout.full(lanes.find_bad(index, "write", bad, mask))
        if not mask.any():
            return
        if lanes.launch.count:
            lanes.count_far("dshared_redas" if operation else "dshared_stas", destination, mask)
        given = np.stack([lanes.layout.of(v, mask) for v in values], axis=1)
        given = given.astype(dtype, copy=False)
        places = begins(lanes, destination, mask)[:, None] + np.arange(0, size, dtype.itemsize)
        self.start(
            BulkCopy(index, size, destination, np.asarray(mbarrier), mask, places,
                     given, size, dtype, operation),
            (lanes.layout.block_number,),
        )  # fmt: skip

    def advance(self) -> None:
        flying, self._flying = self._flying, []
        for copy in flying:
            self.mbarriers.comes(copy.index, copy.mbarrier, copy.brought, copy.mask)
        self.mbarriers.look_at_what_comes()
        for copy in flying:
            self._put(copy)
            if self.lanes.checker:
                self._tell_checker(copy)
            self.mbarriers.brought(copy.index, copy.mbarrier, copy.brought, copy.mask)

    def look_for_maps(self, index: int, addresses, size: int, mask) -> None:
        """Find stores to a tensor map that a copy under way reads."""
        for copy in self._flying:
            if (begin := copy.map_address) is not None:
                wrong = (addresses + size > begin) & (addresses < begin + MAP_BYTES) & mask
                line = self.lanes.line(copy.index)
                what = f"the map is read by the copy of line {line}, which is not waited for"
                self.lanes.find("write to a tensor map in use", index, what, wrong)

    def _tell_checker(self, copy: BulkCopy) -> None:
        checker, of_copy = self.lanes.checker, (copy.index, copy.destination, copy.size, copy.mask)
        if copy.source is not None:
            checker.races.source_released(copy.index, copy.source, copy.size, copy.mask)
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
        find_bad_units(lanes, index, "read", bad, mask, addresses.shape)
        lanes.forget_sums(addresses)
        tell_units(lanes, index, "load", source, steps, mask)
        if lanes.checker:
            lanes.checker.global_races.bulk_read(index, addresses, mask)
        places = begins(lanes, destination, mask)[:, None] + steps
        values = np.broadcast_to(values, places.shape)
        copy = BulkCopy(index, size, destination, mbarrier, mask, places, values, size)
        self.start(copy, given)

    def _load_box(self, index, used, destination, coordinates, mbarrier, here, given, at) -> None:
        lanes, size = self.lanes, used.map.shared_bytes
        here = aligned_box(lanes, index, used, destination, coordinates, here)
        here = inside_shared(lanes, index, destination, size, here, "write")
        if not here.any():
            return
        corners = corners_of(lanes, coordinates, here)
        if lanes.checker:
            lanes.checker.global_races.box_read(index, used, corners, here)
        if lanes.checker and used.unwritten is not None:
            self._look_for_unwritten(index, used, corners, here)
        place = of_lanes(lanes, clusters.place_of(destination), here)
        offsets = begins(lanes, destination, here) - place
        places, values = used.map.places(place) + offsets[:, None], used.map.read(corners)
        copy = BulkCopy(
            index, size, destination, mbarrier, here, places, values, used.map.bytes,
            map_address=at,
        )  # fmt: skip
        self.start(copy, (*coordinates, *given))

    def to_ranks(self, index: int, destination, mbarrier, ranks, mask, by_pairs=False):
        """[(destination, mbarrier, lanes)]: of each block that `ranks` has the bit of."""
        if ranks is None:
            return [(destination, mbarrier, mask)]
        lanes, size = self.lanes, self.lanes.layout.cluster_size
        ranks = np.asarray(ranks).astype(np.int32) & 0xFFFF
        what = f"the blocks {{:#x}} are named, and the cluster has {size}"
        without(lanes, index, "wrong cluster rank", what, ranks, (ranks >> size != 0) & mask, mask)
        if size == 1:
            return [(destination, mbarrier, mask & (ranks & 1 == 1))]
        parts = []
        for rank in range(size):
            here, of_mbarrier = mask & (ranks >> rank & 1 == 1), rank
            if here.any():
                if by_pairs:
                    of_mbarrier = rank & ~1 | clusters.ranks_of(lanes.layout, mbarrier) & 1
                places = (
                    clusters.place_of(v) | (np.asarray(of, np.int32) + 1 << clusters.RANK_SHIFT)
                    for v, of in ((destination, rank), (mbarrier, of_mbarrier))
                )
                parts.append((*places, here))
        return parts

    def start(self, copy: BulkCopy, given) -> None:
        """`given`: what the values depend on, in shapes that tell which blocks may differ."""
        lanes, shared = self.lanes, self.lanes.shared
        if not copy.mask.any():
            return
        if lanes.checker:
            self.mbarriers.look_for_unfenced(copy.index, copy.mbarrier, copy.mask)
            lanes.checker.copy_counts(copy.mbarrier, copy.mask)
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
            poison = global_memory.poison(copy.dtype)
            shared.buffer.view(copy.dtype)[copy.places // copy.dtype.itemsize] = poison
        self._flying.append(copy)

    def _put(self, copy: BulkCopy) -> None:
        view = self.lanes.shared.buffer.view(copy.dtype)
        elements, values = copy.places // copy.dtype.itemsize, copy.values
        if copy.places_read is not None:
            values = view[copy.places_read // copy.dtype.itemsize]
        if copy.operation is None:
            view[elements] = values
        else:
            given = [np.ascontiguousarray(values).reshape(-1)]
            atomics.take_turns(view, elements.reshape(-1), given, copy.operation.change)
        self.lanes.shared.changed(copy.places)

    def _look_for_unwritten(self, index, used, corners, mask) -> None:
        wrong = used.unwritten.read_packed(corners).view(np.uint8).any(axis=1)
        if wrong.any():
            corner = tuple(corners[wrong.argmax()].tolist())
            what = f"the box at {corner} of {used.name} has elements that were never written"
            self.lanes.find("uninitialised read", index, what, spread(mask, wrong))


# --- stores to global memory ----------------------------------------------------------------------


@dataclass
class BulkStore:
    """Stores of one size that the n lanes of `mask` started."""

    index: int
    size: int
    source: np.ndarray
    mask: np.ndarray
    places: np.ndarray
    write: Callable  # puts the units of some of the n where they belong
    group: np.ndarray  # (n,) how many groups the lane had committed before

    def __post_init__(self):
        self.values = np.zeros(self.places.shape, MOVED)
        self.is_read, self.is_written = np.zeros((2, len(self.places)), bool)


class BulkStores:
    def __init__(self, lanes):
        self.lanes = lanes
        self._flying: list[BulkStore] = []
        self._committed = 0  # groups of each lane

    def store(self, index: int, target, source, size, operation, mask) -> None:
        """Each lane of `mask` starts a copy of `size` bytes to the global address `target`."""
        lanes, target, source = self.lanes, np.asarray(target), np.asarray(source)
        for bytes_each, mine in lanes.layout.by_value(size, mask):
            here = aligned_stretch(lanes, index, (target, source), bytes_each, mine)
            here = inside_shared(lanes, index, source, bytes_each, here, "read")
            what, issued = self._issued(operation is None, (target, source), here)
            begin = of_lanes(lanes, target, issued)
            counted.count_stretches(lanes, index, what, begin, bytes_each, len(begin))
            steps = np.arange(0, bytes_each, UNIT)
            self._start(index, source, bytes_each, here, lambda begin, s=steps: begin[:, None] + s,
                        self._to_addresses(index, bytes_each, target, operation))  # fmt: skip

    def store_box(self, index: int, source, address, coordinates, how, mask) -> None:
        """Each lane starts a copy of a box to `coordinates`. `how`: names a reduction, or None."""
        lanes, source = self.lanes, np.asarray(source)
        for used, here, _ in maps_at(lanes, index, address, len(coordinates), mask):
            here = aligned_box(lanes, index, used, source, coordinates, here)
            here = self._not_negative(index, used, coordinates, here)
            here = inside_shared(lanes, index, source, used.map.shared_bytes, here, "read")
            if used.map.element == "b4x16_p64":
                what = f"the elements of {used.name}, b4x16_p64, can be loaded and not be stored"
                lanes.find("wrong tensor map", index, what, here)
                continue
            corners = corners_of(lanes, coordinates, here)
            change = self._change_of(index, how, used, here) if how else None
            if how and change is None:
                continue
            what, issued = self._issued(how is None, (source, *coordinates), here)
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
        self._committed = self._committed + self.lanes.layout.full(mask)

    def wait(self, most: int, only_read: bool, mask) -> None:
        """All but the `most` latest groups of the lanes have been read, and are written too."""
        committed, waiting = map(self.lanes.layout.full, (self._committed, mask))
        for store in self._flying:
            due = (store.group < committed[store.mask] - most) & waiting[store.mask]
            self._read(store, due & ~store.is_read)
            if not only_read:
                self._write(store, due & ~store.is_written)
        self._flying = [store for store in self._flying if not store.is_written.all()]

    def finish(self) -> None:
        for store in self._flying:
            if not store.is_read.all():
                what = "the thread returns before it has waited until its source is read"
                wrong = spread(store.mask, ~store.is_read)
                self.lanes.find("bulk store not waited for", store.index, what, wrong)
                self._read(store, ~store.is_read)
            self._write(store, ~store.is_written)
        self._flying = []

    def _issued(self, plain: bool, operands, mask):
        if not plain:
            return "tma_red", mask
        return "tma_st", counted.issued_stores(self.lanes, operands, mask)

    def _start(self, index, source, size: int, mask, places, write) -> None:
        lanes = self.lanes
        if not mask.any():
            return
        if lanes.checker:
            lanes.checker.races.source_started(index, source, size, mask)
        begin = of_lanes(lanes, source, mask)
        offsets = (begins(lanes, source, mask) - begin)[:, None]
        group = of_lanes(lanes, self._committed, mask)
        places = places(begin) + offsets
        self._flying.append(BulkStore(index, size, source, mask, places, write, group))

    def _not_negative(self, index: int, used, coordinates, mask) -> np.ndarray:
        """The lanes whose box begins in the array or behind it: no other can be stored."""
        wrong = np.zeros(self.lanes.shape, bool)
        for coordinate in coordinates:
            wrong |= (coordinate < 0) & mask
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
            here = spread(store.mask, rows)
            self.lanes.checker.races.source_released(store.index, store.source, store.size, here)

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
            here = spread(store.mask, rows)
            addresses = of_lanes(lanes, target, here)[:, None] + steps
            memory, values = lanes.launch.memory, store.values[rows]
            if operation is None:
                bad = global_memory.store(memory, addresses, [values], MOVED, True)
            else:
                bad = _reduce(memory, addresses, values, *operation)
            find_bad_units(lanes, index, "write", bad, here, addresses.shape)
            tell_units(lanes, index, "store", target, steps, here)

        return write


def _reduce(memory, addresses, values, operation: atomics.Operation, dtype: np.dtype):
    """Reduce units into those at `addresses`, subnormals kept; a list of BadAccess."""
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


# --- what loads and stores have in common ---------------------------------------------------------


def of_lanes(lanes, values, mask) -> np.ndarray:
    """(n,) int64: the values of the lanes in `mask`."""
    return lanes.layout.of(values, mask).astype(np.int64)


def spread(mask, rows) -> np.ndarray:
    lanes = np.zeros(mask.shape, bool)
    lanes[mask] = rows
    return lanes


def corners_of(lanes, coordinates, mask) -> np.ndarray:
    """int64 (n, axes): the coordinates in the order of the array's axes."""
    return np.stack([of_lanes(lanes, values, mask) for values in reversed(coordinates)], axis=1)


def begins(lanes, addresses, mask) -> np.ndarray:
    """(n,): where the addresses of the lanes are, from the start of all blocks' shared memory."""
    if lanes.layout.cluster_size == 1:
        return of_lanes(lanes, addresses + lanes.shared.block_offsets, mask)
    block, _ = clusters.owners(lanes.layout, addresses)
    return of_lanes(lanes, clusters.place_of(addresses) + block * lanes.shared.stride, mask)


def maps_at(lanes, index: int, address, axes: int, mask):
    """[(MapInUse, lanes, address)]: the maps that the lanes name, for copies of so many axes."""
    maps = []
    for place, here in lanes.layout.by_value(address, mask):
        try:
            used = lanes.launch.maps.at(place)
        except ValueError as error:
            lanes.find("wrong tensor map", index, str(error), here)
            continue
        if lanes.checker and (unseen := map_bytes.not_fenced(lanes, place, here)).any():
            what = (
                f"{used.name} was changed, and no fence.proxy.tensormap::generic, release and then "
                "acquire, makes it known to the copies of this block"
            )
            lanes.find("tensor map not fenced", index, what, unseen)
        if len(used.map.box) != axes:
            what = f"a copy of {axes}d, and the tensor map {used.name} has {len(used.map.box)} axes"
            lanes.find("wrong tensor map", index, what, here)
        elif used.map.element in PACKED and base(lanes.launch.arch) == "sm_90":
            what = f"the elements of {used.name} are {used.map.element}, which sm_90 does not have"
            lanes.find("wrong tensor map", index, what, here)
        else:
            maps.append((used, here, place))
    return maps


def find_bad_units(lanes, index: int, does: str, bad, mask, shape) -> None:
    """Find accesses to units in global memory, (n, units) of `shape`, of the n lanes in `mask`."""
    for access in bad:
        wrong = spread(mask, np.broadcast_to(access.lanes, shape).any(axis=1))
        lanes.find(f"{access.problem} {does}", index, access.what, wrong)


def tell_units(lanes, index: int, operation: str, begin, steps, mask) -> None:
    """Tell the checks of units in global memory, where they look for reads of what nobody wrote."""
    if lanes.checker and lanes.launch.memory.unwritten:
        for step in steps:
            lanes.checker.access(index, "global", operation, begin + step, UNIT, mask)


def without(lanes, index: int, kind: str, what: str, values, wrong, mask) -> np.ndarray:
    """The lanes of `mask` that are not `wrong`; those are a finding, `what` of their values."""
    if wrong.any():
        first = int(lanes.layout.of(values, wrong)[0])
        lanes.find(kind, index, what.format(first), wrong)
    return mask & ~wrong


def aligned_box(lanes, index: int, used, place, coordinates, mask) -> np.ndarray:
    """The lanes whose box is aligned in shared memory, and begins at 16 bytes of an array's row."""
    what = f"a box at byte {{}} of shared memory, which is no multiple of {BOX_ALIGNMENT}"
    wrong = (place % BOX_ALIGNMENT != 0) & mask
    mask = without(lanes, index, "misaligned bulk copy", what, place, wrong, mask)
    step = used.map.coordinate_step
    what = (
        f"a box that begins at element {{}} of a row of {used.name}, which is no multiple of {step}"
    )
    wrong = (coordinates[0] % step != 0) & mask
    return without(lanes, index, "misaligned bulk copy", what, coordinates[0], wrong, mask)


def aligned_stretch(lanes, index: int, addresses, size: int, mask) -> np.ndarray:
    """The lanes all of whose addresses, and the size, are multiples of UNIT."""
    wrong = np.zeros(lanes.shape, bool)
    for number in (*addresses, np.asarray(size)):
        wrong |= (number % UNIT != 0) & mask
    what = f"a bulk copy's size and addresses are multiples of {UNIT} bytes"
    return without(lanes, index, "misaligned bulk copy", what, size, wrong, mask)


def inside_shared(lanes, index: int, addresses, size: int, mask, does: str) -> np.ndarray:
    """The lanes for which `size` bytes from their address are in some block's shared memory."""
    total = lanes.shared.bytes_per_block
    if lanes.layout.cluster_size > 1:
        ranks = clusters.ranks_of(lanes.layout, addresses)
        what = f"the block of rank {{}}, and the cluster has {lanes.layout.cluster_size}"
        wrong = (ranks >= lanes.layout.cluster_size) & mask
        mask = without(lanes, index, f"out-of-bounds {does}", what, ranks, wrong, mask)
        addresses = clusters.place_of(addresses)
    wrong = ((addresses < 0) | (addresses + np.int64(size) > total)) & mask
    what = f"{size} bytes at byte {{}} of shared memory, which has {total}"
    return without(lanes, index, f"out-of-bounds {does}", what, addresses, wrong, mask)
