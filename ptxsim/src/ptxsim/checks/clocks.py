"""The order of accesses that synchronisation creates: what a thread knows of others' accesses.

Time is one number for all blocks of a chunk, and every access gets its own. A thread *knows* an
access if some chain of barriers leads from it to where the thread stands. Two accesses of which
neither thread knew the other, at least one of them a write, are a race, whatever order they
happened to run in.

Most kernels synchronise whole blocks only: then a thread knows what was done before the block's
last barrier, and what it did itself (`BlockClocks`). Warp barriers, barriers with a count and
mbarriers need to know, for each pair of threads, up to which time the one knows the other
(`ThreadClocks`, a vector clock for each thread).

Threads of different blocks meet only in clusters. There the checks take a cluster for one large
block, a `Team`: its threads are numbered through, by the rank of their block, and so are the bytes
of its shared memory. Without clusters a Layout is a team itself.
"""

from __future__ import annotations

import numpy as np

from ptxsim.architectures import WARP
from ptxsim.hopper import GROUP_THREADS
from ptxsim.threads import clusters
from ptxsim.threads.layout import Layout

KNOWN_TO_ALL = 1  # a time before all accesses


class BlockClocks:
    """The clocks of a kernel that synchronises whole blocks only."""

    def __init__(self, layout: Layout):
        self.layout = layout
        self.now = 0
        self._instructions = [-1]  # at each time
        self.opened = np.zeros(layout.blocks, np.int64)

    def tick(self, index: int) -> int:
        """The time of a new access, by the instruction `index`."""
        self._instructions.append(index)
        self.now += 1
        return self.now

    def instruction(self, time: int) -> int:
        return self._instructions[time]

    def barrier(self, blocks) -> None:
        """All threads of the `blocks`, a (blocks,) mask, have met."""
        self.opened[blocks] = self.now

    def unknown(self, block, thread, other, time):
        """Whether `thread` does not know what `other` did at `time`; arrays that broadcast."""
        return (time > self.opened[block]) & (other != thread)


class ThreadClocks(BlockClocks):
    """A vector clock for each thread, with columns for what mbarriers and warpgroups tell of."""

    def __init__(self, layout: Layout):
        super().__init__(layout)
        self.threads = layout.threads
        # (blocks, threads, columns): the time up to which a thread knows another, not itself.
        self.known = np.full((layout.blocks, self.threads, self.threads), KNOWN_TO_ALL, np.int32)
        self.tick(-1)
        self._columns: dict = {}  # address of an mbarrier, or a warpgroup -> its first column
        # What the threads that came to a barrier know: key -> (blocks, columns).
        self._gathered: dict = {}
        self._completed: dict[int, np.ndarray] = {}  # the same, of completed phases of mbarriers

    def column(self, mbarrier, count: int = 1) -> int:
        """The column of the mbarrier at this address, or of ("wgmma", number of a warpgroup);
        the first of `count` columns."""
        if mbarrier not in self._columns:
            self._columns[mbarrier] = self.known.shape[2]
            self.known = _with_more(self.known, count)
            for table in (self._gathered, self._completed):
                for key, rows in table.items():
                    table[key] = _with_more(rows, count)
        return self._columns[mbarrier]

    # --- barriers of a block, and mbarriers -------------------------------------------------------

    def release(self, key, block, thread) -> None:
        """Threads (n,), sorted by block, come to `key`: who leaves it knows what they did."""
        if not len(block):
            return
        rows = self.known[block, thread]
        rows[np.arange(len(rows)), thread] = self.now
        first = np.flatnonzero(np.diff(block, prepend=-1))
        gathered, these = self.gathered(key), block[first]
        gathered[these] = np.maximum(gathered[these], np.maximum.reduceat(rows, first))

    def complete(self, mbarrier: int, blocks) -> None:
        column = self.column(mbarrier)
        gathered = self.gathered(mbarrier)
        gathered[blocks, column] = self.now
        self._row(self._completed, mbarrier)[blocks] = gathered[blocks]

    def tell(self, key, block: int, column: int) -> None:
        """Who leaves `key` knows what was done so far in a column."""
        self.gathered(key)[block, column] = self.now

    def learn(self, key, block, thread) -> None:
        """Threads (n,) know what was done so far in the column of `key`."""
        self.known[block, thread, self.column(key)] = self.now

    def acquire(self, mbarrier: int, block, thread) -> None:
        self._learn(block, thread, self._row(self._completed, mbarrier))

    def leave(self, key, block, thread) -> None:
        """The barrier `key` has opened; threads (n,) leave it. What was gathered stays."""
        self._learn(block, thread, self.gathered(key))

    def take_turns(self, block, thread) -> None:
        """Threads (n,), sorted by block, are at one place in turn: each knows those before it."""
        for rows in np.split(np.arange(len(block)), np.flatnonzero(np.diff(block)) + 1):
            if len(rows) > 1:
                here, these = block[rows[0]], thread[rows]
                learned = self.known[here, these]
                learned[np.arange(len(rows)), these] = self.now
                learned = np.maximum.accumulate(learned[:-1])
                self.known[here, these[1:]] = np.maximum(self.known[here, these[1:]], learned)

    def barrier(self, blocks) -> None:
        super().barrier(blocks)
        if self._columns:  # all now know what some knew of copies; of threads `opened` tells
            copies = self.known[blocks, :, self.threads :]
            self.known[blocks, :, self.threads :] = copies.max(axis=1, keepdims=True)

    def gathered(self, key) -> np.ndarray:
        """(blocks, columns): what the threads that came to `key` so far know together."""
        return self._row(self._gathered, key)

    def _learn(self, block, thread, rows) -> None:
        self.known[block, thread] = np.maximum(self.known[block, thread], rows[block])

    def _row(self, table: dict, key) -> np.ndarray:
        shape = (self.known.shape[0], self.known.shape[2])
        return table.setdefault(key, np.zeros(shape, np.int32))

    # --- barriers of a warp -----------------------------------------------------------------------

    def meet(self, block, thread, named) -> None:
        """Lanes of warps learn from those that they name; `named`: bool (warps, 32, 32)."""
        lanes = np.maximum(thread, 0)
        if named.all() and named.size == self.known[:, :, 0].size * WARP:
            self._all_meet()
            return
        known = self.known[block[:, None], lanes]  # (warps, 32, columns)
        places = (np.arange(len(block))[:, None], np.arange(WARP), lanes)
        known[places] = np.where(thread >= 0, self.now, known[places])
        learns, heard = named.any(axis=2), named.any(axis=1)
        learnt = np.zeros_like(known)
        # Most often all lanes that are there learn from the same lanes.
        same = (named == (learns[:, :, None] & heard[:, None, :])).all(axis=(1, 2))
        if same.any():
            heard_of = np.where(heard[same, :, None], known[same], 0)
            learnt[same] = heard_of.max(axis=1, keepdims=True)
        for warp in np.flatnonzero(~same):
            for lane in np.flatnonzero(learns[warp]):
                learnt[warp, lane] = known[warp, named[warp, lane]].max(axis=0)
        some = learns & (thread >= 0)
        where = np.broadcast_to(block[:, None], thread.shape)[some], thread[some]
        self.known[where] = np.maximum(self.known[where], learnt[some])

    def _all_meet(self) -> None:
        """All warps of all blocks meet, each in itself; a common case, done in place."""
        columns = self.known.shape[2]
        known = self.known.reshape(len(self.known), -1, WARP, columns)
        learnt = known.max(axis=2)
        warps = np.arange(learnt.shape[1])[:, None]
        learnt[:, warps, warps * WARP + np.arange(WARP)] = self.now
        known[...] = learnt[:, :, None, :]

    # --- asking -----------------------------------------------------------------------------------

    def unknown(self, block, thread, other, time):
        unknown = (other >= self.threads) | super().unknown(block, thread, other, time)
        block, thread, other, time = np.broadcast_arrays(block, thread, other, time)
        places = np.nonzero(unknown)
        known = self.known[block[places], thread[places], other[places]]
        unknown[places] = known < time[places]
        return unknown


def _with_more(rows: np.ndarray, count: int) -> np.ndarray:
    return np.concatenate([rows, np.zeros((*rows.shape[:-1], count), rows.dtype)], axis=-1)


# --- teams ----------------------------------------------------------------------------------------


class Team:
    """The attributes of a Layout that the checks ask for, with a cluster in place of a block."""

    def __init__(self, layout: Layout):
        self.layout, self.shape, self.block = layout, layout.shape, layout.block
        of_rank = threads_of_rank(layout)
        self.blocks, self.threads = layout.clusters, of_rank * layout.cluster_size
        self.block_number = layout.cluster_number
        rank = layout.special["cluster_ctarank"]
        self.thread_number = (layout.thread_number + rank * np.int32(of_rank)).astype(np.int32)


def threads_of_rank(layout: Layout) -> int:
    """How many numbers a block has in a team; in a cluster whole warpgroups, used or not."""
    return (
        layout.threads
        if layout.cluster_size == 1
        else -(-layout.threads // GROUP_THREADS) * GROUP_THREADS
    )


def team_of(layout: Layout) -> Layout | Team:
    return layout if layout.cluster_size == 1 else Team(layout)


def places(layout: Layout, addresses, stride: int):
    """Bytes from the start of all teams' shared memory, where a block has `stride` bytes."""
    if layout.cluster_size == 1:
        return np.asarray(addresses) + np.asarray(layout.block_number) * stride
    addresses = np.asarray(addresses)
    ranks = np.minimum(clusters.ranks_of(layout, addresses), layout.cluster_size - 1)
    before = layout.cluster_number * layout.cluster_size + ranks
    return clusters.place_of(addresses).astype(np.int64) + before * stride


def names(layout: Layout, addresses):
    """Of an mbarrier in a team: its place in a block's memory, with the block's rank above."""
    addresses = np.asarray(addresses)
    if layout.cluster_size == 1:
        return addresses
    ranks = clusters.ranks_of(layout, addresses)
    return clusters.place_of(addresses) | (ranks << clusters.RANK_SHIFT)
