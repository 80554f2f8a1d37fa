"""Loads and stores: ld and st, of parameters, global and shared memory."""

from __future__ import annotations

from ..ptx import Vector
from ..types import SIGNED, UNSIGNED, Unknown, type_of


def op_ld(w, instruction, target, address):
    parts, dtype = instruction.parts, type_of(instruction.parts[-1])
    if parts[1] == "param":
        if address.offset:
            raise Unknown
        text = f"lanes.parameters[{address.base.name!r}]"
        w.assign(target, f"{text}.view({w.dtype(dtype)})", dtype, instruction)
        return
    if instruction.parts[-1][0] == "b":  # extended with zeros
        dtype = UNSIGNED[dtype.itemsize]
    space = _space(parts)
    targets = target.items if isinstance(target, Vector) else (target,)
    names = [f"t{i}" for i in range(len(targets))]
    place = w.address(address, SIGNED[4] if space == "shared" else SIGNED[8])
    w.lines.append(
        f"{', '.join(names)}, = lanes.load({instruction.index}, {space!r}, {place}, "
        f"{w.dtype(dtype)}, {len(targets)}, {w.mask(instruction)})"
    )
    for name, one in zip(names, targets, strict=True):
        w.assign(one, name, dtype, instruction)


def op_st(w, instruction, address, source):
    dtype, space = type_of(instruction.parts[-1]), _space(instruction.parts)
    sources = source.items if isinstance(source, Vector) else (source,)
    values = ", ".join(w.value(one, dtype) for one in sources)
    place = w.address(address, SIGNED[4] if space == "shared" else SIGNED[8])
    w.lines.append(
        f"lanes.store({instruction.index}, {space!r}, {place}, [{values}], "
        f"{w.dtype(dtype)}, {w.mask(instruction)})"
    )


def _space(parts) -> str:
    known = [part for part in parts if part in ("global", "shared")]
    if len(known) != 1:
        raise Unknown
    return known[0]
