"""Find fused multiply-adds that are exact in float64, so that they cannot round twice.

Looking for a second rounding costs half as much as the multiply-add itself (see multiply_add.py),
and for nearly every instruction of a matrix product the range of its result tells enough.

Take the *granule* of the numbers that a kernel is given: the largest power of two 2**g, at most 1,
of which all are integer multiples. A product of d such numbers is a multiple of 2**(d * g), a sum
of those is too, and rounding to float32 keeps it so. A float64 holds every multiple of 2**(d * g)
below 2**(53 + d * g) exactly. And where d * g is at least -126, no result other than 0 is
subnormal.

`degrees_of` finds d for every register from the program text, `known_sums` what that says of sums
of degree d for the data at hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from ptxsim.ptx import TYPE_BYTES, Immediate, Instruction, Kernel, Register, Vector

UNKNOWN = 99
HIGHEST_DEGREE = 4
DEGREES = (*range(HIGHEST_DEGREE + 1), UNKNOWN)
PIECE = 1 << 16  # numbers looked at together: what is made of them stays in the cache
WRITES_MEMORY = {"st", "atom", "red", "stmatrix", "wmma"}
SAME_AS_SOURCES = {"neg", "abs", "min", "max"}
WORDS = {"f32", "b32", "u32", "s32"}  # a copy of four float32 is one of four integers in PTX


@dataclass(frozen=True)
class KnownSum:
    """What is known of a * b + c before it is computed."""

    exact_below: float  # magnitudes whose float64 value is exact
    normal: bool  # never a subnormal float32
    largest_product: float  # the magnitude of a finite a * b


NOTHING_KNOWN = KnownSum(0.0, False, np.inf)


def are_given(degrees: dict[str, int], *operands) -> bool:
    """Whether none of them is larger than all numbers that are given."""
    return _highest(degrees, operands) <= 1


def degrees_of(kernel: Kernel) -> dict[str, int]:
    """Register -> of how many given numbers it is at most a product.

    Given are arguments (f32) and what is read from arrays that nobody has written yet.
    """
    parameters = {name for name, ptx_type in kernel.parameters if ptx_type == "f32"}
    degrees = dict.fromkeys(kernel.registers, 0)
    shared, changed = 0, True
    while changed:  # degrees only grow, and end at UNKNOWN
        changed = False
        for instruction in kernel.instructions:
            write = _write_to_shared(instruction)
            if write == "store":
                stored = _highest(degrees, instruction.operands[1:])
            else:
                stored = {"copy": 1, "other": UNKNOWN}.get(write, shared)
            changed, shared = changed or stored > shared, max(shared, stored)
            degree = _degree(instruction, degrees, shared, parameters)
            for register in instruction.defines:
                if degree > degrees[register]:
                    degrees[register], changed = degree, True
    return degrees


def _write_to_shared(instruction: Instruction) -> str:
    """How it may change shared memory: "copy" of global data, "store" of float32, "other", ""."""
    name, parts = instruction.name, instruction.parts
    if name == "cp":
        return "copy"
    if name not in WRITES_MEMORY or "global" in parts:
        return ""
    return "store" if name == "st" and "shared" in parts and TYPE_BYTES[parts[-1]] == 4 else "other"


def granule(values: list[np.ndarray]) -> int:
    """The g of the module's text for everything finite in these arrays, seen as float32."""
    lowest = 0
    words = (as_float32(value).view(np.int32) for value in values)
    for bits in (part for x in words for part in np.split(x, range(PIECE, x.size, PIECE))):
        exponent, fraction = (bits >> 23) & 0xFF, bits & 0x7FFFFF
        significand = np.where(exponent > 0, fraction | 0x800000, fraction)
        # The lowest bit that is set is a power of two: as a float32, its exponent is its place.
        lowest_bit = ((significand & -significand).astype(np.float32).view(np.int32) >> 23) - 127
        place = lowest_bit + np.maximum(exponent, 1) - 150
        counts = (significand != 0) & (exponent != 0xFF)
        lowest = min(lowest, int(place.min(where=counts, initial=0)))
    return lowest


def as_float32(value) -> np.ndarray:
    raw = np.asarray(value).reshape(-1).view(np.uint8)
    return raw[: raw.size // 4 * 4].view(np.float32)


def largest(values: list[np.ndarray]) -> float:
    """The largest magnitude among the finite numbers in these arrays, seen as float32."""
    highest = 0.0
    for value in values:
        magnitudes = np.abs(as_float32(value))
        finite = magnitudes.max(initial=0.0, where=np.isfinite(magnitudes))
        highest = max(highest, float(finite))
    return highest


def known_sums(values: list[np.ndarray]) -> dict[tuple[int, bool], KnownSum]:
    """(degree, whether a and b are given) -> what is known of a * b + c, for these numbers."""
    g, square = granule(values), largest(values) ** 2
    return nothing_known() | {
        (degree, given): KnownSum(2.0 ** (53 + degree * g), True, square if given else np.inf)
        for degree, given in product(range(HIGHEST_DEGREE + 1), (False, True))
        if degree * g >= -126
    }


def nothing_known() -> dict[tuple[int, bool], KnownSum]:
    return dict.fromkeys(product(DEGREES, (False, True)), NOTHING_KNOWN)


def _degree(instruction: Instruction, degrees, shared: int, parameters: set[str]) -> int:
    name, parts, sources = instruction.name, instruction.parts, instruction.operands[1:]
    degree = UNKNOWN
    if name == "mov" and not any(isinstance(o, Vector) for o in instruction.operands):
        degree = _highest(degrees, sources)
    elif parts[-1] not in WORDS:
        pass
    elif parts[:2] == ("ld", "param"):
        degree = 1 if sources[0].base.name in parameters else UNKNOWN
    elif parts[0] == "ld" and "global" in parts:
        degree = 1
    elif parts[0] == "ld" and "shared" in parts:
        degree = shared
    elif name in ("fma", "mul") and parts[-1] == "f32":
        degree = _highest(degrees, sources[:1]) + _highest(degrees, sources[1:2])
        degree = max(degree, _highest(degrees, sources[2:]))
    elif name in SAME_AS_SOURCES and parts[-1] == "f32":
        degree = _highest(degrees, sources)
    elif name in ("add", "sub") and parts[-1] == "f32":
        degree = max(2, _highest(degrees, sources))  # a sum can be larger than what is given
    elif name == "selp":
        degree = _highest(degrees, sources[:2])
    return degree if degree <= HIGHEST_DEGREE else UNKNOWN


def _highest(degrees: dict[str, int], operands) -> int:
    highest = 0
    for operand in operands:
        if isinstance(operand, Register):
            highest = max(highest, degrees[operand.name])
        elif isinstance(operand, Vector):
            highest = max(highest, _highest(degrees, operand.items))
        elif not (isinstance(operand, Immediate) and operand.value == 0):
            return UNKNOWN
    return highest


def may_make_subnormals(kernel: Kernel, types) -> bool:
    """Whether an instruction can make a float32 subnormal that no argument held."""
    return any(
        types[name] == np.float32 and not _flushes(instruction, types)
        for instruction in kernel.instructions
        for name in instruction.defines
    )


def _flushes(instruction: Instruction, types) -> bool:
    name, parts = instruction.name, instruction.parts
    if name in ("ld", "ldu", "shfl"):
        return True
    if name in ("mov", "selp", "neg", "abs", "copysign"):
        return all(_is_normal(operand, types) for operand in instruction.operands[1:])
    if name == "cvt":
        return "ftz" in parts or parts[-1][0] in "us" or parts[-1] == "f16"
    return "ftz" in parts


def _is_normal(operand, types) -> bool:
    if isinstance(operand, Register):
        return types[operand.name] in (np.float32, np.bool_)
    if isinstance(operand, Immediate):
        return operand.value == 0 or (operand.is_float and abs(operand.value) >= 2.0**-126)
    return False
