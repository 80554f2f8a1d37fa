"""Moving bits between registers."""

from __future__ import annotations

from ..ptx import TYPE_BYTES, Vector
from ..types import SIGNED, UNSIGNED, Unknown


def op_mov(w, instruction, target, source):
    size = TYPE_BYTES.get(instruction.parts[-1])
    if isinstance(target, Vector):  # one register to its parts, lowest first
        width = size // len(target.items)
        text = w.value(source, UNSIGNED[size])
        for i, part in enumerate(target.items):
            shift = w.constant(UNSIGNED[size].type(8 * width * i))
            piece = f"({text} >> {shift}).astype({w.dtype(UNSIGNED[width])})"
            w.assign(part, piece, UNSIGNED[width], instruction)
    elif isinstance(source, Vector):
        width, whole = size // len(source.items), w.dtype(UNSIGNED[size])
        pieces = [
            f"({w.value(part, UNSIGNED[width])}.astype({whole})"
            f" << {w.constant(UNSIGNED[size].type(8 * width * i))})"
            for i, part in enumerate(source.items)
        ]
        w.assign(target, " | ".join(pieces), UNSIGNED[size], instruction)
    else:
        dtype = w.types[target.name]
        w.assign(target, w.value(source, dtype), dtype, instruction)


def op_cvta(w, instruction, target, source):
    if "global" not in instruction.parts:
        raise Unknown
    w.assign(target, w.value(source, SIGNED[8]), SIGNED[8], instruction)
