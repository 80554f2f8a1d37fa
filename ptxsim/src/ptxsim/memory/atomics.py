"""Atomic operations: each lane reads a place, changes it, and writes it back, undisturbed.

Lanes that hit the same place take turns in the order of their blocks, and in a block of their
threads. The hardware promises no order, so sums of floats may differ from its own in their last
bits, as its own do from run to run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ptxsim.arithmetic import halves
from ptxsim.arithmetic.float32 import flush
from ptxsim.memory import global_memory, shared_memory
from ptxsim.ptx import UNSIGNED, Unknown, type_of
from ptxsim.threads.warps import COMBINE

HALVES = {"f16", "bf16", "f16x2", "bf16x2"}


@dataclass(frozen=True)
class Operation:
    """How an atomic changes a value: `change(old, operand, …)`, on arrays of its dtype."""

    change: Callable
    at: np.ufunc | None = None  # whose `at` does the same for lanes in turn
    in_global: Operation | None = None


def _increment(old, limit):
    return np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))


def _decrement(old, limit):
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


def _swap(old, compare, new):
    return np.where(old == compare, new, old)


def _add_flushed(old, value):
    return flush(flush(old) + flush(value))


INTEGER = {name: Operation(ufunc, ufunc) for name, ufunc in COMBINE.items()} | {
    "inc": Operation(_increment),
    "dec": Operation(_decrement),
    "exch": Operation(lambda old, value: value),
    "cas": Operation(_swap),
}
# Adding float32 treats subnormals as zeros in global memory, and keeps them in shared memory.
FLOAT_ADD = {
    "f32": Operation(np.add, np.add, in_global=Operation(_add_flushed)),
    "f64": Operation(np.add, np.add),
}
OF_HALVES = {
    "add": partial(halves.add, ftz=False, limit=None),
    **{how: partial(halves.extreme, ftz=False, larger=how == "max", nan=False, xorsign=False)
       for how in ("min", "max")},
}  # fmt: skip


def _of_halves(how: str, ptx_type: str) -> Operation:
    """For float16 and bfloat16, alone or in pairs: "add", "min" or "max"."""
    function = partial(OF_HALVES[how], name=ptx_type.removesuffix("x2"))

    def on_pairs(old, value):
        words = old.view(np.int32), value.view(np.int32)
        return halves.each_half(function, words).view(old.dtype)

    return Operation(on_pairs if ptx_type.endswith("x2") else function)


def operation_of(how: str, ptx_type: str) -> tuple[Operation, np.dtype]:
    """(the operation, the dtype of the values); `ptx_type`: of an element. Raises Unknown."""
    if ptx_type in HALVES:
        return _of_halves(how, ptx_type), UNSIGNED[4 if "x2" in ptx_type else 2]
    dtype = type_of(ptx_type)
    if dtype.kind == "f" and how == "add":
        return FLOAT_ADD[ptx_type], dtype
    if dtype.kind == "f" or (how in ("inc", "dec") and dtype.kind != "u"):
        raise Unknown
    return INTEGER[how], dtype


def atomic(lanes, index: int, operation, space: str, addresses, operands, dtype, mask, wanted):
    """Do `operation` at each lane's address. Returns the old values if `wanted`, else None."""
    parts = [(space, np.asarray(addresses), mask)]
    if space == "generic":
        parts = shared_memory.split(lanes, addresses, mask)
    result: np.ndarray | None = np.zeros(lanes.shape, dtype) if wanted else None
    for named, offsets, active in parts:
        chosen = (operation.in_global if named == "global" else None) or operation
        old = _in_space(lanes, index, named, chosen, offsets, operands, dtype, active, wanted)
        if result is not None:
            result = np.where(active, np.asarray(old), result)
    return result


def _in_space(lanes, index, space, operation, addresses, operands, dtype, mask, wanted):
    place = lanes.space(space)
    located, bad = place.locate(addresses, dtype.itemsize, mask)
    usable = []
    for buffer, offsets, inside in located:
        allowed, wrong = buffer.protect(offsets, inside)
        usable.append((buffer, offsets, allowed))
        bad += wrong
    right = lanes.find_bad(index, "write", bad, mask)
    order = lanes.layout.warp_order
    if wanted:
        turned = np.full(lanes.shape, global_memory.poison(dtype)).transpose(order)
        old = np.ascontiguousarray(turned).reshape(-1)
    for buffer, offsets, allowed in usable:
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
    return np.broadcast_to(values, shape).transpose(order).reshape(-1)


def take_turns(view, elements, operands, change):
    """Change `view[elements]`, lanes of one element after the other; what each lane found there."""
    by_element = np.argsort(elements, kind="stable")
    ordered = elements[by_element]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
    counts = np.diff(starts, append=len(ordered))
    old = np.empty(len(elements), view.dtype)
    many_first = np.argsort(-counts, kind="stable")
    starts, counts = starts[many_first], counts[many_first]
    left = len(starts)
    for turn in range(int(counts[0])):
        while counts[left - 1] <= turn:
            left -= 1
        now = by_element[starts[:left] + turn]
        places = elements[now]
        old[now] = view[places]
        view[places] = change(old[now], *(operand[now] for operand in operands))
    return old
