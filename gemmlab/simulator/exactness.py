"""Which fused multiply-adds are exact in float64, so that they cannot round twice.

Looking for a second rounding costs half as much as the multiply-add itself (see arithmetic.py), and
for nearly every instruction of a matrix product a look at the range of its result is enough.

Take the *granule* of the numbers that a kernel is given: the largest power of two 2**g, at most 1,
of which all are integer multiples. A product of d such numbers is a multiple of 2**(d * g), a sum
of those is too, and rounding to float32 keeps it so. A float64 holds every multiple of 2**(d * g)
below 2**(53 + d * g) exactly. And where d * g is at least -126, no result other than 0 is
subnormal.

`degrees` finds d for every register from the program text, `known_sums` what that says of sums of
degree d for the data at hand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .ptx import TYPE_BYTES, Immediate, Instruction, Kernel, Register, Vector

UNKNOWN = 99
HIGHEST_DEGREE = 4
SAME_AS_SOURCES = {"add", "sub", "neg", "abs", "min", "max"}


@dataclass(frozen=True)
class KnownSum:
    """What is known of a sum before it is computed.

    Its float64 value is exact where its magnitude is below `exact_below`; it is never a subnormal
    float32 if `normal`.
    """

    exact_below: np.float32
    normal: bool


NOTHING_KNOWN = KnownSum(np.float32(0), False)


def degrees(kernel: Kernel) -> dict[str, int]:
    """Register -> of how many given numbers its value is at most a product; UNKNOWN if unclear.

    Given numbers are float32 arguments and what is read through read-only pointers (`.nc`).
    """
    found = {name: 0 for name in kernel.registers}
    parameters = {name for name, ptx_type in kernel.parameters if ptx_type == "f32"}
    shared, changed = 0, True
    while changed:  # degrees only grow, and end at UNKNOWN
        changed = False
        for instruction in kernel.instructions:
            if instruction.opcode.startswith("st.shared"):
                whole = TYPE_BYTES[instruction.parts[-1]] == 4
                stored = _highest(found, instruction.operands[1:]) if whole else UNKNOWN
                changed, shared = changed or stored > shared, max(shared, stored)
            degree = _degree(instruction, found, shared, parameters)
            for register in instruction.defines():
                if degree > found[register]:
                    found[register], changed = degree, True
    return found


def granule(values: list[np.ndarray]) -> int:
    """The g of the module's text for everything in these arrays, seen as float32.

    Infinities and NaN are left out: a result that comes from them is never in range.
    """
    lowest = 0
    for value in values:
        bits = as_float32(value).view(np.int32)
        exponent, fraction = (bits >> 23) & 0xFF, bits & 0x7FFFFF
        significand = np.where(exponent > 0, fraction | 0x800000, fraction)
        # The lowest bit that is set is a power of two: as a float32, its exponent is its place.
        lowest_bit = ((significand & -significand).astype(np.float32).view(np.int32) >> 23) - 127
        place = lowest_bit + np.maximum(exponent, 1) - 150
        counts = (significand != 0) & (exponent != 0xFF)
        lowest = min(lowest, int(place.min(where=counts, initial=0)))
    return lowest


def as_float32(value) -> np.ndarray:
    """The bytes of an array or a scalar, seen as float32."""
    raw = np.asarray(value).reshape(-1).view(np.uint8)
    return raw[: raw.size // 4 * 4].view(np.float32)


def known_sums(g: int) -> dict[int, KnownSum]:
    """Degree -> what is known of a sum of that degree, for data of granule 2**g."""
    known = {
        degree: KnownSum(np.float32(2.0 ** (53 + degree * g)), True)
        for degree in range(HIGHEST_DEGREE + 1)
        if degree * g >= -126
    }
    return {d: known.get(d, NOTHING_KNOWN) for d in (*range(HIGHEST_DEGREE + 1), UNKNOWN)}


def _degree(instruction: Instruction, found, shared: int, parameters: set[str]) -> int:
    name, parts, sources = instruction.name, instruction.parts, instruction.operands[1:]
    degree = UNKNOWN
    if name == "mov" and not any(isinstance(o, Vector) for o in instruction.operands):
        degree = _highest(found, sources)
    elif parts[-1] not in ("f32", "b32"):
        pass
    elif parts[:2] == ("ld", "param"):
        degree = 1 if sources[0].base.name in parameters else UNKNOWN
    elif parts[:3] == ("ld", "global", "nc"):
        degree = 1
    elif parts[:2] == ("ld", "shared"):
        degree = shared
    elif name in ("fma", "mul") and parts[-1] == "f32":
        degree = _highest(found, sources[:1]) + _highest(found, sources[1:2])
        degree = max(degree, _highest(found, sources[2:]))
    elif name in SAME_AS_SOURCES and parts[-1] == "f32":
        degree = _highest(found, sources)
    elif name == "selp":
        degree = _highest(found, sources[:2])
    return degree if degree <= HIGHEST_DEGREE else UNKNOWN


def _highest(found: dict[str, int], operands) -> int:
    highest = 0
    for operand in operands:
        if isinstance(operand, Register):
            highest = max(highest, found[operand.name])
        elif isinstance(operand, Vector):
            highest = max(highest, _highest(found, operand.items))
        elif not (isinstance(operand, Immediate) and operand.value == 0):
            return UNKNOWN
    return highest
