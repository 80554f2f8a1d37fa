"""Global memory: addresses, bounds, loads and stores.

Global memory is the caller's NumPy arrays. Each gets an address of its own, far from the others,
so that an address that runs past an end of one array hits no other. For shared memory see
shared_memory.py.

An access out of bounds, one not aligned to its size, and a store in an array that is read only
become findings; the load gives a NaN pattern, the store is dropped. Lanes that are switched off may
compute any address: only active lanes are checked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

POISON = 0x7FC0DEAD  # a NaN as float32, and easy to recognise
ALIGNMENT = 16  # bytes, of each block's part of shared memory: the widest access

GLOBAL_BASE = 0x7F00_0000_0000
GLOBAL_STEP = 1 << 36  # bytes between the addresses of two arrays
GUARD = GLOBAL_STEP // 2  # an array starts in the middle of its step: an index may be negative
VARIABLES = 1 << 12  # the number of the first of the module's own variables; arrays have less
MOST_VARIABLES = 16 << 30  # bytes of the module's own variables; many GPUs have less memory


@dataclass(frozen=True)
class BadAccess:
    """What some lanes of one instruction did wrong; `what` describes the first of them."""

    problem: str  # "out-of-bounds", "misaligned" or, of a store in what is read only, "forbidden"
    what: str
    lanes: np.ndarray  # broadcastable to the shape of all lanes


class Buffer:
    def __init__(self, name: str, raw: np.ndarray, base: int, element_bytes: int):
        self.name, self.base, self.bytes = name, base, raw.nbytes
        self.element_bytes = element_bytes
        self.written = False  # whether a kernel has stored in it
        self.read_only = False  # whether a kernel must not
        self._raw = raw
        self._views: dict[np.dtype, np.ndarray] = {}

    def view(self, dtype: np.dtype) -> np.ndarray:
        if dtype not in self._views:
            usable = self.bytes - self.bytes % dtype.itemsize
            self._views[dtype] = self._raw[:usable].view(dtype)
        return self._views[dtype]

    def take(self, offsets, dtype: np.dtype, count: int):
        """`count` consecutive elements per lane. IndexError if one is outside or not aligned."""
        size = dtype.itemsize * count
        if size > 1 and np.bitwise_or.reduce(offsets, axis=None) & (size - 1):
            raise IndexError("misaligned")
        if dtype.itemsize == 1 and offsets.min() < 0:
            raise IndexError("outside")
        # Wider ones: as an unsigned number, shifted, a negative offset is far too large an index.
        view, first = self.view(dtype), offsets.view(np.uint64) >> _shift(dtype)
        return [view.take(first + np.uint64(i) if i else first) for i in range(count)]

    def put(self, offsets, values, dtype: np.dtype, mask) -> None:
        """Store `values[i]` at element i of each lane, for the lanes in `mask` (True: all)."""
        self.written = True
        view, first = self.view(dtype), offsets >> np.int64(_shift(dtype))
        for i, value in enumerate(values):
            index = first + i
            if mask is True:
                if np.ndim(value) > index.ndim or np.size(value) > index.size:
                    index, value = np.broadcast_arrays(index, value)  # several to one place
                view[index] = value
            else:
                index, stored, active = np.broadcast_arrays(index, value, mask)
                lanes = np.flatnonzero(active)
                view[index.reshape(-1).take(lanes)] = stored.reshape(-1).take(lanes)

    def check(self, offsets, size: int, mask):
        """Which lanes may access `size` bytes at `offsets`, and a list of BadAccess for others."""
        inside = (offsets >= 0) & (offsets + size <= self.bytes)
        aligned = (offsets & (size - 1)) == 0
        if (inside & aligned).all():
            return mask, []
        bad = []
        for problem, wrong in (("out-of-bounds", ~inside), ("misaligned", inside & ~aligned)):
            lanes = wrong & mask
            if lanes.any():
                offset = int(_of_first(offsets, lanes))
                at, element = self._names(offset, size)
                misaligned = f"{size} bytes at {at}, which {size} does not divide"
                what = misaligned if problem == "misaligned" else element
                bad.append(BadAccess(problem, what, lanes))
        return inside & aligned & mask, bad

    def protect(self, offsets, lanes):
        """As `check`, for stores that are inside: in an array that is read only all are wrong."""
        if not (self.read_only and np.any(lanes)):
            return lanes, []
        lanes = np.broadcast_to(lanes, np.broadcast_shapes(np.shape(lanes), np.shape(offsets)))
        index = int(_of_first(offsets, lanes)) // self.element_bytes
        what = f"writes to {self.name}[{index}], and {self.name} is an input"
        return np.zeros_like(lanes), [BadAccess("forbidden", what, lanes)]

    def _names(self, offset: int, size: int) -> tuple[str, str]:
        """What is at byte `offset`, for a message: where it is, and which element of how many."""
        index, elements = offset // self.element_bytes, self.bytes // self.element_bytes
        at = f"{self.name}[{index}]"
        return f"{at}, byte {offset}", f"{at} of {elements} elements"


@dataclass(frozen=True, eq=False)
class Uninitialised:
    """For `args` of a launch with check=True: an array whose elements nobody has written yet.

    The kernel's reads before its own writes become findings. Given to a later launch, the same
    argument knows what this one has written. Without checks it is a plain array.
    """

    array: np.ndarray

    @cached_property
    def unwritten(self) -> np.ndarray:
        """bool, for each byte of the array: whether it is still so."""
        return np.ones(self.array.nbytes, bool)


@dataclass(frozen=True)
class ReadOnly:
    """For `args` of a launch: an array that the kernel may only read.

    A write to it becomes a finding, and is dropped.
    """

    array: np.ndarray


uninitialised, read_only = Uninitialised, ReadOnly


@dataclass(frozen=True, eq=False)
class Given:
    """A variable or structure that the caller has given. `is_data`: arithmetic may see it."""

    bytes: np.ndarray
    element_bytes: int
    is_data: bool = True

    @property
    def size(self) -> int:
        return self.bytes.nbytes

    def raw(self) -> np.ndarray:
        return self.bytes


class GlobalMemory:
    """The arrays that pointers lead to, and variables: name -> ptx.ModuleVariable or Given.

    `protected`: arrays that a kernel must not write. MemoryError where variables are too large.
    """

    def __init__(self, arrays: list[tuple[str, np.ndarray]], variables=None, protected=()):
        self.buffers = [
            Buffer(name, array.reshape(-1).view(np.uint8), _base(i), array.itemsize)
            for i, (name, array) in enumerate(arrays)
        ]
        for buffer in self.buffers:
            buffer.read_only = buffer.name in protected
        variables = self._declared = variables or {}
        size = sum(v.size for v in variables.values())
        if size > MOST_VARIABLES:
            raise MemoryError
        self.variables = {
            name: Buffer(name, v.raw(), _base(VARIABLES + i), v.element_bytes)
            for i, (name, v) in enumerate(variables.items())
        }
        # Of arrays whose contents count as never written: the bytes that still are not.
        self.unwritten: dict[int, np.ndarray] = {}  # by where the buffer begins
        self._masks = MaskCache()
        self.history: Any = None  # of accesses, where a launch is checked: see global_races.py

    def take(self, addresses, dtype: np.dtype, count: int, mask):
        """`count` values per lane. IndexError unless all active lanes are inside one array."""
        addresses = self._masks.only_active(addresses, mask)
        buffer = self.buffer_at(int(addresses.flat[0]))
        if buffer is None:
            raise IndexError("no array")
        return buffer.take(addresses - buffer.base, dtype, count)

    def locate(self, addresses, size: int, mask):
        """([(buffer, offsets, lanes that may access it)], [BadAccess]), of `size` bytes."""
        usable, bad = [], []
        active = self._masks.reduced(mask, addresses.shape)
        which = (addresses - GLOBAL_BASE) // GLOBAL_STEP
        numbers = np.unique(which[active])
        for number in numbers:
            lanes = mask if len(numbers) == 1 else (which == number) & mask
            buffer = self.buffer_at(GLOBAL_BASE + int(number) * GLOBAL_STEP)
            if buffer is None:
                shape = np.broadcast_shapes(np.shape(lanes), addresses.shape)
                lanes = np.broadcast_to(lanes, shape)
                address = int(_of_first(addresses, lanes))
                bad.append(BadAccess("out-of-bounds", f"address {address:#x} of no array", lanes))
                continue
            offsets = addresses - buffer.base
            allowed, wrong = buffer.check(offsets, size, lanes)
            usable.append((buffer, offsets, allowed))
            bad += wrong
        return usable, bad

    def has_written(self, addresses) -> bool:
        """Whether a kernel has stored in an array that these addresses may lead to."""
        if not addresses.size or not any(buffer.written for buffer in self.buffers):
            return False
        first, last = (
            (int(address) - GLOBAL_BASE) // GLOBAL_STEP
            for address in (addresses.min(), addresses.max())
        )
        return any(buffer.written for buffer in self.buffers[max(first, 0) : max(last + 1, 0)])

    def stored(self, addresses, size: int, *given) -> None:
        """Nothing to take note of, other than in shared memory."""

    def address(self, variable: str) -> np.int64:
        return np.int64(self.variables[variable].base)

    def given(self) -> list[np.ndarray]:
        """The bytes of the variables and structures that are the caller's."""
        return [v.bytes for v in self._declared.values() if isinstance(v, Given) and v.is_data]

    def copied_variables(self) -> dict:
        """For another GlobalMemory: the caller's variables copied, the others as declared."""
        return {
            name: replace(v, bytes=v.bytes.copy()) if isinstance(v, Given) else v
            for name, v in self._declared.items()
        }

    def buffer_at(self, address: int) -> Buffer | None:
        number = (address - GLOBAL_BASE) // GLOBAL_STEP
        if number >= VARIABLES:
            number, buffers = number - VARIABLES, list(self.variables.values())
        else:
            buffers = self.buffers
        return buffers[number] if 0 <= number < len(buffers) else None


class MaskCache:
    """Masks over the smaller shape of an address array, the last one kept for each shape."""

    def __init__(self):
        self._last: dict = {}

    def reduced(self, mask, shape: tuple[int, ...]):
        last, reduction = self._last.get(shape, (None, None))
        if last is not mask:
            reduction = _reduce(mask, shape)
            self._last[shape] = mask, reduction
        return reduction

    def only_active(self, addresses, mask):
        """The addresses, with that of an active lane wherever no lane is active."""
        if mask is True:
            return addresses
        active = self.reduced(mask, addresses.shape)
        return np.where(active, addresses, addresses.flat[active.argmax()])


def _reduce(mask, shape: tuple[int, ...]):
    mask = np.broadcast_to(mask, np.broadcast_shapes(np.shape(mask), shape))
    padded = (1,) * (mask.ndim - len(shape)) + tuple(shape)
    lengths = enumerate(zip(mask.shape, padded, strict=True))
    axes = tuple(axis for axis, (lanes, length) in lengths if length < lanes)
    return mask.any(axis=axes, keepdims=True).reshape(shape)


def load(memory, addresses, dtype: np.dtype, count: int, mask):
    """`count` values per lane, and a list of BadAccess. Lanes that may not load get POISON."""
    try:
        return memory.take(addresses, dtype, count, mask), []
    except IndexError:
        parts, bad = memory.locate(addresses, dtype.itemsize * count, mask)
    values = [poison(dtype)] * count
    for buffer, offsets, allowed in parts:
        if not np.any(allowed):
            continue
        taken = buffer.take(np.where(allowed, offsets, 0), dtype, count)
        values = [np.where(allowed, new, old) for new, old in zip(taken, values, strict=True)]
    return values, bad


def store(memory, addresses, values, dtype: np.dtype, mask):
    """Write `values[i]` to the i-th element of each active lane; a list of BadAccess."""
    parts, bad = memory.locate(addresses, dtype.itemsize * len(values), mask)
    for buffer, offsets, inside in parts:
        allowed, wrong = buffer.protect(offsets, inside)
        if not wrong:
            buffer.put(offsets, values, dtype, allowed)
        bad += wrong
    memory.stored(addresses, dtype.itemsize * len(values), mask, *values)
    return bad


def differ(before, values):
    """Where any of the values has other bits than the one before; broadcasts to all lanes."""
    differs = np.asarray(False)
    for there, value in zip(map(np.asarray, before), map(np.asarray, values), strict=True):
        unsigned, value = f"u{there.itemsize}", value.astype(there.dtype, copy=False)
        differs = differs | (there.view(unsigned) != value.view(unsigned))
    return differs


def poison(dtype: np.dtype):
    return np.full(4, POISON, np.uint32).view(dtype)[0]


def _of_first(values, lanes):
    return np.broadcast_to(values, lanes.shape)[lanes][0]


def _shift(dtype: np.dtype) -> np.uint64:
    return np.uint64(dtype.itemsize.bit_length() - 1)


def _base(number: int) -> int:
    return GLOBAL_BASE + number * GLOBAL_STEP + GUARD
