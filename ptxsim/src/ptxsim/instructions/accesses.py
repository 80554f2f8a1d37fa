"""Loads and stores: ld and st, of parameters, global, constant, shared and local memory."""

from __future__ import annotations

import re

from ptxsim.instructions import bulk_copies
from ptxsim.memory import generic
from ptxsim.ptx import STRUCTURE, TYPE_BYTES, Symbol, Vector
from ptxsim.types import SIGNED, UNSIGNED, Unknown, type_of

SPACES = {"global", "shared", "local", "const"}
FAR = "lanes.far"  # shared memory of any block of the cluster
# Which caches an access passes, and how long it stays there: no result depends on it, nor on the
# order of memory, since stores are seen at once.
UNUSED = Symbol("_")
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
    targets = target.items if isinstance(target, Vector) else (target,)
    names = [f"t{i}" for i in range(len(targets))]
    rest = f"{w.dtype(dtype)}, {len(targets)}, {w.mask(instruction)}"
    w.lines.append(
        f"{', '.join(names)}, = {_call(w, instruction, space, address, 'load')}, {rest})"
    )
    for name, one in zip(names, targets, strict=True):
        if one != UNUSED:
            w.assign(one, name, dtype, instruction)


op_ldu = op_ld


def _load_parameter(w, instruction, target, address):
    declared = dict(w.kernel.parameters)[address.base.name]
    dtype = type_of(instruction.parts[-1])
    if STRUCTURE.match(declared):
        dtype = _type(instruction)
        targets = target.items if isinstance(target, Vector) else (target,)
        for i, one in enumerate(targets):
            offset = address.offset + i * dtype.itemsize
            text = f"lanes.member({address.base.name!r}, {offset}, {w.dtype(dtype)})"
            if one != UNUSED:
                w.assign(one, text, dtype, instruction)
        return
    if address.offset or TYPE_BYTES[declared] != dtype.itemsize:
        raise Unknown
    text = f"lanes.parameters[{address.base.name!r}]"
    w.assign(target, f"{text}.view({w.dtype(dtype)})", dtype, instruction)


def op_st(w, instruction, address, source, *more):
    if instruction.parts[1] == "async":
        bulk_copies.write_async_store(w, instruction, address, source, *more)
        return
    _check_hint(instruction, more)
    dtype, space = _type(instruction), _space(instruction)
    sources = source.items if isinstance(source, Vector) else (source,)
    values = ", ".join(w.value(one, dtype) for one in sources)
    w.lines.append(
        f"{_call(w, instruction, space, address, 'store')}, [{values}], "
        f"{w.dtype(dtype)}, {w.mask(instruction)})"
    )


def op_prefetch(w, instruction, address):
    """Results do not depend on what is in a cache."""


op_prefetchu = op_prefetch


def op_applypriority(w, instruction, address, size):
    """Nor on how long it stays there."""


def _check_hint(instruction, given) -> None:
    """A policy for the second-level cache is the last operand, where the instruction says so."""
    if len(given) != ("L2::cache_hint" in instruction.parts):
        raise Unknown


def _type(instruction):
    dtype = type_of(instruction.parts[-1])
    # Untyped bits are extended with zeros where the register is wider.
    return UNSIGNED[dtype.itemsize] if instruction.parts[-1][0] == "b" else dtype


def _call(w, instruction, space, address, what: str) -> str:
    """The call up to its addresses."""
    if what == "load" and space == "shared":
        base = w.once(w.value(address.base, SIGNED[4]))
        return f"lanes.load_shared({instruction.index}, {base}, {address.offset}"
    place = w.address(address, SIGNED[4] if space in ("shared", FAR) else SIGNED[8])
    if space == FAR:
        return f"lanes.{what}({instruction.index}, {FAR}, {place}"
    if space == "generic":
        function = {"load": generic.load_generic, "store": generic.store_generic}[what]
        return f"{w.use(function)}(lanes, {instruction.index}, {place}"
    return f"lanes.{what}({instruction.index}, {space!r}, {place}"


def _space(instruction) -> str:
    """The state space; "generic" where the instruction names none."""
    parts = [re.sub("::(cta|entry|func)$", "", part) for part in instruction.parts[1:-1]]
    if parts[:1] == ["param"]:  # a structure, at a place that a register says
        parts[0] = "const"
    known = [part for part in parts if part in SPACES or part == "shared::cluster"]
    if len(known) > 1 or set(parts) - SPACES - HINTS - {"shared::cluster"}:
        raise Unknown
    if known == ["shared::cluster"]:
        return FAR
    return known[0] if known else "generic"
