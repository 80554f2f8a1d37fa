"""Atomic operations on global and shared memory: atom, and red, which gives no result."""

from __future__ import annotations

from ptxsim.instructions import bulk_copies
from ptxsim.memory import atomics
from ptxsim.ptx import Vector
from ptxsim.types import SIGNED, Unknown

SPACES = {"global", "shared", "shared::cta", "shared::cluster"}
# Who is to see it when: here everybody does at once.
SCOPES = {"relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys", "noftz"}
OPERATIONS = set(atomics.INTEGER)


def op_atom(w, instruction, target, address, *operands):
    _atomic(w, instruction, target, address, operands)


def op_red(w, instruction, address, *operands):
    if instruction.parts[1] == "async":
        bulk_copies.write_async_reduction(w, instruction, address, *operands)
        return
    _atomic(w, instruction, None, address, operands)


def _atomic(w, instruction, target, address, operands):
    *flags, ptx_type = instruction.parts[1:]
    if "L2::cache_hint" in flags:  # the last operand says how long a cache keeps it
        flags.remove("L2::cache_hint")
        operands = operands[:-1]
    (how,) = set(flags) & OPERATIONS
    space = [flag for flag in flags if flag in SPACES]
    if set(flags) - SPACES - SCOPES - {how, "v2", "v4", "v8"} or len(space) > 1:
        raise Unknown
    space = space[0].removesuffix("::cta") if space else "generic"
    if len(operands) != (2 if how == "cas" else 1):
        raise Unknown
    operation, dtype = atomics.operation_of(how, ptx_type)
    place = w.address(address, SIGNED[4 if space.startswith("shared") else 8])
    parts = operands[0].items if isinstance(operands[0], Vector) else None
    if parts is None:
        _one(w, instruction, target, space, operation, place, operands, dtype)
        return
    targets = target.items if target is not None else [None] * len(parts)
    for i, (one, into) in enumerate(zip(parts, targets, strict=True)):
        step = w.constant(SIGNED[4 if space.startswith("shared") else 8].type(i * dtype.itemsize))
        _one(w, instruction, into, space, operation, f"{place} + {step}", [one], dtype)


def _one(w, instruction, target, space, operation, place, operands, dtype):
    given = ", ".join(w.value(operand, dtype) for operand in operands)
    space = "lanes.far" if space == "shared::cluster" else repr(space)
    text = (
        f"{w.use(atomics.atomic)}(lanes, {instruction.index}, {space}, {w.constant(operation)}, "
        f"{place}, [{given}], {w.dtype(dtype)}, {w.mask(instruction)}, {target is not None})"
    )
    if target is None:
        w.lines.append(text)
    else:
        w.assign(target, text, dtype, instruction)
