"""cvt: one type to another."""

from __future__ import annotations

from functools import partial

from ptxsim.arithmetic import halves
from ptxsim.arithmetic import rounding as runtime
from ptxsim.arithmetic.float32 import WHOLE, float_to_integer
from ptxsim.arithmetic.integers import clamp_to
from ptxsim.instructions.numbers import DIRECTIONS
from ptxsim.ptx import FLOATS, SIGNED, UNSIGNED, Register, Unknown, type_of

NARROW = {"f16", "bf16"}
EIGHT_BITS = {"e4m3x2", "e5m2x2"}


def op_cvt(w, instruction, target, source, *second):
    *flags, to, come_from = instruction.parts[1:]
    flags = set(flags)
    if second:
        _to_pair(w, instruction, target, source, *second, flags)
    elif to in EIGHT_BITS or come_from in EIGHT_BITS:
        _pair_to_pair(w, instruction, target, source, flags)
    elif to == "tf32":
        _to_tf32(w, instruction, target, source, flags)
    elif to[0] in "us":
        _to_integer(w, instruction, target, source, flags)
    else:
        _to_float(w, instruction, target, source, flags)


def _given(w, source, ptx_type: str, ftz: bool = False) -> str:
    """The operand: an array of integers, of float32 or of float64; narrow floats as float32."""
    if ptx_type in NARROW:
        return f"{w.use(halves.FROM_BITS[ptx_type])}({w.value(source, UNSIGNED[2])})"
    dtype = type_of(ptx_type)
    if dtype.kind == "f":
        return w.number(source, dtype, ftz and ptx_type == "f32")
    if isinstance(source, Register) and w.types[source.name].kind in "iu":
        # cvt.s64.s16 may read a register of 32 bits: only its low ones count.
        return f"{w.variable(source.name)}.astype({w.dtype(dtype)})"
    return w.value(source, dtype)


def _to_integer(w, instruction, target, source, flags):
    to, come_from = instruction.parts[-2:]
    want = type_of(to)
    text = _given(w, source, come_from, "ftz" in flags)
    if come_from[0] not in "us":
        (mode,) = flags - {"ftz", "sat"}
        if mode not in WHOLE:
            raise Unknown
        text = f"{w.use(float_to_integer)}({text}, {mode!r}, {w.dtype(want)}.type)"
    elif flags == {"sat"}:
        text = f"{w.use(clamp_to)}({text}, {w.dtype(want)})"
    elif flags:
        raise Unknown
    else:
        text = f"{text}.astype({w.dtype(want)})"
    w.assign(target, text, want, instruction)


def _to_float(w, instruction, target, source, flags):
    to, come_from = instruction.parts[-2:]
    ftz, limits = "ftz" in flags, flags & {"sat", "relu"}
    modes = flags - {"ftz", "sat", "relu"}
    limit = limits.pop() if limits else None
    if modes - DIRECTIONS - WHOLE.keys() or len(modes) > 1 or limits:
        raise Unknown
    mode = modes.pop() if modes else "rn"
    text = _given(w, source, come_from, ftz)
    plain = mode == "rn" and limit is None and to in FLOATS
    if plain and not (ftz and come_from == "f64") and come_from not in ("u64", "s64"):
        # NumPy rounds as the GPU does, and float32 operands are flushed already.
        text = f"{text}.astype({w.dtype(FLOATS[to])})"
    else:
        convert = partial(runtime.to_float, to=to, mode=mode, limit=limit, ftz=ftz)
        text = f"{w.constant(convert)}({text})"
    w.assign(target, text, UNSIGNED[2] if to in NARROW else FLOATS[to], instruction)


def _to_pair(w, instruction, target, high, low, flags):
    """Two float32 to two narrow floats in one register; the first operand is the upper one."""
    to, come_from = instruction.parts[-2:]
    name, relu, modes = to.removesuffix("x2"), "relu" in flags, flags - {"relu"}
    if come_from != "f32":
        raise Unknown
    if to in EIGHT_BITS and "satfinite" in modes and not modes - {"rn", "satfinite"}:
        function = partial(runtime.pair_of_eight_bits, name=name, relu=relu)
    elif name in NARROW and modes in ({"rn"}, {"rz"}):
        limit = "relu" if relu else None
        function = partial(runtime.pair_of_halves, name=name, mode=modes.pop(), limit=limit)
    else:
        raise Unknown
    want = UNSIGNED[2 if to in EIGHT_BITS else 4]
    w.apply(instruction, target, want, function, *w.values((high, low), FLOATS["f32"]))


def _pair_to_pair(w, instruction, target, source, flags):
    to, come_from = instruction.parts[-2:]
    relu = "relu" in flags
    if to == "f16x2" and come_from in EIGHT_BITS and not flags - {"rn", "relu"}:
        function = partial(runtime.halves_of_eight_bits, name=come_from[:-2], relu=relu)
        have, want = UNSIGNED[2], UNSIGNED[4]
    elif come_from == "f16x2" and not flags - {"rn", "satfinite", "relu"} and "satfinite" in flags:
        function = partial(runtime.eight_bits_of_halves, name=to[:-2], relu=relu)
        have, want = UNSIGNED[4], UNSIGNED[2]
    else:
        raise Unknown
    w.apply(instruction, target, want, function, w.value(source, have))


def _to_tf32(w, instruction, target, source, flags):
    (mode,) = flags - {"relu"}
    if instruction.parts[-1] != "f32" or mode not in ("rn", "rna", "rz"):
        raise Unknown
    source = w.value(source, FLOATS["f32"])
    given = source, repr(mode), "relu" in flags
    w.apply(instruction, target, SIGNED[4], runtime.to_tf32, *given)
