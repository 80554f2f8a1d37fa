"""PTX types as NumPy dtypes."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ptxsim.ptx import TYPE_BYTES, Kernel, Register

BOOL = np.dtype(bool)
FLOATS: dict[str, np.dtype] = {"f32": np.dtype("f4"), "f64": np.dtype("f8")}
SIGNED: dict[int, np.dtype] = {size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}
UNSIGNED: dict[int, np.dtype] = {size: np.dtype(f"u{size}") for size in SIGNED}
BITWISE = {"and": "&", "or": "|", "xor": "^"}


class Unknown(Exception):
    """Raised by a translation that does not know a form of its instruction."""


def type_of(ptx_type: str) -> np.dtype:
    if ptx_type == "pred":
        return BOOL
    if ptx_type in FLOATS:
        return FLOATS[ptx_type]
    if ptx_type.startswith(("f", "bf", "tf", "e")):  # NumPy does not compute with these
        raise Unknown
    table = UNSIGNED if ptx_type[0] == "u" else SIGNED
    return table[TYPE_BYTES[ptx_type]]


def register_types(kernel: Kernel) -> dict[str, np.dtype]:
    """The dtype in which each register is kept between blocks.

    PTX declares some registers without a type (.b32). They are kept as what most instructions
    take them for; any other use looks at the same bits in another way, so this choice costs time
    at worst, never correctness.
    """
    votes: dict[str, Counter] = {name: Counter() for name in kernel.registers}
    for instruction in kernel.instructions:
        kind = instruction.parts[-1]
        if kind in TYPE_BYTES and kind[0] in "fsu":
            for operand in instruction.operands:
                if isinstance(operand, Register):
                    votes[operand.name][kind[0] == "f"] += 1
    types = {}
    for name, declared in kernel.registers.items():
        if declared == "pred" or declared in FLOATS:
            types[name] = type_of(declared)
        else:
            size = TYPE_BYTES[declared]
            is_float = votes[name][True] > votes[name][False] and size >= 4
            types[name] = np.dtype(f"f{size}") if is_float else SIGNED[size]
    return types
