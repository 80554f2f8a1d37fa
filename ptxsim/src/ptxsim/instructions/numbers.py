"""Arithmetic on integers and floats, float16 and bfloat16 among them, and functions of floats."""

from __future__ import annotations

from functools import partial

import numpy as np

from ptxsim.arithmetic import double, float32, halves, integers, multiply_add, rounding
from ptxsim.arithmetic import special_functions as special
from ptxsim.arithmetic.exactness import are_given
from ptxsim.checks.program import loads_chosen_by
from ptxsim.ptx import BITWISE, BOOL, FLOATS, SIGNED, UNSIGNED, Unknown, Vector, type_of

F32, F64 = FLOATS["f32"], FLOATS["f64"]
DIRECTIONS = {"rn", "rz", "rm", "rp"}
SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
ROUNDED = {  # in other directions than to nearest: float32, float64
    "add": (rounding.add, double.double_add), "mul": (rounding.multiply, double.double_multiply),
    "div": (rounding.divide, double.double_divide),
    "sqrt": (rounding.square_root, double.double_square_root),
}  # fmt: skip


def _floats(w, instruction, sources):
    """(dtype, operands' texts, direction, ftz, sat) of a float instruction."""
    *flags, ptx_type = instruction.parts[1:]
    dtype, flags = type_of(ptx_type), set(flags)
    ftz, sat = "ftz" in flags, "sat" in flags
    (direction,) = flags & DIRECTIONS or {"rn"}
    if flags - DIRECTIONS - {"ftz", "sat"} or (dtype == F64 and (ftz or sat)):
        raise Unknown
    return dtype, [w.number(source, dtype, ftz) for source in sources], direction, ftz, sat


def _float_result(w, instruction, target, text, dtype, sat) -> None:
    w.assign(target, f"{w.use(rounding.saturate)}({text})" if sat else text, dtype, instruction)


def _is_float(instruction) -> bool:
    return type_of(instruction.parts[-1]).kind == "f"


def _integers(w, instruction, sources, *allowed):
    """(dtype, operands' texts, modifiers) of an integer instruction."""
    *flags, ptx_type = instruction.parts[1:]
    dtype, flags = type_of(ptx_type), set(flags)
    if dtype.kind not in "iu" or flags - set(allowed):
        raise Unknown
    return dtype, w.values(sources, dtype), flags


def _of_floats(w, instruction, target, a, b):
    name = instruction.name
    dtype, (x, y), direction, ftz, sat = _floats(w, instruction, (a, b))
    if direction != "rn":
        name, y = ("add", f"(-{y})") if name == "sub" else (name, y)
        function = w.use(ROUNDED[name][dtype == F64])
        text = f"{function}({x}, {y}, {direction!r}{f', {ftz}' if dtype == F32 else ''})"
    elif ftz and name in ("mul", "div"):
        function = float32.multiply_ftz if name == "mul" else float32.divide_ftz
        text = f"{w.use(function)}({x}, {y})"
    else:
        text = f"{x} {SIGNS[name]} {y}"
        text = f"{w.use(float32.flush)}({text})" if ftz else text
    _float_result(w, instruction, target, text, dtype, sat)


def _clamped(w, text: str, dtype) -> str:
    return f"{w.use(integers.clamp_to)}({text}, {w.dtype(dtype)})"


# --- sums -----------------------------------------------------------------------------------------


def _sum(w, instruction, target, a, b):
    sign = SIGNS[instruction.name]
    if instruction.parts[-1] in ("u16x2", "s16x2"):
        _paired(w, instruction, target, np.add if sign == "+" else np.subtract, a, b)
    elif _is_float(instruction):
        _of_floats(w, instruction, target, a, b)
    elif "cc" in instruction.parts:
        _carrying(w, instruction, target, a, b)
    else:
        dtype, (x, y), flags = _integers(w, instruction, (a, b), "sat")
        text, wide = f"{x} {sign} {y}", w.dtype(SIGNED[8])
        if "sat" in flags:
            text = _clamped(w, f"{x}.astype({wide}) {sign} {y}.astype({wide})", dtype)
        w.assign(target, text, dtype, instruction)


op_add = op_sub = _sum


def _carrying(w, instruction, target, a, b):
    """add.cc, addc, sub.cc, subc, mad.cc, madc. The carry is a variable of the block's function."""
    dtype = UNSIGNED[type_of(instruction.parts[-1]).itemsize]
    function, kind = integers.add_with_carry, "carry"
    if instruction.name in ("sub", "subc"):
        function, kind = integers.subtract_with_borrow, "borrow"
    before = kind if instruction.name.endswith("c") else "False"
    if before == kind and not any(line.startswith(f"total, {kind} = ") for line in w.lines):
        raise Unknown  # the instruction that sets it is not in this block
    x = a if isinstance(a, str) else w.value(a, dtype)
    w.lines.append(f"total, {kind} = {w.use(function)}({x}, {w.value(b, dtype)}, {before})")
    w.assign(target, "total", dtype, instruction)


op_addc = op_subc = _carrying


# --- products and quotients -----------------------------------------------------------------------


def op_mul(w, instruction, target, a, b):
    if _is_float(instruction):
        _of_floats(w, instruction, target, a, b)
    else:
        text, dtype = _product(w, instruction, a, b)
        w.assign(target, text, dtype, instruction)


def op_mad(w, instruction, target, a, b, c):
    if instruction.parts[-1] in FLOATS:
        op_fma(w, instruction, target, a, b, c)
        return
    text, dtype = _product(w, instruction, a, b)
    if "cc" in instruction.parts or instruction.name == "madc":
        text = f"({text}).view({w.dtype(UNSIGNED[dtype.itemsize])})"
        _carrying(w, instruction, target, text, c)
        return
    c, wide = w.value(c, dtype), w.dtype(SIGNED[8])
    if "sat" in instruction.parts:
        text = _clamped(w, f"({text}).astype({wide}) + {c}.astype({wide})", dtype)
    else:
        text = f"{text} + {c}"
    w.assign(target, text, dtype, instruction)


op_mul24, op_mad24, op_madc = op_mul, op_mad, op_mad


def _product(w, instruction, a, b):
    """(text, dtype) of an integer product: its lower or upper half, or all of it."""
    dtype, (x, y), flags = _integers(w, instruction, (a, b), "lo", "hi", "wide", "cc", "sat")
    (half,) = flags & {"lo", "hi", "wide"}
    if instruction.name in ("mul24", "mad24"):
        return f"{w.use(integers.multiply_24)}({x}, {y}, {half == 'hi'})", dtype
    if half == "wide":
        dtype = np.dtype(f"{dtype.kind}{2 * dtype.itemsize}")
        return f"{x}.astype({w.dtype(dtype)}) * {y}.astype({w.dtype(dtype)})", dtype
    text = f"{w.use(float32.multiply_high)}({x}, {y})" if half == "hi" else f"{x} * {y}"
    return text, dtype


def op_fma(w, instruction, target, a, b, c):
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
            known = w.degrees[target.name], are_given(w.degrees, a, b)
            operands += f", lanes.known_sums[{known}], lanes.magnitudes"
        text = f"{w.use(multiply_add.fma_ftz if ftz else multiply_add.fma)}({operands})"
    _float_result(w, instruction, target, text, dtype, sat)


def op_sad(w, instruction, target, a, b, c):
    dtype, (x, y, z), _ = _integers(w, instruction, (a, b, c))
    w.assign(target, f"{w.use(integers.absolute_difference)}({x}, {y}) + {z}", dtype, instruction)


def _dot(w, instruction, target, a, b, c):
    *half, type_a, type_b = instruction.parts[1:]
    signed = [{"s32": True, "u32": False}[ptx_type] for ptx_type in (type_a, type_b)]
    if half not in ([], ["lo"], ["hi"]):
        raise Unknown
    given = *w.values((a, b, c), SIGNED[4]), *signed, repr(half[0] if half else None)
    w.apply(instruction, target, SIGNED[4], integers.dot, *given)


op_dp4a = op_dp2a = _dot


def op_div(w, instruction, target, a, b):
    parts = set(instruction.parts[1:])
    if not _is_float(instruction):
        dtype, (x, y), _ = _integers(w, instruction, (a, b))
        w.apply(instruction, target, dtype, float32.divide_integers, x, y)
    elif parts - {"ftz"} in ({"approx", "f32"}, {"full", "f32"}):
        given = *w.values((a, b), F32), "full" in parts, "ftz" in parts
        w.apply(instruction, target, F32, special.divide_approximately, *given)
    else:
        _of_floats(w, instruction, target, a, b)


def op_rem(w, instruction, target, a, b):
    dtype, given, _ = _integers(w, instruction, (a, b))
    w.apply(instruction, target, dtype, float32.remainder_integers, *given)


# --- functions ------------------------------------------------------------------------------------

APPROXIMATE = {
    "rcp": special.reciprocal, "rcp.ftz.f64": special.reciprocal_high, "sqrt": special.root,
    "rsqrt": special.reciprocal_root, "rsqrt.f64": special.reciprocal_root_double,
    "rsqrt.ftz.f64": special.reciprocal_root_high, "lg2": special.logarithm,
    "ex2": special.power, "tanh": special.tangent, "sin": special.sine, "cos": special.cosine,
}  # fmt: skip


def _function(w, instruction, target, x):
    name, (*flags, ptx_type) = instruction.name, instruction.parts[1:]
    dtype, flags = FLOATS[ptx_type], set(flags)
    ftz, (direction,) = "ftz" in flags, flags - {"ftz"}
    x = w.number(x, dtype, ftz and dtype == F32)
    if direction == "approx":
        name += "" if dtype == F32 else ".ftz.f64" if ftz else ".f64"
        w.apply(instruction, target, dtype, APPROXIMATE[name], x, *([ftz] * (dtype == F32)))
        return
    if direction not in DIRECTIONS or name not in ("rcp", "sqrt"):
        raise Unknown
    if dtype == F64 and direction == "rn":
        text = f"1.0 / {x}" if name == "rcp" else f"np.sqrt({x})"
    else:
        given = [w.constant(dtype.type(1))] * (name == "rcp") + [x, repr(direction)]
        given += [str(ftz)] * (dtype == F32)
        function = ROUNDED["div" if name == "rcp" else "sqrt"][dtype == F64]
        text = f"{w.use(function)}({', '.join(given)})"
    w.assign(target, text, dtype, instruction)


op_rcp = op_sqrt = op_rsqrt = op_lg2 = op_ex2 = op_tanh = op_sin = op_cos = _function


# --- signs, the smaller and the larger ------------------------------------------------------------


def _sign(w, instruction, target, a):
    read = _floats if _is_float(instruction) else _integers
    dtype, (x,), *_ = read(w, instruction, (a,))
    w.assign(target, f"-{x}" if instruction.name == "neg" else f"np.abs({x})", dtype, instruction)


op_neg = op_abs = _sign


def op_copysign(w, instruction, target, sign, value):
    dtype, (x, y), *_ = _floats(w, instruction, (sign, value))
    w.assign(target, f"np.copysign({y}, {x})", dtype, instruction)


def _extreme(w, instruction, target, a, b, *third):
    *flags, ptx_type = (part for part in instruction.parts[1:] if part != "relu")
    flags, name = set(flags), {"min": "minimum", "max": "maximum"}[instruction.name]
    if ptx_type in ("u16x2", "s16x2"):
        _paired(w, instruction, target, getattr(np, name), a, b, *third)
    elif type_of(ptx_type).kind == "f":
        if flags - {"ftz", "NaN", "xorsign", "abs"} or (third and "xorsign" in flags):
            raise Unknown
        dtype = type_of(ptx_type)
        x, *others = (w.number(operand, dtype, "ftz" in flags) for operand in (a, b, *third))
        nan, xorsign = "NaN" in flags, "xorsign" in flags
        choose = w.use(getattr(float32, name))
        if third and "abs" in flags:
            x, *others = (f"np.abs({each})" for each in (x, *others))
        for y in others:
            if nan or xorsign:
                x = f"{w.use(float32.extreme)}({choose}, {x}, {y}, {nan}, {xorsign})"
            else:
                x = f"{choose}({x}, {y})"
        w.assign(target, x, dtype, instruction)
    else:
        if flags or third:
            raise Unknown
        dtype = type_of(ptx_type)
        text = f"np.{name}({', '.join(w.values((a, b), dtype))})"
        if "relu" in instruction.parts:
            text = f"np.maximum({text}, {w.constant(dtype.type(0))})"
        w.assign(target, text, dtype, instruction)


op_min = op_max = _extreme


def _paired(w, instruction, target, function, a, b):
    flags = set(instruction.parts[1:]) - {"u16x2", "s16x2"}
    if flags - {"relu"}:
        raise Unknown
    function = w.constant(partial(integers.not_negative, function) if flags else function)
    given = *w.values((a, b), SIGNED[4]), f"signed={'s16x2' in instruction.parts}"
    w.apply(instruction, target, SIGNED[4], integers.each_16_bits, function, *given)


# --- float16 and bfloat16, one number in a register or two ("x2") ---------------------------------

FORMATS = {"f16": "f16", "f16x2": "f16", "bf16": "bf16", "bf16x2": "bf16"}
LIMITS = {"sat", "relu"}
OF_HALVES = {  # name -> the function, and the modifiers that it may have besides ftz
    "add": (halves.add, LIMITS), "sub": (halves.subtract, LIMITS), "mul": (halves.multiply, LIMITS),
    "fma": (halves.multiply_add, LIMITS), "neg": (halves.negate, set()),
    "abs": (halves.magnitude, set()), "min": (halves.extreme, {"NaN", "xorsign", "abs"}),
    "max": (halves.extreme, {"NaN", "xorsign", "abs"}), "ex2": (halves.power, {"approx"}),
    "tanh": (halves.tangent, {"approx"}),
}  # fmt: skip


def is_half(instruction) -> bool:
    return instruction.parts[-1] in FORMATS


def _register_type(ptx_type: str) -> np.dtype:
    return SIGNED[4] if ptx_type.endswith("x2") else UNSIGNED[2]


def of_halves(w, instruction, target, *sources):
    """Functions that take and give 16-bit patterns: in place of those of the same names above."""
    name, (*flags, ptx_type) = instruction.name, instruction.parts[1:]
    function, allowed = OF_HALVES[name]
    how, flags = {"name": FORMATS[ptx_type], "ftz": "ftz" in flags}, set(flags) - {"rn", "ftz"}
    if flags - allowed:
        raise Unknown
    if allowed is LIMITS:
        how["limit"] = flags.pop() if flags else None
    elif name in ("min", "max"):
        how |= {"larger": name == "max", "nan": "NaN" in flags, "xorsign": "xorsign" in flags}
    dtype, function = _register_type(ptx_type), partial(function, **how)
    given = w.values(sources, dtype)
    if ptx_type.endswith("x2"):
        given = w.constant(function), f"({', '.join(given)},)"
        function = halves.each_half
    w.apply(instruction, target, dtype, function, *given)


def halves_as_numbers(w, instruction, sources, part: int) -> list[str]:
    """The operands as float64: of two in a register, the lower (part 0) or the upper one (1)."""
    ptx_type = instruction.parts[-1]
    name, ftz = FORMATS[ptx_type], "ftz" in instruction.parts
    convert = w.constant(partial(halves.numbers, name=name, ftz=ftz))
    texts = w.values(sources, _register_type(ptx_type))
    if ptx_type.endswith("x2"):
        shift = w.constant(np.int32(16 * part))
        texts = [f"(({text}) >> {shift})" for text in texts]
    return [f"{convert}({text})" for text in texts]


# --- comparisons ----------------------------------------------------------------------------------


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
    for part, register in enumerate(target.items if isinstance(target, Vector) else (target,)):
        text = _condition(w, instruction, a, b, part, combined)
        w.assign(register, text, BOOL, instruction)


def _condition(w, instruction, a, b, part: int, combined, *to) -> str:
    """`part`: of two numbers in a register; `combined`: with this predicate, if any."""
    comparison, ptx_type = instruction.parts[1], instruction.parts[-1]
    conditions = CONDITIONS_OF_FLOATS
    if is_half(instruction):
        x, y = halves_as_numbers(w, instruction, (a, b), part)
    elif part:
        raise Unknown
    else:
        dtype, ftz = type_of(ptx_type), "ftz" in instruction.parts and ptx_type == "f32"
        if dtype.kind == "f":
            x, y = (w.number(operand, dtype, ftz) for operand in (a, b))
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
        here = f"lanes.both(mask, np.asarray({taken}))"
        w.lines.append(f"if lanes.checker: lanes.checker.chosen({load}, {here})")
    w.assign(target, f"where({choose}, {yes}, {no})", dtype, instruction)


def op_slct(w, instruction, target, first, second, sign):
    dtype = w.types[target.name]
    kind = {"s32": SIGNED[4], "f32": FLOATS["f32"]}[instruction.parts[-1]]
    sign, zero = w.value(sign, kind), w.constant(kind.type(0))
    sign = f"{w.use(float32.flush)}({sign})" if "ftz" in instruction.parts else sign
    first, second = w.values((first, second), dtype)
    w.assign(target, f"where({sign} >= {zero}, {first}, {second})", dtype, instruction)
