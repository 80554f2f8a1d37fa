"""Descriptors of tcgen05, Blackwell's products of matrices: of operands, and of the instruction.

By the PTX ISA, "Matrix Descriptors" in the chapter on the 5th generation of tensor cores; the bits
are those of CUTLASS's mma_sm100_desc.hpp, too. An operand lies in shared memory as for wgmma (see
hopper.py), in lines of units, 32 bytes along k for one instruction. What is new: bits 46 to 48 are
0b001, the swizzle is in bits 61 to 63, and one more swizzle moves 32 bytes instead of 16, for
elements of 32 bits whose lines run along m or n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxsim.hopper import UNIT, descriptor_fields, unit_places

VERSION = 0b001  # in bits 46 to 48
WIDTHS = np.array([16, 128, 128, 0, 64, 0, 32, 0])  # bytes of a line, by the code of the swizzle
COARSE_SWIZZLE = 1  # that moves 32 bytes, with four lines in a group
COARSE_LINES = 4
LINE_BYTES = 32  # of a row of A or a column of B in one instruction

# By kind, the types of A and B by their code, and the bits of an element in shared memory; of the
# kind f8f6f4, each element takes a byte there, narrow ones with padding behind every 16.
EIGHTS = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
TYPES: dict[str, dict[int, str]] = {
    "f16": {0: "f16", 1: "bf16"}, "tf32": {2: "tf32"}, "i8": {0: "u8", 1: "s8"},
    "f8f6f4": EIGHTS, "mxf8f6f4": EIGHTS, "mxf4": {1: "e2m1"}, "mxf4nvf4": {1: "e2m1"},
}  # fmt: skip
ELEMENT_BITS = {
    "f16": 16, "tf32": 32, "i8": 8, "f8f6f4": 8, "mxf8f6f4": 8, "mxf4": 4, "mxf4nvf4": 4,
}  # fmt: skip
SUMS: dict[str, dict[int, str]] = {
    "f16": {0: "f16", 1: "f32"}, "tf32": {1: "f32"}, "f8f6f4": {0: "f16", 1: "f32"},
    "i8": {2: "s32"},
}  # fmt: skip
SCALED = {"mxf8f6f4", "mxf4", "mxf4nvf4"}
SCALES = {"mxf8f6f4": {1}, "mxf4": {2}, "mxf4nvf4": {2, 4}}  # of a row of A in one instruction


class Unfit(Exception):
    """A descriptor that does not fit; the message says why."""


@dataclass(frozen=True)
class Form:
    """What an instruction descriptor says of a product of this `kind` by `ctas` SMs."""

    kind: str
    ctas: int
    m: int
    n: int
    types: tuple[str, str, str]  # of d, a, b
    signs: tuple[int, int]
    transposed: tuple[bool, bool]
    saturate: bool = False
    scale_type: str = ""  # "ue8m0" or "ue4m3"
    scale_ids: tuple[int, int] = (0, 0)  # of A and B: the byte of a word where their scales begin

    @property
    def bits(self) -> int:
        return ELEMENT_BITS[self.kind]

    @property
    def k(self) -> int:
        return 8 * LINE_BYTES // self.bits

    @property
    def rows(self) -> int:
        """Of A and of the sums, in each SM."""
        return self.m // self.ctas

    @staticmethod
    def of(word: int, kind: str, ctas: int) -> Form:
        """Raises Unfit."""
        scaled = kind in SCALED

        def field(first: int, count: int) -> int:
            return word >> first & (1 << count) - 1

        if field(2, 1):
            raise Unfit("its bit 2 says that A is sparse, which is not known here")
        a, b = (TYPES[kind].get(field(first, 3)) for first in (7, 10))
        d = "f32" if scaled else SUMS[kind].get(field(4, 2))
        if a is None or b is None or d is None:
            raise Unfit(f"its bits 4 to 12 name no types of kind::{kind}")
        if kind == "f16" and (a != b or (d == "f16" and a != "f16")):
            raise Unfit(f"kind::f16 does not multiply {a} by {b} to {d}")
        n, m = field(17, 6) * 8, field(27, 2) * 128 if scaled else field(24, 5) * 16
        signs = 1 - 2 * field(13, 1), 1 - 2 * field(14, 1)
        across = bool(field(15, 1)), bool(field(16, 1))
        form = Form(
            kind, ctas, m, n, (d, a, b), signs, across, kind == "i8" and bool(field(3, 1)),
            ("ue4m3", "ue8m0")[field(23, 1)] if scaled else "",
            (field(29, 2), field(4, 2)) if scaled else (0, 0),
        )  # fmt: skip
        form._look()
        return form

    def _look(self) -> None:
        ms = {128, 256} if self.ctas == 2 else {128} if self.kind in SCALED else {64, 128}
        if self.m not in ms:
            raise Unfit(f"M is {self.m}, and must be {' or '.join(map(str, sorted(ms)))}")
        step = 8 * self.ctas
        if self.kind == "i8" and (self.n > 32 or self.ctas == 2):
            step = 16 * self.ctas
        if self.n % step or not 0 < self.n <= 256:
            raise Unfit(f"N is {self.n}, and must be a multiple of {step} up to 256")
        if any(self.transposed) and self.kind in ("mxf4", "mxf4nvf4"):
            raise Unfit(f"kind::{self.kind} transposes neither A nor B")
        for kind, across in zip(self.types[1:], self.transposed, strict=True):
            if across and kind in ("e2m3", "e3m2", "e2m1"):
                raise Unfit(f"elements of type {kind} cannot be transposed")
        if self.kind == "i8" and self.signs != (1, 1):
            raise Unfit("kind::i8 negates neither A nor B")
        if self.scale_type == "ue4m3" and self.kind != "mxf4nvf4":
            raise Unfit(f"scales of kind::{self.kind} are ue8m0")


def look_at_operand(word: int, transposed: bool, bits: int) -> None:
    """Raises Unfit for a descriptor of shared memory that says what no such operand can be."""
    if word >> 46 & 7 != VERSION:
        raise Unfit(f"its bits 46 to 48 are {word >> 46 & 7:#05b}, and must be 0b001")
    if word >> 53 & 0xFF:
        raise Unfit("its bits 53 to 60 must be 0")
    if word >> 52 & 1:
        raise Unfit("its bit 52, an absolute address, is known to sm_103a alone")
    swizzle = word >> 61
    if not WIDTHS[swizzle]:
        raise Unfit(f"its swizzle (bits 61 to 63) is {swizzle}: there are 0, 1, 2, 4 and 6")
    if transposed and (swizzle == COARSE_SWIZZLE) != (bits == 32):
        raise Unfit(
            "transposed elements of 32 bits, and no others, lie in the swizzle of 128 bytes that "
            "moves 32 (1)"
        )
    if swizzle == COARSE_SWIZZLE and not transposed:
        raise Unfit("the swizzle of 128 bytes that moves 32 (1) is for transposed operands")


def places(words: np.ndarray, lines: int, units: int, transposed: bool) -> np.ndarray:
    """int64 (n, lines, units): the byte of shared memory where each unit begins."""
    fields = descriptor_fields(words, WIDTHS, 61)
    where = unit_places(fields, lines, units, transposed)
    coarse = words >> np.uint64(61) == COARSE_SWIZZLE
    if coarse.any():
        start, leading, stride = (values[coarse, None, None] for values in fields[:3])
        line, unit = np.arange(lines)[:, None], np.arange(units)
        address = start + line // COARSE_LINES * stride + line % COARSE_LINES * 128
        address = address + unit // 8 * leading + unit % 8 * UNIT
        where[coarse] = address ^ (address >> 7 & 3) * 2 * UNIT
    return where
