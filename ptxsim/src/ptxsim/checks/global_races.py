"""Races in global memory: within a block and between blocks.

For each granule of an array the last write is kept, and the last reads of two threads. What another
thread did there is in order if a chain of barriers leads from it to the one that comes now, which
clocks.py knows for threads of one block, or of one cluster. Blocks know of one another by flags:
something is in order if a thread of the block that did it has executed a fence for the GPU since,
or a release, and after that a thread of the block that comes now a fence, an acquire, an atomic or
a volatile read. Which flag it was is not looked at, so a wrong one is not found.

Two reads are no race, nor are two atomics, nor a read and an atomic, nor a write of the value that
is there already. Volatile and relaxed accesses are flags, and no race themselves. Of asynchronous
copies, those that read are looked at: what threads wrote needs a fence.proxy.async, too.
"""

from __future__ import annotations

from collections import defaultdict
from math import gcd

import numpy as np

from ptxsim.async_copy.tensor_map import MOVED
from ptxsim.checks.program import ORDERED, synchronizing
from ptxsim.memory import global_memory

COARSE = 4  # bytes of a granule, as long as no smaller access is met
NEVER = np.iinfo(np.int64).max


class _Table:
    """Who did it last, for each granule of an array: a thread of the grid, and when; or 0."""

    def __init__(self, granules: int):
        self.thread = np.zeros(granules, np.int64)
        self.event = np.zeros(granules, np.int64)

    def refine(self, factor: int) -> None:
        self.thread, self.event = np.repeat(self.thread, factor), np.repeat(self.event, factor)

    def note(self, granules, threads, event: int) -> None:
        self.thread[granules], self.event[granules] = threads, event


class _Accesses:
    """Of one array."""

    def __init__(self, size: int):
        self.granule = COARSE
        granules = -(-size // COARSE)
        self.writes, self.reads, self.other_reads = (_Table(granules) for _ in range(3))

    def refine(self, size: int) -> None:
        if size % self.granule:
            factor, self.granule = self.granule // gcd(size, self.granule), gcd(size, self.granule)
            for table in (self.writes, self.reads, self.other_reads):
                table.refine(factor)


class History:
    """What a launch did to its arrays so far, over all chunks.

    An event is an instruction that some lanes executed together: its number, from 1 on, is when.
    """

    def __init__(self) -> None:
        self.arrays: dict[int, _Accesses] = {}  # by where the array begins
        # Of each event: when, by the clocks of the chunk that it was in, and its instruction.
        self.times, self.indexes = np.zeros(1024, np.int64), np.zeros(1024, np.int64)
        self.events = 0
        self.releases: defaultdict[int, list[int]] = defaultdict(list)  # of a team: its events
        self.acquired: dict[int, int] = {}  # of a team: its last event
        self.proxy_fences: dict[int, int] = {}  # of a team: its last fence.proxy.async

    def event(self, index: int, time: int) -> int:
        self.events += 1
        if self.events == len(self.times):
            self.times, self.indexes = (
                np.concatenate([table, np.zeros_like(table)])
                for table in (self.times, self.indexes)
            )
        self.times[self.events], self.indexes[self.events] = time, index
        return self.events


class GlobalRaces:
    """Watches the accesses of a chunk. A team is a block, or a cluster."""

    def __init__(self, lanes, clocks, team):
        self.lanes, self.clocks, self.team, self.layout = lanes, clocks, team, lanes.layout
        self.kernel, self.memory = lanes.launch.kernel, lanes.launch.memory
        self.history = self.memory.history
        self.releases, self.acquires = synchronizing(self.kernel)
        self._is_atomic = np.array([i.name in ("atom", "red") for i in self.kernel.instructions])
        self._is_passed_over = [
            i.name == "cp" or (i.name in ("ld", "st") and bool(ORDERED & set(i.parts)))
            for i in self.kernel.instructions
        ]
        special, number = self.layout.special, np.int64(0)
        for dimension in "zyx":
            number = number * np.int64(special[f"nclusterid.{dimension}"])
            number = number + special[f"clusterid.{dimension}"]
        # Of each lane: its team in the grid, and its thread, numbered over all teams, from 1 on.
        self._team_of = number
        self._thread_of = number * team.threads + team.thread_number + 1
        self._overwritten = None

    def about_to_store(self, addresses, values, dtype, mask) -> None:
        before, _ = global_memory.load(self.memory, addresses, dtype, len(values), mask)
        self._overwritten = addresses, before, values, dtype

    def fenced(self, index: int, mask) -> None:
        """Lanes execute a fence, or another instruction by which blocks tell one another."""
        self._tell(index, self.history.event(index, self.clocks.now), mask)

    def _tell(self, index: int, event: int, mask) -> None:
        for number in np.unique(self._of_lanes(self._team_of, self._lanes(mask))).tolist():
            if index in self.releases:
                self.history.releases[number].append(event)
            if index in self.acquires:
                self.history.acquired[number] = event

    def proxy_fenced(self, mask) -> None:
        """Lanes execute a fence between their own accesses and those of asynchronous copies."""
        event = self.history.event(-1, self.clocks.now)
        for number in np.unique(self._of_lanes(self._team_of, self._lanes(mask))).tolist():
            self.history.proxy_fences[number] = event

    def bulk_read(self, index: int, addresses, mask) -> None:
        """Bulk copies read units (n, units) of global memory; `mask` has their n lanes."""
        self._bulk_read(index, addresses, self._lanes(mask), True, MOVED.itemsize)

    def box_read(self, index: int, used, corners, mask) -> None:
        """As `bulk_read`, boxes (n, axes) of `used`, a MapInUse."""
        if used.buffer.base in self.history.arrays:
            lanes = self._lanes(mask)
            for rows, addresses, inside, size in used.addresses(corners):
                self._bulk_read(index, addresses, lanes[rows], inside, size)

    def _bulk_read(self, index: int, addresses, lanes, inside, size: int) -> None:
        lanes = np.repeat(lanes, addresses.shape[1])
        parts, _ = self.memory.locate(addresses, size, inside)
        for buffer, offsets, allowed in parts:
            accesses = self.history.arrays.get(buffer.base)
            if accesses is None:
                continue
            accesses.refine(size)
            here = np.broadcast_to(allowed, addresses.shape).reshape(-1)
            touched = self._touched(buffer, offsets.reshape(-1)[here], size, lanes[here])
            _, _, granules, _, threads = touched
            self._look(index, touched, accesses.writes, "read-after-write race", "written",
                       within_team=False)  # fmt: skip
            events = accesses.writes.event[granules]
            writers = self._team(accesses.writes.thread[granules])
            fences = self.history.proxy_fences
            pairs = zip(self._team(threads).tolist(), writers.tolist(), strict=True)
            known = [max(fences.get(reader, 0), fences.get(writer, 0)) for reader, writer in pairs]
            wrong = (events != 0) & (events > known)
            if wrong.any():
                line = self._line(int(events[wrong.argmax()]))
                what = f"written in line {line}, with no fence.proxy.async since"
                self._find("async-proxy race", index, touched, wrong, what)

    def access(self, index: int, operation: str, addresses, size: int, mask) -> None:
        overwritten, self._overwritten = self._overwritten, None
        if not np.any(mask):
            return
        event = self.history.event(index, self.clocks.tick(index))
        if index in self.releases or index in self.acquires:
            self._tell(index, event, mask)
        if self._is_passed_over[index]:
            return
        parts, _ = self.memory.locate(np.asarray(addresses), size, mask)
        for buffer, offsets, allowed in parts:
            lanes = self._lanes(allowed)
            if not len(lanes):
                continue
            accesses = self.history.arrays.setdefault(buffer.base, _Accesses(buffer.bytes))
            accesses.refine(size)
            touched = self._touched(buffer, self._of_lanes(offsets, lanes), size, lanes)
            _, _, granules, lanes, threads = touched
            if operation == "load":
                self._look(index, touched, accesses.writes, "read-after-write race", "written",
                           meets_atomics=False)  # fmt: skip
                self._note_reads(accesses, granules, threads, event)
                continue
            new: np.ndarray | bool = True
            if operation == "store" and overwritten is not None:
                _, before, values, _ = overwritten
                new = self._of_lanes(global_memory.differ(before, values), lanes)
            is_plain = operation == "store"
            kind = "write-after-write race"
            self._look(index, touched, accesses.writes, kind, "written", new, is_plain)
            for table in (accesses.reads, accesses.other_reads) if is_plain else ():
                self._look(index, touched, table, "write-after-read race", "read", new)
            accesses.writes.note(granules, threads, event)
            if is_plain:
                self._look_for_rivals(index, touched, overwritten)

    def _touched(self, buffer, offsets, size: int, lanes):
        """(buffer, its accesses, granules, their lanes and threads); `lanes`, `offsets`: (n,)."""
        accesses = self.history.arrays[buffer.base]
        count = size // accesses.granule
        granules = (offsets[:, None] // accesses.granule + np.arange(count)).reshape(-1)
        lanes = np.repeat(lanes, count)
        return buffer, accesses, granules, lanes, self._of_lanes(self._thread_of, lanes)

    # ---- looking ---------------------------------------------------------------------------------

    def _look(
        self, index, touched, table, kind, verb, new=True, meets_atomics=True, within_team=True
    ) -> None:
        _, _, granules, lanes, threads = touched
        events, others = table.event[granules], table.thread[granules]
        wrong = (events != 0) & (others != threads) & new
        if not within_team:
            wrong &= self._team(others) != self._team(threads)
        if not meets_atomics:
            wrong &= ~self._is_atomic[self.history.indexes[events]]
        if not wrong.any():
            return
        wrong[wrong] = self._unordered(threads[wrong], others[wrong], events[wrong], lanes[wrong])
        if wrong.any():
            first = int(wrong.argmax())
            line = self._line(int(events[first]))
            who, without = self._name(int(others[first]), self._team(int(threads[first])))
            self._find(kind, index, touched, wrong, f"{verb} by {who} in line {line}, {without}")

    def _unordered(self, threads, others, events, lanes):
        """Which of the threads (n,) cannot know what the others did at these events."""
        here, there = self._team(threads), self._team(others)
        result = np.zeros(len(threads), bool)
        same = here == there
        if same.any():
            block = self._of_lanes(self.team.block_number, lanes[same])
            thread, other = ((who[same] - 1) % self.team.threads for who in (threads, others))
            times = self.history.times[events[same]]
            result[same] = self.clocks.unknown(block, thread, other, times)
        for number in np.unique(there[~same]).tolist():
            rows = np.flatnonzero(~same & (there == number))
            releases = np.array([*self.history.releases.get(number, ()), NEVER])
            released_at = releases[np.searchsorted(releases, events[rows])]  # an atomic by itself
            teams, which = np.unique(here[rows], return_inverse=True)
            acquired = np.array([self.history.acquired.get(team, 0) for team in teams.tolist()])
            result[rows] = released_at > acquired[which]
        return result

    def _look_for_rivals(self, index, touched, overwritten) -> None:
        """Lanes of one store that write different values to the same place."""
        _, accesses, granules, lanes, threads = touched
        beaten = accesses.writes.thread[granules] != threads
        if beaten.any() and overwritten is not None:
            addresses, _, values, dtype = overwritten
            mask = self.layout.mask_of(lanes)
            now, _ = global_memory.load(self.memory, addresses, dtype, len(values), mask)
            beaten &= self._of_lanes(global_memory.differ(now, values), lanes)
        if beaten.any():
            winner = int(accesses.writes.thread[granules[beaten.argmax()]])
            who, _ = self._name(winner, self._team(int(threads[beaten.argmax()])))
            what = f"written by {who} in the same instruction, with another value"
            self._find("write-after-write race", index, touched, beaten, what)

    def _note_reads(self, accesses, granules, threads, event: int) -> None:
        reads, others = accesses.reads, accesses.other_reads
        moves = (reads.thread[granules] != threads) & (reads.event[granules] != 0)
        if moves.any():
            moved = granules[moves]
            others.note(moved, reads.thread[moved], reads.event[moved])
        reads.note(granules, threads, event)

    # ---- names -----------------------------------------------------------------------------------

    def _line(self, event: int) -> int:
        return self.lanes.line(self.history.indexes[event])

    def _team(self, thread):
        return (thread - 1) // self.team.threads

    def _lanes(self, mask):
        return np.flatnonzero(self.layout.full(mask))

    def _of_lanes(self, values, lanes):
        return self.layout.full(values).reshape(-1)[lanes]

    def _name(self, thread: int, team: int) -> tuple[str, str]:
        """A thread, for a sentence about another one of `team`, and what is missing between."""
        x, y, _ = self.layout.block
        number = (thread - 1) % self.team.threads
        name = f"thread {(number % x, number // x % y, number // (x * y))}"
        if self._team(thread) == team:
            return name, "with no barrier between"
        what = "block" if self.layout.cluster_size == 1 else "cluster"
        name += f" of {what} {self._place(self._team(thread))}"
        return name, "with no fence and flag between"

    def _place(self, team: int) -> tuple[int, int, int]:
        special = self.layout.special
        x, y = int(special["nclusterid.x"]), int(special["nclusterid.y"])
        return team % x, team // x % y, team // (x * y)

    def _find(self, kind: str, index: int, touched, wrong, what: str) -> None:
        buffer, accesses, granules, lanes, _ = touched
        element = int(granules[wrong.argmax()]) * accesses.granule // buffer.element_bytes
        mask = self.layout.mask_of(lanes[wrong])
        self.lanes.find(kind, index, f"{buffer.name}[{element}] was {what}", mask)
