"""Comparisons, and choices that depend on one."""

from __future__ import annotations

import numpy as np

from ptxsim.checks.program import loads_chosen_by
from ptxsim.instructions import numbers
from ptxsim.ptx import Vector
from ptxsim.types import BITWISE, BOOL, FLOATS, SIGNED, UNSIGNED, Unknown, type_of

ORDERED = {"eq": "==", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
           "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}  # fmt: skip
# Float comparisons that are true when an operand is NaN: the negation of an ordered one.
UNORDERED = {"neu": "==", "ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<"}
CONDITIONS = {name: f"({{x}} {sign} {{y}})" for name, sign in ORDERED.items()}
CONDITIONS_OF_INTEGERS = CONDITIONS | {"ne": "({x} != {y})"}
CONDITIONS_OF_FLOATS = {
    **CONDITIONS,
    **{name: f"~({{x}} {sign} {{y}})" for name, sign in UNORDERED.items()},
    "ne": "(({x} < {y}) | ({x} > {y}))",  # false when an operand is NaN
    "equ": "~(({x} < {y}) | ({x} > {y}))",
    "num": "(({x} == {x}) & ({y} == {y}))",
    "nan": "(({x} != {x}) | ({y} != {y}))",
}


def op_setp(w, instruction, target, a, b, *combined):
    for part, one in enumerate(target.items if isinstance(target, Vector) else (target,)):
        text = _condition(w, instruction, a, b, part, combined)
        w.assign(one, text, BOOL, instruction)


def _condition(w, instruction, a, b, part: int, combined, *to) -> str:
    """`part`: of two numbers in a register; `combined`: with this predicate, if any."""
    comparison, ptx_type = instruction.parts[1], instruction.parts[-1]
    conditions = CONDITIONS_OF_FLOATS
    if numbers.is_half(instruction):
        x, y = numbers.halves_as_numbers(w, instruction, (a, b), part)
    elif part:
        raise Unknown
    else:
        dtype, ftz = type_of(ptx_type), "ftz" in instruction.parts and ptx_type == "f32"
        if dtype.kind == "f":
            x, y = (w.number(one, dtype, ftz) for one in (a, b))
        else:
            conditions, (x, y) = CONDITIONS_OF_INTEGERS, w.values((a, b), dtype)
    text, operations = conditions[comparison].format(x=x, y=y), instruction.parts[2:-1]
    operations = set(operations) - {"ftz", *to}
    if combined:
        (operation,) = operations
        return f"({text} {BITWISE[operation]} {w.value(combined[0], BOOL)})"
    if operations:
        raise Unknown
    return text


def op_set(w, instruction, target, a, b, *combined):
    """A comparison whose result is a number: 1.0 or all ones where it holds, else 0."""
    *_, to, come_from = instruction.parts
    parts = 2 if come_from.endswith("x2") else 1
    true, dtype = _true_value(to, parts)
    true, zero = w.constant(dtype.type(true)), w.constant(dtype.type(0))
    low, *high = (
        f"where({_condition(w, instruction, a, b, part, combined, to)}, {true}, {zero})"
        for part in range(parts)
    )
    text = f"({low} | {high[0]} << {w.constant(dtype.type(16))})" if high else low
    w.assign(target, text, dtype, instruction)


def _true_value(to: str, parts: int) -> tuple[int, np.dtype]:
    """What stands for "true" in a result of type `to`, of each of `parts` parts."""
    half = {"f16": 0x3C00, "bf16": 0x3F80}.get(to.removesuffix("x2"))
    if half is not None:
        return half, UNSIGNED[4 if to.endswith("x2") else 2]
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
    choose, (yes, no) = w.value(condition, BOOL), w.values((yes, no), dtype)
    for load, where_true in loads_chosen_by(w.kernel, instruction):
        taken = choose if where_true else f"~{choose}"
        w.lines.append(f"lanes.chosen({load}, {taken}, mask)")
    w.assign(target, f"where({choose}, {yes}, {no})", dtype, instruction)


def op_slct(w, instruction, target, first, second, sign):
    dtype = w.types[target.name]
    kind = {"s32": SIGNED[4], "f32": FLOATS["f32"]}[instruction.parts[-1]]
    sign, zero = w.value(sign, kind), w.constant(kind.type(0))
    sign = f"flush({sign})" if "ftz" in instruction.parts else sign
    first, second = w.values((first, second), dtype)
    w.assign(target, f"where({sign} >= {zero}, {first}, {second})", dtype, instruction)
