"""Global and shared memory: addresses, bounds, loads and stores.

Global memory is the caller's NumPy arrays. Each gets an address of its own, far from the others,
so that an address that runs past the end of one array hits no other. Shared memory is one array
for all blocks that run together.

An access out of bounds becomes a finding; the load gives a NaN pattern, the store is dropped.
Lanes that are switched off may compute any address: only active lanes are checked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

POISON = 0x7FC0DEAD  # a NaN as float32, and easy to recognise

GLOBAL_BASE = 0x7F00_0000_0000
GLOBAL_STEP = 1 << 36  # bytes between the addresses of two arrays
GUARD = 1 << 20  # an array starts this far into its step, so that a negative index stays in it


@dataclass(frozen=True)
class OutOfBounds:
    """Where some lanes of one instruction left an array: `lanes` is a mask over all lanes."""

    array: str
    element: int
    elements: int
    lanes: np.ndarray


class Buffer:
    """Bytes that can be viewed as any element type."""

    def __init__(self, name: str, raw: np.ndarray, base: int, element_bytes: int):
        self.name, self.base, self.bytes = name, base, raw.nbytes
        self.element_bytes = element_bytes
        self._raw, self._views = raw, {}

    def view(self, dtype: np.dtype) -> np.ndarray:
        if dtype not in self._views:
            usable = self.bytes - self.bytes % dtype.itemsize
            self._views[dtype] = self._raw[:usable].view(dtype)
        return self._views[dtype]

    def take(self, offsets, dtype: np.dtype, count: int):
        """`count` consecutive elements per lane, from byte `offsets` aligned to the element.

        Raises IndexError where one lies outside.
        """
        # Unsigned, a negative offset is far too large: so NumPy's own check sees it as well.
        view, first = self.view(dtype), offsets.view(np.uint64) >> _shift(dtype)
        return [view.take(first + np.uint64(i) if i else first) for i in range(count)]

    def put(self, offsets, values, dtype: np.dtype, mask) -> None:
        """Store `values[i]` at element i of each lane, for the lanes in `mask` (True: all)."""
        view, first = self.view(dtype), offsets >> (dtype.itemsize.bit_length() - 1)
        for i, value in enumerate(values):
            if mask is True:
                view[first + i] = value
            else:
                index, stored, active = np.broadcast_arrays(first + i, value, mask)
                view[index[active]] = stored[active]


class GlobalMemory:
    """The arrays that the kernel's pointers lead to."""

    def __init__(self, arrays: list[tuple[str, np.ndarray]]):
        self.buffers = [
            Buffer(name, array.reshape(-1).view(np.uint8), _base(i), array.itemsize)
            for i, (name, array) in enumerate(arrays)
        ]
        self._masks = MaskCache()

    def take(self, addresses, dtype: np.dtype, count: int, mask):
        """`count` values per lane. Raises IndexError unless all lanes are inside one array."""
        addresses = self._masks.only_active(addresses, mask)
        buffer = self.buffer_at(int(addresses.flat[0]))
        if buffer is None:
            raise IndexError
        return buffer.take(addresses - buffer.base, dtype, count)

    def locate(self, addresses, size: int, mask):
        """Pairs of a buffer and the lanes that lead to it.

        `addresses`: int64, any shape; `size`: bytes that each lane accesses; `mask`: the active
        lanes, broadcastable against `addresses`, or True.

        Returns [(buffer, byte offsets, lanes that are inside or True)] and a list of OutOfBounds.
        In nearly all instructions every lane is inside one buffer, which two comparisons show.
        """
        if buffer := self._buffer_around(addresses, size):
            return [(buffer, addresses - buffer.base, True)], []
        active = self._masks.reduced(mask, addresses.shape)
        if active.any() and (buffer := self._buffer_around(addresses[active], size)):
            return [(buffer, np.where(active, addresses - buffer.base, 0), True)], []
        return self._locate_lane_by_lane(addresses, size, mask, active)

    def _buffer_around(self, addresses, size: int) -> Buffer | None:
        """The buffer that all these accesses stay in, if there is one."""
        lowest, highest = int(addresses.min()), int(addresses.max())
        buffer = self.buffer_at(lowest)
        inside = buffer and lowest >= buffer.base and highest + size <= buffer.base + buffer.bytes
        return buffer if inside else None

    def _locate_lane_by_lane(self, addresses, size, mask, active):
        found, outside = [], []
        which = (addresses - GLOBAL_BASE) // GLOBAL_STEP
        for number in np.unique(which[active]):
            lanes = active & (which == number)
            buffer = self.buffer_at(GLOBAL_BASE + int(number) * GLOBAL_STEP)
            if buffer is None:
                outside.append(OutOfBounds("no array", int(addresses[lanes][0]), 0, lanes & mask))
                continue
            offsets = addresses - buffer.base
            inside = lanes & (offsets >= 0) & (offsets + size <= buffer.bytes)
            if (bad := lanes & ~inside).any():
                element = int(offsets[bad][0]) // buffer.element_bytes
                elements = buffer.bytes // buffer.element_bytes
                outside.append(OutOfBounds(buffer.name, element, elements, bad & mask))
            if inside.any():
                found.append((buffer, np.where(inside, offsets, 0), inside))
        return found, outside

    def buffer_at(self, address: int) -> Buffer | None:
        number = (address - GLOBAL_BASE) // GLOBAL_STEP
        return self.buffers[number] if 0 <= number < len(self.buffers) else None


class SharedMemory:
    """The shared memory of all blocks of a chunk, one after the other; filled with poison."""

    def __init__(self, blocks: int, bytes_per_block: int, block_offsets):
        """`block_offsets`: for every lane, where its block's part begins, in bytes."""
        self.bytes_per_block, self.block_offsets = bytes_per_block, block_offsets
        raw = np.full(blocks * bytes_per_block // 4, POISON, np.uint32).view(np.uint8)
        self.buffer = Buffer("shared memory", raw, 0, 1)
        self._masks = MaskCache()

    def take(self, addresses, dtype: np.dtype, count: int, mask):
        """As GlobalMemory.take; `addresses` count from the start of the block's own part."""
        addresses = self._masks.only_active(addresses, mask)
        if addresses.view(np.uint32).max() + dtype.itemsize * count > self.bytes_per_block:
            raise IndexError
        return self.buffer.take(addresses + self.block_offsets, dtype, count)

    def locate(self, addresses, size: int, mask):
        """As GlobalMemory.locate; `addresses` count from the start of the block's own part."""
        if addresses.min() >= 0 and addresses.max() + size <= self.bytes_per_block:
            return [(self.buffer, addresses + self.block_offsets, True)], []
        inside = (addresses >= 0) & (addresses + size <= self.bytes_per_block)
        outside = []
        if (bad := self._masks.reduced(mask, addresses.shape) & ~inside).any():
            element = int(addresses[bad][0])
            outside.append(OutOfBounds("shared memory", element, self.bytes_per_block, bad & mask))
        return [(self.buffer, np.where(inside, addresses, 0) + self.block_offsets, inside)], outside


class MaskCache:
    """Masks over the smaller shape of an address array: is any lane active that uses it?

    A loop asks again and again for the same mask, so the last one is kept for each shape.
    """

    def __init__(self):
        self._last: dict = {}

    def reduced(self, mask, shape: tuple[int, ...]):
        last, found = self._last.get(shape, (None, None))
        if last is not mask:
            found = _reduce(mask, shape)
            self._last[shape] = mask, found
        return found

    def only_active(self, addresses, mask):
        """The addresses, with that of an active lane wherever no lane is active."""
        if mask is True:
            return addresses
        active = self.reduced(mask, addresses.shape)
        return np.where(active, addresses, addresses.flat[active.argmax()])


def _reduce(mask, shape: tuple[int, ...]):
    mask = np.broadcast_to(mask, np.broadcast_shapes(np.shape(mask), shape))
    padded = (1,) * (mask.ndim - len(shape)) + tuple(shape)
    axes = tuple(
        i for i, (lanes, own) in enumerate(zip(mask.shape, padded, strict=True)) if own < lanes
    )
    return mask.any(axis=axes, keepdims=True).reshape(shape)


def load(memory, addresses, dtype: np.dtype, count: int, mask):
    """`count` values per lane, and a list of OutOfBounds. Lanes outside get POISON."""
    try:
        return memory.take(addresses, dtype, count, mask), []
    except IndexError:
        parts, outside = memory.locate(addresses, dtype.itemsize * count, mask)
    poison = np.frombuffer(np.array([POISON] * 2, np.uint32).tobytes(), dtype)[0]
    values = [np.full(addresses.shape, poison, dtype) for _ in range(count)]
    for buffer, offsets, inside in parts:
        for i, part in enumerate(buffer.take(offsets, dtype, count)):
            values[i] = np.where(inside, part, values[i])
    return values, outside


def store(memory, addresses, values, dtype: np.dtype, mask):
    """Write `values[i]` to the i-th element of each active lane; a list of OutOfBounds."""
    parts, outside = memory.locate(addresses, dtype.itemsize * len(values), mask)
    for buffer, offsets, inside in parts:
        buffer.put(offsets, values, dtype, mask if inside is True else inside & mask)
    return outside


def _shift(dtype: np.dtype) -> np.uint64:
    return np.uint64(dtype.itemsize.bit_length() - 1)


def _base(number: int) -> int:
    return GLOBAL_BASE + number * GLOBAL_STEP + GUARD


def pointer(buffer: Buffer) -> np.int64:
    """What the kernel gets as the argument for `buffer`."""
    return np.int64(buffer.base)
