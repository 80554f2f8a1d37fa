"""Arithmetic on integers and floats, comparisons and conversions."""

from __future__ import annotations

import numpy as np

from ..ptx import Register
from ..types import BITWISE, BOOL, FLOATS, Unknown, type_of

COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
           "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}  # fmt: skip
# Float comparisons that are true when an operand is NaN: the negation of an ordered one.
UNORDERED = {"equ": "!=", "neu": "==", "ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<"}


def _arithmetic(w, instruction, target, *sources):
    """Operator text for integers and floats of the operations that NumPy has."""
    *flags, ptx_type = instruction.parts[1:]
    dtype = type_of(ptx_type)
    if dtype.kind == "f":
        if set(flags) - {"rn", "ftz"}:
            raise Unknown
        ftz = "ftz" in flags
        return dtype, [w.number(source, dtype, ftz) for source in sources], ftz
    if set(flags) - {"lo"}:
        raise Unknown
    return dtype, [w.value(source, dtype) for source in sources], False


def _operator(w, instruction, target, a, b, sign):
    dtype, (x, y), ftz = _arithmetic(w, instruction, target, a, b)
    text = f"{x} {sign} {y}"
    w.assign(target, f"flush({text})" if ftz else text, dtype, instruction)


def op_add(w, instruction, target, a, b):
    _operator(w, instruction, target, a, b, "+")


def op_sub(w, instruction, target, a, b):
    _operator(w, instruction, target, a, b, "-")


def op_mul(w, instruction, target, a, b):
    if "wide" in instruction.parts:
        text, dtype = _wide(w, instruction, a, b)
        w.assign(target, text, dtype, instruction)
    elif "hi" in instruction.parts:
        dtype = type_of(instruction.parts[-1])
        text = f"multiply_high({w.value(a, dtype)}, {w.value(b, dtype)})"
        w.assign(target, text, dtype, instruction)
    else:
        dtype, (x, y), ftz = _arithmetic(w, instruction, target, a, b)
        text = f"multiply_ftz({x}, {y})" if ftz else f"{x} * {y}"
        w.assign(target, text, dtype, instruction)


def op_mad(w, instruction, target, a, b, c):
    if "wide" in instruction.parts:
        text, dtype = _wide(w, instruction, a, b)
        w.assign(target, f"{text} + {w.value(c, dtype)}", dtype, instruction)
    else:
        dtype, (x, y, z), _ = _arithmetic(w, instruction, target, a, b, c)
        if dtype.kind == "f":
            raise Unknown
        w.assign(target, f"{x} * {y} + {z}", dtype, instruction)


def _wide(w, instruction, a, b):
    narrow = type_of(instruction.parts[-1])
    wide = np.dtype(f"{narrow.kind}{2 * narrow.itemsize}")
    x, y = (f"{w.value(one, narrow)}.astype({w.dtype(wide)})" for one in (a, b))
    return f"{x} * {y}", wide


def op_fma(w, instruction, target, a, b, c):
    dtype, sources, ftz = _arithmetic(w, instruction, target, a, b, c)
    if dtype != FLOATS["f32"]:
        raise Unknown
    if instruction.predicate is None:
        w.fma_count += 1
    else:
        w.lines.append(f"lanes.count_fma(1, {w.mask(instruction)})")
    if ftz:
        sources.append(f"lanes.known_sums[{w.degrees[target.name]}]")
    w.assign(target, f"fma{'_ftz' * ftz}({', '.join(sources)})", dtype, instruction)


def op_div(w, instruction, target, a, b):
    dtype, (x, y), ftz = _arithmetic(w, instruction, target, a, b)
    if dtype.kind == "f":
        text = f"divide_ftz({x}, {y})" if ftz else f"{x} / {y}"
    else:
        text = f"divide_integers({x}, {y})"
    w.assign(target, text, dtype, instruction)


def op_rem(w, instruction, target, a, b):
    dtype, (x, y), _ = _arithmetic(w, instruction, target, a, b)
    w.assign(target, f"{x} - divide_integers({x}, {y}) * {y}", dtype, instruction)


def op_neg(w, instruction, target, a):
    dtype, (x,), _ = _arithmetic(w, instruction, target, a)
    w.assign(target, f"-{x}", dtype, instruction)


def op_abs(w, instruction, target, a):
    dtype, (x,), _ = _arithmetic(w, instruction, target, a)
    w.assign(target, f"np.abs({x})", dtype, instruction)


def _extreme(w, instruction, target, a, b, name):
    dtype, (x, y), _ = _arithmetic(w, instruction, target, a, b)
    function = name if dtype == FLOATS["f32"] else f"np.{name}"
    if dtype == FLOATS["f64"]:
        raise Unknown
    w.assign(target, f"{function}({x}, {y})", dtype, instruction)


def op_min(w, instruction, target, a, b):
    _extreme(w, instruction, target, a, b, "minimum")


def op_max(w, instruction, target, a, b):
    _extreme(w, instruction, target, a, b, "maximum")


def op_setp(w, instruction, target, a, b, *combined):
    flags, dtype = instruction.parts[1:-1], type_of(instruction.parts[-1])
    comparison, *rest = flags
    ftz = "ftz" in rest
    x, y = (
        w.number(one, dtype, ftz) if dtype.kind == "f" else w.value(one, dtype) for one in (a, b)
    )
    if dtype.kind == "f" and comparison == "ne":  # false when an operand is NaN
        text = f"(({x} < {y}) | ({x} > {y}))"
    elif comparison == "equ":
        text = f"~(({x} < {y}) | ({x} > {y}))"
    elif comparison in UNORDERED:
        text = f"~({x} {UNORDERED[comparison]} {y})"
    else:
        text = f"({x} {COMPARE[comparison]} {y})"
    if combined:
        sign = BITWISE[next(flag for flag in rest if flag in BITWISE)]
        text = f"{text} {sign} {w.value(combined[0], BOOL)}"
    w.assign(target, text, BOOL, instruction)


def op_cvt(w, instruction, target, source):
    *flags, to, come_from = instruction.parts[1:]
    have, want = type_of(come_from), type_of(to)
    rounding = [flag for flag in flags if flag != "ftz"]
    if have.kind == "f":
        text = w.number(source, have, "ftz" in flags)
    else:
        text = _low_bits(w, source, have)
    if have.kind == "f" and want.kind in "iu":
        (mode,) = rounding
        text = f"float_to_integer({text}, {mode!r}, {w.dtype(want)}.type)"
    elif rounding not in ([], ["rn"]):
        raise Unknown
    else:
        narrows = "ftz" in flags and have == FLOATS["f64"]
        text = f"to_float32_ftz({text})" if narrows else f"{text}.astype({w.dtype(want)})"
    w.assign(target, text, want, instruction)


def _low_bits(w, source, dtype: np.dtype) -> str:
    """cvt.s64.s16 may read a 32-bit register: only its low bits count."""
    if isinstance(source, Register) and w.types[source.name].kind in "iu":
        return f"{w.variable(source.name)}.astype({w.dtype(dtype)})"
    return w.value(source, dtype)
