"""Integers as patterns of bits."""

from __future__ import annotations

from functools import partial

from ptxsim.arithmetic import integers
from ptxsim.ptx import TYPE_BYTES
from ptxsim.types import BITWISE, SIGNED, UNSIGNED, Unknown, type_of


def _bitwise(w, instruction, target, a, b):
    dtype = type_of(instruction.parts[-1])
    sign = BITWISE[instruction.name]
    w.assign(target, f"{w.value(a, dtype)} {sign} {w.value(b, dtype)}", dtype, instruction)


op_and = op_or = op_xor = _bitwise


def op_not(w, instruction, target, a):
    dtype = type_of(instruction.parts[-1])
    w.assign(target, f"~{w.value(a, dtype)}", dtype, instruction)


def op_cnot(w, instruction, target, a):
    dtype = type_of(instruction.parts[-1])
    w.assign(target, f"({w.value(a, dtype)} == 0).astype({w.dtype(dtype)})", dtype, instruction)


def op_lop3(w, instruction, target, a, b, c, table):
    if instruction.opcode != "lop3.b32":
        raise Unknown
    given = ", ".join(w.value(x, SIGNED[4]) for x in (a, b, c))
    w.assign(target, f"{w.use(integers.logic)}({given}, {table.value})", SIGNED[4], instruction)


# --- shifts ---------------------------------------------------------------------------------------


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
    if dtype.itemsize < 4:  # an amount that is cut to 16 bits may come out small
        by = f"np.minimum({by}, {w.constant(UNSIGNED[4].type(16))})"
    text = f"{w.value(a, dtype)} {sign} {by}.astype({w.dtype(dtype)})"
    w.assign(target, text, dtype, instruction)


def op_shf(w, instruction, target, low, high, amount):
    _, direction, mode, ptx_type = instruction.parts
    left, clamp = {"l": True, "r": False}[direction], {"clamp": True, "wrap": False}[mode]
    if ptx_type != "b32":
        raise Unknown
    given = ", ".join(w.value(x, UNSIGNED[4]) for x in (low, high, amount))
    text = f"{w.use(integers.shift_pair)}({given}, {left}, {clamp})"
    w.assign(target, text, UNSIGNED[4], instruction)


# --- counting and finding -------------------------------------------------------------------------


def _of_one(w, instruction, target, x, function, result=None):
    dtype = type_of(instruction.parts[-1])
    text = f"{w.constant(function)}({w.value(x, dtype)})"
    w.assign(target, text, result or dtype, instruction)


def op_popc(w, instruction, target, x):
    _of_one(w, instruction, target, x, integers.count_bits, SIGNED[4])


def op_clz(w, instruction, target, x):
    _of_one(w, instruction, target, x, integers.leading_zeros, SIGNED[4])


def op_brev(w, instruction, target, x):
    _of_one(w, instruction, target, x, integers.reverse_bits)


def op_bfind(w, instruction, target, x):
    function = partial(integers.find_bit, shift_amount="shiftamt" in instruction.parts)
    _of_one(w, instruction, target, x, function, UNSIGNED[4])


# --- fields ---------------------------------------------------------------------------------------


def op_bfe(w, instruction, target, x, position, length):
    dtype = type_of(instruction.parts[-1])
    position, length = w.value(position, UNSIGNED[4]), w.value(length, UNSIGNED[4])
    text = f"{w.use(integers.extract_field)}({w.value(x, dtype)}, {position}, {length})"
    w.assign(target, text, dtype, instruction)


def op_bfi(w, instruction, target, x, into, position, length):
    dtype = type_of(instruction.parts[-1])
    position, length = w.value(position, UNSIGNED[4]), w.value(length, UNSIGNED[4])
    x, into = w.value(x, dtype), w.value(into, dtype)
    text = f"{w.use(integers.insert_field)}({x}, {into}, {position}, {length})"
    w.assign(target, text, dtype, instruction)


def op_szext(w, instruction, target, x, position):
    _, mode, ptx_type = instruction.parts
    clamp, dtype = {"clamp": True, "wrap": False}[mode], type_of(ptx_type)
    x, position = w.value(x, dtype), w.value(position, UNSIGNED[4])
    w.assign(target, f"{w.use(integers.extend)}({x}, {position}, {clamp})", dtype, instruction)


def op_bmsk(w, instruction, target, position, length):
    clamp = {"clamp": True, "wrap": False}[instruction.parts[1]]
    position, length = w.value(position, UNSIGNED[4]), w.value(length, UNSIGNED[4])
    text = f"{w.use(integers.field_mask)}({position}, {length}, {clamp})"
    w.assign(target, text, SIGNED[4], instruction)


def op_prmt(w, instruction, target, a, b, selector):
    _, _, *mode = instruction.parts
    if mode and mode[0] not in integers.PICKS:
        raise Unknown
    given = ", ".join(w.value(x, UNSIGNED[4]) for x in (a, b, selector))
    text = f"{w.use(integers.permute)}({given}, {mode[0] if mode else None!r})"
    w.assign(target, text, UNSIGNED[4], instruction)
