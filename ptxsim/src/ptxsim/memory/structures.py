"""Arguments of a kernel besides arrays and scalars: structures by value, arrays of addresses."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxsim.async_copy.tensor_map import MAP_ALIGNMENT, MAP_BYTES, TensorMap
from ptxsim.textures import Image

if TYPE_CHECKING:  # it takes time to load
    import numpy.typing as npt

POINTER_BYTES = 8


class Structure:
    """A structure by value, for `args` of a launch: its members in the order of its declaration.

    A member is an array or a Part, for a pointer to it, or None for a null pointer; a NumPy scalar
    (np.int32(4), np.float16(0.5), one of a structured dtype), bytes as they are, a TensorMap, a
    Texture, a Surface, or another Structure. Each begins at a multiple of its size, as C++ has it;
    a member that is an array of the structure itself is given element by element: Structure(a,
    np.int64(a.size), *np.array(a.shape)). Arrays are changed in place.

    Raises TypeError for a member of another type, such as a Python number, whose size is not known.
    """

    def __init__(self, *members: Any) -> None:
        self.members = members
        self._places: list[int] = []
        end, self.alignment = 0, 1
        for number, member in enumerate(members):
            size, alignment = _size(member, number)
            begin = -(-end // alignment) * alignment
            self._places.append(begin)
            end, self.alignment = begin + size, max(self.alignment, alignment)
        self.size = -(-end // self.alignment) * self.alignment

    def __repr__(self) -> str:
        return f"Structure of {self.size} bytes"

    def arrays(self) -> list:
        """The members that are arrays, of inner structures too, as they were given."""
        arrays = []
        for member in self.members:
            if isinstance(member, Structure):
                arrays += member.arrays()
            elif _array(member) is not None:
                arrays.append(member)
        return arrays

    def maps(self) -> dict[int, TensorMap]:
        """The tensor maps, of inner structures too, by the byte at which they begin."""
        maps: dict[int, TensorMap] = {}
        for member, begin in zip(self.members, self._places, strict=True):
            if isinstance(member, TensorMap):
                maps[begin] = member
            elif isinstance(member, Structure):
                maps |= {begin + place: inner for place, inner in member.maps().items()}
        return maps

    def packed(self, pointers: Iterator[int]) -> bytes:
        """The bytes of the structure; `pointers`: the addresses of its arrays, in their order.

        Those of tensor maps are zeros.
        """
        data = bytearray(self.size)
        for member, begin in zip(self.members, self._places, strict=True):
            if isinstance(member, Structure):
                part = member.packed(pointers)
            elif _array(member) is not None:
                offset = member.offset() if isinstance(member, Part) else 0
                part = (int(next(pointers)) + offset).to_bytes(POINTER_BYTES, "little")
            elif member is None:
                part = bytes(POINTER_BYTES)
            else:
                part = b"" if isinstance(member, TensorMap) else as_bytes(member) or b""
            data[begin : begin + len(part)] = part
        return bytes(data)


class Pointers:
    """An array of addresses in global memory, for `args` of a launch: pointers into one array.

    `array`: the array, perhaps marked as read only or uninitialised; `starts`: integers, the index
    of the element to which each address points.
    """

    def __init__(self, array: Any, starts: npt.ArrayLike) -> None:
        self.array, self.starts = array, np.asarray(starts, np.int64)

    def packed(self, address: int) -> bytes:
        """The addresses, where that of the array is `address`."""
        return (self.starts * _itemsize(self) + address).astype(np.uint64).tobytes()


class Part:
    """A pointer to an element of an array, for `args` of a launch.

    `array`: perhaps marked as read only or uninitialised; `start`: the index of the element.
    """

    def __init__(self, array: Any, start: int) -> None:
        self.array, self.start = array, int(start)

    def offset(self) -> int:
        """Bytes from the beginning of the array."""
        return self.start * _itemsize(self)


def as_bytes(value: object) -> bytes | None:
    """The bytes of something that has a size of its own; None for others."""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, Image):
        return np.uint64(value.handle).tobytes()
    return value.tobytes() if isinstance(value, np.generic) else None


def _array(member: Any) -> np.ndarray | None:
    if isinstance(member, (TensorMap, Image)):
        return None
    while hasattr(member, "array"):  # of one that is marked, as read only for example
        member = member.array
    return member if isinstance(member, np.ndarray) else None


def _itemsize(pointer: Part | Pointers) -> int:
    array = _array(pointer)
    if array is None:
        raise TypeError(
            f"a {type(pointer).__name__} is of a NumPy array, not {reprlib.repr(pointer.array)}"
        )
    return array.itemsize


def _size(member: Any, number: int) -> tuple[int, int]:
    """Size and alignment in bytes."""
    if isinstance(member, Structure):
        return member.size, member.alignment
    if isinstance(member, TensorMap):
        return MAP_BYTES, MAP_ALIGNMENT
    if member is None or isinstance(member, Image) or _array(member) is not None:
        return POINTER_BYTES, POINTER_BYTES
    data = as_bytes(member)
    if data is None:
        raise TypeError(
            f"member {number} of a Structure is {reprlib.repr(member)}, whose size is not known: "
            "an array, None, a NumPy scalar such as np.int32(4), bytes, a TensorMap, a Texture, a "
            "Surface or another Structure is needed"
        )
    if isinstance(member, np.void):
        return len(data), member.dtype.alignment
    return len(data), len(data) if isinstance(member, np.generic) else 1
