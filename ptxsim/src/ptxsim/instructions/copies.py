"""Asynchronous copies, cp.async and cp.async.bulk, and mbarriers."""

from __future__ import annotations

import numpy as np

from ptxsim.async_copy import map_bytes
from ptxsim.async_copy.mbarrier import pending_count
from ptxsim.async_copy.tensor_map import MAP_BYTES
from ptxsim.instructions import bulk_copies
from ptxsim.ptx import Immediate, Register, Symbol
from ptxsim.types import BOOL, SIGNED, Unknown

CACHES = {
    "ca", "cg", "L2::cache_hint", "L2::64B", "L2::128B", "L2::256B", "global",
    "shared", "shared::cta",
}  # fmt: skip
SHARED = {"shared", "shared::cta", "shared::cluster"}
# The order of memory, and who is to see it: stores are seen at once.
ORDER = {"release", "acquire", "relaxed", "cta", "cluster", "b64", *SHARED}


def op_cp(w, instruction, *operands):
    parts = instruction.parts[1:]
    if parts[:2] == ("async", "bulk"):
        bulk_copies.write(w, instruction, operands)
    elif parts[:3] == ("reduce", "async", "bulk"):
        bulk_copies.write_reduction(w, instruction, operands)
    elif parts == ("async", "commit_group"):
        _call(w, f"commit({w.mask(instruction)})")
    elif parts == ("async", "wait_group"):
        (most,) = operands
        if not isinstance(most, Immediate):
            raise Unknown
        _call(w, f"wait({most.value}, {w.mask(instruction)})")
    elif parts == ("async", "wait_all"):
        _call(w, f"wait_all({w.mask(instruction)})")
    elif parts[:3] == ("async", "mbarrier", "arrive"):
        if set(parts[3:]) - {"noinc", "b64", *SHARED}:
            raise Unknown
        place = w.address(operands[0], SIGNED[4])
        _call(w, f"arrive({instruction.index}, {place}, {'noinc' in parts}, {w.mask(instruction)})")
    elif parts[0] == "async" and not set(parts[1:]) - CACHES:
        _copy(w, instruction, operands)
    else:
        raise Unknown


def _copy(w, instruction, operands):
    """cp.async.ca.shared.global [to], [from], size {, bytes to read or a predicate} {, policy}."""
    to, source, size, *rest = operands
    if "L2::cache_hint" in instruction.parts:
        rest = rest[:-1]
    read, ignored = None, None
    if rest:
        (given,) = rest
        if isinstance(given, Register) and w.types[given.name] == BOOL:
            ignored = w.value(given, BOOL)
        else:
            read = w.value(given, SIGNED[4])
    if size.value not in (4, 8, 16) or ("cg" in instruction.parts and size.value != 16):
        raise Unknown
    _call(
        w,
        f"start({instruction.index}, {size.value}, {w.address(to, SIGNED[4])}, "
        f"{w.address(source, SIGNED[8])}, {read}, {ignored}, {'cg' in instruction.parts}, "
        f"{w.mask(instruction)})",
    )


def _call(w, text: str) -> None:
    w.lines.append(f"lanes.copies.{text}")


# --- mbarriers ------------------------------------------------------------------------------------


def op_mbarrier(w, instruction, *operands):
    what, *rest = instruction.parts[1:]
    mask, index = w.mask(instruction), instruction.index
    if what in ("test_wait", "try_wait"):
        _wait(w, instruction, rest, operands)
        return
    if what == "pending_count":
        target, state = operands
        text = f"{w.use(pending_count)}({w.value(state, SIGNED[8])})"
        w.assign(target, text, SIGNED[4], instruction)
        return
    known = {"arrive": {"expect_tx", "noComplete"}, "arrive_drop": {"expect_tx", "noComplete"}}
    if set(rest) - ORDER - known.get(what, set()):
        raise Unknown
    if what in ("arrive", "arrive_drop"):
        _arrive(w, instruction, rest, operands, what == "arrive_drop")
        return
    address, *number = operands
    arguments = ", ".join([w.address(address, SIGNED[4]), *(w.value(n, SIGNED[4]) for n in number)])
    method = {"init": "init", "inval": "invalidate", "expect_tx": "expect_bytes"}
    if what == "complete_tx":
        place, brought = arguments.split(", ")
        arguments, what = f"{place}, -{brought}", "expect_tx"
    w.lines.append(f"lanes.copies.mbarriers.{method[what]}({index}, {arguments}, {mask})")


def _arrive(w, instruction, rest, operands, drop: bool) -> None:
    target, address, *number = operands
    number = w.value(number[0], SIGNED[4]) if number else w.constant(np.int32(1))
    count, announced = (1, number) if "expect_tx" in rest else (number, 0)
    text = (
        f"lanes.copies.mbarriers.arrive({instruction.index}, {w.address(address, SIGNED[4])}, "
        f"{count}, {announced}, {w.mask(instruction)}, {drop})"
    )
    if target == Symbol("_"):
        w.lines.append(text)
    else:
        w.assign(target, text, SIGNED[8], instruction)


def _wait(w, instruction, rest, operands) -> None:
    by_parity = "parity" in rest
    if set(rest) - ORDER - {"parity"} or instruction.predicate is not None:
        raise Unknown
    target, address, waited = operands[:3]  # a fourth one is how long to wait at most
    waited = w.value(waited, SIGNED[4 if by_parity else 8])
    place = w.address(address, SIGNED[4])
    text = f"lanes.copies.mbarriers.completed({instruction.index}, {place}, {waited}, {by_parity}"
    w.assign(target, f"{text}, mask)", BOOL, instruction)
    w.tried = w.variable(target.name)


# --- tensor maps ----------------------------------------------------------------------------------

IMMEDIATE = {"elemtype", "interleave_layout", "swizzle_mode", "fill_mode"}  # PTX has no others
COPIED = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.{}.sync.aligned"
SCOPES = ("cta", "cluster", "gpu", "sys")


def op_tensormap(w, instruction, address, *operands):
    mask, index = w.mask(instruction), instruction.index
    if instruction.opcode in map(COPIED.format, SCOPES):
        source, size = operands
        if size.value != MAP_BYTES:
            raise Unknown
        places = f"{w.address(address, SIGNED[8])}, {w.address(source, SIGNED[4])}"
        w.lines.append(f"{w.use(map_bytes.copy_to_global)}(lanes, {index}, {places}, {mask})")
        return
    what, mode, field, *space, whole, kind = instruction.parts[1:]
    if (what, mode, whole) != ("replace", "tile", "b1024") or field not in map_bytes.FIELDS:
        raise Unknown
    *ordinal, value = operands
    ordinals = len(map_bytes.FIELDS[field].parts)
    at = ordinal[0].value if ordinal else 0
    if len(ordinal) != (ordinals > 1) or not 0 <= at < ordinals:
        raise Unknown
    if field in IMMEDIATE and not isinstance(value, Immediate):
        raise Unknown
    (space,) = [name.removesuffix("::cta") for name in space] or ["generic"]
    if space not in ("generic", "global", "shared"):
        raise Unknown
    place = w.address(address, SIGNED[4 if space == "shared" else 8])
    value = w.value(value, SIGNED[8 if kind == "b64" else 4])
    w.lines.append(
        f"{w.use(map_bytes.replace)}(lanes, {index}, {space!r}, {place}, {field!r}, {at}, "
        f"{value}, {mask})"
    )
