"""Races in shared memory, and reads of what nobody wrote there.

Every access is looked up in the shadow memory (shadow.py), and what the lanes cannot know of it
(clocks.py) is a race. See docs/simulator.md for what counts as ordered.
"""

from __future__ import annotations

from math import gcd

import numpy as np

from ptxsim.checks.clocks import KNOWN_TO_ALL, ThreadClocks, places, threads_of_rank
from ptxsim.checks.program import mere_writes
from ptxsim.checks.shadow import ACTOR, ACTOR_BITS, ReadsByThread, ReadsSinceBarrier, Touch, Writes
from ptxsim.hopper import GROUP_THREADS, UNIT
from ptxsim.memory import global_memory
from ptxsim.memory.global_memory import ALIGNMENT, MaskCache
from ptxsim.memory.shared_memory import ELEMENT, shared_place
from ptxsim.ptx import TYPE_BYTES

BARRIER_BYTES = 8  # of an mbarrier
INITIALISED = 1  # among the records of writes: at no time, so that all threads know of it
BULK = "cp.async.bulk", "cp.reduce.async.bulk"  # by the asynchronous proxy, as others are not
STRICT = "strict"  # of `check`: see launch
COARSE = 16  # bytes of a granule, as long as no smaller access is met


class Races:
    """The shadow of the shared memory of a chunk. `addresses`: from the start of a block's."""

    def __init__(self, lanes, clocks, team):
        self.lanes, self.layout, self.clocks, self.team = lanes, lanes.layout, clocks, team
        self.kernel = lanes.launch.kernel
        self.granule = COARSE
        self.stride = -(-lanes.launch.shared_bytes // ALIGNMENT) * ALIGNMENT
        self.team_stride = self.stride * self.layout.cluster_size
        self.writes = Writes(self._granules)
        self.reads = self._reads()
        self.atomics = None  # a table as of reads, made when it is needed
        # Copies under way, as records of Writes: of their destination, and of what they read.
        self.arriving, self.leaving = Writes(self._granules), Writes(self._granules)
        # What wgmmas have read that are complete, by warpgroup: who wrote there is who waited.
        self.group_reads: dict[object, Writes] = {}  # of tcgen05, by the thread
        # What threads wrote and no fence.proxy.async was told of, where anything may read it so.
        is_asynchronous = self.kernel.has("wgmma", "tcgen05", *BULK)
        self.unfenced = Writes(self._granules) if is_asynchronous else None
        # With check="strict": ordinary reads, and up to which time each thread's are fenced.
        self.generic_reads, self._fenced = None, np.zeros((team.blocks, team.threads), np.int64)
        if lanes.launch.check == STRICT and self.kernel.has(*BULK) and self._by_thread:
            self.generic_reads = self._reads()
        self._overwritten = None  # (what a store is about to overwrite, what with)
        self._masks, self._extremes = MaskCache(), {}

    # --- accesses ---------------------------------------------------------------------------------

    def about_to_store(self, addresses, values, dtype, mask, space="shared") -> None:
        memory = self.lanes.space(space)
        before, _ = global_memory.load(memory, addresses, dtype, len(values), mask)
        self._overwritten = before, values, addresses, dtype, memory

    def access(self, index, operation, addresses, size, mask) -> None:
        overwritten, self._overwritten = self._overwritten, None
        if not np.any(mask):
            return
        touch = self._touch(addresses, size, mask)
        time = self.clocks.tick(index)
        if operation == "store":
            self._store(index, size, touch, time, overwritten)
        elif operation == "tell":
            self._tell(index, size, touch, time)
        else:
            look = {"load": self._load, "look": self._look, "atomic": self._atomic}[operation]
            look(index, size, touch)
            if operation == "load" and self.generic_reads is not None:
                self.generic_reads.note(touch, index, self.clocks)

    def _load(self, index, size, touch) -> None:
        self._read(index, size, touch)
        self.reads.note(touch, index, self.clocks)

    def _read(self, index, size, touch) -> None:
        self._look(index, size, touch)
        if self.atomics:
            self._look_for_others(index, size, touch, self.atomics, "read", "write", "updated")

    def _store(self, index, size, touch, time, overwritten) -> None:
        new = True
        if overwritten is not None:
            before, values, *_ = overwritten
            new = touch.of_lanes(global_memory.differ(before, values))
        self._look_for_writes(index, size, touch, "write", new)
        self._look_for_readers(index, size, touch)
        self._look_for_copies(index, size, touch, "write")
        self._write(touch, time)
        self._look_for_rivals(index, size, touch, overwritten)

    def _write(self, touch, time) -> None:
        self.writes.note(touch.lane_granules, touch.thread[:, None], time)
        if self.unfenced is not None:
            self.unfenced.note(touch.lane_granules, touch.thread[:, None], time)

    def _atomic(self, index, size, touch) -> None:
        if self.atomics is None:
            self.atomics = self._reads()
        if index in mere_writes(self.kernel):
            granules = touch.lane_granules
            self.writes.last[granules[self.writes.last[granules] == 0]] = INITIALISED
        self._look_for_unwritten(index, size, touch)
        self._look_for_writes(index, size, touch, "write")
        self._look_for_others(index, size, touch, self.reads, "write", "read", "read")
        self._look_for_copies(index, size, touch, "write")
        self.atomics.note(touch, index, self.clocks)

    def _look(self, index, size, touch) -> None:
        """A load of a flag: whoever writes it need not know of the load."""
        self._look_for_unwritten(index, size, touch)
        self._look_for_writes(index, size, touch, "read")
        self._look_for_copies(index, size, touch, "read")

    def _tell(self, index, size, touch, time) -> None:
        """A store of a flag: a write, that need not know of atomics."""
        self._look_for_writes(index, size, touch, "write")
        self._look_for_others(index, size, touch, self.reads, "write", "read", "read")
        self._look_for_copies(index, size, touch, "write")
        self._write(touch, time)

    # --- asynchronous copies ----------------------------------------------------------------------

    def copy_started(self, index: int, addresses, size: int, mask) -> None:
        touch = self._touch(addresses, size, mask)
        time = self.clocks.tick(index)
        self._look_for_writes(index, size, touch, "write")
        self._look_for_readers(index, size, touch)
        self._look_for_copies(index, size, touch, "write")
        if self.kernel.instructions[index].opcode.startswith(BULK):
            self._look_for_unfenced(index, size, touch)
            self._look_for_unfenced_reads(index, size, touch)
        self.arriving.note(touch.lane_granules, touch.thread[:, None], time)

    def copy_landed(self, index: int, addresses, size: int, mask, barrier=None) -> None:
        touch = self._touch(addresses, size, mask)
        time = self.clocks.tick(index)
        self.arriving.last[touch.lane_granules] = 0
        if barrier is None:
            self._write(touch, time)
            return
        barrier = touch.of_lanes(barrier)
        for name in np.unique(barrier):
            granules = touch.lane_granules[barrier == name]
            self.writes.note(granules, self.clocks.column(int(name)), time)
        if self.unfenced is not None:
            self.unfenced.last[touch.lane_granules] = 0

    def source_started(self, index: int, addresses, size: int, mask) -> None:
        touch = self._touch(addresses, size, mask)
        self._load(index, size, touch)
        self._look_for_unfenced(index, size, touch)
        self._leave(index, touch)

    def source_released(self, index: int, addresses, size: int, mask) -> None:
        touch = self._touch(addresses, size, mask)
        self.clocks.tick(index)
        self.leaving.last[touch.lane_granules] = 0
        self.reads.note(touch, index, self.clocks)

    # --- wgmma ------------------------------------------------------------------------------------

    def group_read_started(self, index: int, addresses, size: int, mask) -> None:
        touch = self._touch(addresses, size, mask)
        self._read(index, size, touch)
        self._look_for_unfenced(index, size, touch)
        self._leave(index, touch)

    def group_read_continues(self, index: int, addresses, size: int, mask) -> None:
        self._leave(index, self._touch(addresses, size, mask))

    def group_read_ended(self, index: int, addresses, size: int, mask) -> None:
        touch = self._touch(addresses, size, mask)
        time = self.clocks.tick(index)
        self.leaving.last[touch.lane_granules] = 0
        block, thread = np.divmod(touch.thread, self.layout.threads)  # of a cluster, if it is one
        group = block * self.layout.threads + thread // GROUP_THREADS
        for number in np.unique(group):
            if number not in self.group_reads:
                self.group_reads[number] = Writes(self._granules)
            here, key = group == number, ("wgmma", int(number))
            column = self.clocks.column(key)
            self.group_reads[number].note(touch.lane_granules[here], column, time)
            self.clocks.learn(key, touch.lane_block[here], touch.thread[here])

    def tensor_read(self, index: int, touch, column: int, key) -> None:
        """tcgen05.mma or .cp reads; who writes there later has to know of it by its `column`."""
        self._read(index, UNIT, touch)
        self._look_for_unfenced(index, UNIT, touch)
        table = self.group_reads.setdefault(key, Writes(self._granules))
        table.note(touch.lane_granules, column, self.clocks.tick(index))

    def _leave(self, index: int, touch) -> None:
        time = self.clocks.tick(index)
        self.leaving.note(touch.lane_granules, touch.thread[:, None], time)

    # --- fences -----------------------------------------------------------------------------------

    def fence_async(self, mask) -> None:
        """Forget what the lanes wrote themselves, or know of, as not fenced."""
        if self.unfenced is None:
            return
        granules = np.flatnonzero(self.unfenced.last)
        record = self.unfenced.last[granules]
        actor, time = record & ACTOR, record >> ACTOR_BITS
        block_of = granules * self.granule // self.team_stride
        fences = np.zeros((self.team.blocks, self.team.threads), bool)
        team = self.team.block_number, self.team.thread_number
        fences[tuple(self.layout.of(number, mask) for number in team)] = True
        known = fences[block_of, actor]
        for block in np.unique(block_of[~known]):
            here = np.flatnonzero((block_of == block) & ~known)
            others = np.flatnonzero(fences[block])[:, None]
            if len(others):
                unknown = self.clocks.unknown(block, others, actor[here], time[here])
                known[here] = ~unknown.all(axis=0)
        self.unfenced.last[granules[known]] = 0
        if self.generic_reads is not None:
            self._fence_reads(mask)

    def _fence_reads(self, mask) -> None:
        of_team = self.team.block_number, self.team.thread_number
        team, thread = (self.layout.of(number, mask) for number in of_team)
        known = self.clocks.known[team, thread, : self.team.threads]
        np.maximum.at(self._fenced, team, np.maximum(known, self.clocks.opened[team][:, None]))
        self._fenced[team, thread] = self.clocks.now

    def forget_unfenced(self, addresses, size: int, mask) -> None:
        """What tcgen05.alloc wrote needs no fence."""
        if self.unfenced is not None:
            self.unfenced.last[self._touch(addresses, size, mask).lane_granules] = 0

    def forget_inits(self, mbarriers) -> None:
        """All threads know that these were initialised: [(place, mask of blocks)]."""
        size = self.layout.cluster_size
        for place, blocks in mbarriers:
            for team, rank in np.argwhere(blocks[self.layout.block_of]).tolist():
                first = ((team * size + rank) * self.stride + place) // self.granule
                granules = slice(first, first + max(1, BARRIER_BYTES // self.granule))
                known = (KNOWN_TO_ALL << ACTOR_BITS) | (self.writes.last[granules] & ACTOR)
                self.writes.last[granules] = known

    # --- shadow memory ----------------------------------------------------------------------------

    @property
    def _granules(self) -> int:
        return self.layout.blocks * self.stride // self.granule

    @property
    def _by_thread(self) -> bool:
        return isinstance(self.clocks, ThreadClocks)

    def _reads(self):
        if self._by_thread:
            return ReadsByThread(self._granules, self.team.threads)
        return ReadsSinceBarrier(self._granules)

    def _touch(self, addresses, size: int, mask) -> Touch:
        if size % self.granule:
            factor, self.granule = self.granule // gcd(size, self.granule), gcd(size, self.granule)
            tables = (self.writes, self.reads, self.atomics, self.arriving, self.leaving,
                      self.unfenced, self.generic_reads)  # fmt: skip
            for table in (*tables, *self.group_reads.values()):
                if table is not None:
                    table.refine(factor)
        first = places(self.layout, addresses, self.stride) // self.granule
        if mask is not True and np.size(mask) == 1:
            mask = True  # the caller has looked whether any lane is active
        reduced = True if mask is True else self._masks.reduced(mask, first.shape)
        extremes = self._first_and_last(mask, first.shape)
        return Touch(self.team, first, size // self.granule, mask, reduced, extremes)

    def _first_and_last(self, mask, shape):
        """The first and the last active thread for each element of an array of `shape`."""
        last, extremes = self._extremes.get(shape, (None, None))
        if last is not mask:
            padded = (1,) * (len(self.layout.shape) - len(shape)) + tuple(shape)
            lengths = zip(padded, self.layout.shape, strict=True)
            axes = tuple(i for i, (length, lanes) in enumerate(lengths) if length < lanes)
            thread, where = self.layout.full(self.team.thread_number), self.layout.full(mask)
            extremes = tuple(
                how(thread, axis=axes, keepdims=True, where=where, initial=initial)
                .reshape(shape)
                .astype(np.int64)
                for how, initial in ((np.min, self.team.threads), (np.max, 0))
            )
            self._extremes[shape] = mask, extremes
        return extremes

    # --- looking ----------------------------------------------------------------------------------

    def _look_for_unwritten(self, index, size, touch) -> None:
        if self.writes.last[touch.granules].all():
            return
        unwritten = self.writes.last[touch.lane_granules] == 0
        unwritten &= self.arriving.last[touch.lane_granules] == 0
        if unwritten.any():
            self._find("uninitialised read", index, size, touch, unwritten, "was never written")

    def _look_for_writes(self, index, size, touch, does: str, new=True) -> None:
        """Writes that the lanes do not know. `new`: (lanes,), those whose own write matters."""
        self._look_for_others(index, size, touch, self.writes, does, "write", "written", new)

    def _look_for_readers(self, index, size, touch) -> None:
        self._look_for_others(index, size, touch, self.reads, "write", "read", "read")
        if self.atomics:
            self._look_for_others(index, size, touch, self.atomics, "write", "write", "updated")
        for table in self.group_reads.values():
            self._look_for_others(index, size, touch, table, "write", "read", "read")

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
        actor, did_it = int(who[first]), int(when[first])
        if not isinstance(table, ReadsSinceBarrier):
            did_it = self.clocks.instruction(did_it)
        line = self.lanes.line(did_it)
        if actor < self.team.threads:
            by = f"{verb} by thread {self._thread(actor)} in line {line} with no barrier between"
        elif self.kernel.instructions[did_it].name in ("wgmma", "tcgen05"):
            name = self.kernel.instructions[did_it].name
            by = f"{verb} by the {name} of line {line}, for which the thread has not waited"
        else:
            by = f"{verb} by the copy of line {line}, whose mbarrier the thread has not waited for"
        self._find(f"{does}-after-{did} race", index, size, touch, conflict, by)

    def _look_for_copies(self, index, size, touch, does: str) -> None:
        tables = [(self.arriving, f"{does} of a copy in flight", "is the destination of a copy")]
        if does == "write":
            tables.append((self.leaving, "write to a copy's source", "is read by a copy"))
        for table, kind, what in tables:
            if not (table.used and table.last[touch.granules].any()):
                continue
            record = table.last[touch.lane_granules]
            under_way = record != 0
            if under_way.any():
                first = int(record[under_way][0])
                started = self.clocks.instruction(first >> ACTOR_BITS)
                by = f"that thread {self._thread(first & ACTOR)} started in line"
                if self.kernel.instructions[started].name == "wgmma":
                    kind, what, by = "write to a wgmma's source", "is read by", "the wgmma of line"
                by = f"{what} {by} {self.lanes.line(started)}, which is not waited for"
                self._find(kind, index, size, touch, under_way, by)

    def _look_for_unfenced(self, index, size, touch) -> None:
        if self.unfenced is None:
            return
        record = self.unfenced.last[touch.lane_granules]
        if record.any():
            first = int(record[record != 0][0])
            line = self.lanes.line(self.clocks.instruction(first >> ACTOR_BITS))
            by = f"thread {self._thread(first & ACTOR)} in line {line}"
            what = f"was written by {by}, with no fence.proxy.async since"
            self._find("async-proxy race", index, size, touch, record != 0, what)

    def _look_for_unfenced_reads(self, index, size, touch) -> None:
        if self.generic_reads is None:
            return
        times = self.generic_reads.by_thread[touch.lane_granules]
        wrong = times > self._fenced[touch.lane_block][:, None]
        if wrong.any():
            lane, part, thread = np.argwhere(wrong)[0]
            line = self.lanes.line(self.clocks.instruction(times[lane, part, thread]))
            what = f"was read by thread {self._thread(int(thread))} in line {line}"
            what += ", with no fence.proxy.async since"
            self._find("async-proxy race", index, size, touch, wrong.any(axis=2), what)

    def _look_for_rivals(self, index, size, touch, overwritten) -> None:
        """Lanes of one store that write different values to the same place."""
        winner = self.writes.last[touch.lane_granules] & ACTOR
        beaten = winner != touch.thread[:, None]
        if not beaten.any():
            return
        if overwritten is not None:
            _, values, addresses, dtype, memory = overwritten
            now, _ = global_memory.load(memory, addresses, dtype, len(values), touch.mask)
            beaten &= touch.of_lanes(global_memory.differ(now, values))[:, None]
        if beaten.any():
            thread = self._thread(int(winner[beaten][0]))
            by = f"written by thread {thread} in the same instruction, with another value"
            self._find("write-after-write race", index, size, touch, beaten, by)

    # --- findings ---------------------------------------------------------------------------------

    def _find(self, kind, index, size, touch, wrong, what: str) -> None:
        """`wrong`: (lanes, parts) of `touch`."""
        where = int(wrong.reshape(-1).argmax())
        granule = int(touch.lane_granules.reshape(-1)[where])
        element = self._element(index, granule * self.granule % self.stride, size)
        lanes = self.layout.mask_of(touch.lanes[wrong.any(axis=1)])
        self.lanes.find(kind, index, f"{element} {what}", lanes)

    def _element(self, index: int, offset: int, size: int) -> str:
        """Which element of which shared array is at byte `offset`, as the instruction sees it."""
        kind = self.kernel.instructions[index].parts[-1]
        width = min(TYPE_BYTES.get(kind, ELEMENT), size)
        return str(shared_place(self.kernel, self.lanes.launch.shared_bytes, offset, width))

    def _thread(self, number: int) -> str:
        (x, y, _), (rank, number) = self.layout.block, divmod(number, threads_of_rank(self.layout))
        thread = f"{(number % x, number // x % y, number // (x * y))}"
        return f"{thread} of rank {rank}" if self.layout.cluster_size > 1 else thread
