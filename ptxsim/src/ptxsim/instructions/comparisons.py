"""Comparisons, and choices that depend on one."""

from __future__ import annotations

import numpy as np

from ptxsim.arithmetic import float32
from ptxsim.instructions import halves
from ptxsim.ptx import Vector
from ptxsim.speculation import loads_chosen_by
from ptxsim.types import BITWISE, BOOL, FLOATS, SIGNED, UNSIGNED, Unknown, type_of

ORDERED = {"eq": "==", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
           "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}  # fmt: skip
# Float comparisons that are true when an operand is NaN: the negation of an ordered one.
UNORDERED = {"neu": "==", "ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<"}


def op_setp(w, instruction, target, a, b, *combined):
    for part, one in enumerate(target.items if isinstance(target, Vector) else (target,)):
        text, rest = _compared(w, instruction, a, b, part)
        if combined:
            text = _combined(w, text, rest, combined[0])
        elif rest:
            raise Unknown
        w.assign(one, text, BOOL, instruction)


def _combined(w, text, rest, other) -> str:
    (operation,) = rest
    return f"({text} {BITWISE[operation]} {w.value(other, BOOL)})"


def _compared(w, instruction, a, b, part: int = 0) -> tuple[str, set[str]]:
    """The condition, and the modifiers that are left. `part`: of two numbers in a register."""
    comparison, ptx_type = instruction.parts[1], instruction.parts[-1]
    rest = set(instruction.parts[2:-1]) - {"ftz"}
    if halves.takes(instruction):
        floats, (x, y) = True, halves.compared(w, instruction, (a, b), part)
    else:
        dtype = type_of(ptx_type)
        floats, ftz = dtype.kind == "f", "ftz" in instruction.parts and ptx_type == "f32"
        if part:
            raise Unknown
        x, y = (w.number(one, dtype, ftz) if floats else w.value(one, dtype) for one in (a, b))
    return _condition(comparison, x, y, floats), rest


def _condition(comparison: str, x: str, y: str, floats: bool) -> str:
    if comparison == "ne":  # of floats: false when an operand is NaN
        return f"(({x} < {y}) | ({x} > {y}))" if floats else f"({x} != {y})"
    if comparison == "equ":
        return f"~(({x} < {y}) | ({x} > {y}))"
    if comparison == "num":
        return f"(({x} == {x}) & ({y} == {y}))"
    if comparison == "nan":
        return f"(({x} != {x}) | ({y} != {y}))"
    if comparison in UNORDERED:
        return f"~({x} {UNORDERED[comparison]} {y})"
    return f"({x} {ORDERED[comparison]} {y})"


def op_set(w, instruction, target, a, b, *combined):
    """A comparison whose result is a number: 1.0 or all ones where it holds, else 0."""
    *_, to, come_from = instruction.parts
    conditions = []
    for part in range(2 if halves.pack_of(come_from) else 1):
        text, rest = _compared(w, instruction, a, b, part)
        rest -= {to}
        if combined:
            text = _combined(w, text, rest, combined[0])
        elif rest:
            raise Unknown
        conditions.append(text)
    one, dtype = _true_value(to, len(conditions))
    zero = w.constant(dtype.type(0))
    texts = [f"where({text}, {w.constant(dtype.type(one))}, {zero})" for text in conditions]
    text = texts[0]
    if len(texts) == 2:
        text = f"({texts[0]} | {texts[1]} << {w.constant(dtype.type(16))})"
    w.assign(target, text, dtype, instruction)


def _true_value(to: str, parts: int) -> tuple[int, np.dtype]:
    """What stands for "true" in a result of type `to`, of each of `parts` parts."""
    half = {"f16": 0x3C00, "bf16": 0x3F80}.get(halves.NAMES.get(to, ""))
    if half is not None:
        return half, UNSIGNED[4 if halves.pack_of(to) else 2]
    if to == "f32":
        return 0x3F800000, UNSIGNED[4]
    size = type_of(to).itemsize
    return 0xFFFF if parts == 2 else 256**size - 1, UNSIGNED[size]


def op_testp(w, instruction, target, x):
    _, test, ptx_type = instruction.parts
    dtype = FLOATS[ptx_type]
    smallest = w.constant(np.finfo(dtype).tiny)
    x = w.value(x, dtype)
    text = {
        "finite": f"np.isfinite({x})",
        "infinite": f"np.isinf({x})",
        "number": f"~np.isnan({x})",
        "notanumber": f"np.isnan({x})",
        "normal": f"(np.isfinite({x}) & ((np.abs({x}) >= {smallest}) | ({x} == 0)))",
        "subnormal": f"((np.abs({x}) < {smallest}) & ({x} != 0))",
    }[test]
    w.assign(target, text, BOOL, instruction)


def op_selp(w, instruction, target, yes, no, condition):
    dtype = w.types[target.name]
    choose, yes, no = w.value(condition, BOOL), w.value(yes, dtype), w.value(no, dtype)
    for load, where_true in loads_chosen_by(w.kernel, instruction):
        taken = choose if where_true else f"~{choose}"
        w.lines.append(f"lanes.chosen({load}, {taken}, mask)")
    w.assign(target, f"where({choose}, {yes}, {no})", dtype, instruction)


def op_slct(w, instruction, target, first, second, sign):
    """The first where `sign` is not negative."""
    dtype, ptx_type = w.types[target.name], instruction.parts[-1]
    zero = {"s32": np.int32(0), "f32": np.float32(0)}[ptx_type]
    sign = w.value(sign, SIGNED[4] if ptx_type == "s32" else FLOATS["f32"])
    if "ftz" in instruction.parts:
        sign = f"{w.use(float32.flush)}({sign})"
    first, second = w.value(first, dtype), w.value(second, dtype)
    w.assign(target, f"where({sign} >= {w.constant(zero)}, {first}, {second})", dtype, instruction)
