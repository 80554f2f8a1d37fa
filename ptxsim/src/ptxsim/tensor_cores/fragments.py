"""Fragments: which element of a matrix each register of each lane of a warp holds.

A fragment is made of pieces. A piece has 8 lines of 4·p elements: lane 4·g + t of the warp holds
the elements p·t … p·t + p - 1 of line g, one after the other in its registers. The lines are rows
in A and in sums, columns in B; p is as many elements as fit into 32 bits, and 2 in sums. Where the
hardware computes the transposed product (m8n32k16), the fragments are turned, all three.

PTX says this of mma.sync. Of wmma it says nothing; what stands here is what an NVIDIA H200 does,
and what its assembler makes of wmma: one or more mma instructions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from ptxsim.architectures import WARP

u4 = np.uint32
LINES = 8  # of a piece
LANE = np.arange(WARP)
LINE, TURN = LANE // 4, LANE % 4  # which line of a piece a lane is at, and its turn in the line


@dataclass(frozen=True)
class Fragment:
    """A matrix in a warp's registers."""

    shape: tuple[int, int]  # (rows, columns)
    bits: int  # of an element
    together: int  # neighbours of a line that a lane holds
    by_columns: bool  # whether the lines are columns
    pieces: tuple[tuple[int, int], ...]  # (row, column) of the first element of each
    repeats: int = 1  # how often the registers hold all of it

    def turned(self) -> Fragment:
        pieces = tuple((col, row) for row, col in self.pieces)
        by_columns = not self.by_columns
        return replace(self, shape=self.shape[::-1], by_columns=by_columns, pieces=pieces)

    @property
    def registers_per_piece(self) -> int:
        return self.bits * self.together // self.register_bits

    @property
    def register_bits(self) -> int:
        return max(32, self.bits)

    @property
    def registers(self) -> int:
        return len(self.pieces) * self.registers_per_piece * self.repeats

    @property
    def starts(self) -> np.ndarray:
        """(pieces, 2): the first line of each piece, and the first element along its lines."""
        starts = np.array(self.pieces)
        return starts[:, ::-1] if self.by_columns else starts

    @cached_property
    def places(self) -> np.ndarray:
        """(pieces, together, 32): the number row * columns + column of every element."""
        line, along = self.starts[:, :1, None], self.starts[:, 1:, None]
        line = line + LINE
        along = along + self.together * TURN + np.arange(self.together)[:, None]
        row, col = (along, line) if self.by_columns else (line, along)
        return row * self.shape[1] + col

    def matrix(self, registers: np.ndarray) -> np.ndarray:
        """(rows, columns, warps) from (registers, 32, warps), of uint32, or of 64 bits."""
        warps = registers.shape[-1]
        once = registers[: self.registers // self.repeats]
        elements = np.empty((self.shape[0] * self.shape[1], warps), registers.dtype)
        if self.bits >= 32:
            elements[self.places] = once.reshape(len(self.pieces), self.together, WARP, warps)
        else:
            mask = u4((1 << self.bits) - 1)
            for i in range(self.together):
                elements[self.places[:, i]] = once >> u4(self.bits * i) & mask
        return elements.reshape(*self.shape, warps)

    def fill(self, matrix: np.ndarray) -> np.ndarray:
        values = matrix.reshape(-1, matrix.shape[-1])[self.places]
        if self.bits >= 32:
            registers = values.reshape(-1, WARP, matrix.shape[-1])
        else:
            shifts = (np.arange(self.together) * self.bits).astype(u4)[:, None, None]
            registers = np.bitwise_or.reduce(values << shifts, axis=1)
        return np.concatenate([registers] * self.repeats)


def _by_rows(rows: int, cols: int, bits: int, together: int) -> Fragment:
    """A of a product, or its sums: tiles of 16 rows one after the other."""
    pieces = [
        (tile + row, col)
        for tile in range(0, rows, 16)
        for col in range(0, cols, 4 * together)
        for row in range(0, min(rows, 16), LINES)
    ]
    return Fragment((rows, cols), bits, together, False, tuple(pieces))


def _by_columns(rows: int, cols: int, bits: int, together: int) -> Fragment:
    """B of a product: its tiles of 8 columns one after the other."""
    pieces = [(k, n) for n in range(0, cols, LINES) for k in range(0, rows, 4 * together)]
    return Fragment((rows, cols), bits, together, True, tuple(pieces))


@cache
def of_product(matrix: str, m: int, n: int, k: int, bits: int) -> Fragment:
    """Of "a", "b", or "c" and "d" of mma.sync."""
    together = max(1, 32 // bits)
    if matrix == "a":
        return _by_rows(m, k, bits, together)
    return _by_columns(k, n, bits, together) if matrix == "b" else _by_rows(m, n, bits, 2)


@cache
def of_wmma(matrix: str, m: int, n: int, k: int, bits: int, registers: int) -> Fragment:
    """Of wmma, which has `registers` for it: more than it needs for some shapes of f16."""
    if m < n and m == LINES:  # computed as the transposed product
        fragment = of_product({"a": "b", "b": "a"}.get(matrix, "c"), n, m, k, bits).turned()
    else:
        fragment = of_product(matrix, m, n, k, bits)
    return replace(fragment, repeats=registers // fragment.registers)
