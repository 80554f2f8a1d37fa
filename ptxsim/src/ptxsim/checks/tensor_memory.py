"""The order of what tcgen05 does, which hardware does not check.

Products, copies, loads and stores are asynchronous. Each has an *agent* that does them one after
the other: the products, copies and shifts that a thread issues, the loads of a warp, its stores. An
agent has a column of its own in the clocks (clocks.py), as if it were a thread. What threads know
of it goes from thread to thread as all knowledge does, and it begins

- with tcgen05.commit, for whoever waits for the mbarrier;
- with tcgen05.wait::ld or ::st, for the threads of the warp, and for others once these have
  executed tcgen05.fence::before_thread_sync.

To use what it knows of others, a thread executes tcgen05.fence::after_thread_sync. Products and
copies of two threads need not be complete for one another, only fenced: they are done in order.

A missing fence is a finding only in a kernel that executes some: what Triton and CUTLASS make has
none. The registers of a load may be used before the wait: the PTX ISA promises that the use waits
for them.

A granule is 16 lanes of a column.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from ptxsim.checks.clocks import threads_of_rank
from ptxsim.checks.shadow import ACTOR, ACTOR_BITS
from ptxsim.hopper import UNIT

LANES, COLUMNS, GRANULE_LANES = 128, 512, 16


class TensorChecks:
    def __init__(self, lanes, checker):
        self.lanes, self.layout, self.checker = lanes, lanes.layout, checker
        self.clocks, self.kernel, self.team = checker.clocks, lanes.launch.kernel, checker.team
        shape = self.layout.blocks, LANES // GRANULE_LANES, COLUMNS
        # A kernel that executes none relies on what hardware does without.
        self._has_fences = self.kernel.has("tcgen05.fence")
        self._agents: dict[int, tuple[str, int]] = {}  # by column: what it does, and who starts it
        if not self.kernel.has("tcgen05"):
            return
        self._written = np.zeros(shape, np.int64)  # time << ACTOR_BITS | column; 0: nobody has
        self._read: dict[int, np.ndarray] = {}  # by the column of an agent, when it last did
        self._last: dict[int, np.ndarray] = {}  # by column, (teams,): when it was last started
        # By column, (teams, threads): what they may use; and, of loads and stores, have waited for.
        self._usable: dict[int, np.ndarray] = {}
        self._waited: dict[int, np.ndarray] = {}
        self._fenced: dict[int, int] = {}  # column of products -> that of their order alone

    # --- agents -----------------------------------------------------------------------------------

    def _agent(self, what: str, number: int) -> int:
        """The column of what thread `number`, or the warp of that number, starts in all teams."""
        column = self.clocks.column(("tcgen05", what, number))
        if column not in self._agents:
            self._agents[column] = what, number
            self._last[column] = np.zeros(self.team.blocks, np.int64)
            for table in (self._usable, self._waited):
                table[column] = np.zeros((self.team.blocks, self.team.threads), np.int64)
            if what == "mma":
                order = self.clocks.column(("tcgen05", "order", number))
                self._fenced[column] = order
                self._usable[order] = np.zeros_like(self._usable[column])
        return column

    def _thread(self, lane: int) -> tuple[int, int]:
        """(team, number in it) of a lane, counted over the shape of the lanes."""
        of_team = self.team.block_number, self.team.thread_number
        team, thread = (self.layout.full(v).reshape(-1)[lane] for v in of_team)
        return int(team), int(thread)

    def _threads_of(self, warp: int) -> tuple[int, np.ndarray]:
        """(team, numbers of the threads) of a warp, counted over all blocks."""
        block, number = divmod(warp, self.layout.warps_per_block)
        team, rank = np.argwhere(self.layout.block_of == block)[0]
        first = 32 * number
        threads = np.arange(first, min(first + 32, self.layout.threads))
        return int(team), threads + int(rank) * threads_of_rank(self.layout)

    # --- what is done -----------------------------------------------------------------------------

    def allocated(self, block: int, begin: int, count: int) -> None:
        self._written[block, :, begin : begin + count] = 0
        for times in self._read.values():
            times[block, :, begin : begin + count] = 0

    def freed(self, index: int, warp: int, begin: int, count: int) -> None:
        """A warp frees columns of its block: all that is done there is to be complete."""
        team, threads = self._threads_of(warp)
        block = warp // self.layout.warps_per_block
        where = block, slice(None), slice(begin, begin + count)
        column = self._agent("ld", int(threads[0]) // 32)
        self._look_at(index, where, team, threads, column, writes=True, fences=False)

    def accessed(self, index, warp: int, lane: int, lanes: int, columns, writes: bool) -> None:
        """A warp loads from or stores to some columns of some lanes."""
        team, threads = self._threads_of(warp)
        block = warp // self.layout.warps_per_block
        rows = np.arange(lane // GRANULE_LANES, (lane + lanes - 1) // GRANULE_LANES + 1)
        column = self._agent("st" if writes else "ld", int(threads[0]) // 32)
        where = block, rows[:, None], np.asarray(columns)[None]
        self._use(index, where, team, threads, column, not writes, writes)

    def operated(self, index, lane: int, block: int, cells, columns, reads: bool, writes: bool):
        """A product, a copy or a shift that `lane` issues uses cells."""
        team, thread = self._thread(lane)
        used = np.zeros((LANES // GRANULE_LANES, COLUMNS), bool)
        used[np.asarray(cells) // GRANULE_LANES, columns] = True
        where = (block, *np.nonzero(used))
        self._use(index, where, team, np.array([thread]), self._agent("mma", thread), reads, writes)

    def read_shared(self, index: int, lane: int, places: np.ndarray) -> None:
        """A product or a copy that `lane` issues reads units at `places` of all blocks' memory."""
        races, (team, thread) = self.checker.races, self._thread(lane)
        per_unit = UNIT // races.granule
        granules = np.unique(places // UNIT)[:, None] * per_unit + np.arange(per_unit)
        granules, of_team = granules.reshape(1, -1), np.array([team])
        touch = SimpleNamespace(  # as shadow.Touch has it, of one thread
            lanes=np.array([lane]), thread=np.array([thread]), block=of_team, lane_block=of_team,
            granules=granules, lane_granules=granules,
        )  # fmt: skip
        races.tensor_read(index, touch, self._agent("mma", thread), ("tcgen05", thread))

    def _use(self, index, where, team: int, threads, column: int, reads: bool, writes: bool):
        time = self.clocks.tick(index)
        self._last[column][team] = time
        if column in self._fenced and not self._has_fences:
            self.clocks.known[team, threads, self._fenced[column]] = time
        if reads and (self._written[where] == 0).any():
            what = "cells of tensor memory were never written"
            self._find("uninitialised read", index, what, team, threads)
        self._look_at(index, where, team, threads, column, writes, fences=True)
        if writes:
            self._written[where] = time << ACTOR_BITS | column
        else:
            shape = self._written.shape
            self._read.setdefault(column, np.zeros(shape, np.int64))[where] = time

    def _look_at(
        self, index, where, team: int, threads, column: int, writes: bool, fences: bool
    ) -> None:
        """Find who else wrote the cells `where`, or, if they are to be written, read them."""
        last = self._written[where]
        for record in np.unique(last[last != 0]).tolist():
            other, time = record & ACTOR, record >> ACTOR_BITS
            self._look(index, team, threads, column, other, time, fences)
        for other, times in list(self._read.items()) if writes else ():
            if (time := int(times[where].max(initial=0))) > 0:
                self._look(index, team, threads, column, other, time, fences)

    def _look(
        self, index, team: int, threads, column: int, other: int, time: int, fences: bool
    ) -> None:
        """Find that not all of `threads` know that the agent `other` did what it did at `time`.

        `fences`: whether they need tcgen05.fence to use what they know.
        """
        order = self._fenced.get(other)
        in_order = column in self._fenced and order is not None
        if in_order and column == other:
            return
        columns = [other] if order is None or not in_order else [other, order]
        knows = np.zeros(len(threads), bool)
        for each in columns:
            knows |= self._usable[each][team, threads] >= time
            if not (fences and self._has_fences):
                knows |= ~self.clocks.unknown(team, threads, each, time)
        if knows.all():
            return
        threads = threads[~knows]
        did, who = self._agents[other]
        starter = who if did == "mma" else 32 * who
        did_it = self.kernel.instructions[self.clocks.instruction(time)]
        by = f"the {'.'.join(did_it.parts[:2])} of line {did_it.line}"
        met = not self.clocks.unknown(team, threads, starter, time).any()
        waits = did != "mma" and self._waited[other][team, starter] < time
        kind = "missing tcgen05.fence"
        if any(not self.clocks.unknown(team, threads, each, time).any() for each in columns):
            what = f"it comes after {by}, with no tcgen05.fence::after_thread_sync since the wait"
        elif waits:
            kind = "missing tcgen05.wait"
            what = f"{by} uses the same cells, and its warp has executed no tcgen05.wait::{did}"
        elif met and (did != "mma" or in_order):
            what = (
                f"{by} uses the same cells, with no tcgen05.fence::before_thread_sync between it "
                "and the barrier"
            )
        else:
            kind = "tensor memory race"
            what = f"{by} uses the same cells, and no barrier is between"
            if did == "mma":
                what = (
                    f"{by} uses the same cells, and the thread has not waited for an mbarrier that "
                    "a tcgen05.commit behind it tells"
                )
        self._find(kind, index, what, team, threads)

    # --- what orders it ---------------------------------------------------------------------------

    def committed(self, mbarrier, mask) -> None:
        for name, here in self.checker._by_barrier(mbarrier, mask):
            for team, thread in zip(*self.checker._sorted(here), strict=True):
                column = self._agent("mma", int(thread))
                self.clocks.tell(name, int(team), column)
                self.clocks.tell(name, int(team), self._fenced[column])

    def waited(self, what: str, warps) -> None:
        """tcgen05.wait::ld or ::st, `what` "ld" or "st"."""
        for warp in warps:
            team, threads = self._threads_of(warp)
            column = self._agent(what, int(threads[0]) // 32)
            for table in (self._waited, self._usable):
                table[column][team, threads] = self.clocks.now
            if not self._has_fences:
                self.clocks.known[team, threads, column] = self.clocks.now

    def fenced(self, when: str, mask) -> None:
        """tcgen05.fence::before_thread_sync or ::after_thread_sync."""
        team, thread = self.checker._sorted(mask)
        known = self.clocks.known
        if when == "after_thread_sync":
            for column, usable in self._usable.items():
                usable[team, thread] = np.maximum(usable[team, thread], known[team, thread, column])
            return
        for column, (what, number) in self._agents.items():
            if what == "mma":
                here = thread == number
                known[team[here], thread[here], self._fenced[column]] = self.clocks.now
            else:
                waited = self._waited[column][team, thread]
                known[team, thread, column] = np.maximum(known[team, thread, column], waited)

    def finish(self) -> None:
        """All threads have returned: find loads and stores that nothing waited for."""
        for column, (what, number) in self._agents.items():
            for team in np.flatnonzero(self._last[column]).tolist():
                time = int(self._last[column][team])
                if what != "mma" and self._waited[column][team, 32 * number] < time:
                    index = self.clocks.instruction(time)
                    text = f"no tcgen05.wait::{what} of its warp follows"
                    threads = 32 * number + np.arange(32)
                    self._find("missing tcgen05.wait", index, text, team, threads)

    def _find(self, kind: str, index: int, what: str, team: int, threads) -> None:
        lanes = (self.team.block_number == team) & np.isin(self.team.thread_number, threads)
        self.lanes.find(kind, index, what, lanes)
