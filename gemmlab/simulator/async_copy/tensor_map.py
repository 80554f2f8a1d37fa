"""Tensor maps: how a copy finds a box of an array in global memory, and lays it into shared memory.

On a GPU a tensor map is an opaque structure of 128 bytes that cuTensorMapEncodeTiled makes. Here it
is an argument of `launch`, for the same parameter of the kernel. What it does is as recorded on an
NVIDIA H200.

The box lies in shared memory row by row (a row is along the last axis), without gaps, but that a
row takes as many bytes as the swizzle's name says. The swizzle exchanges units of 16 bytes: it
works on the bits of the address itself, so that it does not depend on where the box begins. A load
fills single elements outside the array; a store writes whole units, also where a row ends in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np

UNIT = 16  # bytes: a swizzle moves as many at a time, and strides are multiples of it
MOVED = np.dtype("c16")  # NumPy has no wider integer; complex numbers move as they are
MOST_AXES, MOST_OF_BOX = 5, 256
MOST_OF_AXIS, MOST_STRIDE = 2**32, 2**40  # elements, bytes
MAP_BYTES, MAP_ALIGNMENT = 128, 64  # of the kernel's parameter
DTYPES = (
    "uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64",
)  # fmt: skip
# Swizzle -> the bytes from one row to the next, also the most that a row may have, and the bits of
# an address that are exchanged: each of them by the bit three places further up.
SWIZZLES = {"none": (None, 0), "32B": (32, 0x10), "64B": (64, 0x30), "128B": (128, 0x70)}
NAN_BITS = 0x7FF7  # every 16 bits of a NaN that fills
MOST_BYTES = 227 * 1024  # of a box: the shared memory of a block
PIECE = 1 << 20  # elements that are looked up together


@dataclass(frozen=True, eq=False)
class TensorMap:
    """A box of `array`, for a parameter `const __grid_constant__` of 128 bytes, aligned to 64.

    `array`: NumPy, 1 to 5 axes, of which the last is contiguous; a view will do. `box`: elements
    along each axis, in the order of the array's axes; cuTensorMapEncodeTiled, and the coordinates
    in the kernel, have the reverse order, last axis first. `swizzle`: "none", "32B", "64B" or
    "128B". `fill`: what is loaded from outside the array, "zero", or for floats "nan".

    Raises ValueError, with cuTensorMapEncodeTiled's rules: the array begins at a multiple of 16
    bytes, and so do its rows; a box has 1 to 256 elements along each axis, along the last one a
    multiple of 16 bytes, no more of them than the swizzle's name says; it fits into shared memory.
    """

    array: np.ndarray
    box: Sequence[int]
    swizzle: str = field(default="none", kw_only=True)
    fill: str = field(default="zero", kw_only=True)

    def __post_init__(self):
        object.__setattr__(self, "box", tuple(int(n) for n in self.box))
        _check_array(self.array)
        _check_box(self.array, self.box)
        if self.swizzle not in SWIZZLES:
            raise ValueError(
                f"swizzle is {self.swizzle!r}, it must be one of {', '.join(SWIZZLES)}"
            )
        width, _ = SWIZZLES[self.swizzle]
        row = self.box[-1] * self.array.itemsize
        if width and row > width:
            raise ValueError(
                f"the box has {row} bytes along its last axis; swizzle {self.swizzle} allows "
                f"{width} at most, {width // self.array.itemsize} elements of {self.array.dtype}"
            )
        if self.fill not in ("zero", "nan"):
            raise ValueError(f"fill is {self.fill!r}, it must be zero or nan")
        if self.fill == "nan" and self.array.dtype.kind != "f":
            raise ValueError(f"fill is nan and the array {self.array.dtype}: only floats have NaN")

    @property
    def bytes(self) -> int:
        """Of the box; each load completes as many, also where parts of it are outside."""
        return prod(self.box) * self.array.itemsize

    @property
    def shared_bytes(self) -> int:
        """From the first to the last row of the box in shared memory."""
        return prod(self.box[:-1]) * self._pitch

    @cached_property
    def begin(self) -> int:
        """Where the array begins in its memory, in bytes; that begins at a multiple of a sector."""
        owner = _owner(self.array).__array_interface__["data"][0]
        return self.array.__array_interface__["data"][0] - owner

    @property
    def _pitch(self) -> int:
        row = self.box[-1] * self.array.itemsize
        width, _ = SWIZZLES[self.swizzle]
        return width or row

    def places(self, begin: np.ndarray) -> np.ndarray:
        """(n, units): where each unit of a box goes that begins at byte `begin` (n,)."""
        rows = np.arange(0, self.shared_bytes, self._pitch)[:, None]
        units = np.arange(0, self.box[-1] * self.array.itemsize, UNIT)
        straight = begin[:, None] + (rows + units).reshape(-1)
        _, bits = SWIZZLES[self.swizzle]
        return straight ^ ((straight >> 3) & bits)

    def read(self, corners: np.ndarray) -> np.ndarray:
        """Boxes as units of 16 bytes (n, units).

        `corners`: int64 (n, axes), in the array's order; the last one is at the start of a unit.
        """
        found = np.empty((len(corners), self.bytes // UNIT), MOVED)
        for rows, elements, where, inside in self._pieces(corners, self._elements):
            size = elements.shape
            taken = elements[tuple(np.clip(i, 0, n - 1) for i, n in zip(where, size, strict=True))]
            if not inside.all():
                taken = np.where(inside, taken, self._filling(elements.dtype))
            found[rows] = taken.reshape(len(taken), -1).view(MOVED)
        return found

    def write(self, corners: np.ndarray, units: np.ndarray) -> None:
        """The reverse of `read`; units outside the array are dropped."""
        for rows, elements, where, inside in self._pieces(corners, self._whole_units):
            *where, inside = np.broadcast_arrays(*where, inside)
            given = np.ascontiguousarray(units[rows]).view(elements.dtype).reshape(inside.shape)
            elements[tuple(i[inside] for i in where)] = given[inside]

    def reduce(self, corners: np.ndarray, units: np.ndarray, operation, dtype: np.dtype) -> None:
        """As `write`, of what the operation gives for the old elements and the new ones."""
        for row in range(len(corners)):  # boxes may overlap
            here = slice(row, row + 1)
            old, new = (np.ascontiguousarray(v).view(dtype) for v in
                        (self.read(corners[here]), units[here]))  # fmt: skip
            self.write(corners[here], operation.change(old, new).view(MOVED))

    @cached_property
    def _elements(self) -> np.ndarray:
        return self.array.view(f"u{self.array.itemsize}")

    @cached_property
    def _whole_units(self) -> np.ndarray:
        """The elements, with those that a row shares its last unit with, if there is memory."""
        elements, per_unit = self._elements, UNIT // self.array.itemsize
        more = -elements.shape[-1] % per_unit
        _, end = np.lib.array_utils.byte_bounds(elements)
        _, end_of_memory = np.lib.array_utils.byte_bounds(_owner(elements))
        if not more or end + more * elements.itemsize > end_of_memory:
            return elements
        shape = (*elements.shape[:-1], elements.shape[-1] + more)
        return np.lib.stride_tricks.as_strided(elements, shape, elements.strides)

    def _filling(self, dtype: np.dtype):
        if self.fill == "zero":
            return dtype.type(0)
        return np.full(UNIT // 2, NAN_BITS, np.uint16).view(dtype)[0]

    def _pieces(self, corners, elements):
        """For some of the boxes at a time: which, the elements, their indices, who is inside.

        Where each row is made of whole units, these are the elements.
        """
        box, per_unit = self.box, UNIT // self.array.itemsize
        if elements.shape[-1] % per_unit == 0:
            elements, box = elements.view(MOVED), (*box[:-1], box[-1] // per_unit)
            corners = np.concatenate([corners[:, :-1], corners[:, -1:] // per_unit], axis=1)
        step = max(1, PIECE // prod(box))
        for start in range(0, len(corners), step):
            rows = slice(start, start + step)
            where, inside = [], np.bool_(True)
            for axis, length in enumerate(box):
                shape = [-1 if other == axis else 1 for other in range(len(box))]
                corner = corners[rows, axis].reshape(-1, *[1] * len(box))
                index = corner + np.arange(length).reshape(shape)
                where.append(index)
                inside = inside & (index >= 0) & (index < elements.shape[axis])
            yield rows, elements, where, inside


@dataclass(frozen=True, eq=False)
class TensorMaps:
    """Tensor maps one after the other in global memory, for a parameter that is a pointer.

    Only copies by tensor map can read them: they are no bytes that a kernel could load or change.
    """

    maps: Sequence[TensorMap]

    def __post_init__(self):
        for one in self.maps:
            if not isinstance(one, TensorMap):
                raise ValueError(f"an array of tensor maps has a {type(one).__name__} in it")


@dataclass
class MapInUse:
    """A tensor map as an argument of a launch, under the name of the kernel's parameter.

    `buffer`: the array of global memory that it lies in, if that is an argument too; `unwritten`: a
    map of flags, alike, of what nobody has written there. `written`: whether a kernel has stored
    through it.
    """

    name: str
    map: TensorMap
    buffer: object = None
    unwritten: TensorMap | None = None
    written: bool = False

    def has_written(self) -> bool:
        return self.written or (self.buffer is not None and self.buffer.written)

    def store(self, corners, units, reduction=None) -> None:
        """`reduction`: (atomics.Operation, dtype) of what is done with each element there."""
        self.written = True
        if self.buffer is not None:
            self.buffer.written = True
        if reduction is None:
            self.map.write(corners, units)
        else:
            self.map.reduce(corners, units, *reduction)
        if self.unwritten is not None:
            self.unwritten.write(corners, np.zeros_like(units))


def within(view: np.ndarray, whole: np.ndarray, other: np.ndarray) -> np.ndarray | None:
    """The elements of `other` that `view` has of `whole`; None if it is no part of it.

    `other` has the bytes of `whole`, and is C-contiguous like it.
    """
    low, high = np.lib.array_utils.byte_bounds(view)
    begin, end = np.lib.array_utils.byte_bounds(whole)
    if not begin <= low <= high <= end:
        return None
    offset = view.__array_interface__["data"][0] - begin
    return np.ndarray(view.shape, view.dtype, other.reshape(-1).view("u1"), offset, view.strides)


def _owner(array: np.ndarray) -> np.ndarray:
    """The array that has the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _check_array(array) -> None:
    if not isinstance(array, np.ndarray):
        raise ValueError(f"a tensor map is of a NumPy array, not of {type(array).__name__}")
    if array.dtype.name not in DTYPES:
        raise ValueError(
            f"a tensor map of {array.dtype} cannot be made; there are {', '.join(DTYPES)}: "
            "array.view(…) gives the same bytes as one of them"
        )
    if not 1 <= array.ndim <= MOST_AXES:
        raise ValueError(f"the array has {array.ndim} axes, it must have 1 to {MOST_AXES}")
    if not all(1 <= n <= MOST_OF_AXIS for n in array.shape):
        raise ValueError(f"the array's shape is {array.shape}: each axis has 1 to 2**32 elements")
    if not array.flags.writeable:
        raise ValueError("the array is read-only: pass a copy")
    if array.shape[-1] > 1 and array.strides[-1] != array.itemsize:
        raise ValueError(
            f"the array's last axis is not contiguous: its elements are {array.strides[-1]} bytes "
            f"apart, they must be {array.itemsize}; pass np.ascontiguousarray(array)"
        )
    for axis, stride in enumerate(array.strides[:-1]):
        if stride % UNIT or not 0 < stride < MOST_STRIDE:
            raise ValueError(
                f"the array's stride along axis {axis} is {stride} bytes, it must be a positive "
                f"multiple of {UNIT} below 2**40: pad the last axis, {array.shape[-1]} elements, "
                f"to a multiple of {UNIT // array.itemsize}"
            )
    owner = _owner(array)
    begin = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    if begin % UNIT:
        raise ValueError(
            f"the array begins {begin} bytes into its memory, it must be a multiple of {UNIT}"
        )


def _check_box(array: np.ndarray, box: tuple[int, ...]) -> None:
    if len(box) != array.ndim:
        raise ValueError(f"the box {box} has {len(box)} axes, the array has {array.ndim}")
    for axis, length in enumerate(box):
        if not 1 <= length <= MOST_OF_BOX:
            raise ValueError(
                f"the box {box} has {length} elements along axis {axis}, it must be 1 to "
                f"{MOST_OF_BOX}"
            )
    row = box[-1] * array.itemsize
    if prod(box) * array.itemsize > MOST_BYTES:
        raise ValueError(
            f"the box {box} has {prod(box) * array.itemsize} bytes, and a block {MOST_BYTES} of "
            "shared memory at most"
        )
    if row % UNIT:
        raise ValueError(
            f"the box {box} has {row} bytes along its last axis, it must be a multiple of {UNIT}: "
            f"of {UNIT // array.itemsize} elements of {array.dtype}"
        )
