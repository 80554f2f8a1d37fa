"""Fetches from textures, loads and stores of surfaces, and their sizes."""

from __future__ import annotations

from ptxsim import textures
from ptxsim.ptx import SIGNED, UNSIGNED, Unknown, items, type_of

LEVELS = {"base": 0, "level": 1, "grad": 2}  # operands that say which mipmap: there is but one
TYPES = {"f32", "s32", "u32"}  # of what is fetched
COORDINATES = {"f32", "s32"}
ACCESSED = {"b8": 1, "b16": 2, "b32": 4, "b64": 8}  # bytes
BEYOND = {"trap", "clamp", "zero"}  # what an access outside of a surface does


def op_tex(w, instruction, target, place, *levels):
    which, *form = instruction.parts[1:]
    if which not in LEVELS:
        which, form = "base", [which, *form]
    if len(levels) != LEVELS[which]:
        raise Unknown
    _fetch(w, instruction, target, place, form)


def op_tld4(w, instruction, target, place):
    component, *form = instruction.parts[1:]
    if form[0] != "2d":
        raise Unknown
    _fetch(w, instruction, target, place, form, "rgba".index(component))


def _fetch(w, instruction, target, place, form, component=None) -> None:
    geometry, vector, ptx_type, coordinate = form
    if vector != "v4" or ptx_type not in TYPES or coordinate not in COORDINATES:
        raise Unknown
    dtype = type_of(ptx_type)
    given = repr(geometry), w.dtype(dtype), component, *_place(w, place, geometry, coordinate)
    text = w.call(textures.fetch_texture, instruction, *given)
    w.assign_all(target, text, dtype, instruction)


def _place(w, place, geometry: str, coordinate: str) -> tuple[str, str, str]:
    """The handle, the layer (0 where there is none) and the coordinates, x first."""
    layer, first = "0", 0
    if geometry.startswith("a"):
        layer, first = w.value(place.items[0], SIGNED[4]), 1
    axes = place.items[first : first + textures.AXES[geometry]]
    return w.value(place.base, SIGNED[8]), layer, w.tuple(axes, type_of(coordinate))


def op_suld(w, instruction, target, place):
    geometry, dtype, beyond, *where = _surface_access(w, instruction, target, place)
    given = geometry, w.dtype(dtype), len(items(target)), beyond, *where
    text = w.call(textures.load_surface, instruction, *given)
    w.assign_all(target, text, dtype, instruction)


def op_sust(w, instruction, place, source):
    geometry, dtype, beyond, *where = _surface_access(w, instruction, source, place)
    given = geometry, w.tuple(items(source), dtype), w.dtype(dtype), beyond, *where
    w.lines.append(w.call(textures.store_surface, instruction, *given))


def _surface_access(w, instruction, registers, place) -> tuple:
    """suld.b.GEOMETRY{.v2,.v4}.TYPE.BEYOND, and sust."""
    formatted, geometry, *vector, ptx_type, beyond = instruction.parts[1:]
    count = len(items(registers))
    if formatted != "b" or beyond not in BEYOND or vector != ([f"v{count}"] if count > 1 else []):
        raise Unknown
    dtype = UNSIGNED[ACCESSED[ptx_type]]
    return repr(geometry), dtype, repr(beyond), *_place(w, place, geometry, "s32")


def _query(w, instruction, target, place, kind) -> None:
    axis, _ = instruction.parts[1:]
    given = w.use(kind), textures.SIZES.index(axis), w.value(place.base, SIGNED[8])
    w.assign(target, w.call(textures.query_size, instruction, *given), SIGNED[4], instruction)


def op_txq(w, instruction, target, place):
    _query(w, instruction, target, place, textures.Texture)


def op_suq(w, instruction, target, place):
    _query(w, instruction, target, place, textures.Surface)
