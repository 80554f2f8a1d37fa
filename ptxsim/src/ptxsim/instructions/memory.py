"""Moves between registers and memory: ld, st, atom and red, mov, and addresses of all spaces."""

from __future__ import annotations

import re

import numpy as np

from ptxsim import ptx
from ptxsim.instructions import copies
from ptxsim.memory import atomics, shared_memory
from ptxsim.ptx import BOOL, SIGNED, TYPE_BYTES, UNSIGNED, Symbol, Unknown, Vector, items, type_of

SPACES = {"global", "shared", "local", "const", "shared::cluster"}
# Which caches an access passes, and how long it stays there: no result depends on it, nor on the
# order of memory, since stores are seen at once.
HINTS = {
    "ca", "cg", "cs", "cv", "lu", "wb", "wt", "nc", "volatile", "relaxed", "acquire", "release",
    "weak", "cta", "cluster", "gpu", "sys", "mmio", "unified", "v2", "v4", "v8",
    "L2::64B", "L2::128B", "L2::256B", "L2::cache_hint",
    *(f"{level}::{kept}" for level in ("L1", "L2") for kept in (
        "evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")),
}  # fmt: skip


def op_ld(w, instruction, target, address, *hint):
    _check_hint(instruction, hint)
    if instruction.parts[1] == "param" and isinstance(address.base, Symbol):
        _load_parameter(w, instruction, target, address)
        return
    dtype, space = _type(instruction), _space(instruction)
    rest = f"{w.dtype(dtype)}, {len(items(target))}, {w.mask(instruction)}"
    if space == "shared":
        base = w.once(w.value(address.base, SIGNED[4]))
        call = f"load_shared({instruction.index}, {base}, {address.offset}"
    else:
        call = f"load({instruction.index}, {_place(w, space, address)}"
    w.assign_all(target, f"lanes.{call}, {rest})", dtype, instruction)


op_ldu = op_ld


def _load_parameter(w, instruction, target, address):
    declared = dict(w.kernel.parameters)[address.base.name]
    dtype = type_of(instruction.parts[-1])
    if ptx.STRUCTURE.match(declared):
        dtype = _type(instruction)
        members = (
            f"lanes.member({address.base.name!r}, {address.offset + at}, {w.dtype(dtype)})"
            for at in range(0, len(items(target)) * dtype.itemsize, dtype.itemsize)
        )
        w.assign_all(target, f"{', '.join(members)},", dtype, instruction)
    elif address.offset + dtype.itemsize > TYPE_BYTES[declared] or isinstance(target, Vector):
        raise Unknown
    else:
        text = f"lanes.parameters[{address.base.name!r}]"
        if dtype.itemsize < TYPE_BYTES[declared]:
            text = f"np.frombuffer({text}.tobytes(), {w.dtype(dtype)}, 1, {address.offset})[0]"
        else:
            text += f".view({w.dtype(dtype)})"
        w.assign(target, text, dtype, instruction)


def op_st(w, instruction, address, source, *more):
    if instruction.parts[1] == "async":
        copies.write_async_store(w, instruction, address, source, *more)
        return
    _check_hint(instruction, more)
    dtype, place = _type(instruction), _place(w, _space(instruction), address)
    w.tell(instruction, "store", place, w.tuple(items(source), dtype), w.dtype(dtype))


def _nothing(w, instruction, *operands):
    """Results do not depend on what is in a cache, nor on how long it stays there.

    Kernels run one after the other, and there is no debugger.
    """


op_prefetch = op_prefetchu = op_applypriority = op_griddepcontrol = op_brkpt = _nothing


def _check_hint(instruction, given) -> None:
    """A policy for the second-level cache is the last operand, where the instruction says so."""
    if len(given) != ("L2::cache_hint" in instruction.parts):
        raise Unknown


def _type(instruction):
    dtype = type_of(instruction.parts[-1])
    # Untyped bits are extended with zeros where the register is wider.
    return UNSIGNED[dtype.itemsize] if instruction.parts[-1][0] == "b" else dtype


def _place(w, space: str, address) -> str:
    """The space, "lanes.far" where it is shared memory of any block, and the address in it."""
    place = w.address(address, SIGNED[4 if space.startswith("shared") else 8])
    return f"{'lanes.far' if space == 'shared::cluster' else repr(space)}, {place}"


def shared_address(w, address, is_shared: bool) -> str:
    """An address in shared memory, of 32 bits, from one in the space, or a generic one."""
    if is_shared:
        return w.address(address, SIGNED[4])
    start = w.constant(shared_memory.window("shared"))
    return f"({w.address(address, SIGNED[8])} - {start}).astype({w.dtype(SIGNED[4])})"


def _space(instruction) -> str:
    """The state space; "generic" where the instruction names none."""
    parts = [re.sub("::(cta|entry|func)$", "", part) for part in instruction.parts[1:-1]]
    if parts[:1] == ["param"]:  # a structure, at a place that a register says
        parts[0] = "const"
    known = SPACES.intersection(parts)
    if len(known) > 1 or set(parts) - SPACES - HINTS:
        raise Unknown
    return known.pop() if known else "generic"


# --- atomics --------------------------------------------------------------------------------------

# Who is to see it when: here everybody does at once.
SCOPES = {"relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys", "noftz"}


def op_atom(w, instruction, target, address, *operands):
    *flags, ptx_type = instruction.parts[1:]
    if "L2::cache_hint" in flags:  # the last operand says how long a cache keeps it
        flags.remove("L2::cache_hint")
        operands = operands[:-1]
    flags = [flag.removesuffix("::cta") if "shared" in flag else flag for flag in flags]
    (how,) = set(flags) & atomics.INTEGER.keys()
    (space,) = SPACES.intersection(flags) or {"generic"}
    if set(flags) - SPACES - SCOPES - {how, "v2", "v4", "v8"}:
        raise Unknown
    if len(operands) != (2 if how == "cas" else 1):
        raise Unknown
    operation, dtype = atomics.operation_of(how, ptx_type)
    place, atomic = _place(w, space, address), w.use(atomics.atomic)
    targets = items(target) if target is not None else [None] * len(items(operands[0]))
    for at, (part, into) in enumerate(zip(items(operands[0]), targets, strict=True)):
        step = SIGNED[4 if space.startswith("shared") else 8].type(at * dtype.itemsize)
        here = f"{place} + {w.constant(step)}" if at else place
        given = ", ".join(w.values((part, *operands[1:]), dtype))
        text = (
            f"{atomic}(lanes, {instruction.index}, {w.constant(operation)}, {here}, [{given}], "
            f"{w.dtype(dtype)}, {w.mask(instruction)}, {into is not None})"
        )
        if into is None:
            w.lines.append(text)
        else:
            w.assign(into, text, dtype, instruction)


def op_red(w, instruction, address, *operands):
    if instruction.parts[1] == "async":
        copies.write_async_reduction(w, instruction, address, *operands)
    else:
        op_atom(w, instruction, None, address, *operands)


# --- registers and addresses ----------------------------------------------------------------------


def op_mov(w, instruction, target, source):
    size = TYPE_BYTES.get(instruction.parts[-1])
    splits, joins = (isinstance(operand, Vector) for operand in (target, source))
    if not (splits or joins):
        dtype = w.types[target.name]
        w.assign(target, w.value(source, dtype), dtype, instruction)
        return
    parts = len(items(target if splits else source))
    whole, part = UNSIGNED[size], UNSIGNED[size // parts]
    shifts = [w.constant(whole.type(8 * part.itemsize * at)) for at in range(parts)]
    if splits:  # one register to its parts, lowest first
        text = w.value(source, whole)
        for operand, shift in zip(target.items, shifts, strict=True):
            w.assign(operand, f"({text} >> {shift}).astype({w.dtype(part)})", part, instruction)
    else:
        values = w.values(source.items, part)
        pieces = [
            f"({value}.astype({w.dtype(whole)}) << {shift})"
            for value, shift in zip(values, shifts, strict=True)
        ]
        w.assign(target, " | ".join(pieces), whole, instruction)


def op_cvta(w, instruction, target, source):
    """An address in a space to a generic one, or the reverse (`cvta.to`)."""
    _, *to, space, ptx_type = instruction.parts
    space = space.removesuffix("::cta").removesuffix("::cluster")
    if space not in SPACES | {"param"} or to not in ([], ["to"]):
        raise Unknown
    dtype, offset = SIGNED[TYPE_BYTES[ptx_type]], shared_memory.window(space)
    text = w.value(source, dtype)
    if offset:
        if dtype != SIGNED[8]:
            raise Unknown
        text = f"{text} {'-' if to else '+'} {w.constant(np.int64(offset))}"
    w.assign(target, text, dtype, instruction)


def op_isspacep(w, instruction, target, address):
    """Whether a generic address leads to the space."""
    _, space = instruction.parts
    address = w.value(address, SIGNED[8])
    if space in ("shared", "shared::cta"):
        w.apply(instruction, target, BOOL, shared_memory.is_in_own_block, "lanes", address)
    elif space in ("global", "shared::cluster", "local"):
        space = space.removesuffix("::cluster")
        w.apply(instruction, target, BOOL, shared_memory.is_in, address, repr(space))
    else:
        raise Unknown
