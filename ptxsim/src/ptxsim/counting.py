"""The cost of memory accesses, warp by warp: counted, and kept for a recorded block.

In a loop an access costs the same again and again, at addresses that have moved: what that is, is
kept, so that it is not counted anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from ptxsim import metrics
from ptxsim.hopper import GROUP_THREADS
from ptxsim.memory import merging
from ptxsim.threads import clusters
from ptxsim.threads.layout import Triple

SHARED = "shared memory"  # what accesses to it are counted under
ALIKE = 1 << 14  # addresses; what more of them cost is not kept
KNOWN = 512  # accesses whose cost is kept


@dataclass(frozen=True)
class WarpAccess:
    """What one warp asked of memory in one instruction.

    `addresses`: int64 (32,), byte offsets from the start of `array`, valid where `active`.
    `size`: bytes per lane. `index`: the instruction's place in the kernel. An asynchronous copy is
    a load from global memory and, for the place where it will arrive, a "copy" to shared memory.
    """

    line: int
    space: str
    operation: str
    array: str
    block: Triple
    warp: int
    addresses: np.ndarray
    active: np.ndarray
    size: int
    index: int


@dataclass(frozen=True)
class BoxCopy:
    """A box of `array` that one thread copied or stored by tensor map.

    `corner`: its first element, and `box`: the number of elements, along each axis of the array as
    it is stored; a part of the box may lie outside. `place`: where it begins in shared memory, in
    bytes. `ranks`: the blocks of the cluster that receive it by multicast; () for the block itself.
    """

    line: int
    operation: str  # "load" or "store"
    array: str
    block: Triple
    warp: int
    lane: int
    corner: tuple[int, ...]
    box: tuple[int, ...]
    place: int
    ranks: tuple[int, ...]
    index: int


@dataclass(frozen=True)
class FactorRead:
    """An operand that a wgmma read from shared memory.

    `factor`: "A" or "B" of the product. `descriptor`: the descriptor that the warpgroup passed.
    `places`: int64 (lines, units), the address of each unit of 16 bytes in shared memory, in bytes;
    lines run along K, or, for a transposed operand, across it, one for each k.
    """

    line: int
    factor: str
    block: Triple
    group: int
    descriptor: int
    transposed: bool
    places: np.ndarray
    index: int


@dataclass(frozen=True)
class TensorUse:
    """Cells of tensor memory that a warp loaded or stored ("load", "store"), or to which a thread
    of it started a "copy", or a "product" that adds up in them.

    `lanes` and `columns`: from the first to the last, of `block`, which may be another one of the
    pair than the warp's.
    """

    line: int
    operation: str
    block: Triple
    warp: int
    lanes: range
    columns: range
    index: int


@dataclass(frozen=True)
class Stretch:
    """A basic block that some warps executed; with which access and which box it begins."""

    start: int
    end: int
    warps: np.ndarray  # bool (warps,)
    first_access: int
    first_box: int


@dataclass(frozen=True)
class Recorded:
    """What a block did, in the order of execution."""

    accesses: list[WarpAccess] = field(default_factory=list)
    boxes: list[BoxCopy] = field(default_factory=list)
    factors: list[FactorRead] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    tensor: list[TensorUse] = field(default_factory=list)

    def extend(self, other: Recorded) -> None:
        for kind in fields(self):
            getattr(self, kind.name).extend(getattr(other, kind.name))


class Counting:
    def __init__(self, lanes):
        self.lanes = lanes
        self._merged = merging.merged_loads(lanes.launch.kernel) if lanes.observed else {}
        # What accesses cost: (key, what their addresses have more than the first one, an active
        # lane's of these, mask, cost).
        self._known: dict = {}

    def access(self, index, space, operation, addresses, size, mask, destination=None) -> None:
        """Count and record an access. `destination`: where a copy past the L1 cache goes."""
        if destination is not None:
            addresses, destination = np.broadcast_arrays(addresses, destination)
        if index in self._merged:
            wide = self._merged[index]
            if wide is None:  # part of one that is counted already
                return
            shift, size = wide
            addresses = addresses + np.int32(shift)
        few = 0 < addresses.size <= ALIKE
        if self.lanes.record or destination is not None or not (self.lanes.launch.count and few):
            self._look(index, space, operation, addresses, size, mask, destination)
            return
        if operation == "copy":  # it is counted as a load from global memory
            return
        # In a loop all addresses of an access have often moved by the same number of bytes.
        first = addresses.flat[0]
        place = index, addresses.shape, size, int(first) % metrics.period(space, size)
        pattern = addresses - first
        if place in self._known:
            key, before, lead, same_mask, cost = self._known[place]
            same = mask is same_mask or np.array_equal(mask, same_mask)
            same = same and np.array_equal(pattern, before)
            if same and self._array(space, int(first) + lead) == key[3]:
                self.lanes.counter.add_again(key, cost)
                return
        counted = self._look(index, space, operation, addresses, size, mask)
        if counted and len(self._known) < KNOWN:
            key, active, cost = counted
            self._known[place] = key, pattern, active - int(first), mask, cost

    def boxes(self, index, operation, used, coordinates, place, mask, ranks=None) -> None:
        """Record the boxes of a MapInUse that lanes of the recorded block name."""
        lanes, line = self.lanes, self.lanes.line(index)

        def of_block(value):
            return lanes.layout.to_warps(value)[lanes.recorded_warps]

        corners = [of_block(coordinate) for coordinate in reversed(coordinates)]
        places = of_block(place)
        bits = np.zeros_like(places) if ranks is None else of_block(ranks)
        for warp, lane in np.argwhere(of_block(mask)).tolist():
            of_lane = int(bits[warp, lane])
            lanes.recorded.boxes.append(
                BoxCopy(
                    line, operation, used.name, lanes.record, warp, lane,
                    tuple(int(coordinate[warp, lane]) for coordinate in corners), used.map.box,
                    int(clusters.place_of(places[warp, lane])),
                    tuple(rank for rank in range(16) if of_lane >> rank & 1), index,
                )
            )  # fmt: skip

    def factor(self, index, factor, transposed, descriptors, places, groups) -> None:
        """Record what the warpgroups of the recorded block read; `places`: (n, lines, units)."""
        lanes, line = self.lanes, self.lanes.line(index)
        first_block = lanes.recorded_warps.start // lanes.layout.warps_per_block
        each = lanes.layout.threads // GROUP_THREADS
        for at, number in enumerate(np.flatnonzero(groups)):
            block, group = divmod(int(number), each)
            if block == first_block:
                lanes.recorded.factors.append(
                    FactorRead(
                        line, factor, lanes.record, group, int(descriptors[at]), transposed,
                        places[at].copy(), index,
                    )
                )  # fmt: skip

    def tensor(self, index, operation, block, warp, lanes, columns) -> None:
        """Record cells of this block's tensor memory, given by arrays; `block`: its place."""
        first_block = self.lanes.recorded_warps.start // self.lanes.layout.warps_per_block
        if self.lanes.record is None or block != first_block:
            return
        line = self.lanes.line(index)
        of_lanes, of_columns = (
            range(int(values.min()), int(values.max()) + 1) for values in (lanes, columns)
        )
        self.lanes.recorded.tensor.append(
            TensorUse(line, operation, self.lanes.record, warp, of_lanes, of_columns, index)
        )

    def _array(self, space: str, address: int) -> str | None:
        if space != "global":
            return SHARED
        buffer = self.lanes.launch.memory.buffer_at(address)
        return buffer and buffer.name

    def _look(self, index, space, operation, addresses, size, mask, destination=None):
        """Count an access, warp by warp: (key, an active lane's address, Cost), or None."""
        warps = self.lanes.layout.distinct_warps(mask, addresses.shape)
        if not len(warps.times):
            return None
        line = self.lanes.line(index)
        rows = self.lanes.layout.rows(addresses)[warps.row]
        array, offsets, counted = SHARED, rows, None
        active = int(rows[warps.active][0])
        if space == "global":
            buffer = self.lanes.launch.memory.buffer_at(active)
            if buffer is None:  # a wild pointer: it is a finding already
                return None
            array, offsets = buffer.name, rows - buffer.base
        if self.lanes.launch.count and operation != "copy":  # that is a load from global memory
            key = line, space, operation, array
            to = None if destination is None else self.lanes.layout.rows(destination)[warps.row]
            cost = self.lanes.counter.add(key, offsets, warps.active, size, warps.times, to)
            counted = key, active, cost
        if self.lanes.record is not None:
            for warp, row in enumerate(warps.of_warp[self.lanes.recorded_warps]):
                if row >= 0:
                    self.lanes.recorded.accesses.append(
                        WarpAccess(line, space, operation, array, self.lanes.record, warp,
                                   offsets[row], warps.active[row], size, index)
                    )  # fmt: skip
        return counted
