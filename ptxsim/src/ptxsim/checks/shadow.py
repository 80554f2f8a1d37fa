"""Shadow memory: for each granule of shared memory, who wrote it and who read it.

A granule is as many bytes as the smallest access so far has, so that no access covers part of one.
Records are kept as numbers that hold several, the time or the barrier foremost, so that later ones
are larger.

The tables share these methods: `refine(factor)`, after which a granule has so many times fewer
bytes; `note`, for a new access; `recent(granules, block, clocks)`, a quick look at whether there
may be others, for (n, parts) granules of blocks (n,); and `others(granules, block, thread,
clocks)`, arrays (n,): which of the threads do not know what the table says of the granule, who did
it, and when: at which time, or in ReadsSinceBarrier in which instruction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ptxsim.threads.layout import Layout

ACTOR_BITS = 16  # of a record: a thread of the block, or a column of an mbarrier
ACTOR = (1 << ACTOR_BITS) - 1
THREAD_BITS, INSTRUCTION_BITS = 14, 20  # of a record of reads: a cluster has 2**14 threads
THREAD, INSTRUCTION = (1 << THREAD_BITS) - 1, (1 << INSTRUCTION_BITS) - 1
PIECE = 1 << 20  # records looked at in one step, where there is one for each thread


@dataclass
class Touch:
    """The granules that one instruction touches: of each different address, and of each lane."""

    layout: Layout
    first: np.ndarray  # granule of each lane, of a shape that broadcasts to that of the lanes
    parts: int
    mask: np.ndarray | bool
    reduced: np.ndarray | bool  # the mask over the shape of `first`
    _extremes: tuple = field(repr=False)  # over the shape of `first`

    def _pick(self, values):
        values = np.broadcast_to(values, self.first.shape)
        return values.reshape(-1) if self.reduced is True else values[self.reduced]

    def _with_parts(self, first):
        return first[:, None] + np.arange(self.parts) if self.parts > 1 else first[:, None]

    @cached_property
    def granules(self):
        return self._with_parts(self._pick(self.first))

    @cached_property
    def block(self):
        return self._pick(self.layout.block_number)

    @cached_property
    def extremes(self):
        """The first and the last thread at each of the different addresses."""
        return tuple(map(self._pick, self._extremes))

    @cached_property
    def lanes(self):
        if self.mask is True:
            return np.arange(int(np.prod(self.layout.shape)))
        return np.flatnonzero(np.broadcast_to(self.mask, self.layout.shape))

    def of_lanes(self, values):
        values = np.broadcast_to(values, self.layout.shape)
        where = self.mask is True or np.broadcast_to(self.mask, self.layout.shape)
        return values.reshape(-1) if where is True else values[where]

    @cached_property
    def lane_granules(self):
        return self._with_parts(self.of_lanes(self.first))

    @cached_property
    def lane_block(self):
        return self.of_lanes(self.layout.block_number)

    @cached_property
    def thread(self):
        return self.of_lanes(self.layout.thread_number)


class Writes:
    """The last write of each granule: time << ACTOR_BITS | actor, or 0."""

    def __init__(self, granules: int):
        self.last = np.zeros(granules, np.int64)
        self.used = False

    def refine(self, factor: int) -> None:
        self.last = np.repeat(self.last, factor)

    def note(self, granules, actors, time: int) -> None:
        self.used = True
        self.last[granules] = (np.int64(time) << ACTOR_BITS) | actors

    def recent(self, granules, block, clocks):
        last = self.last[granules]
        late = last >> ACTOR_BITS > clocks.opened[block][:, None]
        return late | (last & ACTOR >= clocks.layout.threads)

    def others(self, granules, block, thread, clocks):
        last = self.last[granules]
        actor, time = last & ACTOR, last >> ACTOR_BITS
        return clocks.unknown(block, thread, actor, time), actor, time


class ReadsSinceBarrier:
    """The first and last thread that read each granule since the block's last barrier."""

    def __init__(self, granules: int):
        self.first = np.full(granules, -1, np.int64)
        self.last = np.full(granules, -1, np.int64)

    def refine(self, factor: int) -> None:
        self.first, self.last = np.repeat(self.first, factor), np.repeat(self.last, factor)

    def note(self, touch: Touch, index: int, clocks) -> None:
        barrier = clocks.opened[touch.block] << THREAD_BITS
        low, high = touch.extremes
        for table, thread in ((self.first, THREAD - low), (self.last, high)):
            record = ((barrier | thread) << INSTRUCTION_BITS) | index
            np.maximum.at(table, touch.granules, record[:, None])

    def recent(self, granules, block, clocks):
        barrier = self.last[granules] >> (THREAD_BITS + INSTRUCTION_BITS)
        return barrier == clocks.opened[block].reshape(-1, *[1] * (granules.ndim - 1))

    def readers(self, granules):
        first, last = (table[granules] >> INSTRUCTION_BITS for table in (self.first, self.last))
        return THREAD - (first & THREAD), last & THREAD

    def others(self, granules, block, thread, clocks):
        conflict = np.zeros(len(granules), bool)
        who, when = np.zeros((2, len(granules)), np.int64)
        for table, sign in ((self.first, -1), (self.last, 1)):
            record = table[granules]
            by = (record >> INSTRUCTION_BITS) & THREAD
            by = by if sign > 0 else THREAD - by
            recent = record >> (THREAD_BITS + INSTRUCTION_BITS) == clocks.opened[block]
            here = recent & (by != thread) & ~conflict
            conflict |= here
            who, when = np.where(here, by, who), np.where(here, record & INSTRUCTION, when)
        return conflict, who, when


class ReadsByThread:
    """When each thread last read each granule, and which may have since the last barrier."""

    def __init__(self, granules: int, threads: int):
        self.by_thread = np.zeros((granules, threads), np.int32)
        self.since_barrier = ReadsSinceBarrier(granules)

    def refine(self, factor: int) -> None:
        granules, threads = self.by_thread.shape
        if (self.since_barrier.last < 0).all():  # as it began, and memory that nobody has touched
            self.by_thread = np.zeros((granules * factor, threads), np.int32)
        else:
            self.by_thread = np.repeat(self.by_thread, factor, axis=0)
        self.since_barrier.refine(factor)

    def note(self, touch: Touch, index: int, clocks) -> None:
        self.by_thread[touch.lane_granules, touch.thread[:, None]] = clocks.now
        self.since_barrier.note(touch, index, clocks)

    def recent(self, granules, block, clocks):
        return self.since_barrier.recent(granules, block, clocks)

    def others(self, granules, block, thread, clocks):
        conflict = self.since_barrier.recent(granules, block, clocks)
        who, when = np.zeros((2, len(granules)), np.int64)
        places = np.flatnonzero(conflict)
        if not len(places):
            return conflict, who, when
        first, last = self.since_barrier.readers(granules[places])
        width = int((last - first).max()) + 1
        step = max(1, PIECE // width)
        for start in range(0, len(places), step):
            piece = places[start : start + step]
            rows = np.arange(len(piece))
            readers = first[start : start + step, None] + np.arange(width)
            readers = np.minimum(readers, self.by_thread.shape[1] - 1)
            times = self.by_thread[granules[piece, None], readers]
            unknown = clocks.unknown(block[piece, None], thread[piece, None], readers, times)
            conflict[piece] = unknown.any(axis=1)
            chosen = rows, unknown.argmax(axis=1)
            who[piece], when[piece] = readers[chosen], times[chosen]
        return conflict, who, when
