"""Reciprocals, roots and the approximate functions."""

from __future__ import annotations

import numpy as np

from ptxsim.arithmetic import approximate, double, rounding
from ptxsim.arithmetic import halves as runtime
from ptxsim.instructions import halves
from ptxsim.instructions.numbers import DIRECTIONS
from ptxsim.types import FLOATS, Unknown, type_of

F32, F64 = FLOATS["f32"], FLOATS["f64"]


def _function(approximation, exact32=None, exact64=None, high64=None, approximation64=None):
    """The translation of a function of one operand.

    `approximation(x, ftz)` for float32; `exact32(w, x, direction, ftz)` and `exact64(w, x,
    direction)` write the correctly rounded ones; `high64` is for approx.ftz.f64, and
    `approximation64` for approx.f64.
    """

    def translation(w, instruction, target, x):
        flags, dtype = set(instruction.parts[1:-1]), type_of(instruction.parts[-1])
        ftz = "ftz" in flags
        flags -= {"ftz"}
        text = w.number(x, dtype, ftz and dtype == F32)
        if flags == {"approx"} and dtype == F32:
            text = f"{w.use(approximation)}({text}, {ftz})"
        elif flags == {"approx"} and ftz and high64 and dtype == F64:
            text = f"{w.use(high64)}({text})"
        elif flags == {"approx"} and not ftz and approximation64 and dtype == F64:
            text = f"{w.use(approximation64)}({text})"
        elif len(flags) == 1 and flags <= DIRECTIONS and dtype == F32 and exact32:
            text = exact32(w, text, *flags, ftz)
        elif len(flags) == 1 and flags <= DIRECTIONS and dtype == F64 and exact64:
            text = exact64(w, text, *flags)
        else:
            raise Unknown
        w.assign(target, text, dtype, instruction)

    return translation


def _reciprocal32(w, x, direction, ftz):
    return f"{w.use(rounding.divide)}({w.constant(np.float32(1))}, {x}, {direction!r}, {ftz})"


def _reciprocal64(w, x, direction):
    if direction == "rn":
        return f"1.0 / {x}"
    return f"{w.use(double.double_divide)}({w.constant(np.float64(1))}, {x}, {direction!r})"


def _root32(w, x, direction, ftz):
    return f"{w.use(rounding.square_root)}({x}, {direction!r}, {ftz})"


def _root64(w, x, direction):
    if direction == "rn":
        return f"np.sqrt({x})"
    return f"{w.use(double.double_square_root)}({x}, {direction!r})"


op_rcp = _function(
    approximate.reciprocal, _reciprocal32, _reciprocal64, approximate.reciprocal_high
)
op_sqrt = _function(approximate.root, _root32, _root64)
op_rsqrt = _function(
    approximate.reciprocal_root,
    high64=approximate.reciprocal_root_high,
    approximation64=approximate.reciprocal_root_double,
)
op_lg2 = _function(approximate.logarithm)
op_sin = _function(approximate.sine)
op_cos = _function(approximate.cosine)

_ex2, _tanh = _function(approximate.power), _function(approximate.tangent)


def op_ex2(w, instruction, target, x):
    if halves.takes(instruction):
        halves.function(w, instruction, target, x, runtime.power)
    else:
        _ex2(w, instruction, target, x)


def op_tanh(w, instruction, target, x):
    if halves.takes(instruction):
        halves.function(w, instruction, target, x, runtime.tangent)
    else:
        _tanh(w, instruction, target, x)
