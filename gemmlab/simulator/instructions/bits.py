"""Integers as patterns of bits."""

from __future__ import annotations

from ..ptx import TYPE_BYTES
from ..types import BITWISE, SIGNED, UNSIGNED, type_of


def _bitwise(w, instruction, target, a, b):
    dtype = type_of(instruction.parts[-1])
    sign = BITWISE[instruction.name]
    w.assign(target, f"{w.value(a, dtype)} {sign} {w.value(b, dtype)}", dtype, instruction)


op_and = op_or = op_xor = _bitwise


def op_not(w, instruction, target, a):
    dtype = type_of(instruction.parts[-1])
    w.assign(target, f"~{w.value(a, dtype)}", dtype, instruction)


def op_shl(w, instruction, target, a, amount):
    dtype = UNSIGNED[TYPE_BYTES[instruction.parts[-1]]]
    _shift(w, instruction, target, a, amount, "<<", dtype)


def op_shr(w, instruction, target, a, amount):
    kind = instruction.parts[-1]
    dtype = (SIGNED if kind[0] == "s" else UNSIGNED)[TYPE_BYTES[kind]]
    _shift(w, instruction, target, a, amount, ">>", dtype)


def _shift(w, instruction, target, a, amount, sign, dtype):
    # Amounts past the width give 0, or copies of the sign: NumPy and PTX agree.
    by = w.value(amount, UNSIGNED[4])
    text = f"{w.value(a, dtype)} {sign} {by}.astype({w.dtype(dtype)})"
    w.assign(target, text, dtype, instruction)
