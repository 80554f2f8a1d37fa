"""Tensor memory of Blackwell, and the instructions that use it: tcgen05.

A block has 128 lanes of 512 columns, each cell 32 bits; an address has the lane in its upper half
and the column in its lower half. Columns are allocated, a power of two of them at a time. Sums of
tcgen05.mma and scales lie there, A may. A warp loads from and stores to the quarter of the lanes
that is its own. The layouts are those of the PTX ISA, where its figures leave a doubt as CUTLASS
has them in mma_traits_sm100_frag.hpp and copy_traits_sm100.hpp.

Here products, copies, loads and stores are done at once, and mbarriers are told at once. On
hardware they are not: checks/tensor_memory.py looks for whoever does not wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ptxsim import blackwell
from ptxsim.async_copy.tensor_map import MOVED
from ptxsim.hopper import UNIT
from ptxsim.memory.global_memory import POISON
from ptxsim.tensor_cores import block_products

i4, i8, u1, u4 = np.int32, np.int64, np.uint8, np.uint32
LANES, COLUMNS, QUARTER = 128, 512, 32
ADDRESS_BYTES = 4
SHIFTED_COLUMNS = 8  # by tcgen05.shift
SCALE_ROWS = 32  # of a column of scales
FIELDS = 0x7FFF, 0xFFFF  # of an address: lane and column

# Of tcgen05.cp: rows and columns of what it copies, and the lanes where each row goes.
_ROW = np.arange(LANES)
COPIES = {
    "128x256b": (8, _ROW[:, None]),
    "128x128b": (4, _ROW[:, None]),
    "4x256b": (8, QUARTER * _ROW[:4, None]),
    "64x128b.warpx2::02_13": (4, _ROW[:64, None] + [0, 64]),
    "64x128b.warpx2::01_23": (
        4,
        64 * (_ROW[:64, None] // QUARTER) + _ROW[:64, None] % 32 + [0, 32],
    ),
    "32x128b.warpx4": (4, _ROW[:32, None] + [0, 32, 64, 96]),
}


@dataclass
class Issue:
    """Lanes that issue an instruction each, at most one of a block. (n,) each."""

    lanes: np.ndarray  # numbers over the shape of the lanes
    block: np.ndarray
    shape: tuple[int, ...]

    def of(self, values) -> np.ndarray:
        return np.broadcast_to(values, self.shape).reshape(-1)[self.lanes]

    def mask(self, some=True) -> np.ndarray:
        mask = np.zeros(self.shape, bool)
        mask.reshape(-1)[self.lanes] = some
        return mask

    def take(self, some) -> Issue:
        return Issue(self.lanes[some], self.block[some], self.shape)


def issues(lanes, mask) -> list[Issue]:
    """The lanes of `mask`, in the order of their threads."""
    layout = lanes.layout
    block = layout.full(layout.block_number).reshape(-1)
    thread = layout.full(layout.thread_number).reshape(-1)
    there = np.flatnonzero(layout.full(mask))
    there = there[np.lexsort((thread[there], block[there]))]
    first = np.flatnonzero(np.diff(block[there], prepend=-1))
    turn = np.arange(len(there)) - np.repeat(first, np.diff([*first, len(there)]))
    return [
        Issue(there[turn == number], block[there[turn == number]], layout.shape)
        for number in range(int(turn.max(initial=-1)) + 1)
    ]


def split_address(address):
    """(lane, column), int64; the two uppermost bits of a scale's address are no part of it."""
    word = np.asarray(address).astype(i8)
    return word >> 16 & 0x3FFF, word & FIELDS[1]


class TensorMemory:
    """The tensor memory of the blocks of a chunk."""

    def __init__(self, lanes):
        self.lanes, self.layout = lanes, lanes.layout
        # By block: {first column: how many}, and how many the last allocation took.
        self.allocated: list[dict[int, int]] = [{} for _ in range(self.layout.blocks)]
        self._last = [COLUMNS] * self.layout.blocks
        self._relinquished = np.zeros(self.layout.blocks, bool)
        self._allocated_by: dict[int, int] = {}  # block -> the instruction
        self._by_pairs: dict[int, list[int]] = {}  # block -> what it allocated with its pair

    @cached_property
    def cells(self) -> np.ndarray:
        return np.full((self.layout.blocks, LANES, COLUMNS), POISON, u4)

    # --- allocation -------------------------------------------------------------------------------

    def allocate(self, index: int, ctas: int, target, columns, mask) -> None:
        rows = self._warps(index, mask, columns)
        address = np.zeros((self.layout.blocks * self.layout.warps_per_block, 32), i4)
        first = np.zeros_like(address, bool)
        for warp, count in rows:
            block = warp // self.layout.warps_per_block
            begin, problem = self._free_place(block, count)
            if problem:
                self._find("wrong tensor memory allocation", index, problem, warp)
                continue
            self.allocated[block][begin], self._last[block] = count, count
            self._allocated_by[block] = index
            if ctas == 2:
                self._by_pairs.setdefault(block, []).append(count)
            address[warp], first[warp, 0] = begin, True
            self.cells[block, :, begin : begin + count] = POISON
            if self.lanes.checker:
                self.lanes.checker.tensor.allocated(block, begin, count)
        if first.any():
            values = [self.layout.from_warps(address)]
            mask = self.layout.from_warps(first)
            self.lanes.store(index, "shared", target, values, np.dtype(i4), mask)
            if self.lanes.checker:
                self.lanes.checker.races.forget_unfenced(target, ADDRESS_BYTES, mask)

    def _free_place(self, block: int, count: int) -> tuple[int, str]:
        if count not in (32, 64, 128, 256, 512):
            return 0, f"{count} columns: it must be 32, 64, 128, 256 or 512"
        if self._relinquished[block]:
            return 0, "the block has executed tcgen05.relinquish_alloc_permit before"
        if count > self._last[block]:
            return 0, f"{count} columns after an allocation of {self._last[block]}: never more"
        used = self.allocated[block].items()
        for begin in range(0, COLUMNS, count):
            if all(begin + count <= other or other + n <= begin for other, n in used):
                return begin, ""
        return 0, f"{count} columns, and no {count} of the {COLUMNS} are free: it waits for ever"

    def free(self, index: int, address, columns, mask) -> None:
        addresses = self.layout.to_warps(address)
        for warp, count in self._warps(index, mask, columns):
            block, begin = warp // self.layout.warps_per_block, int(addresses[warp, 0])
            if self.allocated[block].get(begin) != count:
                what = f"{count} columns from {begin} are freed, which no allocation gave"
                self._find("wrong tensor memory allocation", index, what, warp)
                continue
            del self.allocated[block][begin]
            if self.lanes.checker:
                self.lanes.checker.tensor.freed(index, warp, begin, count)

    def relinquish(self, index: int, mask) -> None:
        for warp, _ in self._warps(index, mask, 0):
            self._relinquished[warp // self.layout.warps_per_block] = True

    def finish(self) -> None:
        """All threads have returned."""
        for block, columns in enumerate(self.allocated):
            if columns:
                begin, count = next(iter(columns.items()))
                what = f"{count} columns from {begin} are not freed when the block ends"
                lanes = self.layout.block_number == block
                self.lanes.find("tensor memory not freed", self._allocated_by[block], what, lanes)
        for block, counts in self._by_pairs.items():
            cluster, rank = np.argwhere(self.layout.block_of == block)[0]
            is_paired = rank ^ 1 < self.layout.cluster_size
            other = int(self.layout.block_of[cluster, rank ^ 1]) if is_paired else -1
            if self._by_pairs.get(other) != counts:
                what = "the other block of the pair does not allocate the same: it waits for ever"
                lanes = self.layout.block_number == block
                self.lanes.find("deadlock", self._allocated_by[block], what, lanes)

    def _warps(self, index: int, mask, values) -> list[tuple[int, int]]:
        """[(number, value)] of the warps that execute an instruction; finds those that differ."""
        there, exists = self.layout.active(mask), self.layout.active(True)
        values = self.layout.to_warps(values)
        some = there.any(axis=1)
        wrong = some & ((exists & ~there) | (values != values[:, :1]) & exists).any(axis=1)
        for warp in np.flatnonzero(wrong):
            what = "only a part of the warp executes it, or its threads give it other operands"
            self._find("divergent warp", index, what, int(warp))
        return [(int(warp), int(values[warp, 0])) for warp in np.flatnonzero(some & ~wrong)]

    def _find(self, kind: str, index: int, what: str, warp: int) -> None:
        rows = np.zeros((self.layout.blocks * self.layout.warps_per_block, 32), bool)
        rows[warp] = True
        self.lanes.find(kind, index, what, self.layout.from_warps(rows))

    def why_not(self, block: int, column: int, count: int, lane: int, lanes: int):
        """(kind, what) of a finding if cells are not there or not allocated; None: all is right."""
        if column + count > COLUMNS or lane + lanes > LANES:
            what = f"lanes {lane} to {lane + lanes - 1} and columns {column} to "
            what += f"{column + count - 1} of {LANES} lanes and {COLUMNS} columns"
            return "out-of-bounds tensor memory", what
        for begin, size in self.allocated[block].items():
            if begin <= column and column + count <= begin + size:
                return None
        what = f"columns {column} to {column + count - 1} of its block"
        return "tensor memory not allocated", what


# --- loads and stores -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Access:
    """tcgen05.ld or .st: `shape`.x`times`. `packed`: halves of two columns make a register."""

    shape: str
    times: int
    packed: bool
    offset: int = 0  # of the second half of 16x32bx2

    @property
    def registers(self) -> int:
        return self.times * {"16x128b": 2, "16x256b": 4}.get(self.shape, 1)

    @property
    def lanes_used(self) -> int:
        return QUARTER if self.shape == "32x32b" else 16

    @cached_property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """(lane, column), each (threads, registers), from the address on."""
        thread, register = np.arange(32)[:, None], np.arange(self.registers)
        if self.shape == "32x32b":
            lane, column = thread + 0 * register, register + 0 * thread
        elif self.shape == "16x64b":
            lane, column = thread // 4 + 8 * (thread % 2), 2 * register + thread // 2 % 2
        elif self.shape == "16x128b":
            lane, column = thread // 4 + 8 * (register % 2), thread % 4 + 4 * (register // 2)
        elif self.shape == "16x256b":
            lane = thread // 4 + 8 * (register // 2 % 2)
            column = thread % 4 * 2 + register % 2 + 8 * (register // 4)
        else:
            lane, column = thread % 16, register + 0 * thread
        lane, column = np.broadcast_arrays(lane, column)
        column = column * (2 if self.packed else 1)
        if self.shape == "16x32bx2":
            column = column + self.offset * (thread // 16)
        return lane, column

    def load(self, lanes, index: int, address, mask) -> list[np.ndarray]:
        memory, layout = lanes.tensor_memory, lanes.layout
        rows = np.zeros((layout.blocks * layout.warps_per_block, 32, self.registers), u4)
        for warp, where in self._where(lanes, index, address, mask, writes=False):
            values = memory.cells[where]
            if self.packed:
                second = memory.cells[(where[0], where[1], where[2] + 1)]
                values = values & u4(0xFFFF) | second << u4(16)
            rows[warp] = values
        return [layout.from_warps(rows[:, :, r]).view(i4) for r in range(self.registers)]

    def store(self, lanes, index: int, address, registers, mask) -> None:
        memory, layout = lanes.tensor_memory, lanes.layout
        rows = np.stack([layout.to_warps(register) for register in registers], axis=2).view(u4)
        for warp, where in self._where(lanes, index, address, mask, writes=True):
            if self.packed:
                memory.cells[where] = rows[warp] & u4(0xFFFF)
                memory.cells[(where[0], where[1], where[2] + 1)] = rows[warp] >> u4(16)
            else:
                memory.cells[where] = rows[warp]

    def _where(self, lanes, index: int, address, mask, writes: bool):
        """(warp, the cells of its registers), of warps whose access is right."""
        memory, per_block = lanes.tensor_memory, lanes.layout.warps_per_block
        lane, column = self.places
        count = int(column.max()) + 1 + self.packed
        for warp, word in memory._warps(index, mask, address):
            block, quarter = warp // per_block, warp % per_block % 4
            first_lane, first_column = (int(v) for v in split_address(word))
            if first_lane // QUARTER != quarter:
                what = (
                    f"lane {first_lane}, and warp {warp % per_block} reaches lanes "
                    f"{QUARTER * quarter} to {QUARTER * quarter + QUARTER - 1}"
                )
                memory._find("lanes of another warp", index, what, warp)
            begin = first_lane % QUARTER + QUARTER * quarter
            problem = memory.why_not(block, first_column, count, begin, self.lanes_used)
            if not problem and begin % QUARTER + self.lanes_used > QUARTER:
                problem = "lanes of another warp", f"{self.lanes_used} lanes from lane {first_lane}"
            if problem:
                memory._find(*problem[:1], index, problem[1], warp)
                continue
            if lanes.checker:
                columns = np.unique(column) + first_column
                if self.packed:
                    columns = np.unique([columns, columns + 1])
                used = begin, self.lanes_used, columns
                lanes.checker.tensor.accessed(index, warp, *used, writes=writes)
            where = block, lane + begin, column + first_column
            operation = "store" if writes else "load"
            lanes.counting.tensor(index, operation, block, warp % per_block, *where[1:])
            yield warp, where


def wait(lanes, index: int, what: str, mask) -> None:
    """tcgen05.wait::ld and ::st."""
    warps = [warp for warp, _ in lanes.tensor_memory._warps(index, mask, 0)]
    if lanes.checker:
        lanes.checker.tensor.waited(what, warps)


def fence(lanes, index: int, when: str, mask) -> None:
    """tcgen05.fence::before_thread_sync and ::after_thread_sync."""
    if lanes.checker:
        lanes.checker.tensor.fenced(when, mask)


def commit(lanes, index: int, address, ranks, mask) -> None:
    """The mbarrier, or that of each block of `ranks`, is told when all before is done: at once."""
    address = np.asarray(address)
    parts = lanes.copies.bulk.to_ranks(index, address, address, ranks, mask)
    for _, mbarrier, here in parts:
        here = lanes.layout.full(here)
        if lanes.checker:
            lanes.checker.tensor.committed(mbarrier, here)
        lanes.copies.mbarriers.arrive(index, mbarrier, 1, 0, here)


# --- products -------------------------------------------------------------------------------------


def blocks_of(lanes, issue: Issue, ctas: int) -> np.ndarray:
    """(n, ctas): the number of the lane's block, or those of its pair, the even one first."""
    if ctas == 1:
        return issue.block[:, None]
    layout = lanes.layout
    rank = issue.of(layout.special["cluster_ctarank"]) & ~1
    cluster = issue.of(layout.cluster_number)
    return layout.block_of[cluster[:, None], rank[:, None] + np.arange(2)]


def sums_places(form: blackwell.Form) -> tuple[np.ndarray, np.ndarray]:
    """(lane, column), each (rows of an SM, n), of the sums from their address on."""
    row, n = np.arange(form.rows)[:, None], np.arange(form.n)
    if form.rows == LANES:
        lane, column = row, n
    elif form.ctas == 1:  # 16 rows in each quarter
        lane, column = row // 16 * QUARTER + row % 16, n
    else:  # the second half of the columns in the upper lanes
        half = form.n // 2
        lane, column = row + 64 * (n // half), n % half
    lane, column = np.broadcast_arrays(lane, column)
    return lane, column


@dataclass(frozen=True)
class Product:
    """tcgen05.mma of a kind, by one or two SMs."""

    kind: str
    ctas: int
    scales: int = 0  # in each row; 0 of kinds that have none
    a_is_shared: bool = True  # whether A is in shared memory, not in tensor memory
    shift: int = 0  # scale-input-d

    def run(self, lanes, index: int, d, a, b, word, keep, disabled, scales, mask) -> None:
        """`a`, `b`: descriptors; `word`: that of the instruction; `keep`: enable-input-d."""
        for issue in issues(lanes, mask):
            words = issue.of(word)
            for each in np.unique(words).tolist():
                some = issue.take(words == each)
                try:
                    form = blackwell.Form.of(each & 0xFFFFFFFF, self.kind, self.ctas)
                    if self.ctas == 2 and lanes.layout.cluster_size % 2:
                        raise blackwell.Unfit("two SMs need clusters of an even number of blocks")
                except blackwell.Unfit as error:
                    what = f"the instruction descriptor does not fit: {error}"
                    lanes.find("wrong descriptor", index, what, some.mask())
                    continue
                operands = Operands(lanes, index, form, some)
                self._multiply(operands, d, a, b, some.of(keep), disabled, scales)

    def _multiply(self, operands: Operands, d, a, b, keep, disabled, scales) -> None:
        form = operands.form
        lane, column = sums_places(form)
        sums = operands.cells(d, lane, column, "D")
        right = operands.from_shared(b, form.n // self.ctas, 1)
        if self.a_is_shared:
            left = operands.from_shared(a, form.rows, 0)
        else:
            words = np.arange(blackwell.LINE_BYTES // 4)
            of_row, of_word = np.broadcast_arrays(lane[:, :1], words)
            left = operands.cells(a, of_row, of_word, "A")
        scaling = [
            operands.scales(address, rows, self.scales, which)
            for which, (address, rows) in enumerate(zip(scales, (form.rows, form.n), strict=False))
        ]
        operands.tell(sums, keep)
        cells = operands.lanes.tensor_memory.cells
        kept = [operands.issue.of(word) for word in disabled]
        for i in np.flatnonzero(~operands.wrong):
            operands.lanes.counter.tensor_multiply_adds += form.m * form.n * form.k
            columns = np.concatenate(right[i], axis=0)
            for cta in range(self.ctas):
                rows, where = left[i][cta], sums[i][cta]
                operands.record(int(i), "product", *where)
                if not self.a_is_shared:
                    rows = decode_units(cells[rows].view(u1), form, 0)
                old = cells[where] if keep[i] else np.zeros((form.rows, form.n), u4)
                of_rows = [s[i][cta][None] for s in scaling] or None
                given = form, rows[None], columns[None], old[None], of_rows, self.shift
                total = block_products.multiply(*given)[0]
                if form.types[0] == "f16":
                    total &= u4(0xFFFF)
                if kept:
                    of_cta = [int(word[i]) for word in kept[4 * cta : 4 * cta + 4]]
                    bits = np.array([word >> bit & 1 for word in of_cta for bit in range(32)], bool)
                    total = np.where(bits[where[1]], cells[where], total)
                cells[where] = total


def decode_units(raw: np.ndarray, form: blackwell.Form, which: int) -> np.ndarray:
    """uint32 patterns (rows, k) of bytes (rows, 32) of A (0) or B (1) with lines along k."""
    kind = form.types[1 + which]
    if form.bits == 4:
        return np.stack([raw & 15, raw >> 4], axis=-1).reshape(len(raw), -1).astype(u4)
    size = form.bits // 8
    elements = np.ascontiguousarray(raw).view(f"u{size}").astype(u4)
    return elements if kind not in ("e2m3", "e3m2", "e2m1") else narrow_in_bytes(elements, kind)


def narrow_in_bytes(elements, kind: str):
    """Of tensor memory: an element of 6 bits in the lower bits of a byte, of 4 bits in 2 to 5."""
    return elements >> u4(2) & u4(15) if kind == "e2m1" else elements & u4(0x3F)


def unpack_units(raw: np.ndarray, kind: str) -> np.ndarray:
    """uint32 patterns (rows, 32) of bytes (rows, 32): 16 narrow elements, then padding, each."""
    bits = 4 if kind == "e2m1" else 6
    units = np.unpackbits(raw.reshape(-1, UNIT), axis=1, bitorder="little")[:, : 16 * bits]
    weights = 1 << np.arange(bits, dtype=u4)
    elements = (units.reshape(len(units), 16, bits) * weights).sum(axis=2, dtype=u4)
    return elements.reshape(len(raw), -1)


class Operands:
    """What the lanes of an Issue multiply, and which of them name what is not there."""

    def __init__(self, lanes, index: int, form: blackwell.Form, issue: Issue):
        self.lanes, self.index, self.form, self.issue = lanes, index, form, issue
        self.blocks = blocks_of(lanes, issue, form.ctas)
        self.wrong = np.zeros(len(issue.lanes), bool)
        self.places: list = []  # (n, ctas, units) of all that is read of shared memory
        self.read: list = []  # the same of cells, as `cells` gives them

    def find(self, kind: str, i: int, what: str) -> None:
        some = np.zeros(len(self.wrong), bool)
        some[i] = self.wrong[i] = True
        self.lanes.find(kind, self.index, what, self.issue.mask(some))

    def is_there(
        self, i: int, block: int, column: int, count: int, lane: int, lanes: int, name: str
    ) -> bool:
        """Whether cells are there and allocated; finds those that are not."""
        problem = self.lanes.tensor_memory.why_not(block, column, count, lane, lanes)
        if problem:
            self.find(problem[0], i, f"{name}{problem[1]}")
        return not problem

    def record(self, i: int, operation: str, block: int, lane, column) -> None:
        """That the i-th uses these cells, for the warp that issues it."""
        warp = int(self.issue.of(self.lanes.layout.thread_number)[i]) // 32
        self.lanes.counting.tensor(self.index, operation, block, warp, lane, column)

    def cells(self, address, lane, column, name: str):
        """[issue][cta] (block, lane, column): what indexes the cells."""
        first_lane, first_column = split_address(self.issue.of(address))
        allowed = (0, 16) if self.form.m == 64 else (0,)
        top, width = int(lane.max()) + 1, int(column.max()) + 1
        where = []
        for i, left in enumerate(first_column.tolist()):
            begin = int(first_lane[i])
            if begin not in allowed:
                what = f"{name} is at lane {begin}, and must be at {' or '.join(map(str, allowed))}"
                self.find("wrong descriptor", i, what)
                begin = 0
            for block in self.blocks[i].tolist():
                self.is_there(i, block, left, width, begin, top, f"{name}: ")
            where.append([(int(block), lane + begin, column + left) for block in self.blocks[i]])
        if name == "A":
            self.read.append(where)
        return where

    def from_shared(self, words, lines: int, which: int):
        """[issue][cta]: patterns (lines, k)."""
        form, lanes = self.form, self.lanes
        across = form.transposed[which]
        size = max(1, form.bits // 8)
        shape = (form.k, lines * size // UNIT) if across else (lines, blackwell.LINE_BYTES // UNIT)
        where = self.units(words, shape, across, form.bits, f" of {'AB'[which]}")
        offsets = self.blocks * lanes.shared.stride
        self.places.append(where.reshape(len(where), 1, -1) + offsets[:, :, None])
        places = where[:, None] + offsets[:, :, None, None]
        units = lanes.shared.buffer.view(MOVED)[places // UNIT]
        return [[self._elements(each, which, across, size) for each in pair] for pair in units]

    def units(self, words, shape: tuple[int, int], across: bool, bits: int, name: str):
        """int64 (issue, *shape): where units are in a block's shared memory, by descriptors."""
        words = self.issue.of(words).astype(np.uint64)
        for i, word in enumerate(words.tolist()):
            try:
                blackwell.look_at_operand(word, across, bits)
            except blackwell.Unfit as error:
                self.find("wrong descriptor", i, f"the descriptor{name} does not fit: {error}")
                words[i] = blackwell.VERSION << 46
        where = blackwell.places(words, *shape, across)
        total = self.lanes.shared.bytes_per_block
        outside = ((where < 0) | (where + UNIT > total)).any(axis=(1, 2))
        for i in np.flatnonzero(outside).tolist():
            end = int(where[i].max()) + UNIT
            what = f"the operand{name} ends at byte {end} of shared memory, which has {total}"
            self.find("out-of-bounds read", i, what)
        return np.where(outside[:, None, None], 0, where)

    def _elements(self, units, which: int, across: bool, size: int):
        raw = np.ascontiguousarray(units).view(u1)  # (lines, bytes)
        kind = self.form.types[1 + which]
        if across:
            return raw.view(f"u{size}").astype(u4).T
        if kind in ("e2m3", "e3m2", "e2m1") and self.form.bits == 8:
            return unpack_units(raw, kind)
        return decode_units(raw, self.form, which)

    def scales(self, address, rows: int, count: int, which: int):
        """[issue][cta]: patterns uint8 (rows, count), the same in all quarters of lanes."""
        form, memory, name = self.form, self.lanes.tensor_memory, f"scales of {'AB'[which]}"
        _, first = split_address(self.issue.of(address))
        row, first_byte = np.arange(rows), form.scale_ids[which]
        split = which == 1 and form.ctas == 2 and form.rows == 64  # as the sums are
        of_column = row % (rows // 2) if split else row
        width = int(of_column.max()) // SCALE_ROWS + 1
        result, where = [], []
        for i, left in enumerate(first.tolist()):
            if first_byte % count or first_byte + count > 4:
                what = f"{name} begin at byte {first_byte} of a word, {count} of them"
                self.find("wrong descriptor", i, what)
            each, places = [], []
            for block in self.blocks[i].tolist():
                if not self.is_there(i, block, left, width, 0, LANES, f"{name}: "):
                    continue
                quarters = memory.cells[block, :, left : left + width].reshape(4, QUARTER, width)
                table = quarters[:, of_column % SCALE_ROWS, of_column // SCALE_ROWS]  # (4, rows)
                if split:
                    lower = row < rows // 2
                    differs = np.where(lower, table[0] != table[1], table[2] != table[3]).any()
                    words = np.where(lower, table[0], table[2])
                else:
                    differs, words = (table != table[0]).any(), table[0]
                if differs:
                    what = f"the {name} are not the same in all quarters of the lanes"
                    self.find("scales not in all quarters", i, what)
                taken = np.ascontiguousarray(words).view(u1).reshape(rows, 4)
                each.append(taken[:, first_byte : first_byte + count])
                lane, column = np.meshgrid(np.arange(LANES), left + np.arange(width), indexing="ij")
                places.append((block, lane, column))
            result.append(each)
            where.append(places)
        self.read.append(where)
        return result

    def tell(self, sums, keep) -> None:
        """Tell the checks what the lanes that are right read and write."""
        checker = self.lanes.checker
        if not checker:
            return
        for i in np.flatnonzero(~self.wrong):
            lane = int(self.issue.lanes[i])
            for where in self.places:
                checker.tensor.read_shared(self.index, lane, where[i].reshape(-1))
            for where in self.read:
                for cells in where[i]:
                    checker.tensor.operated(self.index, lane, *cells, reads=True, writes=False)
            for cells in sums[i]:
                checker.tensor.operated(self.index, lane, *cells, reads=bool(keep[i]), writes=True)


# --- from shared memory, and within tensor memory -------------------------------------------------


def copy(lanes, index: int, shape: str, ctas: int, address, words, mask) -> None:
    """tcgen05.cp of a `shape` with its multicast, to one block or both of a pair."""
    columns, rows = COPIES[shape]
    form = blackwell.Form(
        "mxf8f6f4", ctas, 128 * ctas, 8, ("f32", "e4m3", "e4m3"), (1, 1), (False,) * 2
    )
    for issue in issues(lanes, mask):
        operands = Operands(lanes, index, form, issue)
        first_lane, first = split_address(issue.of(address))
        where = operands.units(words, (len(rows), columns // 4), False, 8, "")
        for i in np.flatnonzero(~operands.wrong).tolist():
            for block in operands.blocks[i].tolist():
                place = int(first[i]), columns, int(first_lane[i]), 1
                if not operands.is_there(i, block, *place, ""):
                    continue
                bytes_at = where[i] + block * lanes.shared.stride
                raw = lanes.shared.buffer.view(MOVED)[bytes_at // UNIT]
                values = np.ascontiguousarray(raw).view(u4)  # (rows, columns)
                to = rows + int(first_lane[i])
                column = int(first[i]) + np.arange(columns)
                cells = block, to[:, :, None], column[None, None]
                lanes.tensor_memory.cells[cells] = values[:, None, :]
                operands.record(i, "copy", block, to, column)
                if lanes.checker:
                    lane = int(issue.lanes[i])
                    lanes.checker.tensor.read_shared(index, lane, bytes_at.reshape(-1))
                    lanes.checker.tensor.operated(index, lane, *cells, reads=False, writes=True)


def shift_down(lanes, index: int, ctas: int, address, mask) -> None:
    """tcgen05.shift: 32 bytes of each of the 32 lanes but the last take those of the next lane."""
    for issue in issues(lanes, mask):
        first_lane, first = split_address(issue.of(address))
        for i, blocks in enumerate(blocks_of(lanes, issue, ctas).tolist()):
            some = np.arange(len(issue.lanes)) == i
            lane, column = int(first_lane[i]), int(first[i])
            for block in blocks:
                problem = lanes.tensor_memory.why_not(block, column, SHIFTED_COLUMNS, lane, QUARTER)
                if lane % QUARTER:
                    problem = "wrong descriptor", f"lane {lane}, which is no multiple of {QUARTER}"
                if problem:
                    lanes.find(problem[0], index, problem[1], issue.mask(some))
                    continue
                cells = lanes.tensor_memory.cells[block, lane : lane + QUARTER, column : column + 8]
                cells[:-1] = cells[1:].copy()
                if lanes.checker:
                    where = np.meshgrid(lane + np.arange(32), column + np.arange(8), indexing="ij")
                    each = int(issue.lanes[i])
                    lanes.checker.tensor.operated(
                        index, each, block, *where, reads=True, writes=True
                    )
