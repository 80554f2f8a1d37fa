"""The 128 bytes of a tensor map, and what kernels do to them: tensormap.replace and cp_fenceproxy.

The fields stand where an NVIDIA H200 has them: there, tensormap.replace is loads and stores of the
words that a field is in, and here too. A map that a kernel makes or changes is read from its bytes
when a copy uses it; its address says which array of global memory it is of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ptxsim.async_copy import tensor_map
from ptxsim.async_copy.tensor_map import ELEMENTS, MAP_BYTES, MOST_AXES, MapInUse, TensorMap
from ptxsim.limits import LaunchError
from ptxsim.memory.global_memory import Buffer, GlobalMemory
from ptxsim.tensor_cores.mma import check_whole_warps

WORD = np.dtype("u4")


@dataclass(frozen=True)
class Part:
    """`bits` bits of a field's value, from bit `of` on, stand in a word from bit `at` on."""

    word: int
    at: int = 0
    bits: int = 32
    of: int = 0

    @property
    def mask(self) -> int:
        return (1 << self.bits) - 1


@dataclass(frozen=True)
class Field:
    """Where a field stands, by its ordinal. What stands there is the value less `less`."""

    parts: tuple[tuple[Part, ...], ...]
    less: int = 0


AXES = range(MOST_AXES)
FIELDS = {
    "global_address": Field(((Part(0), Part(1, of=32)),)),
    "rank": Field(((Part(2, 4, 3),),)),
    "elemtype": Field(((Part(2, 7, 4), Part(2, 16, 1, 4)),)),
    "interleave_layout": Field(((Part(2, 11, 2),),)),
    "swizzle_mode": Field(((Part(2, 13, 2), Part(2, 22, 1, 2)),)),
    "fill_mode": Field(((Part(2, 15, 1),),)),
    "global_stride": Field(
        tuple((Part(3 + i, of=4), Part(7, 4 * i, 4, 36)) for i in AXES[:-1])
    ),
    "global_dim": Field(tuple((Part(8 + i),) for i in AXES), less=1),
    "element_stride": Field(tuple((Part(13, 3 * i, 3),) for i in AXES), less=1),
    "box_dim": Field(
        ((Part(13, 24, 8),), *((Part(14, 8 * i, 8),) for i in AXES[:-1])), less=1
    ),
}  # fmt: skip
# elemtype -> what stands there: the rounded types are float32 with a bit of their own. Those of 4
# and 6 bits are as ptxas 13.0 writes them for sm_100a.
STANDS_FOR = {11: 7 | 16, 12: 8 | 16, 13: 11, 14: 12, 15: 13}
MODES = tuple(tensor_map.SWIZZLES)
FILLS = ("zero", "nan")


def standing(field: str, value: int) -> int:
    """What stands in a map for a value of the field."""
    return STANDS_FOR.get(value, value) if field == "elemtype" else value - FIELDS[field].less


def encode(map: TensorMap, address: int) -> bytes:
    words, array = np.zeros(MAP_BYTES // WORD.itemsize, WORD), map.array

    def put(field: str, value: int, ordinal: int = 0) -> None:
        value = standing(field, value)
        for part in FIELDS[field].parts[ordinal]:
            words[part.word] |= WORD.type((value >> part.of & part.mask) << part.at)

    put("global_address", address)
    put("rank", array.ndim - 1)
    put("elemtype", ELEMENTS[map.element][0])
    put("swizzle_mode", MODES.index(map.swizzle))
    put("fill_mode", FILLS.index(map.fill))
    shape = (*array.shape[:-1], array.shape[-1] * map.box[-1] // map.landing[-1])
    for ordinal, (dim, box, step) in enumerate(
        zip(shape[::-1], map.box[::-1], map.element_strides[::-1], strict=True)
    ):
        put("global_dim", dim, ordinal)
        put("box_dim", box, ordinal)
        put("element_stride", step, ordinal)
    for ordinal, stride in enumerate(array.strides[-2::-1]):
        put("global_stride", stride, ordinal)
    return words.tobytes()


def decode(data: bytes, memory: GlobalMemory, name: str) -> MapInUse:
    """The map of these bytes. Raises as `decoded` does."""
    begin = int.from_bytes(data[:8], "little")
    made = decoded(data, name, lambda *array: seen_at(memory, *array)[0])
    buffer = memory.buffer_at(begin)
    assert buffer is not None
    return MapInUse(name, made, buffer, begin, data)


def decoded(data: bytes, name: str, array_at: Callable[..., np.ndarray]) -> TensorMap:
    """The map of these bytes. `array_at`: gives the array of (address, shape, dtype, strides).

    Raises ValueError, or LaunchError for what only a GPU can use.
    """
    words = np.frombuffer(data, WORD)

    def get(field: str, ordinal: int = 0) -> int:
        parts = FIELDS[field].parts[ordinal]
        value = sum((int(words[p.word]) >> p.at & p.mask) << p.of for p in parts)
        return value + FIELDS[field].less

    if get("interleave_layout"):
        raise LaunchError(f"{name} has an interleaved layout, which the simulator does not know")
    number = next((n for n, v in STANDS_FOR.items() if v == get("elemtype")), get("elemtype"))
    element = next((e for e, (n, _) in ELEMENTS.items() if n == number), None)
    axes = get("rank") + 1
    if element is None or axes > MOST_AXES:
        raise ValueError(f"{axes} axes of elements of type {number}: there is no such tensor map")
    dtype = np.dtype(ELEMENTS[element][1])
    shape, box, steps = (
        tuple(get(field, i) for i in range(axes))[::-1]
        for field in ("global_dim", "box_dim", "element_stride")
    )
    outer = [get("global_stride", i) for i in range(axes - 1)]
    strides = (*outer[::-1], dtype.itemsize)
    columns = shape[-1] * tensor_map.bytes_of_16(element) // (16 * dtype.itemsize)
    return TensorMap(
        array_at(get("global_address"), (*shape[:-1], columns), dtype, strides), box,
        swizzle=MODES[get("swizzle_mode")], fill=FILLS[get("fill_mode")], element=element,
        element_strides=(*steps[:-1], 1),
    )  # fmt: skip


def seen_at(memory: GlobalMemory, begin: int, shape, dtype, strides) -> tuple[np.ndarray, Buffer]:
    """The elements at address `begin`, and whose they are. Raises ValueError if there are none."""
    buffer = memory.buffer_at(begin)
    if buffer is None:
        raise ValueError(f"its array is at address {begin:#x}, where no array is")
    offset = begin - buffer.base
    end = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + dtype.itemsize
    if not 0 <= offset <= end <= buffer.bytes:
        raise ValueError(
            f"its array of {shape} elements with strides of {strides} bytes is at bytes {offset} "
            f"to {end} of {buffer.name}, which has {buffer.bytes}"
        )
    return np.ndarray(shape, dtype, buffer.view(np.dtype("u1")), offset, strides), buffer


class MapsInMemory:
    """The tensor maps of a launch: those given as arguments, and those that kernels have made."""

    def __init__(self, given: dict[int, MapInUse], memory: GlobalMemory):
        self.given, self._memory = given, memory
        self._made: dict[bytes, MapInUse] = {}
        self.released = False  # whether any thread has made its changes known

    def values(self) -> list[MapInUse]:
        return [*self.given.values(), *self._made.values()]

    def bytes_at(self, address: int) -> bytes | None:
        buffer = self._memory.buffer_at(address)
        begin = address - buffer.base if buffer else 0
        if buffer is None or not 0 <= begin <= buffer.bytes - MAP_BYTES:
            return None
        return buffer.view(np.dtype("u1"))[begin : begin + MAP_BYTES].tobytes()

    def is_changed(self, address: int) -> bool:
        given = self.given.get(address)
        return given is None or self.bytes_at(address) != given.data

    def at(self, address: int) -> MapInUse:
        if not self.is_changed(address):
            return self.given[address]
        data = self.bytes_at(address)
        if data is None:
            raise ValueError(f"address {address:#x} is not that of a tensor map")
        if data not in self._made:
            before = self.given.get(address)
            buffer = self._memory.buffer_at(address)
            place = buffer.name if buffer else "memory"
            name = before.name if before else f"the tensor map in {place}"
            made = decode(data, self._memory, name)
            made.look_for_unwritten(self._memory)
            self._made[data] = made
        return self._made[data]


# --- what the translated blocks call --------------------------------------------------------------


def replace(lanes, index: int, space: str, address, field: str, ordinal: int, value, mask) -> None:
    """Each lane of `mask` gives a field of the map at its address a value, an int64."""
    address, value = np.asarray(address), np.asarray(value).astype(np.int64)
    parts = FIELDS[field].parts[ordinal]
    if field == "elemtype":
        value = np.int64(standing(field, int(value)))
        if value < 16:
            parts = parts[:1]  # the bit of the rounded types stays as it is
    else:
        value = value - np.int64(FIELDS[field].less)
    words: dict[int, list[Part]] = {}
    for part in parts:
        words.setdefault(part.word, []).append(part)
    for word, parts_of_word in words.items():
        where = address + address.dtype.type(WORD.itemsize * word)
        keep, new = WORD.type(0xFFFFFFFF), WORD.type(0)
        for part in parts_of_word:
            keep = keep & WORD.type(~(part.mask << part.at) & 0xFFFFFFFF)
            bits = (value >> np.int64(part.of)) & np.int64(part.mask)
            new = new | (bits << np.int64(part.at)).astype(WORD)
        if keep:
            (old,) = lanes.load(index, space, where, WORD, 1, mask)
            new = new | (old & keep)
        lanes.store(index, space, where, [new], WORD, mask)


def copy_to_global(lanes, index: int, target, source, mask) -> None:
    """The lanes of a warp copy a map from shared to global memory, a word each."""
    check_whole_warps(lanes, index, mask)
    shift = lanes.special["laneid"].astype(np.int64) * WORD.itemsize
    (word,) = lanes.load(index, "shared", source + shift.astype(np.int32), WORD, 1, mask)
    lanes.store(index, "global", target + shift, [word], WORD, mask)
    lanes.launch.maps.released = True


def release(lanes) -> None:
    """fence.proxy.tensormap::generic.release: what was changed may be made known to others."""
    lanes.launch.maps.released = True


def acquire(lanes, index: int, address, mask) -> None:
    """fence.proxy.tensormap::generic.acquire: the lanes' blocks see the map as it is now."""
    for place, here in lanes.layout.by_value(address, mask):
        blocks = here.any(lanes.layout.thread_axes, keepdims=True)
        data = lanes.launch.maps.bytes_at(place)
        if data is not None:
            before = lanes.fenced_maps.get((place, data), False)
            lanes.fenced_maps[place, data] = before | blocks


def not_fenced(lanes, address: int, mask):
    """The lanes of `mask` that use a map which was changed, and is not made known to them."""
    maps = lanes.launch.maps
    if not maps.is_changed(address):
        return np.zeros(lanes.shape, bool)
    fenced = lanes.fenced_maps.get((address, maps.bytes_at(address)), False)
    return mask & ~lanes.layout.full(fenced & maps.released)
