"""Arithmetic on integers and floats."""

from __future__ import annotations

from functools import partial

import numpy as np

from ptxsim.arithmetic import (
    approximate,
    double,
    float32,
    integers,
    multiply_add,
    rounding,
)
from ptxsim.instructions import halves
from ptxsim.types import FLOATS, SIGNED, UNSIGNED, Unknown, type_of

F32, F64 = FLOATS["f32"], FLOATS["f64"]
DIRECTIONS = {"rn", "rz", "rm", "rp"}


def _floats(w, instruction, sources):
    """(dtype, operands' texts, direction, ftz, sat) of a float instruction."""
    *flags, ptx_type = instruction.parts[1:]
    dtype, flags = type_of(ptx_type), set(flags)
    ftz, sat = "ftz" in flags, "sat" in flags
    directions = flags & DIRECTIONS or {"rn"}
    if flags - DIRECTIONS - {"ftz", "sat"} or len(directions) > 1:
        raise Unknown
    (direction,) = directions
    if dtype == F64 and (ftz or sat):
        raise Unknown
    return dtype, [w.number(source, dtype, ftz) for source in sources], direction, ftz, sat


def _float_result(w, instruction, target, text, dtype, sat) -> None:
    w.assign(target, f"{w.use(rounding.saturate)}({text})" if sat else text, dtype, instruction)


def is_float(instruction) -> bool:
    return type_of(instruction.parts[-1]).kind == "f"


def _integers(w, instruction, sources, *allowed):
    """(dtype, operands' texts, modifiers) of an integer instruction."""
    *flags, ptx_type = instruction.parts[1:]
    dtype, flags = type_of(ptx_type), set(flags)
    if dtype.kind not in "iu" or flags - set(allowed):
        raise Unknown
    return dtype, [w.value(source, dtype) for source in sources], flags


# --- sums -----------------------------------------------------------------------------------------


def op_add(w, instruction, target, a, b):
    _sum(w, instruction, target, a, b, "+")


def op_sub(w, instruction, target, a, b):
    _sum(w, instruction, target, a, b, "-")


def _sum(w, instruction, target, a, b, sign):
    if halves.takes(instruction):
        halves.arithmetic(w, instruction, target, a, b)
    elif instruction.parts[-1] in ("u16x2", "s16x2"):
        _paired(w, instruction, target, np.add if sign == "+" else np.subtract, a, b)
    elif is_float(instruction):
        dtype, (x, y), direction, ftz, sat = _floats(w, instruction, (a, b))
        if direction == "rn":
            text = f"{x} {sign} {y}"
            text = f"flush({text})" if ftz else text
        elif dtype == F32:
            y = f"(-{y})" if sign == "-" else y
            text = f"{w.use(rounding.add)}({x}, {y}, {direction!r}, {ftz})"
        else:
            y = f"(-{y})" if sign == "-" else y
            text = f"{w.use(double.double_add)}({x}, {y}, {direction!r})"
        _float_result(w, instruction, target, text, dtype, sat)
    elif "cc" in instruction.parts:
        _carrying(w, instruction, target, a, b, carry_in=False)
    else:
        dtype, (x, y), flags = _integers(w, instruction, (a, b), "sat")
        if "sat" in flags:
            wide = w.dtype(SIGNED[8])
            text = f"{x}.astype({wide}) {sign} {y}.astype({wide})"
            text = f"{w.use(integers.clamp_to)}({text}, {w.dtype(dtype)})"
        else:
            text = f"{x} {sign} {y}"
        w.assign(target, text, dtype, instruction)


def op_addc(w, instruction, target, a, b):
    _carrying(w, instruction, target, a, b, carry_in=True)


op_subc = op_addc


def _carrying(w, instruction, target, a, b, carry_in):
    """add.cc, addc, sub.cc and subc. The carry is a variable of the generated function."""
    size = type_of(instruction.parts[-1]).itemsize
    dtype = UNSIGNED[size]
    function, kind = {
        "add": (integers.add_with_carry, "carry"), "sub": (integers.subtract_with_borrow, "borrow"),
        "mad": (integers.add_with_carry, "carry"),
    }[instruction.name.removesuffix("c")]  # fmt: skip
    x = a if isinstance(a, str) else w.value(a, dtype)
    if carry_in and not any(line.startswith(f"total, {kind} = ") for line in w.lines):
        raise Unknown  # the instruction that sets it is not in this block
    y, before = w.value(b, dtype), kind if carry_in else "False"
    w.lines.append(f"total, {kind} = {w.use(function)}({x}, {y}, {before})")
    w.assign(target, "total", dtype, instruction)


# --- products -------------------------------------------------------------------------------------


def op_mul(w, instruction, target, a, b):
    if halves.takes(instruction):
        halves.arithmetic(w, instruction, target, a, b)
    elif is_float(instruction):
        dtype, (x, y), direction, ftz, sat = _floats(w, instruction, (a, b))
        if direction != "rn" and dtype == F32:
            text = f"{w.use(rounding.multiply)}({x}, {y}, {direction!r}, {ftz})"
        elif direction != "rn":
            text = f"{w.use(double.double_multiply)}({x}, {y}, {direction!r})"
        else:
            text = f"multiply_ftz({x}, {y})" if ftz else f"{x} * {y}"
        _float_result(w, instruction, target, text, dtype, sat)
    else:
        text, dtype = _product(w, instruction, a, b)
        w.assign(target, text, dtype, instruction)


def op_mad(w, instruction, target, a, b, c):
    parts = instruction.parts
    if parts[-1] in FLOATS:
        op_fma(w, instruction, target, a, b, c)
    elif "cc" in parts:
        text, dtype = _product(w, instruction, a, b)
        text = f"({text}).view({w.dtype(UNSIGNED[dtype.itemsize])})"
        _carrying(w, instruction, target, text, c, carry_in=instruction.name == "madc")
    else:
        text, dtype = _product(w, instruction, a, b)
        c = w.value(c, dtype)
        if "sat" in parts:
            wide = w.dtype(SIGNED[8])
            text = f"({text}).astype({wide}) + {c}.astype({wide})"
            text = f"{w.use(integers.clamp_to)}({text}, {w.dtype(dtype)})"
        else:
            text = f"{text} + {c}"
        w.assign(target, text, dtype, instruction)


def op_madc(w, instruction, target, a, b, c):
    text, dtype = _product(w, instruction, a, b)
    text = f"({text}).view({w.dtype(UNSIGNED[dtype.itemsize])})"
    _carrying(w, instruction, target, text, c, carry_in=True)


def op_mul24(w, instruction, target, a, b):
    text, dtype = _product(w, instruction, a, b)
    w.assign(target, text, dtype, instruction)


op_mad24 = op_mad


def _product(w, instruction, a, b):
    """(text, dtype) of an integer product: its lower or upper half, or all of it."""
    dtype, (x, y), flags = _integers(w, instruction, (a, b), "lo", "hi", "wide", "cc", "sat")
    (half,) = flags & {"lo", "hi", "wide"}
    if instruction.name in ("mul24", "mad24"):
        return f"{w.use(integers.multiply_24)}({x}, {y}, {half == 'hi'})", dtype
    if half == "wide":
        dtype = np.dtype(f"{dtype.kind}{2 * dtype.itemsize}")
        return f"{x}.astype({w.dtype(dtype)}) * {y}.astype({w.dtype(dtype)})", dtype
    if half == "hi":
        return f"multiply_high({x}, {y})", dtype
    return f"{x} * {y}", dtype


def op_fma(w, instruction, target, a, b, c):
    if halves.takes(instruction):
        halves.arithmetic(w, instruction, target, a, b, c)
        return
    dtype, sources, direction, ftz, sat = _floats(w, instruction, (a, b, c))
    if dtype == F64:
        text = f"{w.use(double.double_fma)}({', '.join(sources)}, {direction!r})"
        _float_result(w, instruction, target, text, dtype, sat)
        return
    if instruction.predicate is None:
        w.fma_count += 1
    else:
        w.lines.append(f"lanes.count_fma(1, {w.mask(instruction)})")
    if direction != "rn":
        text = f"{w.use(rounding.multiply_add)}({', '.join(sources)}, {direction!r}, {ftz})"
    else:
        operands = f"{w.wide(a, ftz)}, {w.wide(b, ftz)}, {sources[2]}"
        if ftz:
            known = w.exactness.degrees[target.name], w.exactness.are_given(a, b)
            operands += f", lanes.known_sums[{known}], lanes.magnitudes"
        function = multiply_add.fma_ftz if ftz else multiply_add.fma
        text = f"{w.use(function)}({operands})"
    _float_result(w, instruction, target, text, dtype, sat)


def op_sad(w, instruction, target, a, b, c):
    dtype, (x, y, z), _ = _integers(w, instruction, (a, b, c))
    w.assign(target, f"{w.use(integers.absolute_difference)}({x}, {y}) + {z}", dtype, instruction)


def op_dp4a(w, instruction, target, a, b, c):
    _dot(w, instruction, target, a, b, c, integers.dot_bytes, instruction.parts[1:])


def op_dp2a(w, instruction, target, a, b, c):
    half, *types = instruction.parts[1:]
    high = {"lo": False, "hi": True}[half]
    _dot(w, instruction, target, a, b, c, integers.dot_halves, types, high)


def _dot(w, instruction, target, a, b, c, function, types, *more):
    signed = [{"s32": True, "u32": False}[ptx_type] for ptx_type in types]
    given = [w.value(x, SIGNED[4]) for x in (a, b, c)]
    text = f"{w.use(function)}({', '.join([*given, *map(str, [*signed, *more])])})"
    w.assign(target, text, SIGNED[4], instruction)


# --- quotients ------------------------------------------------------------------------------------


def op_div(w, instruction, target, a, b):
    if not is_float(instruction):
        dtype, (x, y), _ = _integers(w, instruction, (a, b))
        w.assign(target, f"divide_integers({x}, {y})", dtype, instruction)
        return
    kind = set(instruction.parts) & {"approx", "full"}
    if kind:
        _approximate_quotient(w, instruction, target, a, b, kind)
        return
    dtype, (x, y), direction, ftz, sat = _floats(w, instruction, (a, b))
    if direction != "rn" and dtype == F32:
        text = f"{w.use(rounding.divide)}({x}, {y}, {direction!r}, {ftz})"
    elif direction != "rn":
        text = f"{w.use(double.double_divide)}({x}, {y}, {direction!r})"
    else:
        text = f"divide_ftz({x}, {y})" if ftz else f"{x} / {y}"
    _float_result(w, instruction, target, text, dtype, sat)


def _approximate_quotient(w, instruction, target, a, b, kind):
    ftz = "ftz" in instruction.parts
    if set(instruction.parts[1:]) - kind - {"ftz", "f32"} or len(kind) > 1:
        raise Unknown
    x, y = w.value(a, F32), w.value(b, F32)
    function = w.use(approximate.divide_approximately)
    w.assign(target, f"{function}({x}, {y}, {kind == {'full'}}, {ftz})", F32, instruction)


def op_rem(w, instruction, target, a, b):
    dtype, (x, y), _ = _integers(w, instruction, (a, b))
    text = f"{w.use(float32.remainder_integers)}({x}, {y})"
    w.assign(target, text, dtype, instruction)


# --- signs, the smaller and the larger ------------------------------------------------------------


def op_neg(w, instruction, target, a):
    if halves.takes(instruction):
        halves.sign(w, instruction, target, a)
    elif is_float(instruction):
        dtype, (x,), _, _, _ = _floats(w, instruction, (a,))
        w.assign(target, f"-{x}", dtype, instruction)
    else:
        dtype, (x,), _ = _integers(w, instruction, (a,))
        w.assign(target, f"-{x}", dtype, instruction)


def op_abs(w, instruction, target, a):
    if halves.takes(instruction):
        halves.sign(w, instruction, target, a)
    elif is_float(instruction):
        dtype, (x,), _, _, _ = _floats(w, instruction, (a,))
        w.assign(target, f"np.abs({x})", dtype, instruction)
    else:
        dtype, (x,), _ = _integers(w, instruction, (a,))
        w.assign(target, f"np.abs({x})", dtype, instruction)


def op_copysign(w, instruction, target, sign, value):
    dtype, (x, y), _, _, _ = _floats(w, instruction, (sign, value))
    w.assign(target, f"np.copysign({y}, {x})", dtype, instruction)


def op_min(w, instruction, target, a, b):
    _extreme(w, instruction, target, a, b, "minimum")


def op_max(w, instruction, target, a, b):
    _extreme(w, instruction, target, a, b, "maximum")


def _extreme(w, instruction, target, a, b, name):
    if halves.takes(instruction):
        halves.extreme(w, instruction, target, a, b)
        return
    *flags, ptx_type = (part for part in instruction.parts[1:] if part != "relu")
    flags, relu = set(flags), "relu" in instruction.parts
    if ptx_type in ("u16x2", "s16x2"):
        _paired(w, instruction, target, getattr(np, name), a, b)
        return
    if type_of(ptx_type).kind in "iu":
        if flags:
            raise Unknown
        dtype = type_of(ptx_type)
        text = f"np.{name}({w.value(a, dtype)}, {w.value(b, dtype)})"
        text = f"np.maximum({text}, {w.constant(dtype.type(0))})" if relu else text
        w.assign(target, text, dtype, instruction)
        return
    dtype, ftz = type_of(ptx_type), "ftz" in flags
    if flags - {"ftz", "NaN", "xorsign", "abs"}:
        raise Unknown
    x, y = (w.number(one, dtype, ftz) for one in (a, b))
    nan, xorsign = "NaN" in flags, "xorsign" in flags
    text = f"{name}({x}, {y})"
    if nan or xorsign:
        text = f"{w.use(float32.extreme)}({name}, {x}, {y}, {nan}, {xorsign})"
    w.assign(target, text, dtype, instruction)


def _paired(w, instruction, target, function, a, b):
    """Two integers of 16 bits in a register."""
    flags = set(instruction.parts[1:]) - {"u16x2", "s16x2"}
    if flags - {"relu"}:
        raise Unknown
    if flags:
        function = partial(integers.not_negative, function)
    x, y = w.value(a, SIGNED[4]), w.value(b, SIGNED[4])
    signed = "s16x2" in instruction.parts
    text = f"{w.use(integers.each_half)}({w.constant(function)}, {x}, {y}, signed={signed})"
    w.assign(target, text, SIGNED[4], instruction)
