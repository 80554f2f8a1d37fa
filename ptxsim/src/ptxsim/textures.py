"""Textures and surfaces: arrays that a kernel reads and writes by coordinates, through a handle.

What a fetch gives is as recorded on an NVIDIA H200, bit for bit. Not recorded are layers of one
axis, and subnormal sums of float32. The rules:

- Subnormal coordinates are zeros, NaN is 0. A normalized coordinate is rounded down to a multiple
  of 2**-21 before it is multiplied by the number of texels.
- A linear filter rounds x - 1/2 to a multiple of 1/256, half up. The fractions share 256 among the
  corners: first between the slices, then in each between its columns, then between the texels of
  a column. Each share is rounded to the nearest; halves go to the right and, on the left, up.
- The sum of floats: the texels of each slice are truncated 4 bits below the last one of the
  largest, subnormal float32 are zeros; the finer slice is rounded down to the coarser one's unit;
  the sum is rounded to the texels' type, halves away from zero.
- The sum of normalized integers has 16 bits, also that of 8-bit ones.
- A cube map's direction is multiplied by the approximate reciprocal of its largest component.
"""

from __future__ import annotations

import copy
import itertools
import reprlib
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from math import prod
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ptxsim.arithmetic import special_functions
from ptxsim.memory.global_memory import BadAccess, poison
from ptxsim.ptx import Kernel

AXES = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2, "cube": 3, "acube": 3}  # coordinates
SIZES = ("width", "height", "depth")
MODES: tuple[str, ...] = ("wrap", "clamp", "mirror", "border")
FILTERS, READS = ("point", "linear"), ("element_type", "normalized_float")
DTYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float16", "float32")
GATHERED = ((0, 1), (1, 1), (1, 0), (0, 0))  # the corners in the order of tld4
FACES = 6
NORMALIZED_BITS, FRACTION_BITS, GUARD_BITS = 21, 8, 4
ONE = 1 << FRACTION_BITS  # the sum of the weights
FARTHEST, LEAST = 2.0**40, -200  # texels from the array; exponent of a float
HANDLES = itertools.count(0x7B00_0000_0000)  # addresses of no array, and of no function
LIVE: WeakValueDictionary[int, Image] = WeakValueDictionary()


@dataclass(frozen=True, eq=False, repr=False)
class Image:
    """What textures and surfaces have in common."""

    array: np.ndarray
    _: KW_ONLY
    channels: int = 1
    layered: bool = False
    handle: int = field(init=False, default_factory=lambda: next(HANDLES))
    cubemap = False

    def __post_init__(self) -> None:
        array, channels, stacked = self.array, self.channels, self.layered or self.cubemap
        _require(isinstance(array, np.ndarray), f"array is {reprlib.repr(array)}: pass NumPy's")
        _require(
            array.dtype.name in DTYPES and array.dtype.isnative and array.size > 0,
            f"array has {array.size} elements of {array.dtype.str}: pass one or more of "
            f"{', '.join(DTYPES)}",
        )
        _require(array.flags.c_contiguous, "array is not C-contiguous: use np.ascontiguousarray")
        _require(
            channels == 1 or (channels in (2, 4) and array.shape[-1:] == (channels,)),
            f"channels is {channels}, the array's shape {array.shape}: pass 1, or the 2 or 4 of "
            "the last axis",
        )
        axes, most = array.ndim - stacked - (channels > 1), 3 - stacked
        _require(
            axes == 2 if self.cubemap else 1 <= axes <= most,
            f"array has the shape {array.shape}, {axes} axes without those of layers, faces and "
            f"channels: it must have {'2' if self.cubemap else f'1 to {most}'}",
        )
        LIVE[self.handle] = self

    def copied(self) -> Image:
        """The same with the same handle, for another launch, of a copy of the array."""
        other = copy.copy(self)
        object.__setattr__(other, "array", self.array.copy())
        return other

    @property
    def texels(self) -> np.ndarray:
        """(layers, depth, height, width, channels), without a depth or height that it lacks."""
        layers = () if self.layered or self.cubemap else (1,)
        return self.array.reshape(layers + self.array.shape + (1,) * (self.channels == 1))

    @property
    def extent(self) -> tuple[int, ...]:
        """Width, height and depth, as far as it has them."""
        return self.texels.shape[-2:0:-1]

    @property
    def layers(self) -> int:
        return len(self.texels) // (FACES if self.cubemap else 1)

    @property
    def geometry(self) -> str:
        """As in PTX."""
        return "a" * self.layered + ("cube" if self.cubemap else f"{len(self.extent)}d")

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.geometry} of {self.array.dtype}"


@dataclass(frozen=True, eq=False, repr=False)
class Texture(Image):
    """A texture, for a parameter `cudaTextureObject_t` of a kernel.

    `array`: NumPy, C-contiguous, of 8-, 16- or 32-bit integers, float16 or float32. Its axes are
    depth, height and width, as many as the texture has; `layered`: layers before these; 2 or 4
    `channels`: behind them. `cubemap`: the first axis has the faces +x, -x, +y, -y, +z and -z, six
    for each layer.

    The others are members of cudaTextureDesc, with its defaults. `address_mode`: "wrap", "clamp",
    "mirror" or "border", or one for each of x, y and z; without normalized coordinates "wrap" and
    "mirror" mean "clamp". `filter_mode`: "point" or "linear". `read_mode`: "element_type" or
    "normalized_float", for 8- and 16-bit integers. `normalized_coords`: whether the width is 1.
    `border_color`: four floats.

    `handle`: the integer that the kernel gets. It may be in an array of np.uint64, too, and is
    valid as long as the texture exists.

    Raises ValueError for what CUDA does not know, and for a border color of integers that are not
    read as floats: a GPU takes the bits of the floats.
    """

    _: KW_ONLY
    cubemap: bool = False
    address_mode: str | Sequence[str] = "wrap"
    filter_mode: str = "point"
    read_mode: str = "element_type"
    normalized_coords: bool = False
    border_color: Sequence[float] = (0.0, 0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [("address_mode", mode, MODES) for mode in self.modes]
        given += [("filter_mode", self.filter_mode, FILTERS), ("read_mode", self.read_mode, READS)]
        for name, value, known in given:
            _require(value in known, f"{name} is {value!r}, it must be one of {', '.join(known)}")
        _require(
            len(self.modes) == len(self.extent),
            f"address_mode is {self.address_mode!r}: pass one for all axes, or {len(self.extent)}",
        )
        square, faces = self.extent[0] == self.extent[-1], len(self.texels)
        whole = faces % FACES == 0 if self.layered else faces == FACES
        _require(
            not self.cubemap or (square and whole and self.normalized_coords),
            f"array has the shape {self.array.shape}: a cube map has 6 square faces for each "
            "layer, and normalized_coords=True",
        )
        _require(
            self.is_float or (self.filter_mode == "point" and not any(self.border_color)),
            f"the array is {self.array.dtype}: a linear filter and a border color other than zeros "
            'need floats, or 8- and 16-bit integers with read_mode="normalized_float"',
        )
        _require(len(self.border_color) == 4, f"border_color is {self.border_color}: pass 4 floats")

    @property
    def modes(self) -> list[str]:
        """Of each axis, x first."""
        given, axes = self.address_mode, len(self.extent)
        modes = [given] * axes if isinstance(given, str) else list(given)[:axes]
        unused = () if self.normalized_coords else ("wrap", "mirror")
        return ["clamp" if mode in unused else mode for mode in modes]

    @property
    def is_float(self) -> bool:
        """Whether a fetch gives floats."""
        normalized = self.read_mode == "normalized_float" and self.array.itemsize < 4
        return self.array.dtype.kind == "f" or normalized

    def fetch(self, layer, coordinates: Sequence, component: int | None = None) -> list:
        """The four channels, float32, int32 or uint32; 0 where the texture has fewer.

        `layer`: int32; `coordinates`: float32, x first, or int32, of texels: then what is outside
        is 0, and there is no filter. `component`: the channel of which to give the four texels that
        a linear filter takes, in two dimensions.
        """
        layer = np.minimum(np.asarray(layer, np.int32).view(np.uint32), self.layers - 1)
        layer, *coordinates = np.broadcast_arrays(layer, *coordinates)
        if self.cubemap:
            face, *coordinates = _on_face(*coordinates)
            layer = FACES * layer + face
        if coordinates[0].dtype.kind == "i":
            return self._channels(self._look_up(layer, coordinates, ["border"] * 3, (0,) * 4))
        along = list(zip(coordinates, self.extent, self.modes, strict=True))
        places = [_in_texels(*each, self.normalized_coords) for each in along]
        if self.filter_mode == "point" and component is None:
            return self._channels(self._look_up(layer, places, self.modes, self.border_color))
        fixed = [np.floor(x * ONE - (ONE - 1) / 2).astype(np.int64) for x in places]

        def texels(corner):
            near = [x // ONE + far for x, far in zip(fixed, corner, strict=True)]
            return self._look_up(layer, near, self.modes, self.border_color)

        if component is not None:
            return [self._converted(texels(corner)[..., component]) for corner in GATHERED]
        for axis, (_, n, mode) in enumerate(along):
            if mode == "clamp":
                fixed[axis] = np.clip(fixed[axis], 0, (n - 1) * ONE)
        fractions = [x % ONE for x in fixed]
        weights = _weights(fractions)
        values = np.stack([texels(corner) for corner in weights])
        shares = _stacked(weights.values())
        if values.dtype.kind != "f":
            return self._channels(_sum_of_integers(values, shares))
        exact = (
            prod((a for a, far in zip(fractions, corner, strict=True) if far), start=layer * 0 + 1)
            for corner in weights
        )
        return self._channels(_sum_of_floats(values, shares, _stacked(exact) > 0))

    def _look_up(self, layer, places, modes, border_color) -> np.ndarray:
        """Texels as they are, channels last."""
        inside: Any = True
        indices = []
        for x, n, mode in zip(places, self.extent, modes, strict=False):
            i = np.floor(x).astype(np.int64)
            if mode == "border":
                inside = inside & (i >= 0) & (i < n)
            elif mode == "wrap":
                i = i % n
            elif mode == "mirror":
                i = np.minimum(i % (2 * n), 2 * n - 1 - i % (2 * n))
            indices.append(np.clip(i, 0, n - 1))
        place = (layer, *indices[::-1])
        texels = self.texels[place]
        if inside is True:
            return texels
        border = np.asarray(border_color, np.float64)[: self.channels]
        if texels.dtype.kind != "f":
            limits = np.iinfo(texels.dtype)
            border = np.rint(np.clip(border, max(limits.min, -1), 1) * limits.max)
        return np.where(inside[..., None], texels, border.astype(texels.dtype))

    def _converted(self, texels) -> np.ndarray:
        kind = texels.dtype.kind
        if kind == "f" or not self.is_float:
            return texels.astype({"f": np.float32, "i": np.int32, "u": np.uint32}[kind])
        most = np.float32(np.iinfo(texels.dtype).max)
        return np.maximum(texels.astype(np.float32) / most, np.float32(-1))

    def _channels(self, values) -> list:
        values = values if values.dtype == np.float32 else self._converted(values)
        missing = [values.dtype.type(0)] * (4 - self.channels)
        return [*np.moveaxis(values, -1, 0), *missing]


def _require(condition: object, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _stacked(of_corners) -> np.ndarray:
    return np.stack(np.broadcast_arrays(*of_corners))[..., None]


def _in_texels(x, n: int, mode: str, normalized: bool) -> np.ndarray:
    """A coordinate along an axis of `n` texels, in texels, float64."""
    x = np.where(np.abs(x) < 2.0**-126, 0, x).astype(np.float64)
    if normalized:
        if mode in ("wrap", "mirror"):
            x = np.remainder(x, 2)
        x = np.floor(x * 2.0**NORMALIZED_BITS) * 2.0**-NORMALIZED_BITS * n
    return np.nan_to_num(np.clip(x, -FARTHEST, FARTHEST))


def _on_face(x, y, z):
    """The face that a direction meets, and the normalized coordinates there."""
    largest = np.fmax(np.fmax(np.abs(x), np.abs(y)), np.abs(z))
    x, y, z = (part * special_functions.reciprocal(largest) for part in (x, y, z))
    across, up, along = (np.where(np.isnan(part), -1, np.abs(part)) for part in (x, y, z))
    axis = np.where((along >= up) & (along >= across), 2, np.where(up >= across, 1, 0))
    face = 2 * axis + (np.choose(axis, [x, y, z]) < 0)
    places = np.choose(face, [-z, z, x, x, x, -x]), np.choose(face, [-y, -y, z, -z, -y, -y])
    return face, *((np.where(np.isnan(s), 0, s).astype(np.float64) + 1) / 2 for s in places)


def _weights(fractions: Sequence) -> dict[tuple[int, ...], np.ndarray]:
    """Corner, x first -> its weight, of ONE; in the order of slices. `fractions`: of ONE."""
    axes, half = len(fractions), ONE // 2
    a, b, c = (*fractions, *[np.int64(0)] * (3 - axes))
    weights: dict[tuple[int, ...], np.ndarray] = {}
    for z, whole in ((0, ONE - c), (1, c)):
        right = (a * whole + half) >> FRACTION_BITS
        for x, column, up in ((0, whole - right, half - 1), (1, right, half)):
            far = (b * column + up) >> FRACTION_BITS
            weights |= {(x, 0, z): column - far, (x, 1, z): far}
    return {corner[:axes]: w for corner, w in weights.items() if not any(corner[axes:])}


def _sum_of_floats(values, weights, reached) -> np.ndarray:
    """`values`: (corners, ..., channels), float16 or float32; `reached`: if a NaN there counts."""
    dtype, bits = values.dtype, np.finfo(values.dtype).nmant + 1
    values = np.where(reached, values.astype(np.float64), -0.0)
    if bits == 24:
        values = np.where(np.abs(values) < 2.0**-126, np.copysign(0, values), values)
    finite = np.isfinite(values)
    by_slice = (-(-len(values) // 4), -1, *values.shape[1:])
    kept = np.where(finite, values, 0.0).reshape(by_slice)
    weights = np.broadcast_to(weights, values.shape).reshape(by_slice)
    exponents = np.where((kept != 0) & (weights > 0), np.frexp(kept)[1], LEAST)
    units = exponents.max(axis=1) - bits - GUARD_BITS
    sums = np.trunc(np.ldexp(kept, -units[:, None])) * weights
    unit = units.max(axis=0)
    sums = np.floor(np.ldexp(sums.sum(axis=1, initial=-0.0), units - unit))
    total, unit = sums.sum(axis=0, initial=-0.0), unit - FRACTION_BITS
    least = np.frexp(np.finfo(dtype).smallest_subnormal)[1] - 1 - unit
    last = np.maximum(np.frexp(total)[1] - bits, least)  # the place of the last bit that is kept
    rounded = np.copysign(np.floor(np.ldexp(np.abs(total), -last) + 0.5), total)
    total = np.ldexp(rounded, last + unit)
    total = total + np.where(finite, -0.0, values).sum(axis=0, initial=-0.0)
    return total.astype(dtype).astype(np.float32)


def _sum_of_integers(values, weights) -> np.ndarray:
    """`values`: (corners, ..., channels), normalized."""
    total = (values.astype(np.int64) * weights).sum(axis=0)
    if values.dtype == np.uint8:
        total *= 257
    elif values.dtype == np.int8:
        total = total * 258 + (total >> 12 << 5)
    most = np.iinfo("i2" if values.dtype.kind == "i" else "u2").max
    rounded = np.maximum((total + ONE // 2) >> FRACTION_BITS, -most)
    return rounded.astype(np.float32) / np.float32(most)


@dataclass(frozen=True, eq=False, repr=False)
class Surface(Image):
    """A surface, for a parameter `cudaSurfaceObject_t`; the kernel changes `array` in place.

    `array`, `channels`, `layered` and `handle` are those of a Texture; the faces of a cube map are
    layers. Raises ValueError for other arrays.
    """

    def places(self, layer, coordinates, size: int):
        """Where in the array accesses of `size` bytes begin, moved inside; which were inside.

        `coordinates`: int32, x in bytes.
        """
        width, *others = self.extent
        layer = np.asarray(layer, np.int32).view(np.uint32)
        lengths = (width * self.channels * self.array.itemsize, *others, self.layers)
        step, begin, inside = 1, np.int64(0), np.asarray(True)
        for x, n, taken in zip((*coordinates, layer), lengths, (size, 1, 1, 1), strict=False):
            x, last = np.asarray(x, np.int64), n - taken
            inside = inside & (x >= 0) & (x <= last)
            begin, step = begin + np.clip(x, 0, max(last, 0)) * step, step * n
        return begin, inside


def reached_by(kernel: Kernel) -> dict[int, Image]:
    """By their handles, all that a kernel could have the handle of."""
    uses = kernel.has("tex.", "tld4.", "txq.", "suld.", "sust.", "suq.")
    return dict(LIVE) if uses else {}


# --- what instructions do -------------------------------------------------------------------------


def fetch_texture(lanes, index, geometry, dtype, component, handles, layer, coordinates, mask):
    """tex and tld4: four values of `dtype` for each lane."""
    values = [poison(dtype)] * 4
    for texture, here in _images(lanes, index, Texture, geometry, dtype, handles, mask):
        pairs = zip(texture.fetch(layer, coordinates, component), values, strict=True)
        values = [np.where(here, new.view(dtype), old) for new, old in pairs]
    return values


def load_surface(lanes, index, geometry, dtype, count, beyond, handles, layer, coordinates, mask):
    """suld: `count` values of `dtype` for each lane. `beyond`: "trap", "clamp" or "zero"."""
    values = [poison(dtype)] * count
    for surface, here in _images(lanes, index, Surface, geometry, None, handles, mask):
        raw, places, inside, here = _accessed(
            lanes, index, "read", surface, dtype.itemsize * count, beyond, layer, coordinates, here
        )
        taken = np.moveaxis(np.where(inside[..., None], raw[places], 0).view(dtype), -1, 0)
        values = [np.where(here, new, old) for new, old in zip(taken, values, strict=True)]
    return values


def store_surface(lanes, index, geometry, values, dtype, beyond, handles, layer, coordinates, mask):
    """sust, the reverse: `values` of `dtype`."""
    for surface, here in _images(lanes, index, Surface, geometry, None, handles, mask):
        size = dtype.itemsize * len(values)
        raw, places, inside, here = _accessed(
            lanes, index, "write", surface, size, beyond, layer, coordinates, here
        )
        stored = np.stack(np.broadcast_arrays(*values, places[..., 0])[:-1], axis=-1)
        stored, places, active = np.broadcast_arrays(
            np.ascontiguousarray(stored).view(np.uint8), places, (inside & here)[..., None]
        )
        raw[places[active]] = stored[active]
    lanes.changes += 1


def _accessed(lanes, index, does, surface, size, beyond, layer, coordinates, mask):
    """The bytes of a surface, which of them each lane accesses, if inside, and which lanes may.

    Of the others there are findings.
    """
    begin, inside = surface.places(layer, coordinates, size)
    aligned = np.asarray(coordinates[0]) % size == 0
    outside = aligned & ~inside & (beyond == "trap")
    bad = []
    for problem, lane in (("misaligned", ~aligned), ("out-of-bounds", outside)):
        lane = np.logical_and(lane, mask)
        if lane.any():
            first = tuple(int(np.broadcast_to(x, lane.shape)[lane][0]) for x in coordinates)
            bad.append(BadAccess(problem, f"{size} bytes at {first} of a {surface}", lane))
    inside, mask = inside | (beyond == "clamp"), lanes.find_bad(index, does, bad, mask)
    raw = surface.array.reshape(-1).view(np.uint8)
    return raw, np.minimum(begin[..., None] + np.arange(size), raw.size - 1), inside, mask


def query_size(lanes, index, kind, axis: int, handles, mask):
    """txq and suq: int32, the number of texels along an axis of SIZES; layers are the depth."""
    size = np.int32(0)
    for image, here in _images(lanes, index, kind, None, None, handles, mask):
        width_first = image.extent + (int(kind is Texture), 0)[len(image.extent) - 1 :]
        sizes = (*width_first[:2], image.layers if image.layered else width_first[2])
        size = np.where(here, np.int32(sizes[axis]), size)
    return size


def _images(lanes, index, kind, geometry, dtype, handles, mask):
    """The textures or surfaces of the handles, each with its lanes. Of other handles: a finding."""
    handles = np.asarray(handles)
    if handles.ndim:
        handles = np.broadcast_to(handles, lanes.shape)
    for handle in np.unique(handles[lanes.layout.full(mask)] if handles.ndim else handles):
        here, image = lanes.both(mask, handles == handle), lanes.launch.images.get(int(handle))
        fits = type(image) is kind and geometry in (None, image.geometry)
        if fits and (dtype is None or (dtype.kind == "f") == image.is_float):
            yield image, here
            continue
        wanted = f"{kind.__name__} {geometry or ''}" + (f" that gives {dtype}" if dtype else "")
        what = f"the handle {int(handle):#x} is that of {image or 'no texture or surface'}, "
        problem = f"wrong {kind.__name__.lower()}"
        lanes.find(problem, index, f"{what}the instruction needs a {wanted}", here)
