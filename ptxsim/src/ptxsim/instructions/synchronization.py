"""Barriers of a block or a warp, and fences."""

from __future__ import annotations

from ptxsim.async_copy import map_bytes
from ptxsim.ptx import Immediate, Register
from ptxsim.types import BOOL, SIGNED, Unknown

REDUCTIONS = {"popc", "and", "or"}
ASYNC_FENCES = {
    "fence.proxy.async", "fence.proxy.async.shared::cta", "fence.proxy.async.shared::cluster",
}  # fmt: skip
MAP_FENCE = "fence.proxy.tensormap::generic."
INIT_FENCE = "fence.mbarrier_init.release.cluster"


def op_bar(w, instruction, *operands):
    parts = set(instruction.parts[1:]) - {"cta", "aligned"}
    if "cluster" in parts:
        _cluster(w, instruction, operands)
        return
    if instruction.is_warp_barrier:
        (members,) = operands
        members, mask = w.value(members, SIGNED[4]), w.mask(instruction)
        w.lines.append(f"lanes.warp_barrier({instruction.index}, {members}, {mask})")
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
        number, count = (w.value(operand, SIGNED[4]) for operand in operands)
        mask = w.mask(instruction)
        w.lines.append(f"lanes.arrive({instruction.index}, {number}, {count}, {mask})")
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
    where = f"{instruction.index}, {w.mask(instruction)}"
    if what == "wait":
        w.lines.append(f"lanes.cluster_wait({where})")
    elif what == "arrive":
        w.lines.append(f"lanes.cluster_barrier.arrive({where}, {'relaxed' not in order})")
    else:
        raise Unknown


def _wait(w, instruction, number, count, reduction):
    number = w.value(number, SIGNED[4])
    count = w.value(count[0], SIGNED[4]) if count else None
    w.lines.append(
        f"lanes.barrier({instruction.index}, {number}, {count}, {w.mask(instruction)}, {reduction})"
    )


def op_fence(w, instruction, *operands):
    """Stores are seen at once, so nothing is to be done; checks look for some of the fences."""
    if instruction.opcode in ASYNC_FENCES:
        w.lines.append(f"lanes.fence_async({w.mask(instruction)})")
    elif instruction.opcode == INIT_FENCE:
        w.lines.append(f"lanes.copies.mbarriers.fence_inits({w.mask(instruction)})")
    elif instruction.opcode.startswith(MAP_FENCE + "release."):
        w.lines.append(f"{w.use(map_bytes.release)}(lanes)")
    elif instruction.opcode.startswith(MAP_FENCE + "acquire."):
        address, _ = operands
        given = f"{instruction.index}, {w.address(address, SIGNED[8])}, {w.mask(instruction)}"
        w.lines.append(f"{w.use(map_bytes.acquire)}(lanes, {given})")


op_membar = op_fence


def op_nanosleep(w, instruction, duration):
    if not isinstance(duration, (Immediate, Register)):
        raise Unknown
