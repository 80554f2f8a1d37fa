"""wgmma: products of a warpgroup, with factors in shared memory.

An NVIDIA H200 adds all products of an instruction at once, as adding.py says: 16 of halves, 8 of
tf32, each cut off 25 bits below the largest exponent; of 8-bit floats 32, cut off 13 bits below.

Here the sums are there at once. On hardware they are not before wgmma.wait_group, and until then
the factors are being read: checks look for whoever does not wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ptxsim.async_copy.tensor_map import MOVED
from ptxsim.hopper import GROUP_THREADS, UNIT, from_groups, lanes_of, places, to_groups
from ptxsim.tensor_cores import adding

f4, i4, i8, u1, u4 = np.float32, np.int32, np.int64, np.uint8, np.uint32
ROWS = 64  # of A and of the sums
LEFT_REGISTERS = 4  # of A, where it comes from there
LINE_BYTES = 32  # of a row of A or a column of B in one instruction
SUMS_AT_ONCE = 1 << 15  # as many fit into a processor's cache
KEPT_BITS = {"e4m3": 13, "e5m2": 13}  # of others adding.KEPT_BITS
SIGN = {"f16": 0x8000, "bf16": 0x8000, "tf32": 0x80000000, "e4m3": 0x80, "e5m2": 0x80}


@dataclass(frozen=True)
class GroupProduct:
    """wgmma.mma_async: d (64×n) = a (64×k) b (k×n) + d, for the warpgroups that execute it."""

    types: tuple[str, str, str]  # of d, a, b
    n: int
    signs: tuple[int, int] = (1, 1)  # -1 where a factor is negated
    transposed: tuple[bool, bool] = (False, False)  # whether lines of A run along m, of B along n
    saturate: bool = False  # whether integer sums stop at the ends of their range

    @property
    def bits(self) -> int:
        return adding.BITS[self.types[1]]

    @property
    def k(self) -> int:
        return 8 * LINE_BYTES // self.bits

    @property
    def registers(self) -> int:
        """Of the sums, in each thread."""
        return self.n * adding.BITS[self.types[0]] // 64

    def run(self, lanes, index: int, d, a, b, keep, mask):
        """Registers of d. `a`: four registers, or the descriptor alone; `keep`: scale-d."""
        groups = whole_groups(lanes, index, mask)
        if not groups.any():
            return d
        read = []
        if len(a) < LEFT_REGISTERS:
            left, places_of_a = self._from_memory(lanes, index, a[0], ROWS, 0, groups)
            read.append(places_of_a)
        else:
            left = _left(_of_groups(lanes, a, groups), self.bits)
        right, places_of_b = self._from_memory(lanes, index, b, self.n, 1, groups)
        read.append(places_of_b)
        if lanes.checker:
            lanes.checker.warpgroups.start(index, read, groups)
        bytes_read = UNIT * sum(where.shape[1] for where in read)
        if lanes.launch.count:
            lanes.counter.add_wgmma(lanes.line(index), self, bytes_read, int(groups.sum()))
        sums = _sums(_of_groups(lanes, d, groups), self.types[0])
        kept = np.broadcast_to(to_groups(lanes.layout, keep)[groups, 0], len(sums))
        sums[~kept] = 0
        compute = self._integers if self.types[0] == "s32" else self._floats
        step = max(1, SUMS_AT_ONCE // (ROWS * self.n))
        for first in range(0, len(sums), step):
            part = slice(first, first + step)
            sums[part] = compute(left[part], right[part], sums[part])
        return _to_lanes(lanes, _registers(sums, self.types[0]), groups)

    def _from_memory(self, lanes, index: int, descriptor, lines: int, which: int, groups):
        """Patterns (groups, lines, k), uint32, and where the units were, (groups, units)."""
        rows = to_groups(lanes.layout, descriptor)[groups]
        self._check_same(lanes, index, rows, groups)
        across, size = self.transposed[which], self.bits // 8
        shape = (self.k, lines * size // UNIT) if across else (lines, LINE_BYTES // UNIT)
        where = places(rows[:, 0], *shape, across)
        where = _inside(lanes, index, where, groups)
        if lanes.record is not None:
            lanes.counting.factor(index, "AB"[which], across, rows[:, 0], where, groups)
        block = to_groups(lanes.layout, lanes.shared.block_offsets)[groups, :1, None]
        units = lanes.shared.buffer.view(MOVED)[(where + block) // UNIT]
        elements = units.view(f"u{size}").astype(u4)
        elements = elements.swapaxes(1, 2) if across else elements
        return elements, where.reshape(len(where), -1)

    @staticmethod
    def _check_same(lanes, index: int, rows, groups) -> None:
        differs = rows != rows[:, :1]
        if differs.any():
            wrong = np.zeros((len(groups), GROUP_THREADS), bool)
            wrong[groups] = differs
            what = "the threads of a warpgroup give it another descriptor, and all must the same"
            lanes.find("divergent warpgroup", index, what, from_groups(lanes.layout, wrong))

    def _integers(self, a, b, c):
        return sum_of_integers(self.types[1:], a, b, c, self.saturate)

    def _floats(self, a, b, c):
        d_type, a_type, b_type = self.types
        if self.signs[0] < 0:
            a = a ^ u4(SIGN[a_type])
        if self.signs[1] < 0:
            b = b ^ u4(SIGN[b_type])
        factors = Rows(*adding.decoded(a, a_type), *adding.decoded(b, b_type))
        kept = KEPT_BITS.get(a_type, adding.KEPT_BITS)
        total = adding.summed(factors, adding.numbers(c, d_type), a_type, d_type, kept)
        return adding.pattern(total, d_type)


def sum_of_integers(ptx_types, a, b, c, saturate: bool):
    """uint32 patterns (groups, m, n) of a (groups, m, k) b (groups, n, k) + c; types of a and b."""
    a, b = (adding.integers(bits, kind) for bits, kind in zip((a, b), ptx_types, strict=True))
    total = c.view(i4) + np.matmul(a, b.swapaxes(1, 2)).astype(i8)
    return adding.integer_pattern(total, saturate)


class Rows(adding.Factors):
    """Of `a` (groups, m, k) and `b` (groups, n, k), by matrix products of columns and rows."""

    exponent_type = f4

    @property
    def count(self) -> int:
        return self.b.shape[2]

    def product(self, k: int, out) -> None:
        if out.dtype == f4:
            column, row = self._values[k]
            np.matmul(column, row, out=out)
        else:
            np.multiply(self.a[:, :, None, k], self.b[:, None, :, k], out=out, dtype=out.dtype)

    def exponent(self, k: int, out) -> None:
        column, row = self._powers[k]
        np.matmul(column, row, out=out)

    @cached_property
    def _values(self):
        return self._pairs(self.a, 0, self.b, 0)

    @cached_property
    def _powers(self):
        return self._pairs(self.a_exponents, 1, 1, self.b_exponents)

    def _pairs(self, *parts):
        """For each k, the first two of `parts` as (groups, m, 2), the others as (groups, 2, n)."""
        groups, m, steps = self.a.shape
        left = np.empty((steps, groups, m, 2), f4)
        right = np.empty((steps, groups, 2, self.b.shape[1]), f4)
        turned = (x.transpose(2, 0, 1) if np.ndim(x) else x for x in parts)
        left[..., 0], left[..., 1], right[:, :, 0], right[:, :, 1] = turned
        return list(zip(left, right, strict=True))


# --- order ----------------------------------------------------------------------------------------


def order(lanes, index: int, what: str, given: tuple, mask) -> None:
    """wgmma.fence, commit_group, and wait_group, `given` how many groups may be in flight."""
    groups = whole_groups(lanes, index, mask)
    if lanes.checker:
        warpgroups = lanes.checker.warpgroups
        tell = {"fence": warpgroups.fence, "commit_group": warpgroups.commit}
        tell.get(what, warpgroups.wait)(*given, groups)


def whole_groups(lanes, index: int, mask) -> np.ndarray:
    """(groups,) bool: the warpgroups that execute an instruction; finds those that do in part."""
    layout = lanes.layout
    rows = to_groups(layout, mask)
    groups = np.asarray(rows.all(axis=1))
    wrong = layout.full(mask) & ~lanes_of(layout, groups)
    what = "only a part of the warpgroup executes it, and all 128 threads must"
    lanes.find("divergent warpgroup", index, what, wrong)
    return groups


def _inside(lanes, index: int, where, groups):
    """The places, those outside shared memory at its beginning; finds them."""
    outside = (where < 0) | (where + UNIT > lanes.shared.bytes_per_block)
    if outside.any():
        wrong = np.zeros(len(groups), bool)
        wrong[groups] = outside.any(axis=(1, 2))
        total = lanes.shared.bytes_per_block
        what = f"{UNIT} bytes at byte {int(where[outside][0])} of shared memory, which has {total}"
        lanes.find("out-of-bounds read", index, what, lanes_of(lanes.layout, wrong))
    return np.where(outside, 0, where)


# --- registers ------------------------------------------------------------------------------------

# A thread is line l and turn t of warp w. Its elements of the sums are pairs p of neighbours, in
# rows l and l + 8 (h) of its warp's 16, in every eighth column j; of A, `together` neighbours p, in
# both halves (j) of k.


def _of_groups(lanes, registers, groups) -> np.ndarray:
    return np.stack([to_groups(lanes.layout, register)[groups] for register in registers]).view(u4)


def _to_lanes(lanes, registers: np.ndarray, groups) -> list[np.ndarray]:
    if not groups.all():
        rows = np.zeros((len(registers), len(groups), GROUP_THREADS), u4)
        rows[:, groups] = registers
        registers = rows
    return [from_groups(lanes.layout, register).view(i4) for register in registers]


def _split(registers: np.ndarray, bits: int) -> np.ndarray:
    if bits == 32:
        return registers[..., None]
    shifts = np.arange(0, 32, bits, dtype=u4)
    return registers[..., None] >> shifts & u4((1 << bits) - 1)


def _left(registers: np.ndarray, bits: int) -> np.ndarray:
    groups = registers.shape[1]
    parts = _split(registers, bits).reshape(2, 2, groups, 4, 8, 4, 32 // bits)
    return parts.transpose(2, 3, 1, 4, 0, 5, 6).reshape(groups, ROWS, -1)  # jhgwltp to gwhljtp


def _sums(registers: np.ndarray, ptx_type: str) -> np.ndarray:
    groups = registers.shape[1]
    if ptx_type == "f16":
        parts = _split(registers, 16).reshape(-1, 2, groups, 4, 8, 4, 2)
        return parts.transpose(2, 3, 1, 4, 0, 5, 6).reshape(groups, ROWS, -1)
    parts = registers.reshape(-1, 2, 2, groups, 4, 8, 4)
    return parts.transpose(3, 4, 1, 5, 0, 6, 2).reshape(groups, ROWS, -1)  # jhpgwlt to gwhljtp


def _registers(sums: np.ndarray, ptx_type: str) -> np.ndarray:
    groups = len(sums)
    parts = sums.reshape(groups, 4, 2, 8, -1, 4, 2)
    if ptx_type == "f16":
        parts = parts[..., 0] | parts[..., 1] << u4(16)
        return parts.transpose(4, 2, 0, 1, 3, 5).reshape(-1, groups, GROUP_THREADS)
    return parts.transpose(4, 2, 6, 0, 1, 3, 5).reshape(-1, groups, GROUP_THREADS)
