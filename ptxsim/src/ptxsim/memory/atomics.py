"""Atomic operations: each lane reads a place, changes it, and writes it back, undisturbed.

Lanes that hit the same place take turns in the order of their blocks, and in a block of their
threads. The hardware promises no order, so sums of floats may differ from its own in their last
bits, as its own do from run to run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxsim.arithmetic import halves
from ptxsim.arithmetic.float32 import flush
from ptxsim.memory import generic, global_memory
from ptxsim.types import FLOATS, UNSIGNED, Unknown, type_of

POISON = global_memory.POISON
HALVES = {"f16", "bf16", "f16x2", "bf16x2"}


@dataclass(frozen=True)
class Operation:
    """How an atomic changes a value: `change(old, operand, …)`, on arrays of the values' dtype.

    `at` is the ufunc whose `at` does the same for lanes in turn, if there is one.
    """

    change: object
    at: np.ufunc | None = None


def _increment(old, limit):
    return np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))


def _decrement(old, limit):
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


def _swap(old, compare, new):
    return np.where(old == compare, new, old)


def _add_flushed(old, value):
    return flush(flush(old) + flush(value))


def _pairs(name: str, function):
    def change(old, value):
        def one(a, b):
            return function(a, b, name)

        return halves.each_half(one, (old.view(np.int32), value.view(np.int32)), 2).view(old.dtype)

    return change


def _singles(name: str, function):
    return lambda old, value: function(old.view(np.uint16), value.view(np.uint16), name)


def _add_halves(a, b, name):
    return halves.add(a, b, name, False, None)


def _extreme_halves(larger: bool):
    return lambda a, b, name: halves.extreme(a, b, name, False, larger, False, False)


INTEGER = {
    "add": Operation(np.add, np.add),
    "min": Operation(np.minimum, np.minimum),
    "max": Operation(np.maximum, np.maximum),
    "and": Operation(np.bitwise_and, np.bitwise_and),
    "or": Operation(np.bitwise_or, np.bitwise_or),
    "xor": Operation(np.bitwise_xor, np.bitwise_xor),
    "inc": Operation(_increment),
    "dec": Operation(_decrement),
    "exch": Operation(lambda old, value: value),
    "cas": Operation(_swap),
}
# Adding float32 treats subnormals as zeros in global memory, and keeps them in shared memory.
FLOAT_ADD = Operation(np.add, np.add)
FLUSHED_ADD = Operation(_add_flushed)


def half_operation(how: str, ptx_type: str) -> Operation:
    """For float16 and bfloat16, alone or in pairs: "add", "min" or "max"."""
    function = {
        "add": _add_halves, "min": _extreme_halves(False), "max": _extreme_halves(True),
    }[how]  # fmt: skip
    name = ptx_type.removesuffix("x2")
    return Operation((_pairs if ptx_type.endswith("x2") else _singles)(name, function))


def operation_of(how: str, ptx_type: str) -> tuple[object, np.dtype]:
    """(the operation, or a function that takes the space and gives one; the dtype of the values).

    `ptx_type`: of an element. Raises Unknown.
    """
    if ptx_type in HALVES:
        return half_operation(how, ptx_type), UNSIGNED[4 if "x2" in ptx_type else 2]
    dtype = type_of(ptx_type)
    if dtype == FLOATS["f32"] and how == "add":
        return _add_float32, dtype
    if dtype.kind == "f" and how != "add":
        raise Unknown
    if dtype.kind == "f":
        return FLOAT_ADD, dtype
    if how in ("inc", "dec") and dtype.kind != "u":
        raise Unknown
    return INTEGER[how], dtype


def _add_float32(space: str):
    return FLUSHED_ADD if space == "global" else FLOAT_ADD


def atomic(lanes, index: int, space: str, operation, addresses, operands, dtype, mask, wanted):
    """Do `operation` at each lane's address. Returns the old values if `wanted`, else None.

    `operation`: an Operation, or a function that takes the space and gives one; `operands`: one or
    two values for each lane.
    """
    addresses = np.asarray(addresses)
    if space == "generic":
        parts = generic.split(lanes, addresses, mask)
    else:
        parts = [(space, addresses, mask)]
    result: np.ndarray | None = np.zeros(lanes.shape, dtype) if wanted else None
    for own_space, own, active in parts:
        chosen = operation if isinstance(operation, Operation) else operation(own_space)
        old = _in_space(lanes, index, own_space, chosen, own, operands, dtype, active, wanted)
        if result is not None:
            result = np.where(active, np.asarray(old), result)
    return result


def _in_space(lanes, index, space, operation, addresses, operands, dtype, mask, wanted):
    place = lanes.space(space)
    located, bad = place.locate(addresses, dtype.itemsize, mask)
    found, right = [], mask
    for buffer, offsets, inside in located:
        allowed, wrong = buffer.protect(offsets, inside)
        found.append((buffer, offsets, allowed))
        bad += wrong
    for access in bad:
        lanes.find(f"{access.problem} write", index, access.what, access.lanes)
        right = lanes.both(right, ~access.lanes)
    order = lanes.layout.warp_order
    if wanted:
        turned = np.full(lanes.shape, _poison(dtype)).transpose(order)
        old = np.ascontiguousarray(turned).reshape(-1)
    for buffer, offsets, allowed in found:
        active = _in_order(allowed, lanes.shape, order)
        if not active.any():
            continue
        buffer.written = True
        view, elements = buffer.view(dtype), _in_order(offsets, lanes.shape, order)[active]
        elements = elements // dtype.itemsize
        given = [_in_order(operand, lanes.shape, order)[active] for operand in operands]
        if not wanted and operation.at is not None:
            operation.at.at(view, elements, *given)
            lanes.changes += 1
        else:
            before = take_turns(view, elements, given, operation.change)
            lanes.changes += bool((view[elements] != before).any())  # a lock may be taken already
            if wanted:
                old[active] = before
    place.stored(addresses, dtype.itemsize, mask, *operands, lanes.layout.block_number)
    if lanes.checker:
        lanes.checker.access(index, space, "atomic", addresses, dtype.itemsize, right)
    if wanted:
        shape = tuple(lanes.shape[axis] for axis in order)
        return old.reshape(shape).transpose(np.argsort(order))
    return None


def _in_order(values, shape, order) -> np.ndarray:
    """(lanes,): by block, and in a block by thread."""
    return np.broadcast_to(values, shape).transpose(order).reshape(-1)


def take_turns(view, elements, operands, change):
    """Change `view[elements]`, lanes that share an element one after the other.

    Returns what each lane found there. In step i it is the turn of the i-th lane of each element.
    """
    by_element = np.argsort(elements, kind="stable")
    ordered = elements[by_element]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
    counts = np.diff(starts, append=len(ordered))
    found = np.empty(len(elements), view.dtype)
    many_first = np.argsort(-counts, kind="stable")
    starts, counts = starts[many_first], counts[many_first]
    left = len(starts)
    for turn in range(int(counts[0])):
        while counts[left - 1] <= turn:
            left -= 1
        now = by_element[starts[:left] + turn]
        places = elements[now]
        found[now] = view[places]
        view[places] = change(found[now], *(operand[now] for operand in operands))
    return found


def _poison(dtype):
    return np.frombuffer(np.array([POISON] * 2, np.uint32).tobytes(), dtype)[0]
