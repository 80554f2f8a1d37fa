"""Barriers and fences; exchange between lanes of a warp; clusters; calls of the system."""

from __future__ import annotations

from math import ceil

import numpy as np

from ptxsim import system_calls
from ptxsim.async_copy import map_bytes
from ptxsim.checks.program import is_fence
from ptxsim.ptx import BOOL, SIGNED, Immediate, Register, Symbol, Unknown, items, type_of
from ptxsim.threads import clusters, warps

REDUCTIONS = {"popc", "and", "or"}
ASYNC_FENCES = {
    "fence.proxy.async", "fence.proxy.async.shared::cta", "fence.proxy.async.shared::cluster",
}  # fmt: skip
MAP_FENCE = "fence.proxy.tensormap::generic."
INIT_FENCE = "fence.mbarrier_init.release.cluster"
UNUSED = Symbol("_")


def op_bar(w, instruction, *operands):
    parts = set(instruction.parts[1:]) - {"cta", "aligned"}
    if "cluster" in parts:
        _cluster(w, instruction, operands)
    elif instruction.is_warp_barrier:
        (members,) = operands
        w.tell(instruction, "warp_barrier", w.value(members, SIGNED[4]))
    elif "red" in parts:
        target, number, *count, value = operands
        (how,) = parts & REDUCTIONS
        if not isinstance(target, Register):
            raise Unknown
        name = w.variable(target.name)
        w.lines.append(f"{name} = R[{target.name!r}]")  # written when the barrier opens
        reduction = f"({target.name!r}, {how!r}, {w.value(value, BOOL)})"
        _wait(w, instruction, number, count, reduction)
    elif "arrive" in parts:
        number, count = w.values(operands, SIGNED[4])
        w.tell(instruction, "arrive", number, count)
    elif "sync" in parts:
        number, *count = operands
        _wait(w, instruction, number, count, None)
    else:
        raise Unknown


op_barrier = op_bar


def _cluster(w, instruction, operands):
    """barrier.cluster.arrive and .wait."""
    _, _, what, *order = instruction.parts
    if operands or set(order) - {"aligned", "release", "acquire", "relaxed"}:
        raise Unknown
    if what == "wait":
        w.tell(instruction, "cluster_wait")
    elif what == "arrive":
        w.tell(instruction, "cluster_barrier.arrive", "relaxed" not in order)
    else:
        raise Unknown


def _wait(w, instruction, number, count, reduction):
    number, count = w.value(number, SIGNED[4]), w.values(count, SIGNED[4])
    w.tell(instruction, "barrier", number, count[0] if count else None, reduction)


def op_fence(w, instruction, *operands):
    """Stores are seen at once, so nothing is to be done; checks look for some of the fences."""
    if instruction.opcode in ("fence.proxy.async", "fence.proxy.async.global"):
        call = f"lanes.checker.global_races.proxy_fenced({w.mask(instruction)})"
        w.lines.append(f"if lanes.checker: {call}")
    if instruction.opcode in ASYNC_FENCES:
        w.lines.append(f"lanes.fence_async({w.mask(instruction)})")
    elif instruction.opcode == INIT_FENCE:
        w.lines.append(f"lanes.copies.mbarriers.fence_inits({w.mask(instruction)})")
    elif instruction.opcode.startswith(MAP_FENCE + "release."):
        w.lines.append(f"{w.use(map_bytes.release)}(lanes)")
    elif instruction.opcode.startswith(MAP_FENCE + "acquire."):
        address = w.address(operands[0], SIGNED[8])
        w.lines.append(w.call(map_bytes.acquire, instruction, address))
    elif is_fence(instruction):
        call = f"lanes.checker.global_races.fenced({instruction.index}, {w.mask(instruction)})"
        w.lines.append(f"if lanes.checker: {call}")


op_membar = op_fence


def op_nanosleep(w, instruction, duration):
    if not isinstance(duration, (Immediate, Register)):
        raise Unknown


# --- warps ----------------------------------------------------------------------------------------


def _assign_both(w, instruction, target, function, dtype, *given) -> None:
    result, *predicate = items(target)
    w.lines.append(f"shared_value, shared_truth = {w.call(function, instruction, *given)}")
    if result != UNUSED:
        w.assign(result, "shared_value", dtype, instruction)
    if predicate and predicate[0] != UNUSED:
        w.assign(predicate[0], "shared_truth", BOOL, instruction)


def _how(instruction, known) -> str:
    """The part beside "sync", which may come before or after it."""
    (how,) = set(instruction.parts[1:-1]) - {"sync"}
    if "sync" not in instruction.parts or how not in known:
        raise Unknown
    return how


def op_shfl(w, instruction, target, *operands):
    mode = _how(instruction, ("up", "down", "bfly", "idx"))
    if instruction.parts[-1] != "b32":
        raise Unknown
    given = w.values(operands, SIGNED[4])  # the value, by how much, the clamp, the members
    _assign_both(w, instruction, target, warps.shuffle, SIGNED[4], repr(mode), *given)


def op_vote(w, instruction, target, condition, members):
    how = _how(instruction, ("all", "any", "uni", "ballot"))
    if (how == "ballot") != (instruction.parts[-1] == "b32"):
        raise Unknown
    given = repr(how), w.value(condition, BOOL), w.value(members, SIGNED[4])
    text = w.call(warps.vote, instruction, *given)
    w.assign(target, text, SIGNED[4] if how == "ballot" else BOOL, instruction)


def op_match(w, instruction, target, value, members):
    how, dtype = _how(instruction, ("all", "any")), type_of(instruction.parts[-1])
    given = repr(how), w.value(value, dtype), w.value(members, SIGNED[4])
    _assign_both(w, instruction, target, warps.match, SIGNED[4], *given)


def op_redux(w, instruction, target, value, members):
    how, dtype = _how(instruction, warps.COMBINE), type_of(instruction.parts[-1])
    if dtype.kind == "f":
        raise Unknown
    given = repr(how), w.value(value, dtype), w.value(members, SIGNED[4])
    w.assign(target, w.call(warps.reduce, instruction, *given), dtype, instruction)


def op_elect(w, instruction, target, members):
    members = w.value(members, SIGNED[4])
    _assign_both(w, instruction, target, warps.elect, SIGNED[4], members)


def op_activemask(w, instruction, target):
    w.apply(instruction, target, SIGNED[4], warps.active_mask, "lanes", w.mask(instruction))


# --- clusters, registers divided among warps, policies of caches ----------------------------------

REGISTERS = range(24, 257, 8)  # that setmaxnreg may ask for
POLICY = 1 << 60
PRIORITIES = {"evict_unchanged": 0, "evict_first": 2, "evict_last": 4, "evict_normal": 6}


def op_mapa(w, instruction, target, address, rank):
    """The same place in the shared memory of the cluster's block of that rank."""
    dtype = SIGNED[8 if instruction.parts[-1] == "u64" else 4]
    given = "lanes.layout", w.value(address, dtype), w.value(rank, SIGNED[4])
    w.apply(instruction, target, dtype, clusters.in_block, *given)


def op_getctarank(w, instruction, target, address):
    address = w.value(address, SIGNED[4 if "shared::cluster" in instruction.parts else 8])
    w.apply(instruction, target, SIGNED[4], clusters.ranks_of, "lanes.layout", address)


def op_setmaxnreg(w, instruction, count):
    """How many registers a warp has, no result depends on; checks add them up."""
    how = instruction.parts[1]
    if count.value not in REGISTERS or how not in ("inc", "dec"):
        raise Unknown
    given = f"{instruction.index}, {count.value}, {how == 'inc'}, {w.mask(instruction)}"
    w.lines.append(f"if lanes.checker: lanes.checker.registers.set({given})")


def op_createpolicy(w, instruction, target, *given):
    """The bits of a policy for the second-level cache, as on an NVIDIA H200; 0 if not known."""
    form, *parts, _ = instruction.parts[1:]
    priorities = [part.removeprefix("L2::") for part in parts if part.startswith("L2::")]
    if form == "cvt":
        w.assign(target, w.value(given[0], SIGNED[8]), SIGNED[8], instruction)
        return
    if form not in ("fractional", "range") or not set(priorities) <= set(PRIORITIES):
        raise Unknown
    bits, in_register = 0, bool(given) and isinstance(given[0], Register)
    if form == "fractional" and not in_register and priorities[1:] in ([], ["evict_unchanged"]):
        share = float(given[0].name) if given else 1.0  # "0.5" is no number of PTX elsewhere
        bits = POLICY | PRIORITIES[priorities[0]] << 56 | max(0, ceil(16 * share) - 1) << 52
    w.assign(target, w.constant(SIGNED[8].type(bits)), SIGNED[8], instruction)


# --- calls of the system --------------------------------------------------------------------------


def op_call(w, instruction, *operands):
    if instruction.parts[1] == "vprintf":
        target, *given = operands
        call = w.call(system_calls.printf, instruction, *w.values(given, SIGNED[8]))
        if target == UNUSED:
            w.lines.append(call)
        else:
            w.assign(target, call, SIGNED[4], instruction)
    elif instruction.parts[1] == "__assertfail":
        message, file, line, name, _ = operands
        given = *w.values((message, file, name), SIGNED[8]), w.value(line, SIGNED[4])
        w.lines.append(w.call(system_calls.fail, instruction, *given))
    elif instruction.parts[1] == "pointer":
        target, pointer, *functions = operands
        addresses = (
            w.constant(np.array([function.value for function in each.items], np.int64))
            for each in functions
        )
        given = w.value(pointer, SIGNED[8]), *addresses
        w.assign(target, w.call(system_calls.check_pointer, instruction, *given), BOOL, instruction)
    else:
        raise Unknown


def op_trap(w, instruction):
    w.lines.append(w.call(system_calls.trap, instruction))
