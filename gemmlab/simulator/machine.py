"""Runs a kernel: which lanes go next, where they part, where they wait.

Blocks are run in chunks of about CHUNK_LANES lanes, each chunk on its own. Inside a chunk, lanes
that stand at the same instruction form a group, and a group executes one basic block at a time for
all its lanes. Where a branch parts a group, the group that stands first in the program goes next,
so that parted lanes meet again. A barrier parks lanes until all others are at a barrier or have
returned: as on the GPU, a thread that has returned is not waited for.

The lanes of a chunk are laid out over the axes (block z, thread z, block y, thread y, block x,
thread x), without those of length 1. So blockIdx.y * blockDim.y + threadIdx.y runs along two
neighbouring axes, and a value that does not depend on x has length 1 there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from . import exactness, memory
from .counters import WARP, Counter
from .ptx import BLOCK_BARRIERS, Kernel
from .translate import register_types, translate

CHUNK_LANES = 1 << 17
# Elements per step of a NumPy operation. Rows as long as this or longer are used where they are;
# shorter ones are copied together first, which makes an outer product three times as slow.
UFUNC_BUFFER = 512
AXES = ("block z", "thread z", "block y", "thread y", "block x", "thread x")
DIMENSIONS = "xyz"

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Finding:
    """A mistake of the kernel: what, in which line, and the first lane that made it."""

    kind: str  # "out-of-bounds read", "misaligned write", "divergent barrier", …
    kernel: str
    line: int
    block: Triple
    thread: Triple
    what: str  # "C[2800] of 2800 elements"
    lanes: int

    def __str__(self):
        return (
            f"{self.kind} in kernel '{self.kernel}', line {self.line}: {self.what}, "
            f"by block {self.block}, thread {self.thread}"
            + (f" and {self.lanes - 1} more" if self.lanes > 1 else "")
        )


@dataclass(frozen=True)
class WarpAccess:
    """What one warp asked of memory in one instruction.

    `addresses`: int64 (32,), byte offsets from the start of `array`, valid where `active`.
    `size`: bytes per lane.
    """

    line: int
    space: str
    operation: str
    array: str
    block: Triple
    warp: int
    addresses: np.ndarray
    active: np.ndarray
    size: int


class Translation:
    """A kernel's basic blocks as Python functions, each made when it is first needed."""

    def __init__(self, kernel: Kernel, flush_operands: bool):
        self.kernel, self.flush_operands = kernel, flush_operands
        self.types, self.degrees = register_types(kernel), exactness.degrees(kernel)
        self._functions: dict = {}
        # All of it once now, so that an unknown instruction is met before memory is touched.
        for start in kernel.blocks:
            self.function(start, frozenset())

    def function(self, start: int, kept: frozenset):
        key = start, kept
        if key not in self._functions:
            block = self.kernel.blocks[start]
            self._functions[key] = translate(
                self.kernel, block, self.types, self.degrees, kept, self.flush_operands
            )
        return self._functions[key]


@dataclass
class Launch:
    """One launch: a kernel, its shape and arguments. `parameters`: name -> NumPy scalar."""

    kernel: Kernel
    grid: Triple
    block: Triple
    parameters: dict[str, np.generic]
    memory: memory.GlobalMemory
    shared_bytes: int  # static and dynamic
    translation: Translation
    known_sums: dict[int, exactness.KnownSum]
    count: bool


def run(launch: Launch, blocks: list[Triple] | None = None, record: bool = False):
    """Run all blocks, or only those named, each of them in a chunk of its own.

    Returns (counter, findings, accesses); accesses only if `record` is set.
    """
    counter, findings, accesses = Counter(), {}, []
    chunks = [Chunk(launch, ranges, record) for ranges in _ranges(launch, blocks)]
    for chunk in chunks:
        chunk.run()
        counter.merge(chunk.counter)
        accesses += chunk.accesses
        for key, finding in chunk.findings.items():
            findings.setdefault(key, finding)
    return counter, list(findings.values()), accesses


def _ranges(launch: Launch, blocks: list[Triple] | None):
    """Boxes of block indices, as ((x0, x1), (y0, y1), (z0, z1))."""
    if blocks is not None:
        return [tuple((i, i + 1) for i in block) for block in blocks]
    room = max(1, CHUNK_LANES // int(np.prod(launch.block)))
    width_x = min(launch.grid[0], room)
    width_y = min(launch.grid[1], room // width_x)
    steps = (width_x, max(1, width_y), 1)
    starts = product(*(range(0, n, step) for n, step in zip(launch.grid, steps, strict=True)))
    return [
        tuple((s, min(s + step, n)) for s, step, n in zip(start, steps, launch.grid, strict=True))
        for start in starts
    ]


@dataclass(frozen=True)
class DistinctWarps:
    """Warps of a chunk, equal ones taken together.

    `row`: (n,) which row of addresses; `active`: (n, 32) lanes; `times`: (n,) how many warps;
    `of_warp`: for each warp of the chunk, which of the n it is, or -1 where no lane is active.
    """

    row: np.ndarray
    active: np.ndarray
    times: np.ndarray
    of_warp: np.ndarray


class Chunk:
    """The lanes of some blocks, and all that is theirs: registers, shared memory, counts."""

    def __init__(self, launch: Launch, ranges, record: bool):
        self.launch, self.ranges, self.record = launch, ranges, record
        self.counter, self.findings, self.accesses = Counter(), {}, []
        self.parameters, self.known_sums = launch.parameters, launch.known_sums
        self.observed = launch.count or record
        self._warps: dict = {}  # shape of addresses -> (mask, DistinctWarps)

    def run(self) -> None:
        before = np.setbufsize(UFUNC_BUFFER)
        try:
            with np.errstate(all="ignore"):
                self._lay_out()
                self._schedule()
        finally:
            np.setbufsize(before)

    # --- the lanes ------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        lengths = {}
        for dimension, (first, last), threads in zip(
            DIMENSIONS, self.ranges, self.launch.block, strict=True
        ):
            lengths[f"block {dimension}"] = last - first
            lengths[f"thread {dimension}"] = threads
        self.axes = [axis for axis in AXES if lengths[axis] > 1 or axis == "thread x"]
        self.shape = tuple(lengths[axis] for axis in self.axes)

        def along(axis: str, first: int = 0):
            if axis not in self.axes:
                return np.int32(first)
            shape = [-1 if other == axis else 1 for other in self.axes]
            return np.arange(first, first + lengths[axis], dtype=np.int32).reshape(shape)

        self.special = {}
        for i, d in enumerate(DIMENSIONS):
            self.special[f"tid.{d}"] = along(f"thread {d}")
            self.special[f"ctaid.{d}"] = along(f"block {d}", self.ranges[i][0])
            self.special[f"ntid.{d}"] = np.int32(self.launch.block[i])
            self.special[f"nctaid.{d}"] = np.int32(self.launch.grid[i])
        block, threads = self.launch.block, self.special
        thread = threads["tid.x"] + block[0] * (threads["tid.y"] + block[1] * threads["tid.z"])
        self.special["laneid"] = thread.astype(np.int32) & np.int32(WARP - 1)

        # Warps are rows of 32 threads in the order (z, y, x) inside a block: for counting, arrays
        # are turned to (blocks…, threads…).
        self.warp_order = [
            self.axes.index(f"{kind} {d}")
            for kind in ("block", "thread")
            for d in "zyx"
            if f"{kind} {d}" in self.axes
        ]
        self.block_axes = sum(axis.startswith("block") for axis in self.axes)
        if self.launch.kernel.shared:
            number = along("block x") + lengths["block x"] * (
                along("block y") + lengths["block y"] * along("block z")
            ).astype(np.int64)
            blocks = int(np.prod([lengths[f"block {d}"] for d in DIMENSIONS]))
            self.shared = memory.SharedMemory(blocks, self.launch.shared_bytes, number)

    # --- who runs next --------------------------------------------------------------------------

    def _schedule(self) -> None:
        blocks = self.launch.kernel.blocks
        registers = {n: t.type(0) for n, t in self.launch.translation.types.items()}
        # Instruction -> lanes that stand there: a mask, or True for all lanes of the chunk.
        ready, parked = {0: True}, {}
        while ready or parked:
            if not ready:
                self._release(parked)
                ready, parked = parked, {}
            start = min(ready)
            mask = ready.pop(start)
            block = blocks[start]
            waiting = (blocks[p].live_in for p in (*ready, *parked) if p in blocks)
            kept = frozenset(block.defined.intersection(set().union(*waiting)))
            condition = self.launch.translation.function(start, kept)(registers, self, mask)
            self._continue(block, mask, condition, ready, parked)

    def _continue(self, block, mask, condition, ready, parked) -> None:
        """Sort the lanes of `mask` by where they stand after `block`."""
        last = self.launch.kernel.instructions[block.end - 1]
        leaves = last.name in ("bra", "ret", "exit")
        if condition is None:
            taken, rest = (mask, False) if leaves else (False, mask)
        elif np.ndim(condition) == 0:
            taken, rest = (mask, False) if condition else (False, mask)
        else:
            taken = self._settle(self.both(mask, condition))
            rest = self._settle(self.both(mask, ~condition))
        if last.name == "bra":
            self._join(ready, block.target, taken)
        self._join(parked if last.opcode in BLOCK_BARRIERS else ready, block.end, rest)

    def _join(self, groups: dict, place: int, mask) -> None:
        if mask is False or place not in self.launch.kernel.blocks:  # past the last instruction
            return
        groups[place] = self._settle(groups[place] | mask) if place in groups else mask

    def _release(self, parked: dict) -> None:
        """All living lanes wait at barriers. Those of one block ought to wait at the same one."""
        threads = tuple(i for i, axis in enumerate(self.axes) if axis.startswith("thread"))
        seen = np.zeros(self.shape, bool)  # lanes of blocks that wait at a barrier further up
        for place in sorted(parked):
            waiting = np.broadcast_to(parked[place], self.shape)
            if (seen & waiting).any():
                what = "some threads of the block wait at this barrier, others at one further up"
                self._find("divergent barrier", place - 1, what, seen & waiting)
            seen |= waiting.any(threads, keepdims=True)

    @staticmethod
    def both(a, b):
        """Lanes in both masks; True stands for all lanes."""
        if a is True or b is True:
            return b if a is True else a
        return a & b

    def _settle(self, mask):
        """True or False in place of a mask that is all one or the other."""
        if isinstance(mask, bool) or not mask.any():
            return mask if isinstance(mask, bool) else False
        return True if mask.all() else mask

    # --- what the translated blocks call ----------------------------------------------------------

    def load(self, index: int, space: str, addresses, dtype, count: int, mask):
        memory_, addresses = self._space(space), np.asarray(addresses)
        values, bad = memory.load(memory_, addresses, dtype, count, mask)
        if bad or self.observed:
            self._note(index, space, "load", addresses, dtype.itemsize * count, mask, bad)
        return values

    def store(self, index: int, space: str, addresses, values, dtype, mask) -> None:
        memory_, addresses = self._space(space), np.asarray(addresses)
        bad = memory.store(memory_, addresses, values, dtype, mask)
        if bad or self.observed:
            size = dtype.itemsize * len(values)
            self._note(index, space, "store", addresses, size, mask, bad)

    def count_fma(self, count: int, mask) -> None:
        if self.launch.count:
            self.counter.fma_lanes += count * int(np.broadcast_to(mask, self.shape).sum())

    def _space(self, space: str):
        return self.launch.memory if space == "global" else self.shared

    def _note(self, index, space, operation, addresses, size, mask, bad) -> None:
        for access in bad:
            kind = f"{access.problem} {'read' if operation == 'load' else 'write'}"
            self._find(kind, index, access.what, np.broadcast_to(access.lanes, self.shape))
        if self.observed:
            self._count(index, space, operation, addresses, size, mask)

    # --- counting ---------------------------------------------------------------------------------

    def _count(self, index, space, operation, addresses, size, mask) -> None:
        warps = self._distinct_warps(mask, addresses.shape)
        if not len(warps.times):
            return
        line = self.launch.kernel.instructions[index].line
        rows = self._rows(addresses)[warps.row]
        array, offsets = "shared memory", rows
        if space == "global":
            buffer = self.launch.memory.buffer_at(int(rows[warps.active][0]))
            if buffer is None:  # a wild pointer: it is a finding already
                return
            array, offsets = buffer.name, rows - buffer.base
        if self.launch.count:
            self.counter.add(
                (line, space, operation, array), offsets, warps.active, size, warps.times
            )
        if self.record:
            block = tuple(first for first, _ in self.ranges)
            for warp, row in enumerate(warps.of_warp):
                if row >= 0:
                    self.accesses.append(
                        WarpAccess(line, space, operation, array, block, warp,
                                   offsets[row], warps.active[row], size)
                    )  # fmt: skip

    def _rows(self, addresses) -> np.ndarray:
        """The addresses as rows of one warp each; warps that share their addresses share a row."""
        shape = self._row_shape(addresses.shape)
        spread = np.broadcast_to(addresses, shape).transpose(self.warp_order)
        threads = spread.shape[self.block_axes :]
        flat = spread.reshape(-1, int(np.prod(threads)))
        if missing := -flat.shape[1] % WARP:
            flat = np.pad(flat, ((0, 0), (0, missing)))
        return flat.reshape(-1, WARP)

    def _row_shape(self, shape) -> tuple[int, ...]:
        """`shape` with full length along the axes on which the lanes of one warp lie."""
        shape = (1,) * (len(self.shape) - len(shape)) + tuple(shape)
        whole_rows = self.launch.block[0] % WARP == 0  # then a warp lies along thread x alone
        along_warp = ("thread x",) if whole_rows else ("thread x", "thread y", "thread z")
        return tuple(
            full if axis in along_warp else own
            for axis, full, own in zip(self.axes, self.shape, shape, strict=True)
        )

    def _distinct_warps(self, mask, shape) -> DistinctWarps:
        """The warps that differ in their addresses or active lanes. Kept for the last mask."""
        last, found = self._warps.get(shape, (None, None))
        if last is not mask:
            found = self._find_distinct_warps(mask, shape)
            self._warps[shape] = mask, found
        return found

    def _find_distinct_warps(self, mask, shape) -> DistinctWarps:
        active = self._rows(np.broadcast_to(mask, self.shape))
        # Number the rows of the addresses, and spread the numbers like the addresses themselves.
        own = self._row_shape(shape)
        numbers = np.arange(len(self._rows(np.zeros(own, bool))))
        order = [own[axis] for axis in self.warp_order]
        blocks, threads = order[: self.block_axes], order[self.block_axes :]
        warps_of_row = -(-int(np.prod(threads)) // WARP)
        if self.launch.block[0] % WARP == 0:
            numbers = numbers.reshape(*blocks, *threads[:-1], threads[-1] // WARP)
            full = [self.shape[axis] for axis in self.warp_order[:-1]]
            numbers = np.broadcast_to(numbers, (*full, numbers.shape[-1])).reshape(-1)
        else:
            numbers = numbers.reshape(*blocks, warps_of_row)
            full = [self.shape[axis] for axis in self.warp_order[: self.block_axes]]
            numbers = np.broadcast_to(numbers, (*full, warps_of_row)).reshape(-1)
        lanes = np.packbits(active, axis=1).view(np.uint32)[:, 0]
        key = (numbers << 32) | lanes
        some = lanes != 0
        unique, first, back, times = np.unique(
            key[some], return_index=True, return_inverse=True, return_counts=True
        )
        of_warp = np.full(len(key), -1)
        of_warp[some] = back
        return DistinctWarps(unique >> 32, active[some][first], times, of_warp)

    # --- findings ---------------------------------------------------------------------------------

    def _find(self, kind: str, index: int, what: str, lanes) -> None:
        """Keep the first finding of each kind and line."""
        line = self.launch.kernel.instructions[index].line
        key = (kind, line)
        if key in self.findings:
            return
        first = dict(zip(self.axes, np.argwhere(lanes)[0], strict=True))
        block, thread = (
            tuple(int(first.get(f"{kind_} {d}", 0)) for d in DIMENSIONS)
            for kind_ in ("block", "thread")
        )
        block = tuple(i + low for i, (low, _) in zip(block, self.ranges, strict=True))
        self.findings[key] = Finding(
            kind, self.launch.kernel.name, line, block, thread, what, int(lanes.sum())
        )
