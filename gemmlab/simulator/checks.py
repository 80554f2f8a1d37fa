"""Mistakes that hardware hides: races, reads of what nobody wrote, barriers that threads miss.

The rest of the simulator tells the Checker what happens, through the methods below. Addresses are
bytes from the start of the block's shared memory (int, broadcastable to all lanes), `mask` the
lanes concerned (True: all), `size` the bytes of each lane, `index` the instruction.

What counts as ordered: accesses of one thread; and accesses with a barrier between that both
threads take part in, of the block, of the warp (__syncwarp), with a count, or an mbarrier. Lanes of
a warp are not ordered otherwise, and shuffles, votes, fences and atomics order nothing. No race
are: two reads, two atomics, and a write of the value that is there already, so that many threads
may set one flag.

Not seen: an index that runs past the end of one shared array into its neighbour, which is a right
address of the wrong array; races between blocks, and in global memory at all.
"""

from __future__ import annotations

import numpy as np

from . import memory
from .barriers import BARRIERS
from .clocks import BlockClocks, ThreadClocks
from .counters import WARP
from .memory import ALIGNMENT, MaskCache
from .names import ELEMENT, shared_place
from .ptx import TYPE_BYTES, Kernel
from .shadow import ACTOR, ACTOR_BITS, ReadsByThread, ReadsSinceBarrier, Touch, Writes

COARSE = 16  # bytes of a granule, as long as no smaller access is met
BARRIER_BYTES = 8  # of an mbarrier
# Lanes that are run together. Fewer where each thread's clock has an entry for each other one.
CHECKED_LANES, CLOCKED_LANES = 1 << 14, 1 << 12


def checked_lanes(kernel: Kernel) -> int:
    """How many lanes to run together when a kernel is checked."""
    return CLOCKED_LANES if needs_thread_clocks(kernel) else CHECKED_LANES


def needs_thread_clocks(kernel: Kernel) -> bool:
    """Whether any barrier is for less than the whole block."""
    return any(
        i.is_warp_barrier
        or i.name == "mbarrier"
        or "mbarrier" in i.opcode
        or (i.name in ("bar", "barrier") and ("arrive" in i.parts or _has_count(i)))
        for i in kernel.instructions
    )


def _has_count(instruction) -> bool:
    return len(instruction.operands) > (3 if "red" in instruction.parts else 1)


class Checker:
    """Watches the accesses and barriers of a chunk."""

    def __init__(self, lanes):
        self.lanes, self.layout = lanes, lanes.layout
        self.kernel = lanes.launch.kernel
        by_thread = needs_thread_clocks(self.kernel)
        self.clocks = ThreadClocks(self.layout) if by_thread else BlockClocks(self.layout)
        self.granule = COARSE
        bytes_per_block = lanes.launch.shared_bytes
        self.stride = -(-bytes_per_block // ALIGNMENT) * ALIGNMENT
        self.block_offsets = np.asarray(self.layout.block_number) * self.stride
        self.writes = Writes(self._granules)
        self.reads = self._reads()
        self.atomics = None  # a table as of reads, made when it is needed
        # Copies under way, as records of Writes: of their destination, and of what they read.
        self.arriving: Writes | None = None
        self.leaving: Writes | None = None
        self._overwritten = None  # (what a store is about to overwrite, what with)
        self._expected = np.zeros((BARRIERS, self.layout.blocks), np.int64)  # counts of barriers
        self._arrived: dict[int, np.ndarray] = {}  # barrier -> lanes that passed bar.arrive
        self._masks, self._extremes = MaskCache(), {}

    # --- accesses: called through lanes.note ------------------------------------------------------

    def about_to_store(self, addresses, values, dtype, mask) -> None:
        """A store to shared memory will change memory next; `access` is told of it then."""
        shared = self.lanes.space("shared")
        before, _ = memory.load(shared, addresses, dtype, len(values), mask)
        self._overwritten = before, values, addresses, dtype

    def access(self, index: int, space: str, operation: str, addresses, size: int, mask) -> None:
        """`size` bytes per lane, all inside their memory. `operation`: "load", "store", "atomic".

        Of an atomic on shared memory too: two atomics never race, an atomic and a load can.
        """
        overwritten, self._overwritten = self._overwritten, None
        if not np.any(mask):
            return
        if space == "global":
            self._access_global(index, operation, addresses, size, mask)
        elif space == "shared":
            touch = self._touch(addresses, size, mask)
            time = self.clocks.tick(index)
            if operation == "load":
                self._load(index, size, touch)
            elif operation == "store":
                self._store(index, size, touch, time, overwritten)
            else:
                self._atomic(index, size, touch)

    def _load(self, index, size, touch) -> None:
        self._look_for_unwritten(index, size, touch)
        self._look_for_writes(index, size, touch, "read")
        if self.atomics:
            self._look_for_others(index, size, touch, self.atomics, "read", "write", "updated")
        self._look_for_copies(index, size, touch, "read")
        self.reads.note(touch, index, self.clocks)

    def _store(self, index, size, touch, time, overwritten) -> None:
        new = True
        if overwritten is not None:
            before, values, _, _ = overwritten
            new = self._differs(touch, before, values)
        self._look_for_writes(index, size, touch, "write", new)
        self._look_for_readers(index, size, touch)
        self._look_for_copies(index, size, touch, "write")
        self._write(touch, time)
        self._look_for_rivals(index, size, touch, time, overwritten)

    def _write(self, touch, time) -> None:
        self.writes.note(touch.lane_granules, touch.thread[:, None], time)

    def _atomic(self, index, size, touch) -> None:
        if self.atomics is None:
            self.atomics = self._reads()
        self._look_for_unwritten(index, size, touch)
        self._look_for_writes(index, size, touch, "write")
        self._look_for_others(index, size, touch, self.reads, "write", "read", "read")
        self._look_for_copies(index, size, touch, "write")
        self.atomics.note(touch, index, self.clocks)

    # --- barriers of blocks and warps -------------------------------------------------------------

    def arrive(self, index: int, number, count, mask, waits: bool) -> None:
        """The lanes of `mask` come to barrier `number` of their block, and stay if it `waits`.

        `count`: how many threads they say the barrier is for, or None for all of the block.
        """
        if count is None:
            return
        number, count = (np.broadcast_to(v, self.layout.shape) for v in (number, count))
        mask = np.broadcast_to(mask, self.layout.shape)
        uneven = mask & (count % WARP != 0)
        if uneven.any():
            wrong = int(count[uneven][0])
            what = f"the barrier is for {wrong} threads, which is no multiple of {WARP}"
            self.lanes.find("wrong barrier count", index, what, uneven)
        block = np.broadcast_to(self.layout.block_number, self.layout.shape)
        for one in np.unique(number[mask]):
            here = mask & (number == one)
            known = self._expected[one]
            most = self.layout.per_block(np.where(here, count, 0), np.max)
            known[:] = np.where(known == 0, most, known)
            differs = here & (count != known[block])
            if differs.any():
                said, before = int(count[differs][0]), int(known[block[differs][0]])
                what = f"barrier {one} is for {said} threads here and for {before} elsewhere"
                self.lanes.find("wrong barrier count", index, what, differs)
            if not waits:
                self._arrived[int(one)] = here | self._arrived.get(int(one), False)
            self.clocks.release(("barrier", int(one)), *self._sorted(here))

    def open(self, opened) -> None:
        """A barrier opens: a barriers.Opened."""
        index = min(opened.places) - 1
        blocks, lanes = opened.blocks, np.broadcast_to(opened.lanes, self.layout.shape)
        arrived = self._arrived.get(opened.number)
        if arrived is None:
            self._look_for_absent(index, opened, lanes)
        else:
            here = self.layout.of_block(blocks)
            self._look_for_absent(index, opened, lanes | (arrived & here))
            self._arrived[opened.number] = arrived & ~here
        self._expected[opened.number, blocks] = 0
        if opened.whole_block:
            self.clocks.barrier(blocks)
            return
        key = "barrier", opened.number
        self.clocks.leave(key, blocks, *self._sorted(lanes))
        full = blocks & (self.layout.per_block(lanes) == self.layout.threads)
        if full.any():
            self.clocks.barrier(full)

    def warp_barrier(self, members, lanes) -> None:
        """Lanes meet that wait for others of their warp. `members`: uint32, whom each one names."""
        rows, there = self.layout.to_warps(members), self.layout.to_warps(lanes)
        some = there.any(axis=1)
        thread = np.arange(len(rows) * WARP).reshape(-1, WARP)
        thread %= self.layout.warps_per_block * WARP
        there = there[some] & (thread[some] < self.layout.threads)
        bits = (rows[some][:, :, None] >> np.arange(WARP, dtype=np.uint32)) & 1 == 1
        named = bits & there[:, :, None] & there[:, None, :]
        block = np.flatnonzero(some) // self.layout.warps_per_block
        self.clocks.meet(block, np.where(there, thread[some], -1), named)

    def _look_for_absent(self, index, opened, lanes) -> None:
        """Threads that a barrier was for and that are not among its `lanes`.

        A barrier is for whole warps, unless it is of the kind that need not be (not "aligned").
        """
        instruction = self.kernel.instructions[index]
        if lanes.all() or not (instruction.name == "bar" or "aligned" in instruction.parts):
            return
        warps = self.layout.to_warps(lanes).any(axis=1, keepdims=True)
        expected = self.layout.from_warps(np.broadcast_to(warps, (len(warps), WARP)))
        if opened.whole_block:
            expected = self.layout.of_block(opened.blocks)
        alive = np.broadcast_to(self.lanes.alive, self.layout.shape)
        absent = expected & ~lanes
        if (absent & ~alive).any():
            what = "returned before and never comes to this barrier, where others wait"
            self.lanes.find("missed barrier", index, what, absent & ~alive)
        if (absent & alive).any():
            what = "does not come to this barrier, where others of its warp wait"
            self.lanes.find("divergent barrier", index, what, absent & alive)

    # --- asynchronous copies ----------------------------------------------------------------------

    def copy_started(self, index: int, addresses, size: int, mask) -> None:
        """Each lane of `mask` starts a copy into `size` bytes of shared memory, from `addresses`.

        `size` may be large (a tile of a bulk copy). Until `copy_landed` is told of the same bytes,
        whoever reads or writes them makes a mistake.
        """
        if not np.any(mask):
            return
        if self.arriving is None:
            self.arriving = Writes(self._granules)
        touch = self._touch(addresses, size, mask)
        time = self.clocks.tick(index)
        self._look_for_writes(index, size, touch, "write")
        self._look_for_readers(index, size, touch)
        self._look_for_copies(index, size, touch, "write")
        self.arriving.note(touch.lane_granules, touch.thread[:, None], time)

    def copy_landed(self, index: int, addresses, size: int, mask, barrier=None) -> None:
        """The copies that the lanes of `mask` started at instruction `index` are complete.

        `barrier` None: the same lanes have just waited for them (cp.async.wait_group), so that the
        bytes count as written by them now. Otherwise the byte address of the mbarrier that tells
        of the copy (bulk copies, cp.async.mbarrier.arrive): who sees that mbarrier's phase complete
        knows the bytes, and nobody else. Call `phase_completed` after it.
        """
        if not np.any(mask):
            return
        touch = self._touch(addresses, size, mask)
        time = self.clocks.tick(index)
        self.arriving.last[touch.lane_granules] = 0
        if barrier is None:
            self._write(touch, time)
            return
        barrier = np.broadcast_to(barrier, self.layout.shape).reshape(-1)[touch.lanes]
        for one in np.unique(barrier):
            granules = touch.lane_granules[barrier == one]
            self.writes.note(granules, self.clocks.column(int(one)), time)

    def source_started(self, index: int, addresses, size: int, mask) -> None:
        """Shared memory is read asynchronously from now on: the source of a bulk store, wgmma.

        Until `source_released`, whoever writes those bytes makes a mistake.
        """
        if not np.any(mask):
            return
        if self.leaving is None:
            self.leaving = Writes(self._granules)
        touch = self._touch(addresses, size, mask)
        time = self.clocks.tick(index)
        self._load(index, size, touch)
        self.leaving.note(touch.lane_granules, touch.thread[:, None], time)

    def source_released(self, index: int, addresses, size: int, mask) -> None:
        """The lanes that started the asynchronous read have waited for its end."""
        if not np.any(mask):
            return
        touch = self._touch(addresses, size, mask)
        self.clocks.tick(index)
        self.leaving.last[touch.lane_granules] = 0
        self.reads.note(touch, index, self.clocks)

    # --- mbarriers: `barrier` is the byte address of each lane's mbarrier -------------------------

    def mbarrier_init(self, index: int, barrier, mask) -> None:
        """The lanes initialise (or invalidate) an mbarrier: a write of 8 bytes."""
        self.access(index, "shared", "store", barrier, BARRIER_BYTES, mask)

    def mbarrier_arrive(self, index: int, barrier, mask) -> None:
        """The lanes arrive (arrive, arrive_drop, arrive.expect_tx): what they did before is known
        to those who see the phase complete. Call it before the phase is completed."""
        self.mbarrier_look(index, barrier, mask)
        for one, here in self._by_barrier(barrier, mask):
            self.clocks.release(one, *self._sorted(here))

    def mbarrier_look(self, index: int, barrier, mask) -> None:
        """The lanes look at an mbarrier without effect: test_wait and try_wait, also expect_tx."""
        self.access(index, "shared", "atomic", barrier, BARRIER_BYTES, mask)

    def phase_completed(self, barrier: int, blocks) -> None:
        """The mbarrier at byte `barrier` completes a phase in `blocks`, a (blocks,) bool array."""
        self.clocks.complete(int(barrier), blocks)

    def mbarrier_acquire(self, index: int, barrier, mask) -> None:
        """The lanes have seen the last completed phase: a try_wait or test_wait gave true."""
        for one, here in self._by_barrier(barrier, mask):
            self.clocks.acquire(one, *self._sorted(here))

    def _by_barrier(self, barrier, mask):
        barrier = np.broadcast_to(barrier, self.layout.shape)
        mask = np.broadcast_to(mask, self.layout.shape)
        return [(int(one), mask & (barrier == one)) for one in np.unique(barrier[mask])]

    # --- shadow memory ----------------------------------------------------------------------------

    @property
    def _granules(self) -> int:
        return self.layout.blocks * self.stride // self.granule

    def _reads(self):
        if isinstance(self.clocks, ThreadClocks):
            return ReadsByThread(self._granules, self.layout.threads)
        return ReadsSinceBarrier(self._granules)

    def _touch(self, addresses, size: int, mask) -> Touch:
        if size < self.granule:
            factor = self.granule // size
            self.granule = size
            tables = (self.writes, self.reads, self.atomics, self.arriving, self.leaving)
            for table in tables:
                if table is not None:
                    table.refine(factor)
        first = (np.asarray(addresses) + self.block_offsets) // self.granule
        if mask is not True and np.size(mask) == 1:
            mask = True  # the caller has looked whether any lane is active
        reduced = True if mask is True else self._masks.reduced(mask, first.shape)
        extremes = self._first_and_last(mask, first.shape)
        return Touch(self.layout, first, size // self.granule, mask, reduced, extremes)

    def _first_and_last(self, mask, shape):
        """The first and the last active thread for each element of an array of `shape`."""
        last, found = self._extremes.get(shape, (None, None))
        if last is not mask:
            padded = (1,) * (len(self.layout.shape) - len(shape)) + tuple(shape)
            lengths = zip(padded, self.layout.shape, strict=True)
            axes = tuple(i for i, (own, lanes) in enumerate(lengths) if own < lanes)
            thread = np.broadcast_to(self.layout.thread_number, self.layout.shape)
            where = np.broadcast_to(mask, thread.shape)
            found = tuple(
                how(thread, axis=axes, keepdims=True, where=where, initial=initial)
                .reshape(shape)
                .astype(np.int64)
                for how, initial in ((np.min, self.layout.threads), (np.max, 0))
            )
            self._extremes[shape] = mask, found
        return found

    def _sorted(self, mask):
        """Block and thread of each lane in `mask`, by block."""
        block = np.broadcast_to(self.layout.block_number, self.layout.shape)[mask]
        thread = np.broadcast_to(self.layout.thread_number, self.layout.shape)[mask]
        order = np.argsort(block, kind="stable")
        return block[order], thread[order]

    # --- looking ----------------------------------------------------------------------------------

    def _look_for_unwritten(self, index, size, touch) -> None:
        if self.writes.last[touch.granules].all():
            return
        unwritten = self.writes.last[touch.lane_granules] == 0
        if self.arriving is not None:
            unwritten &= self.arriving.last[touch.lane_granules] == 0
        if unwritten.any():
            self._find("uninitialised read", index, size, touch, unwritten, "was never written")

    def _look_for_writes(self, index, size, touch, does: str, new=True) -> None:
        """Writes that the lanes do not know. `new`: (lanes,), those whose own write matters."""
        self._look_for_others(index, size, touch, self.writes, does, "write", "written", new)

    def _look_for_readers(self, index, size, touch) -> None:
        """Reads, and atomics, that lanes which write do not know."""
        self._look_for_others(index, size, touch, self.reads, "write", "read", "read")
        if self.atomics:
            self._look_for_others(index, size, touch, self.atomics, "write", "write", "updated")

    def _look_for_others(self, index, size, touch, table, does, did, verb, new=True) -> None:
        if not table.recent(touch.granules, touch.block, self.clocks).any():
            return
        granules = touch.lane_granules
        parts = granules.shape[1]
        block, thread = np.repeat(touch.lane_block, parts), np.repeat(touch.thread, parts)
        conflict, who, when = table.others(granules.reshape(-1), block, thread, self.clocks)
        conflict = conflict.reshape(granules.shape) & np.reshape(new, (-1, 1))
        if not conflict.any():
            return
        first = int(conflict.reshape(-1).argmax())
        actor, line = int(who[first]), self._line(table.instruction(int(when[first]), self.clocks))
        if actor < self.layout.threads:
            by = f"{verb} by thread {self._thread(actor)} in line {line} with no barrier between"
        else:
            by = f"{verb} by the copy of line {line}, whose mbarrier the thread has not waited for"
        self._find(f"{does}-after-{did} race", index, size, touch, conflict, by)

    def _look_for_copies(self, index, size, touch, does: str) -> None:
        tables = [(self.arriving, f"{does} of a copy in flight", "is the destination of a copy")]
        if does == "write":
            tables.append((self.leaving, "write to a copy's source", "is read by a copy"))
        for table, kind, what in tables:
            if table is None or not table.last[touch.granules].any():
                continue
            record = table.last[touch.lane_granules]
            under_way = record != 0
            if under_way.any():
                first = int(record[under_way][0])
                line = self._line(self.clocks.instruction(first >> ACTOR_BITS))
                thread = self._thread(first & ACTOR)
                by = f"{what} that thread {thread} started in line {line}, which is not waited for"
                self._find(kind, index, size, touch, under_way, by)

    def _look_for_rivals(self, index, size, touch, time, overwritten) -> None:
        """Lanes of one store that write different values to the same place."""
        winner = self.writes.last[touch.lane_granules] & ACTOR
        beaten = winner != touch.thread[:, None]
        if not beaten.any():
            return
        if overwritten is not None:
            _, values, addresses, dtype = overwritten
            shared = self.lanes.space("shared")
            now, _ = memory.load(shared, addresses, dtype, len(values), touch.mask)
            beaten &= self._differs(touch, now, values)[:, None]
        if beaten.any():
            thread = self._thread(int(winner[beaten][0]))
            by = f"written by thread {thread} in the same instruction, with another value"
            self._find("write-after-write race", index, size, touch, beaten, by)

    def _differs(self, touch, some, others):
        """(lanes,) whether any of the values of a lane differ in their bits."""
        differs = np.zeros(len(touch.lanes), bool)
        for a, b in zip(some, others, strict=True):
            differs |= touch.of_lanes(_bits(a)) != touch.of_lanes(_bits(b))
        return differs

    # --- global memory ----------------------------------------------------------------------------

    def _access_global(self, index, operation, addresses, size, mask) -> None:
        if not self.lanes.launch.memory.unwritten:
            return
        parts, _ = self.lanes.launch.memory.locate(addresses, size, mask)
        for buffer, offsets, allowed in parts:
            unwritten = self.lanes.launch.memory.unwritten.get(buffer.base)
            if unwritten is None:
                continue
            offsets = np.broadcast_to(offsets, self.layout.shape)
            allowed = np.broadcast_to(allowed, self.layout.shape)
            touched = offsets[allowed][:, None] + np.arange(size)
            if operation == "store":
                unwritten[touched] = False
                continue
            wrong = unwritten[touched]
            if wrong.any():
                lanes = np.zeros(self.layout.shape, bool)
                lanes[allowed] = wrong.any(axis=1)
                element = int(touched[wrong][0]) // buffer.element_bytes
                what = f"{buffer.name}[{element}] was never written"
                self.lanes.find("uninitialised read", index, what, lanes)

    # --- findings ---------------------------------------------------------------------------------

    def _find(self, kind, index, size, touch, wrong, what: str) -> None:
        """`wrong`: (lanes, parts) of `touch`."""
        where = int(wrong.reshape(-1).argmax())
        granule = int(touch.lane_granules.reshape(-1)[where])
        block = int(touch.lane_block[where // wrong.shape[1]])
        element = self._element(index, granule * self.granule - block * self.stride, size)
        lanes = np.zeros(int(np.prod(self.layout.shape)), bool)
        lanes[touch.lanes[wrong.any(axis=1)]] = True
        self.lanes.find(kind, index, f"{element} {what}", lanes.reshape(self.layout.shape))

    def _element(self, index: int, offset: int, size: int) -> str:
        """Which element of which shared array is at byte `offset`, as the instruction sees it."""
        kind = self.kernel.instructions[index].parts[-1]
        width = min(TYPE_BYTES.get(kind, ELEMENT), size)
        return str(shared_place(self.kernel, self.lanes.launch.shared_bytes, offset, width))

    def _thread(self, number: int):
        x, y, _ = self.layout.block
        return number % x, number // x % y, number // (x * y)

    def _line(self, index: int) -> int:
        return self.kernel.instructions[index].line


def _bits(values) -> np.ndarray:
    values = np.asarray(values)
    return values.view(f"u{values.itemsize}")
