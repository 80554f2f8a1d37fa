"""Moving bits between registers, and addresses between spaces."""

from __future__ import annotations

import numpy as np

from ptxsim.memory import generic
from ptxsim.ptx import TYPE_BYTES, Vector
from ptxsim.types import BOOL, SIGNED, UNSIGNED, Unknown

SPACES = {"global", "shared", "local", "const", "param"}


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
    """An address in a space to a generic one, or the reverse (`cvta.to`)."""
    _, *to, space, ptx_type = instruction.parts
    space = space.removesuffix("::cta").removesuffix("::cluster")
    if space not in SPACES or to not in ([], ["to"]):
        raise Unknown
    dtype = SIGNED[TYPE_BYTES[ptx_type]]
    offset = generic.window(space)
    text = w.value(source, dtype)
    if offset:
        if dtype != SIGNED[8]:
            raise Unknown
        text = f"{text} {'-' if to else '+'} {w.constant(np.int64(offset))}"
    w.assign(target, text, dtype, instruction)


def op_isspacep(w, instruction, target, address):
    """Whether a generic address leads to the space."""
    _, space = instruction.parts
    if space in ("shared", "shared::cta"):
        text = f"{w.use(generic.is_in_own_block)}(lanes, {w.value(address, SIGNED[8])})"
    elif space in ("global", "shared::cluster", "local"):
        space = space.removesuffix("::cluster")
        text = f"{w.use(generic.is_in)}({w.value(address, SIGNED[8])}, {space!r})"
    else:
        raise Unknown
    w.assign(target, text, BOOL, instruction)
