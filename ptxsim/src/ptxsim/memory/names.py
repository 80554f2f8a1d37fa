"""Shared memory by the names of the source: which array a byte belongs to, and which element."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ptxsim.ptx import Kernel

ELEMENT = 4  # bytes, of an element of shared memory in messages, unless the access has fewer


@dataclass(frozen=True)
class Place:
    """An element of an array in shared memory, `name[index]`; of `count` elements."""

    name: str
    index: int
    count: int

    def __str__(self):
        return self.name if (self.index, self.count) == (0, 1) else f"{self.name}[{self.index}]"


def shared_place(kernel: Kernel, total: int, offset: int, width: int) -> Place:
    """What is at byte `offset` of a block's `total` bytes, in elements of `width` bytes.

    Behind an array and before the next one counts as past its end. Dynamic shared memory, which is
    declared without a size, reaches to the end. PTX keeps no types, so the width is the access's,
    and an array of several dimensions is counted through as one.
    """
    before = [item for item in kernel.shared.items() if item[1].offset <= max(offset, 0)]
    if not before:
        return Place("shared memory", offset // width, total // width)
    symbol, variable = max(before, key=lambda item: item[1].offset)
    size = variable.size or total - variable.offset
    return Place(_source_name(symbol), (offset - variable.offset) // width, size // width)


def _source_name(symbol: str) -> str:
    """`_ZZ5tiledE4tile` is the variable `tile` of the function `tiled`; others stay as they are."""
    for length in re.finditer(r"E(\d+)", symbol):
        end = length.end() + int(length[1])
        name, rest = symbol[length.end() : end], symbol[end:]
        if name.isidentifier() and re.fullmatch(r"(_\d+)?", rest):
            return name
    return symbol
