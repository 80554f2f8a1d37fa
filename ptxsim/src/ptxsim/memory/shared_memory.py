"""Memory of blocks and of threads: shared memory, also of other blocks, and local memory.

In a matrix product most of shared memory is the same in many blocks: all blocks of a row of blocks
keep the same tile of A. Pages in which blocks along an axis cannot differ are noted, and a load
from them is done once for all these blocks. Its result does not vary along that axis then, which
makes later arithmetic an outer product. Where blocks at an edge have stored on their own, pages may
be alike all the same: that is looked for after barriers.

A generic address says by its size which memory it leads to. The hardware maps shared and local
memory to windows of the address space; what is in no window is global. An address in a window, less
the window's start, is an address of that memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ptxsim.memory.global_memory import ALIGNMENT, POISON, BadAccess, Buffer, MaskCache
from ptxsim.ptx import RESERVED, RESERVED_BYTES, Kernel
from ptxsim.threads import clusters

ELEMENT = 4  # bytes, of an element in messages, unless the access has fewer
PAGE = ALIGNMENT  # bytes
WORDS = PAGE // 8  # of 64 bits
PATIENCE = 4  # times that blocks are compared in vain, until it is done at fewer barriers ...
LONGEST_REST = 64  # ... with at most so many between
WINDOW_BYTES = 1 << 32
WINDOWS = {"shared": 0x7E00_0000_0000, "local": 0x7D00_0000_0000}
PLANS = 8  # bases of addresses, such as one for each tile, that are remembered


class SharedPart(Buffer):
    """The shared memory of one block, which describes places by the kernel's arrays."""

    def __init__(self, raw: np.ndarray, kernel: Kernel):
        super().__init__("shared memory", raw, 0, 1)
        self._kernel = kernel

    def _names(self, offset: int, size: int) -> tuple[str, str]:
        width = min(size, ELEMENT)
        place = shared_place(self._kernel, self.bytes, offset, width)
        element = f"{place.name}[{place.index}] of {place.count} elements of {width} bytes"
        return f"{place}, byte {offset} of shared memory", f"{element} in shared memory"


class Plan:
    """Loads from one base, again and again: its addresses, and where they lead."""

    def __init__(self, base, mask, addresses):
        self.base, self.mask, self.addresses = base, mask, addresses
        self.lowest, self.highest = int(addresses.min()), int(addresses.max())
        self.first = int(addresses.flat[0])
        self._differs = int(np.bitwise_or.reduce(addresses ^ addresses.flat[0], axis=None))
        # (version, offset, dtype, count) -> (where the view begins, indexes from there on)
        self.places: dict = {}
        self.indexes: dict = {}  # the same ones serve many offsets

    def is_aligned(self, offset: int, size: int) -> bool:
        """Whether all addresses + offset are multiples of `size`, a power of two."""
        return not (self._differs | (self.first + offset)) & (size - 1)


class SharedMemory:
    """The shared memory of all blocks of a Layout, one after the other; filled with poison."""

    def __init__(self, layout, bytes_per_block: int, kernel: Kernel):
        self.bytes_per_block = bytes_per_block
        self.stride = stride = -(-bytes_per_block // ALIGNMENT) * ALIGNMENT
        self.block_offsets = np.asarray(layout.block_number * stride)
        raw = np.full(layout.blocks * stride // 4, POISON, np.uint32).view(np.uint8)
        if RESERVED in kernel.shared:
            first = kernel.shared[RESERVED].offset
            raw.reshape(layout.blocks, stride)[:, first : first + RESERVED_BYTES] = 0
        self.buffer = Buffer("shared memory", raw, 0, 1)
        self.part = SharedPart(raw[:bytes_per_block], kernel)
        self._masks = MaskCache()
        self._dimensions, self._blocks = len(layout.shape), layout.blocks
        self._block_axes = [i for i, n in enumerate(self.block_offsets.shape) if n > 1]
        # By axis and page: whether blocks along the axis may hold different bytes there.
        self._differs = np.zeros((len(self._block_axes), stride // PAGE), bool)
        self._stored = np.zeros(stride // PAGE, bool)  # since blocks were last compared
        self._versions: dict[bytes, int] = {}  # what `_differs` has been -> its number
        self._version = 0
        lengths = [self.block_offsets.shape[axis] for axis in self._block_axes]
        self._words = raw.view(np.uint64).reshape(*lengths, -1)  # blocks along each axis, words
        self._may_be_alike, self._rest, self._vain = False, 0, 0
        self._offsets_for: dict = {}
        self._plans: dict[int, Plan] = {}  # by the identity of the base

    def take_from(self, base, offset: int, dtype: np.dtype, count: int, mask):
        """As `take` at base + offset; None where an address is out of bounds or misaligned."""
        if self._may_be_alike:
            self._find_alike()
        plan = self._plans.get(id(base))
        if plan is None or plan.base is not base or plan.mask is not mask:
            if len(self._plans) >= PLANS:
                self._plans.pop(next(iter(self._plans)))
            addresses = self._masks.only_active(np.asarray(base), mask)
            plan = self._plans[id(base)] = Plan(base, mask, addresses)
        key = self._version, offset, dtype, count
        place = plan.places.get(key)
        if place is None:
            size = dtype.itemsize * count
            lowest, end = plan.lowest + offset, plan.highest + offset + size
            if lowest < 0 or end > self.bytes_per_block or not plan.is_aligned(offset, size):
                return None
            differs = self._pages(lowest, end) if self._block_axes else ()
            place = plan.places[key] = self._indexes(plan, offset, dtype.itemsize, differs)
        start, indexes = place
        view = self.buffer.view(dtype)
        return [view[start + i :].take(indexes) for i in range(count)]

    def _indexes(self, plan: Plan, offset: int, size: int, differs: tuple[bool, ...]):
        """Where each lane finds its element of `size` bytes: (start, indexes from there on)."""
        rest = plan.first % size  # of all addresses
        key = size, differs
        if key not in plan.indexes:
            offsets = self._offsets(differs) if differs else self.block_offsets
            plan.indexes[key] = (plan.addresses + (offsets - rest)) >> (size.bit_length() - 1)
        start, indexes = (offset + rest) // size, plan.indexes[key]
        # NumPy counts a negative index from the end: a base may lie below what it leads to.
        return (start, indexes) if start >= 0 and plan.lowest >= 0 else (0, indexes + start)

    def take(self, addresses, dtype: np.dtype, count: int, mask):
        """As GlobalMemory.take; `addresses` count from the start of the block's own part."""
        if self._may_be_alike:
            self._find_alike()
        addresses = self._masks.only_active(addresses, mask)
        end = int(addresses.view(np.uint32).max()) + dtype.itemsize * count
        if end > self.bytes_per_block:
            raise IndexError("outside")
        if self._block_axes:
            offsets = self._offsets(self._pages(int(addresses.min()), end))
            return self.buffer.take(addresses + offsets, dtype, count)
        return self.buffer.take(addresses + self.block_offsets, dtype, count)

    def locate(self, addresses, size: int, mask):
        """As GlobalMemory.locate; `addresses` count from the start of the block's own part."""
        allowed, bad = self.part.check(addresses, size, mask)
        offsets = addresses + self.block_offsets
        return [(self.buffer, offsets, allowed)], bad

    def stored(self, addresses, size: int, *given) -> None:
        """Take note of a store. Blocks stay alike where nothing `given` differs in them."""
        varies = [self._varies((addresses, *given), axis) for axis in self._block_axes]
        if any(varies) and addresses.size:
            lowest, highest = int(addresses.min()), int(addresses.max()) + size
            pages = slice(max(lowest, 0) // PAGE, -(-max(highest, 0) // PAGE))
            self._stored[pages] = True
            if not self._differs[varies, pages].all():
                self._differs[varies, pages] = True
                self._number()

    def changed(self, places) -> None:
        """Take note of late writes at `places`, counted from the first block's part."""
        if self._block_axes and places.size:
            offsets = places % (self.buffer.bytes // self._blocks)
            pages = slice(int(offsets.min()) // PAGE, int(offsets.max()) // PAGE + 1)
            self._stored[pages] = True
            self._differs[:, pages] = True
            self._number()

    def synchronized(self) -> None:
        self._may_be_alike = bool(self._block_axes)

    def _find_alike(self) -> None:
        """Look where pages that may differ do not."""
        self._may_be_alike = False
        if self._rest:
            self._rest -= 1
            return
        before = self._differs.copy()
        for axis, differs in enumerate(self._differs):
            # Most pages that differ do so in the first two blocks already.
            alike = self._alike(axis, differs & self._stored, 2)
            differs &= ~self._alike(axis, alike, None)
        self._stored[:] = False
        in_vain = np.array_equal(before, self._differs)
        self._vain = self._vain + 1 if in_vain else 0
        self._rest = min(2**self._vain, LONGEST_REST) if self._vain > PATIENCE else 0
        self._number()

    def _alike(self, axis: int, pages, most: int | None) -> np.ndarray:
        """Which of these pages, bool (pages,), the first `most` blocks along an axis have alike."""
        if not pages.any():
            return pages
        some = np.flatnonzero(pages)
        first, last = some[0], some[-1] + 1
        held = self._words[..., first * WORDS : last * WORDS]
        held = np.moveaxis(held, axis, 0)[:most]
        alike = pages.copy()
        different_bits = np.bitwise_or.reduce(held ^ held[:1], axis=0)
        alike[first:last] &= ~different_bits.reshape(-1, last - first, WORDS).any(axis=(0, 2))
        return alike

    def _number(self) -> None:
        self._version = self._versions.setdefault(self._differs.tobytes(), len(self._versions) + 1)

    def _pages(self, start: int, end: int) -> tuple[bool, ...]:
        """For each axis of blocks: whether the bytes from `start` to `end` may differ."""
        pages = slice(start // PAGE, -(-end // PAGE))
        return tuple(np.any(self._differs[:, pages], axis=1).tolist())

    def _offsets(self, differs: tuple[bool, ...]):
        """Where each block's part begins, or that of the first block along axes that are alike."""
        if differs not in self._offsets_for:
            along = [slice(None)] * self._dimensions
            for axis, differ in zip(self._block_axes, differs, strict=True):
                if not differ:
                    along[axis] = slice(0, 1)
            self._offsets_for[differs] = self.block_offsets[tuple(along)]
        return self._offsets_for[differs]

    def _varies(self, given, axis: int) -> bool:
        from_end = self._dimensions - axis
        shapes = (np.shape(value) for value in given)
        return any(len(shape) >= from_end and shape[-from_end] > 1 for shape in shapes)


class ClusterMemory:
    """As SharedMemory, that of all blocks of a cluster, at addresses that `mapa` makes."""

    def __init__(self, layout, shared: SharedMemory):
        self.layout, self.shared = layout, shared

    def take(self, addresses, dtype, count: int, mask):
        """Raises IndexError: the addresses have to be located one by one."""
        raise IndexError("several blocks")

    def locate(self, addresses, size: int, mask):
        """As GlobalMemory.locate."""
        block, inside = clusters.owners(self.layout, addresses)
        bad = []
        if not inside.all() and (lanes := ~inside & mask).any():
            rank = clusters.ranks_of(self.layout, addresses)
            first = np.extract(*np.broadcast_arrays(lanes, rank))[0]
            what = f"the block of rank {first}, and the cluster has {self.layout.cluster_size}"
            bad.append(BadAccess("out-of-bounds", what, lanes))
            mask = inside & mask
        place = clusters.place_of(addresses)
        allowed, wrong = self.shared.part.check(place, size, mask)
        return [(self.shared.buffer, place + block * self.shared.stride, allowed)], bad + wrong

    def stored(self, addresses, size: int, *given) -> None:
        """Blocks that got something from others are no longer alike."""
        place = clusters.place_of(np.asarray(addresses))
        self.shared.stored(place, size, self.layout.block_number)


# --- the names of the source ----------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """An element of an array in shared memory, `name[index]`; of `count` elements."""

    name: str
    index: int
    count: int

    def __str__(self):
        return self.name if (self.index, self.count) == (0, 1) else f"{self.name}[{self.index}]"


def shared_place(kernel: Kernel, total: int, offset: int, width: int) -> Place:
    """What is at byte `offset` of a block's `total` bytes, in elements of the access's `width`."""
    before = [item for item in kernel.shared.items() if item[1].offset <= max(offset, 0)]
    if not before:
        return Place("shared memory", offset // width, total // width)
    symbol, variable = max(before, key=lambda item: item[1].offset)
    size = variable.size or total - variable.offset
    return Place(_source_name(symbol), (offset - variable.offset) // width, size // width)


def _source_name(symbol: str) -> str:
    """`_ZZ5tiledE4tile` is the variable `tile` of the function `tiled`; others stay as they are."""
    for length in re.finditer(r"E(\d+)", symbol):
        end = length.end() + int(length[1])
        name, rest = symbol[length.end() : end], symbol[end:]
        if name.isidentifier() and re.fullmatch(r"(_\d+)?", rest):
            return name
    return symbol


# --- local memory ---------------------------------------------------------------------------------


class LocalPart(Buffer):
    """The local memory of one thread, which describes places by elements."""

    def _names(self, offset: int, size: int) -> tuple[str, str]:
        width = min(size, ELEMENT)
        element = f"{self.name}[{offset // width}] of {self.bytes // width} elements"
        return f"byte {offset} of {self.name}", f"{element} of {width} bytes"


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


# --- generic addresses ----------------------------------------------------------------------------


def window(space: str) -> np.int64:
    """What a generic address of this space has more than an address in the space."""
    return np.int64(WINDOWS.get(space, 0))


def is_in_own_block(lanes, addresses):
    """Which generic addresses (int64) lead to the shared memory of the lane's own block."""
    is_own = clusters.ranks_of(lanes.layout, addresses) == lanes.special["cluster_ctarank"]
    return is_in(addresses, "shared") & is_own


def is_in(addresses, space: str):
    """Which generic addresses (int64) lead to the space."""
    if space in WINDOWS:
        return addresses // np.int64(WINDOW_BYTES) == window(space) // WINDOW_BYTES
    inside = [is_in(addresses, other) for other in WINDOWS]
    return ~np.logical_or.reduce(inside)


def split(lanes, addresses, mask):
    """[(space, addresses in it, lanes of `mask` whose address leads to it)]."""
    addresses = np.asarray(addresses)
    parts = []
    for space in ("global", *WINDOWS):
        inside = is_in(addresses, space)
        offsets = addresses - window(space)
        if space == "shared":  # whose addresses have 32 bits
            offsets = offsets.astype(np.int32)
        if inside.all():
            return _by_block(lanes, space, offsets, mask)
        active = inside & mask
        if active.any():
            parts += _by_block(lanes, space, offsets, active)
    return parts


def _by_block(lanes, space: str, addresses, mask):
    """One part of `split`; shared memory that may be another block's is `lanes.far`."""
    if space == "shared" and clusters.are_far(np.where(mask, addresses, 0)):
        return [(lanes.far, addresses.astype(np.int32), mask)]
    return [(space, addresses, mask)]
