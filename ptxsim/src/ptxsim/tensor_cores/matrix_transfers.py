"""Matrices between memory and the registers of a warp: ldmatrix, stmatrix, movmatrix, wmma.

What wmma.load and wmma.store ask of memory is what an H200's assembler makes of them:

- Operands in shared memory whose elements have 8 or 16 bits: ldmatrix, up to four pieces of 16 bits
  or two of 8 bits at a time, transposed where memory runs across the lines of the pieces.
- Else, where memory runs along the lines: each lane loads what it holds of a line, 4 or 8 bytes.
- Else, elements of 16 bits: the same for the transposed piece, which movmatrix then turns; of 8 and
  32 bits: one by one, and so always those of 64 bits.

That fixes the counts of requests, sectors and wavefronts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxsim.architectures import WARP
from ptxsim.memory import global_memory
from ptxsim.tensor_cores.fragments import LANE, LINE, LINES, TURN, Fragment
from ptxsim.tensor_cores.mma import check_whole_warps

i4, f8, u2, u4 = np.int32, np.float64, np.uint16, np.uint32
WORD = np.dtype(u4)
ROW_BYTES = 16  # of a row that a lane of ldmatrix names


# --- pieces of eight rows of 16 bytes -------------------------------------------------------------


def load_matrices(lanes, index: int, addresses, count: int, transposed: bool, mask):
    """ldmatrix: `count` registers (int32). Lane 8·j + i has the address of row i of piece j."""
    check_whole_warps(lanes, index, mask)
    addresses, mask = np.asarray(addresses), _naming(lanes, count, mask)
    words, bad = global_memory.load(lanes.shared, addresses, WORD, 4, mask)
    if bad or lanes.observed or lanes.checker:
        lanes.note(index, "shared", "load", addresses, ROW_BYTES, mask, bad, unit="ldmatrix")
    rows = np.stack([lanes.layout.to_warps(word) for word in words], axis=2)  # (warps, 32, 4)
    pieces = rows[:, : LINES * count].reshape(-1, count, LINES, 4)
    return _registers(lanes, _transposed(pieces) if transposed else pieces)


def store_matrices(lanes, index: int, addresses, values, transposed: bool, mask) -> None:
    """stmatrix: the reverse of `load_matrices`."""
    check_whole_warps(lanes, index, mask)
    addresses, count = np.asarray(addresses), len(values)
    mask = _naming(lanes, count, mask)
    pieces = _pieces(lanes, values)
    pieces = _transposed(pieces) if transposed else pieces
    rows = np.zeros((len(pieces), WARP, 4), u4)
    rows[:, : LINES * count] = pieces.reshape(-1, LINES * count, 4)
    words = [lanes.layout.from_warps(rows[:, :, i]) for i in range(4)]
    if lanes.checker:
        lanes.checker.races.about_to_store(addresses, words, WORD, mask)
    bad = global_memory.store(lanes.shared, addresses, words, WORD, mask)
    if bad or lanes.observed or lanes.checker:
        lanes.note(index, "shared", "store", addresses, ROW_BYTES, mask, bad, unit="stmatrix")


def transpose(lanes, index: int, value, mask):
    check_whole_warps(lanes, index, mask)
    return _turned(lanes, [value])[0]


def _naming(lanes, count: int, mask):
    """The lanes whose addresses count: 8 for each piece."""
    if count * LINES == WARP:
        return mask
    return lanes.both(mask, np.broadcast_to(lanes.special["laneid"] < count * LINES, lanes.shape))


def _turned(lanes, values):
    return _registers(lanes, _transposed(_pieces(lanes, values)))


def _pieces(lanes, values):
    """uint32 (warps, count, 8, 4): the rows of each piece, from a register for each piece."""
    rows = np.stack([lanes.layout.to_warps(value).view(u4) for value in values], axis=1)
    return rows.reshape(len(rows), len(values), LINES, 4)


def _registers(lanes, pieces):
    rows = pieces.reshape(len(pieces), -1, WARP)
    return [lanes.layout.from_warps(rows[:, i]).view(i4) for i in range(rows.shape[1])]


def _transposed(pieces):
    halves = np.ascontiguousarray(pieces).view(u2)
    return np.ascontiguousarray(halves.swapaxes(-1, -2)).view(u4)


# --- wmma.load and wmma.store ---------------------------------------------------------------------


@dataclass(frozen=True)
class Transfer:
    """wmma.load or wmma.store of a matrix."""

    fragment: Fragment
    by_columns: bool  # whether the columns are contiguous in memory
    space: str  # "global", "shared" or "generic"
    operand: bool  # whether it is an A or B, which ldmatrix can load

    @property
    def straight(self) -> bool:
        """Whether memory runs along the lines of the pieces."""
        return self.by_columns == self.fragment.by_columns

    @property
    def _by_piece(self) -> bool:
        """Whether a lane moves what it has of a piece at once."""
        bits = self.fragment.bits
        return bits == 16 or (self.straight and bits < 64)

    def load(self, lanes, index: int, base, stride, mask):
        """Registers (int32). `stride`: elements between rows or columns, the same in a warp."""
        check_whole_warps(lanes, index, mask)
        self._check_same(lanes, index, base, stride, mask)
        bits = self.fragment.bits
        if self.space == "shared" and self.operand and bits < 32 and (self.straight or bits == 16):
            registers = self._load_matrices(lanes, index, base, stride, mask)
        else:
            registers = self._load_words(lanes, index, base, stride, mask)
        return registers * self.fragment.repeats

    def _load_matrices(self, lanes, index, base, stride, mask):
        pieces, size = self.fragment.starts, self.fragment.bits // 8
        most = min(4 if size == 2 else 2, len(pieces))
        registers = []
        for first in range(0, len(pieces), most):
            # Lane 8·j + i has row i, in memory, of piece j; the lanes that are left repeat it.
            line, along = pieces[first : first + most][LANE // LINES % most].T
            row = LANE % LINES
            if self.straight:
                line, along = line + row, along
            else:
                line, along = along + row, line
            addresses = self._address(lanes, base, stride, line, along)
            registers += load_matrices(lanes, index, addresses, most, not self.straight, mask)
        return registers

    def _load_words(self, lanes, index, base, stride, mask):
        bits, registers = self.fragment.bits, []
        for line, along in self.fragment.starts:
            if self._by_piece:
                address = self._piece(lanes, base, stride, line, along)
                words = self.fragment.registers_per_piece
                loaded = lanes.load(index, self.space, address, WORD, words, mask)
                if not self.straight:
                    loaded = _turned(lanes, loaded)
                registers += [word.view(i4) for word in loaded]
                continue
            dtype = np.dtype(f"u{bits // 8}")
            elements = [
                lanes.load(index, self.space, address, dtype, 1, mask)[0]
                for address in self._elements(lanes, base, stride, line, along)
            ]
            if bits == 8:
                elements = [sum(e.astype(u4) << u4(8 * i) for i, e in enumerate(elements))]
            registers += [element.view(f8 if bits == 64 else i4) for element in elements]
        return registers

    def store(self, lanes, index: int, base, stride, registers, mask) -> None:
        """The reverse of `load`; sums alone are stored so."""
        check_whole_warps(lanes, index, mask)
        self._check_same(lanes, index, base, stride, mask)
        per_piece = self.fragment.registers_per_piece
        dtype = np.dtype(f"u{self.fragment.register_bits // 8}")
        for i, (line, along) in enumerate(self.fragment.starts):
            of_piece = registers[i * per_piece : (i + 1) * per_piece]
            words = [np.asarray(register).view(dtype) for register in of_piece]
            if self._by_piece:
                if not self.straight:
                    words = [value.view(u4) for value in _turned(lanes, words)]
                address = self._piece(lanes, base, stride, line, along)
                lanes.store(index, self.space, address, words, WORD, mask)
                continue
            places = self._elements(lanes, base, stride, line, along)
            for value, address in zip(words, places, strict=True):
                lanes.store(index, self.space, address, [value], dtype, mask)

    def _piece(self, lanes, base, stride, line, along):
        """Where each lane's part of a piece begins; of the transposed one if memory runs across."""
        place = self.fragment.together * TURN
        if self.straight:
            return self._address(lanes, base, stride, line + LINE, along + place)
        return self._address(lanes, base, stride, along + LINE, line + place)

    def _elements(self, lanes, base, stride, line, along):
        """Where each lane's elements of a piece are, one by one."""
        for i in range(self.fragment.together):
            far, near = line + LINE, along + self.fragment.together * TURN + i
            far, near = (far, near) if self.straight else (near, far)
            yield self._address(lanes, base, stride, far, near)

    def _address(self, lanes, base, stride, far, near):
        """Of the element `near` of line `far` in memory, for each of the 32 lanes of a warp."""
        lane = lanes.special["laneid"]
        dtype = np.asarray(base).dtype
        far, near = (np.asarray(x).astype(dtype)[lane] for x in (far, near))
        size = dtype.type(self.fragment.bits // 8)
        return base + (far * np.asarray(stride).astype(dtype) + near) * size

    def _check_same(self, lanes, index: int, base, stride, mask) -> None:
        for what, value in (("address", base), ("stride", stride)):
            if np.ndim(value) == 0:
                continue
            rows = lanes.layout.to_warps(value)
            differs = rows != rows[:, :1]
            if differs.any():
                wrong = lanes.layout.from_warps(differs) & mask
                if wrong.any():
                    text = f"the lanes of a warp give it another {what}, and all must the same"
                    lanes.find("divergent warp", index, text, wrong)
