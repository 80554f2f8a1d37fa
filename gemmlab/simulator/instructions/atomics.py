"""Atomic operations on global and shared memory: atom, and red, which gives no result."""

from __future__ import annotations

import numpy as np

from gemmlab.simulator.memory import atomics
from gemmlab.simulator.ptx import Vector
from gemmlab.simulator.types import FLOATS, SIGNED, UNSIGNED, Unknown, type_of

SPACES = {"global", "shared", "shared::cta"}
# Who is to see it when: here everybody does at once.
SCOPES = {"relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys", "noftz"}
HALVES = {"f16", "bf16", "f16x2", "bf16x2"}
OPERATIONS = set(atomics.INTEGER)


def op_atom(w, instruction, target, address, *operands):
    _atomic(w, instruction, target, address, operands)


def op_red(w, instruction, address, *operands):
    _atomic(w, instruction, None, address, operands)


def _atomic(w, instruction, target, address, operands):
    *flags, ptx_type = instruction.parts[1:]
    (how,) = set(flags) & OPERATIONS
    space = [flag for flag in flags if flag in SPACES]
    if set(flags) - SPACES - SCOPES - {how, "v2", "v4", "v8"} or len(space) > 1:
        raise Unknown
    space = space[0].removesuffix("::cta") if space else "generic"
    if len(operands) != (2 if how == "cas" else 1):
        raise Unknown
    operation, dtype = _operation(how, ptx_type)
    place = w.address(address, SIGNED[4] if space == "shared" else SIGNED[8])
    parts = operands[0].items if isinstance(operands[0], Vector) else None
    if parts is None:
        _one(w, instruction, target, space, operation, place, operands, dtype)
        return
    targets = target.items if target is not None else [None] * len(parts)
    for i, (one, into) in enumerate(zip(parts, targets, strict=True)):
        step = w.constant((SIGNED[4] if space == "shared" else SIGNED[8]).type(i * dtype.itemsize))
        _one(w, instruction, into, space, operation, f"{place} + {step}", [one], dtype)


def _one(w, instruction, target, space, operation, place, operands, dtype):
    given = ", ".join(w.value(operand, dtype) for operand in operands)
    text = (
        f"{w.use(atomics.atomic)}(lanes, {instruction.index}, {space!r}, {w.constant(operation)}, "
        f"{place}, [{given}], {w.dtype(dtype)}, {w.mask(instruction)}, {target is not None})"
    )
    if target is None:
        w.lines.append(text)
    else:
        w.assign(target, text, dtype, instruction)


def _operation(how: str, ptx_type: str) -> tuple[object, np.dtype]:
    if ptx_type in HALVES:
        return atomics.half_operation(how, ptx_type), UNSIGNED[4 if "x2" in ptx_type else 2]
    dtype = type_of(ptx_type)
    if dtype == FLOATS["f32"] and how == "add":
        return _add_float32, dtype
    if dtype.kind == "f" and how != "add":
        raise Unknown
    if dtype.kind == "f":
        return atomics.FLOAT_ADD, dtype
    if how in ("inc", "dec") and dtype.kind != "u":
        raise Unknown
    return atomics.INTEGER[how], dtype


def _add_float32(space: str):
    return atomics.FLUSHED_ADD if space == "global" else atomics.FLOAT_ADD
