"""Instructions of a whole warp."""

from __future__ import annotations

from ptxsim.ptx import Symbol, Vector
from ptxsim.threads import warps
from ptxsim.types import BOOL, SIGNED, Unknown, type_of

UNUSED = Symbol("_")


def _targets(target):
    """(the result, the predicate or None)."""
    if isinstance(target, Vector):
        return target.items
    return target, None


def _assign_both(w, instruction, target, text, dtype) -> None:
    result, predicate = _targets(target)
    w.lines.append(f"shared_value, shared_truth = {text}")
    if result != UNUSED:
        w.assign(result, "shared_value", dtype, instruction)
    if predicate not in (None, UNUSED):
        w.assign(predicate, "shared_truth", BOOL, instruction)


def _call(w, instruction, function, *given) -> str:
    *operands, members = given
    inner = ", ".join([*operands, w.value(members, SIGNED[4]), w.mask(instruction)])
    return f"{w.use(function)}(lanes, {instruction.index}, {inner})"


def op_shfl(w, instruction, target, value, by, clamp, members):
    _, *parts, ptx_type = instruction.parts
    mode = next(part for part in parts if part != "sync")
    if (
        sorted(parts) != sorted(("sync", mode))
        or ptx_type != "b32"
        or mode not in ("up", "down", "bfly", "idx")
    ):
        raise Unknown
    given = [repr(mode), *(w.value(x, SIGNED[4]) for x in (value, by, clamp))]
    text = _call(w, instruction, warps.shuffle, *given, members)
    _assign_both(w, instruction, target, text, SIGNED[4])


def op_vote(w, instruction, target, condition, members):
    _, *parts, ptx_type = instruction.parts
    how = next(part for part in parts if part != "sync")  # which may come before or after
    if sorted(parts) != sorted(("sync", how)) or (how == "ballot") != (ptx_type == "b32"):
        raise Unknown
    if how not in ("all", "any", "uni", "ballot"):
        raise Unknown
    text = _call(w, instruction, warps.vote, repr(how), w.value(condition, BOOL), members)
    w.assign(target, text, SIGNED[4] if how == "ballot" else BOOL, instruction)


def op_match(w, instruction, target, value, members):
    _, *parts, ptx_type = instruction.parts
    how, sync = sorted(parts)  # "all" and "any" come before "sync"
    if sync != "sync" or how not in ("any", "all"):
        raise Unknown
    text = w.value(value, type_of(ptx_type))
    text = _call(w, instruction, warps.match, repr(how), text, members)
    _assign_both(w, instruction, target, text, SIGNED[4])


def op_redux(w, instruction, target, value, members):
    _, sync, how, ptx_type = instruction.parts
    dtype = type_of(ptx_type)
    if sync != "sync" or how not in warps.COMBINE or dtype.kind == "f":
        raise Unknown
    text = _call(w, instruction, warps.reduce, repr(how), w.value(value, dtype), members)
    w.assign(target, text, dtype, instruction)


def op_elect(w, instruction, target, members):
    text = _call(w, instruction, warps.elect, members)
    _assign_both(w, instruction, target, text, SIGNED[4])


def op_activemask(w, instruction, target):
    text = f"{w.use(warps.active_mask)}(lanes, {w.mask(instruction)})"
    w.assign(target, text, SIGNED[4], instruction)
