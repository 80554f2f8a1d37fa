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

# name -> the function, how many operands have its type, and whether it names one of CLAMPS
FIELDS = {
    "bfe": (integers.extract_field, 1, False), "bfi": (integers.insert_field, 2, False),
    "szext": (integers.extend, 1, True), "bmsk": (integers.field_mask, 0, True),
}  # fmt: skip
INVERSIONS = {"not": "~{x}", "cnot": "({x} == 0).astype({dtype})"}


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


def _invert(w, instruction, target, a):
    dtype = type_of(instruction.parts[-1])
    text = INVERSIONS[instruction.name].format(x=w.value(a, dtype), dtype=w.dtype(dtype))
    w.assign(target, text, dtype, instruction)


op_not = op_cnot = _invert


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


def _field(w, instruction, target, *operands):
    dtype = type_of(instruction.parts[-1])
    function, count, clamps = FIELDS[instruction.name]
    given = [*w.values(operands[:count], dtype), *w.values(operands[count:], UNSIGNED[4])]
    given += [CLAMPS[instruction.parts[1]]] if clamps else []
    w.apply(instruction, target, dtype, function, *given)


op_bfe = op_bfi = op_szext = op_bmsk = _field
