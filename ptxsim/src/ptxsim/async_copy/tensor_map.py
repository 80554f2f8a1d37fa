"""Tensor maps: how a copy finds a box of an array in global memory, and lays it into shared memory.

On a GPU a tensor map is an opaque structure of 128 bytes that cuTensorMapEncodeTiled makes. Here it
is an argument of `launch`, for the same parameter of the kernel. What it does is as recorded on an
NVIDIA H200.

The box lies in shared memory row by row (a row is along the last axis), without gaps, but that a
row takes as many bytes as the swizzle's name says. The swizzle exchanges units of 16 bytes: it
works on the bits of the address itself, so that it does not depend on where the box begins. A load
fills single elements outside the array; a store writes whole units, also where a row ends in one.

Elements of 4 and 6 bits follow the manuals alone (CUDA 13.0, "cuTensorMapEncodeTiled"; PTX ISA,
"Sub-byte types" and "Restrictions on tensor copy instructions"): 16 of them are 8 or 12 bytes in
global memory, and as many or a unit in shared memory. That an mbarrier is told of their bytes
without the padding is what CUTLASS and DeepGEMM expect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from ptxsim.memory.global_memory import Buffer, GlobalMemory, poison

UNIT = 16  # bytes: a swizzle moves as many at a time, and strides are multiples of it
MOVED = np.dtype("c16")  # NumPy has no wider integer; complex numbers move as they are
MOST_AXES, MOST_OF_BOX = 5, 256
MOST_OF_AXIS, MOST_STRIDE = 2**32, 2**40  # elements, bytes
MAP_BYTES, MAP_ALIGNMENT = 128, 64  # of the kernel's parameter
# What the elements are -> PTX's number, and NumPy's type of the array. For most that is the name.
ELEMENTS = {
    "uint8": (0, "uint8"), "uint16": (1, "uint16"), "uint32": (2, "uint32"), "int32": (3, "int32"),
    "uint64": (4, "uint64"), "int64": (5, "int64"), "float16": (6, "float16"),
    "float32": (7, "float32"), "float32_ftz": (8, "float32"), "float64": (9, "float64"),
    "bfloat16": (10, "uint16"), "tf32": (11, "float32"), "tf32_ftz": (12, "float32"),
    "b4x16": (13, "uint8"), "b4x16_p64": (14, "uint8"), "b6x16_p32": (15, "uint8"),
}  # fmt: skip
PACKED = {"b4x16": 8, "b4x16_p64": 8, "b6x16_p32": 12}  # bytes of 16 elements in global memory
PADDED = ("b4x16_p64", "b6x16_p32")  # to a unit of shared memory
PADDED_ROW, PADDED_ALIGNMENT = 128, 32  # elements of a box; bytes, of the array and its strides
# Types of ml_dtypes that are no names here; those of one byte are moved as uint8.
BFLOAT16, FLOAT8 = "bfloat16", "float8"
ROUNDED = ("tf32", "tf32_ftz")  # by loads; a store moves them as they are
ROUNDED_NAN = 0x7FFFE000
DTYPES = tuple(dict.fromkeys(dtype for _, dtype in ELEMENTS.values()))
MOST_STEP = 8  # of element_strides
# Swizzle -> the bytes from one row to the next, also the most that a row may have, and the bits of
# an address that are exchanged: each of them by the bit three places further up.
SWIZZLES = {"none": (None, 0), "32B": (32, 0x10), "64B": (64, 0x30), "128B": (128, 0x70)}
NAN_BITS = 0x7FF7  # every 16 bits of a NaN that fills
MOST_BYTES = 227 * 1024  # of a box: the shared memory of a block
PIECE = 1 << 20  # elements that are looked up together


def bytes_of_16(element: str) -> int:
    """Of 16 elements, one of ELEMENTS, in global memory."""
    return PACKED.get(element, 16 * np.dtype(ELEMENTS[element][1]).itemsize)


@dataclass(frozen=True, eq=False)
class TensorMap:
    """A box of `array`, for a parameter `const __grid_constant__` of 128 bytes, aligned to 64.

    `array`: NumPy, 1 to 5 axes, of which the last is contiguous; a view will do, and bfloat16 and
    float8 of ml_dtypes, which become views of their bits. `box`: elements
    along each axis, in the order of the array's axes; cuTensorMapEncodeTiled, and the coordinates
    in the kernel, have the reverse order, last axis first. `swizzle`: "none", "32B", "64B" or
    "128B". `fill`: what is loaded from outside the array, "zero", or for floats "nan". `element`:
    what the elements are, where that is not the array's type: one of ELEMENTS, such as "bfloat16"
    for uint16. Those of 4 and 6 bits have PTX's names: "b4x16", "b4x16_p64" and "b6x16_p32" are
    CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B, 16U4_ALIGN16B and 16U6_ALIGN16B; `array` is uint8, packed
    along the last axis with the first element in the low bits, and `box` and the kernel's
    coordinates count elements. `element_strides`: of each axis, in its order, every how many
    elements are taken of the box; 1 along the last one.

    Raises ValueError, with cuTensorMapEncodeTiled's rules: the array begins at a multiple of 16
    bytes, and so do its rows; a box has 1 to 256 elements along each axis, along the last one a
    multiple of 16 bytes, no more of them than the swizzle's name says; it fits into shared memory.
    Of padded elements, the array and its strides are multiples of 32 bytes, its last axis is a
    multiple of 128 elements, and a box has 128; the swizzle is "none" or "128B".
    """

    array: np.ndarray
    box: Sequence[int]
    swizzle: str = field(default="none", kw_only=True)
    fill: str = field(default="zero", kw_only=True)
    element: str = field(default="", kw_only=True)
    element_strides: Sequence[int] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "box", tuple(int(n) for n in self.box))
        array, element = _with_own_type(self.array)
        object.__setattr__(self, "array", array)
        object.__setattr__(self, "element", self.element or element)
        _check_array(self.array, PADDED_ALIGNMENT if self.is_padded else UNIT)
        steps = tuple(int(n) for n in self.element_strides) or (1,) * self.array.ndim
        object.__setattr__(self, "element_strides", steps)
        _check_element(self.array, self.element)
        _check_box(self)
        _check_steps(self.box, steps)
        if self.is_padded:
            _check_padded(self)
        if self.swizzle not in SWIZZLES:
            raise ValueError(
                f"swizzle is {self.swizzle!r}, it must be one of {', '.join(SWIZZLES)}"
            )
        width, _ = SWIZZLES[self.swizzle]
        if width and self._row > width:
            raise ValueError(
                f"the box has {self._row} bytes along its last axis; swizzle {self.swizzle} allows "
                f"{width} at most, {self.box[-1] * width // self._row} elements of {self.element}"
            )
        if self.fill not in ("zero", "nan"):
            raise ValueError(f"fill is {self.fill!r}, it must be zero or nan")
        if self.fill == "nan" and "float" not in self.element and "tf32" not in self.element:
            raise ValueError(f"fill is nan and the array {self.array.dtype}: only floats have NaN")

    @property
    def is_padded(self) -> bool:
        return self.element in PADDED

    @property
    def coordinate_step(self) -> int:
        """The first coordinate of a copy, that of the last axis, is a multiple of it."""
        return PADDED_ROW if self.is_padded else 16 * UNIT // bytes_of_16(self.element)

    def columns(self, elements: Any) -> Any:
        """How many of the array's elements are so many of the map's, along the last axis."""
        return elements * bytes_of_16(self.element) // (16 * self.array.itemsize)

    @cached_property
    def landing(self) -> tuple[int, ...]:
        """Elements of the array along each axis that a copy brings or takes."""
        box = (*self.box[:-1], self.columns(self.box[-1]))
        return tuple(-(-n // step) for n, step in zip(box, self.element_strides, strict=True))

    @property
    def bytes(self) -> int:
        """Of the box, without padding; each load completes as many, also where it is outside."""
        return prod(self.landing) * self.array.itemsize

    @property
    def shared_bytes(self) -> int:
        """From the first to the last row of the box in shared memory."""
        return prod(self.landing[:-1]) * self._pitch

    @cached_property
    def begin(self) -> int:
        """Where the array begins in its memory, in bytes; that begins at a multiple of a sector."""
        owner = _owner(self.array).__array_interface__["data"][0]
        return self.array.__array_interface__["data"][0] - owner

    @property
    def _row(self) -> int:
        """Bytes of a row of the box in shared memory."""
        return self.box[-1] * (16 if self.is_padded else bytes_of_16(self.element)) // 16

    @property
    def _pitch(self) -> int:
        width, _ = SWIZZLES[self.swizzle]
        return width or self._row

    def places(self, begin: np.ndarray) -> np.ndarray:
        """(n, units): where each unit of a box goes that begins at byte `begin` (n,)."""
        rows = np.arange(0, self.shared_bytes, self._pitch)[:, None]
        units = np.arange(0, self._row, UNIT)
        straight = begin[:, None] + (rows + units).reshape(-1)
        _, bits = SWIZZLES[self.swizzle]
        return straight ^ ((straight >> 3) & bits)

    def read(self, corners: np.ndarray) -> np.ndarray:
        """Boxes as units of 16 bytes (n, units). `corners`: int64 (n, axes), as in the array.

        What pads elements of 4 or 6 bits is undefined: here it is poison.
        """
        boxes = self.read_packed(corners)
        if not self.is_padded:
            return boxes
        packed, count = PACKED[self.element], self.shared_bytes // UNIT
        units = np.full((len(corners), count, UNIT), poison(np.dtype("u1")))
        units[..., :packed] = boxes.view(np.uint8).reshape(len(corners), count, packed)
        return units.reshape(len(corners), -1).view(MOVED)

    def read_packed(self, corners: np.ndarray) -> np.ndarray:
        """As `read`, without padding."""
        boxes = np.empty((len(corners), self.bytes // UNIT), MOVED)
        for rows, elements, where, inside in self._pieces(corners, self._elements):
            size = elements.shape
            taken = elements[tuple(np.clip(i, 0, n - 1) for i, n in zip(where, size, strict=True))]
            if self.element in ROUNDED:
                taken = _rounded(taken)
            if not inside.all():
                taken = np.where(inside, taken, self._filling(elements.dtype))
            boxes[rows] = taken.reshape(len(taken), -1).view(MOVED)
        return boxes

    def write(self, corners: np.ndarray, units: np.ndarray) -> None:
        if self.is_padded:  # 6 bits in each byte: .b6p2x16 (".b4x16_p64" cannot be stored)
            bits = np.unpackbits(units.view(np.uint8)[..., None], axis=-1, bitorder="little")
            packed = np.packbits(bits[..., :6].reshape(len(units), -1), axis=1, bitorder="little")
            units = packed.view(MOVED)
        for rows, elements, where, inside in self._pieces(corners, self._whole_units):
            *where, inside = np.broadcast_arrays(*where, inside)
            given = np.ascontiguousarray(units[rows]).view(elements.dtype).reshape(inside.shape)
            elements[tuple(i[inside] for i in where)] = given[inside]

    def reduce(
        self, corners: np.ndarray, units: np.ndarray, operation: Any, dtype: np.dtype
    ) -> None:
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

    def _filling(self, dtype: np.dtype) -> np.generic:
        if self.fill == "zero":
            return dtype.type(0)
        return np.full(UNIT // 2, NAN_BITS, np.uint16).view(dtype)[0]

    def _pieces(self, corners: np.ndarray, elements: np.ndarray) -> Iterator[tuple]:
        """Of some boxes: which, the elements or whole units, their indices, who is inside."""
        box, per_unit = self.landing, UNIT // self.array.itemsize
        columns = self.columns(corners[:, -1:])
        if elements.shape[-1] % per_unit == 0:
            elements, box = elements.view(MOVED), (*box[:-1], box[-1] // per_unit)
            columns = columns // per_unit
        corners = np.concatenate([corners[:, :-1], columns], axis=1)
        step = max(1, PIECE // prod(box))
        for start in range(0, len(corners), step):
            rows = slice(start, start + step)
            where, inside = [], np.bool_(True)
            for axis, length in enumerate(box):
                shape = [-1 if other == axis else 1 for other in range(len(box))]
                corner = corners[rows, axis].reshape(-1, *[1] * len(box))
                index = corner + np.arange(length).reshape(shape) * self.element_strides[axis]
                where.append(index)
                inside = inside & (index >= 0) & (index < elements.shape[axis])
            yield rows, elements, where, inside


@dataclass(frozen=True, eq=False)
class TensorMaps:
    """Tensor maps one after the other in global memory, for a parameter that is a pointer."""

    maps: Sequence[TensorMap]

    def __post_init__(self) -> None:
        for element in self.maps:
            if not isinstance(element, TensorMap):
                raise ValueError(f"an array of tensor maps has a {type(element).__name__} in it")


@dataclass
class MapInUse:
    """A tensor map as an argument of a launch, under the name of the kernel's parameter."""

    name: str
    map: TensorMap
    buffer: Buffer  # of global memory, which has the array
    begin: int  # the address of the array
    data: bytes  # of the map itself
    unwritten: TensorMap | None = None  # flags, alike, of what nobody has written

    def look_for_unwritten(self, memory: GlobalMemory) -> None:
        if self.buffer.base in memory.unwritten:
            array, flags = self.map.array, memory.unwritten[self.buffer.base].view("u1")
            flags = np.ndarray(array.shape, f"u{array.itemsize}", flags,
                               self.begin - self.buffer.base, array.strides)  # fmt: skip
            element = self.map.element if self.map.element in PACKED else ""
            self.unwritten = replace(self.map, array=flags, element=element, fill="zero")

    def addresses(self, corners: np.ndarray) -> Iterator[tuple]:
        """Of boxes (n, axes): which, the addresses of their pieces (n, pieces), which of these are
        inside the array, and the bytes of a piece."""
        for rows, elements, where, inside in self.map._pieces(corners, self.map._elements):
            offsets = sum(i * step for i, step in zip(where, elements.strides, strict=True))
            count = len(corners[rows])
            places = (self.begin + offsets).reshape(count, -1)
            yield rows, places, inside.reshape(count, -1), elements.itemsize

    def store(self, corners: np.ndarray, units: np.ndarray, reduction: tuple | None = None) -> None:
        self.buffer.written = True
        if reduction is None:
            self.map.write(corners, units)
        else:
            self.map.reduce(corners, units, *reduction)
        if self.unwritten is not None:
            self.unwritten.write(corners, np.zeros_like(units))


def whole_memory(array: np.ndarray) -> tuple[np.ndarray, int]:
    """(the bytes of all the memory that a view is of, where the view begins in it)."""
    owner = _owner(array)
    low, high = np.lib.array_utils.byte_bounds(owner)
    raw = np.ndarray(high - low, "u1", owner.T if owner.flags.f_contiguous else owner)
    return raw, array.__array_interface__["data"][0] - low


def place_within(view: np.ndarray, whole: np.ndarray) -> int | None:
    """The byte of `whole` at which `view` begins; None if it is no part of it."""
    low, high = np.lib.array_utils.byte_bounds(view)
    begin, end = np.lib.array_utils.byte_bounds(whole)
    if not begin <= low <= high <= end:
        return None
    return view.__array_interface__["data"][0] - begin


def _rounded(elements: np.ndarray) -> np.ndarray:
    words = np.ascontiguousarray(elements).view(np.uint32)
    near = words.astype(np.uint64) + 0xFFF + (words >> 13 & 1) & 0xFFFFE000
    near = np.where(np.isnan(words.view(np.float32)), ROUNDED_NAN, near)
    return near.astype(np.uint32).view(elements.dtype)


def _owner(array: np.ndarray) -> np.ndarray:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _with_own_type(array: np.ndarray) -> tuple[np.ndarray, str]:
    if not isinstance(array, np.ndarray):
        raise ValueError(f"a tensor map is of a NumPy array, not of {type(array).__name__}")
    name = array.dtype.name
    if name == BFLOAT16:
        return array.view(np.uint16), name
    if name.startswith(FLOAT8):
        return array.view(np.uint8), "uint8"
    return array, name


def _check_array(array: np.ndarray, alignment: int) -> None:
    if not array.dtype.isnative:
        raise ValueError(
            f"the array is of {array.dtype.str}, whose bytes are in the order of another machine: "
            'pass array.astype(array.dtype.newbyteorder("="))'
        )
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
        if stride % alignment or not 0 < stride < MOST_STRIDE:
            raise ValueError(
                f"the array's stride along axis {axis} is {stride} bytes, it must be a positive "
                f"multiple of {alignment} below 2**40: pad the last axis, {array.shape[-1]} "
                f"elements, to a multiple of {alignment // array.itemsize}"
            )
    owner = _owner(array)
    begin = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    if begin % alignment:
        raise ValueError(
            f"the array begins {begin} bytes into its memory, it must be a multiple of {alignment}"
        )


def _check_padded(padded: TensorMap) -> None:
    """As cuTensorMapEncodeTiled does for 16U4_ALIGN16B and 16U6_ALIGN16B."""
    length, row, box = padded.array.shape[-1], padded.columns(PADDED_ROW), padded.box[-1]
    for wrong, what in (
        (length % row, f"the array has {length} bytes along its last axis, it must be a multiple "
                       f"of {row}, {PADDED_ROW} elements"),
        (box != PADDED_ROW, f"the box has {box} elements along its last axis, it must be "
                            f"{PADDED_ROW}"),
        (padded.swizzle not in ("none", "128B"), f"swizzle is {padded.swizzle!r}, it must be none "
                                                 "or 128B"),
    ):  # fmt: skip
        if wrong:
            raise ValueError(f"of elements {padded.element}, {what}")


def _check_element(array: np.ndarray, element: str) -> None:
    if element not in ELEMENTS or ELEMENTS[element][1] != array.dtype.name:
        fits = [name for name, (_, dtype) in ELEMENTS.items() if dtype == array.dtype.name]
        raise ValueError(
            f"element is {element!r}; of an array of {array.dtype} it is one of {', '.join(fits)}"
        )


def _check_steps(box: Sequence[int], steps: Sequence[int]) -> None:
    if len(steps) != len(box) or not all(1 <= n <= MOST_STEP for n in steps):
        raise ValueError(
            f"element_strides are {steps}, there must be {len(box)} of 1 to {MOST_STEP}"
        )
    if steps[-1] != 1:
        raise ValueError(f"element_strides are {steps}: along the last axis the GPU takes all")


def _check_box(map: TensorMap) -> None:
    array, box, row = map.array, map.box, map._row
    if len(box) != array.ndim:
        raise ValueError(f"the box {box} has {len(box)} axes, the array has {array.ndim}")
    for axis, length in enumerate(box):
        if not 1 <= length <= MOST_OF_BOX:
            raise ValueError(
                f"the box {box} has {length} elements along axis {axis}, it must be 1 to "
                f"{MOST_OF_BOX}"
            )
    if prod(box[:-1]) * row > MOST_BYTES:
        raise ValueError(
            f"the box {box} has {prod(box[:-1]) * row} bytes, and a block {MOST_BYTES} of "
            "shared memory at most"
        )
    if row % UNIT:
        raise ValueError(
            f"the box {box} has {row} bytes along its last axis, it must be a multiple of {UNIT}: "
            f"of {map.coordinate_step} elements of {map.element}"
        )
