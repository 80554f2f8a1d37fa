"""cvt: one type to another."""

from __future__ import annotations

from functools import partial

from ptxsim.arithmetic import conversions as runtime
from ptxsim.instructions.numbers import DIRECTIONS
from ptxsim.ptx import Register
from ptxsim.types import FLOATS, SIGNED, UNSIGNED, Unknown, type_of

NARROW = {"f16", "bf16"}
EIGHT_BITS = {"e4m3x2", "e5m2x2"}
WHOLE = {"rni", "rzi", "rmi", "rpi"}


def op_cvt(w, instruction, target, source, *second):
    *flags, to, come_from = instruction.parts[1:]
    flags = set(flags)
    if second:
        _to_pair(w, instruction, target, source, *second)
    elif to in EIGHT_BITS or come_from in EIGHT_BITS:
        _pair_to_pair(w, instruction, target, source)
    elif to == "tf32":
        _to_tf32(w, instruction, target, source)
    elif _is_integer(to) and _is_integer(come_from):
        _between_integers(w, instruction, target, source, flags)
    elif _is_integer(to):
        _to_integer(w, instruction, target, source, flags)
    else:
        _to_float(w, instruction, target, source, flags)


def _is_integer(ptx_type: str) -> bool:
    return ptx_type[0] in "us"


def _given(w, source, ptx_type: str, ftz: bool = False) -> str:
    """The operand: an array of integers, of float32 or of float64; narrow floats as float32."""
    if ptx_type in NARROW:
        return f"{w.use(getattr(runtime, 'from_' + ptx_type))}({w.value(source, UNSIGNED[2])})"
    dtype = type_of(ptx_type)
    if dtype.kind == "f":
        return w.number(source, dtype, ftz and ptx_type == "f32")
    if isinstance(source, Register) and w.types[source.name].kind in "iu":
        # cvt.s64.s16 may read a register of 32 bits: only its low ones count.
        return f"{w.variable(source.name)}.astype({w.dtype(dtype)})"
    return w.value(source, dtype)


def _between_integers(w, instruction, target, source, flags):
    to, come_from = instruction.parts[-2:]
    text, want = _given(w, source, come_from), type_of(to)
    if flags == {"sat"}:
        text = f"{w.use(runtime.clamp_to)}({text}, {w.dtype(want)})"
    elif flags:
        raise Unknown
    else:
        text = f"{text}.astype({w.dtype(want)})"
    w.assign(target, text, want, instruction)


def _to_integer(w, instruction, target, source, flags):
    to, come_from = instruction.parts[-2:]
    (mode,) = flags - {"ftz", "sat"}
    if mode not in WHOLE:
        raise Unknown
    want = type_of(to)
    text = _given(w, source, come_from, "ftz" in flags)
    function = w.use(runtime.float_to_integer)
    text = f"{function}({text}, {mode!r}, {w.dtype(want)}.type)"
    w.assign(target, text, want, instruction)


def _to_float(w, instruction, target, source, flags):
    to, come_from = instruction.parts[-2:]
    ftz, limits = "ftz" in flags, flags & {"sat", "relu"}
    modes = flags - {"ftz", "sat", "relu"}
    limit = limits.pop() if limits else None
    if modes - DIRECTIONS - WHOLE or len(modes) > 1 or limits:
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
    want = UNSIGNED[2] if to in NARROW else FLOATS[to]
    w.assign(target, text, want, instruction)


def _to_pair(w, instruction, target, high, low):
    """Two float32 to two narrow floats in one register; the first operand is the upper one."""
    *flags, to, come_from = instruction.parts[1:]
    flags = set(flags)
    if come_from != "f32":
        raise Unknown
    high, low = w.value(high, FLOATS["f32"]), w.value(low, FLOATS["f32"])
    if to in EIGHT_BITS:
        if "satfinite" not in flags or flags - {"rn", "satfinite", "relu"}:
            raise Unknown
        function = partial(runtime.pair_of_eight_bits, name=to[:-2], relu="relu" in flags)
        want = UNSIGNED[2]
    elif to in ("f16x2", "bf16x2"):
        (mode,) = flags - {"relu"}
        if mode not in ("rn", "rz"):
            raise Unknown
        limit = "relu" if "relu" in flags else None
        function = partial(runtime.pair_of_halves, name=to[:-2], mode=mode, limit=limit)
        want = UNSIGNED[4]
    else:
        raise Unknown
    w.assign(target, f"{w.constant(function)}({high}, {low})", want, instruction)


def _pair_to_pair(w, instruction, target, source):
    """float16x2 from and to two floats of 8 bits."""
    *flags, to, come_from = instruction.parts[1:]
    flags = set(flags)
    relu = "relu" in flags
    if to == "f16x2" and come_from in EIGHT_BITS and not flags - {"rn", "relu"}:
        function = partial(runtime.halves_of_eight_bits, name=come_from[:-2], relu=relu)
        text, want = w.value(source, UNSIGNED[2]), UNSIGNED[4]
    elif come_from == "f16x2" and not flags - {"rn", "satfinite", "relu"} and "satfinite" in flags:
        function = partial(runtime.eight_bits_of_halves, name=to[:-2], relu=relu)
        text, want = w.value(source, UNSIGNED[4]), UNSIGNED[2]
    else:
        raise Unknown
    w.assign(target, f"{w.constant(function)}({text})", want, instruction)


def _to_tf32(w, instruction, target, source):
    *flags, _, come_from = instruction.parts[1:]
    (mode,) = set(flags) - {"relu"}
    if come_from != "f32" or mode not in ("rn", "rna", "rz"):
        raise Unknown
    text = w.value(source, FLOATS["f32"])
    text = f"{w.use(runtime.to_tf32)}({text}, {mode!r}, {'relu' in flags})"
    w.assign(target, text, SIGNED[4], instruction)
