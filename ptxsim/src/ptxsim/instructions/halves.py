"""Arithmetic of float16 and bfloat16, one number in a register or two ("x2")."""

from __future__ import annotations

from functools import partial

import numpy as np

from ptxsim.arithmetic import halves as runtime
from ptxsim.types import SIGNED, UNSIGNED, Unknown

NAMES = {"f16": "f16", "f16x2": "f16", "bf16": "bf16", "bf16x2": "bf16"}


def takes(instruction) -> bool:
    return instruction.parts[-1] in NAMES


def pack_of(ptx_type: str) -> bool:
    """Whether a register of this type holds two numbers."""
    return ptx_type.endswith("x2")


def apply(w, instruction, target, function, sources) -> None:
    """`function` takes and gives 16-bit patterns; `target` gets its result."""
    w.assign(*_applied(w, instruction, target, function, sources))


def _applied(w, instruction, target, function, sources):
    two = pack_of(instruction.parts[-1])
    own = SIGNED[4] if two else UNSIGNED[2]
    given = ", ".join(value(w, source, instruction.parts[-1]) for source in sources)
    if two:
        text = f"{w.use(runtime.each_half)}({w.constant(function)}, ({given},), {len(sources)})"
    else:
        text = f"{w.constant(function)}({given})"
    return target, text, own, instruction


def value(w, source, ptx_type: str) -> str:
    """The bits of an operand: int32 for two numbers, uint16 for one."""
    return w.value(source, SIGNED[4] if pack_of(ptx_type) else UNSIGNED[2])


def _flags(instruction, allowed: set[str]):
    """(format, ftz, the other modifiers)."""
    *flags, ptx_type = instruction.parts[1:]
    rest = set(flags) - {"rn", "ftz"}
    if rest - allowed:
        raise Unknown
    return NAMES[ptx_type], "ftz" in flags, rest


def arithmetic(w, instruction, target, *sources):
    """add, sub, mul and fma."""
    name, ftz, limits = _flags(instruction, {"sat", "relu"})
    function = {
        "add": runtime.add, "sub": runtime.subtract, "mul": runtime.multiply,
        "fma": runtime.multiply_add,
    }[instruction.name]  # fmt: skip
    limit = limits.pop() if limits else None
    function = partial(function, name=name, ftz=ftz, limit=limit)
    apply(w, instruction, target, function, sources)


def sign(w, instruction, target, x):
    """neg and abs."""
    name, ftz, _ = _flags(instruction, set())
    function = {"neg": runtime.negate, "abs": runtime.magnitude}[instruction.name]
    apply(w, instruction, target, partial(function, name=name, ftz=ftz), [x])


def extreme(w, instruction, target, a, b):
    """min and max."""
    name, ftz, rest = _flags(instruction, {"NaN", "xorsign", "abs"})
    function = partial(
        runtime.extreme, name=name, ftz=ftz, larger=instruction.name == "max",
        nan="NaN" in rest, xorsign="xorsign" in rest,
    )  # fmt: skip
    apply(w, instruction, target, function, [a, b])


def function(w, instruction, target, x, of):
    """ex2 and tanh: `of` is a function of halves.py."""
    name, ftz, rest = _flags(instruction, {"approx"})
    if rest != {"approx"}:
        raise Unknown
    apply(w, instruction, target, partial(of, name=name, ftz=ftz), [x])


def compared(w, instruction, sources, part: int) -> list[str]:
    """The operands as float64: of two in a register, the lower (part 0) or the upper one (1)."""
    ptx_type = instruction.parts[-1]
    name, ftz = NAMES[ptx_type], "ftz" in instruction.parts
    convert = w.constant(partial(runtime.numbers, name=name, ftz=ftz))
    texts = [value(w, source, ptx_type) for source in sources]
    if pack_of(ptx_type):
        shift = w.constant(np.int32(16 * part))
        texts = [f"(({text}) >> {shift})" for text in texts]
    return [f"{convert}({text})" for text in texts]
