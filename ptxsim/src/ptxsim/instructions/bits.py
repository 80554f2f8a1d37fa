"""Integers as patterns of bits."""

from __future__ import annotations

from ptxsim.arithmetic import integers
from ptxsim.ptx import BITWISE, SIGNED, TYPE_BYTES, UNSIGNED, Immediate, Unknown, type_of
from ptxsim.threads import clusters

LOWEST_RANK = 1 << clusters.RANK_SHIFT  # the bit of an address by which the blocks of a pair differ
KEPT_RANK = clusters.RANKS << clusters.RANK_SHIFT
CLAMPS = {"clamp": True, "wrap": False}
COUNTS = {  # name -> the function, and the type of its result if not the operand's
    "popc": (integers.count_bits, SIGNED[4]), "clz": (integers.leading_zeros, SIGNED[4]),
    "brev": (integers.reverse_bits, None),
}  # fmt: skip


def _bitwise(w, instruction, target, a, b):
    dtype = type_of(instruction.parts[-1])
    sign = BITWISE[instruction.name]
    if instruction.opcode == "and.b32" and _clears_rank(w, b):
        given = "lanes.layout", w.value(a, dtype), w.value(b, dtype)
        w.apply(instruction, target, dtype, clusters.of_even_block, *given)
        return
    w.assign(target, f"{w.value(a, dtype)} {sign} {w.value(b, dtype)}", dtype, instruction)


def _clears_rank(w, mask) -> bool:
    """Whether it leads from an address to the even block, as kernels for two SMs do it."""
    if not isinstance(mask, Immediate) or int(mask.value) & KEPT_RANK != KEPT_RANK - LOWEST_RANK:
        return False
    return any("cta_group::2" in other.parts for other in w.kernel.instructions)


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
    given = w.values((a, b, c), SIGNED[4])
    w.apply(instruction, target, SIGNED[4], integers.logic, *given, table.value)


def op_prmt(w, instruction, target, a, b, selector):
    mode = instruction.parts[2] if len(instruction.parts) > 2 else None
    if mode and mode not in integers.PICKS:
        raise Unknown
    given = w.values((a, b, selector), UNSIGNED[4])
    w.apply(instruction, target, UNSIGNED[4], integers.permute, *given, repr(mode))


def _shift(w, instruction, target, a, amount):
    # Amounts past the width give 0, or copies of the sign: NumPy and PTX agree.
    kind, left = instruction.parts[-1], instruction.name == "shl"
    dtype = (SIGNED if kind[0] == "s" and not left else UNSIGNED)[TYPE_BYTES[kind]]
    by = w.value(amount, UNSIGNED[4])
    if dtype.itemsize < 4:  # an amount that is cut to 16 bits may come out small
        by = f"np.minimum({by}, {w.constant(UNSIGNED[4].type(16))})"
    text = f"{w.value(a, dtype)} {'<<' if left else '>>'} {by}.astype({w.dtype(dtype)})"
    w.assign(target, text, dtype, instruction)


op_shl = op_shr = _shift


def op_shf(w, instruction, target, low, high, amount):
    _, direction, mode, ptx_type = instruction.parts
    left, clamp = {"l": True, "r": False}[direction], CLAMPS[mode]
    if ptx_type != "b32":
        raise Unknown
    given = w.values((low, high, amount), UNSIGNED[4])
    w.apply(instruction, target, UNSIGNED[4], integers.shift_pair, *given, left, clamp)


def _count(w, instruction, target, x):
    dtype = type_of(instruction.parts[-1])
    function, result = COUNTS[instruction.name]
    w.apply(instruction, target, result or dtype, function, w.value(x, dtype))


op_popc = op_clz = op_brev = _count


def op_bfind(w, instruction, target, x):
    x = w.value(x, type_of(instruction.parts[-1]))
    shift_amount = "shiftamt" in instruction.parts
    w.apply(instruction, target, UNSIGNED[4], integers.find_bit, x, shift_amount)


def op_bfe(w, instruction, target, x, *place):
    _field(w, instruction, target, integers.extract_field, (x,), place)


def op_bfi(w, instruction, target, x, into, *place):
    _field(w, instruction, target, integers.insert_field, (x, into), place)


def op_szext(w, instruction, target, x, position):
    clamp = CLAMPS[instruction.parts[1]]
    _field(w, instruction, target, integers.extend, (x,), (position,), clamp)


def op_bmsk(w, instruction, target, *place):
    clamp = CLAMPS[instruction.parts[1]]
    _field(w, instruction, target, integers.field_mask, (), place, clamp)


def _field(w, instruction, target, function, numbers, place, *more):
    dtype = type_of(instruction.parts[-1])
    given = [*w.values(numbers, dtype), *w.values(place, UNSIGNED[4]), *more]
    w.apply(instruction, target, dtype, function, *given)
