"""Mistakes that hardware hides: races, reads of what nobody wrote, barriers that threads miss.

The rest of the simulator tells the Checker what happens, through the methods below. Addresses are
bytes from the start of the block's shared memory (int, broadcastable to all lanes), `mask` the
lanes concerned (True: all), `size` the bytes of each lane, `index` the instruction.

What counts as ordered, the kinds of findings and what is not seen: docs/simulator.md.
"""

from __future__ import annotations

from functools import cached_property
from math import prod

import numpy as np

from ptxsim.architectures import WARP
from ptxsim.checks.clocks import BlockClocks, ThreadClocks, names, team_of, threads_of_rank
from ptxsim.checks.global_races import GlobalRaces, History
from ptxsim.checks.in_clusters import ClusterChecks
from ptxsim.checks.phases import Phases
from ptxsim.checks.program import chosen_later, flags_of, mere_writes, needs_thread_clocks
from ptxsim.checks.races import BARRIER_BYTES, Races
from ptxsim.checks.tensor_memory import TensorChecks
from ptxsim.checks.warpgroups import Registers, Warpgroups
from ptxsim.memory.shared_memory import ELEMENT
from ptxsim.ptx import RESERVED, RESERVED_BYTES
from ptxsim.threads.barriers import BARRIERS
from ptxsim.threads.clusters import RANK_SHIFT

CHECKED_LANES = 1 << 14  # that are run together
# Where each thread has a clock: lanes, and bytes of what is kept for pairs of threads, and of
# threads and words of shared memory.
CLOCKED_LANES, CLOCKED_BYTES = 1 << 12, 1 << 26


def checked_lanes(launch) -> int:
    """How many lanes to run together when a launch is checked: at least those of one cluster."""
    if not needs_thread_clocks(launch):
        return CHECKED_LANES
    blocks = prod(launch.cluster)
    threads, shared_bytes = blocks * prod(launch.block), blocks * launch.shared_bytes
    bytes_per_team = 4 * threads * (threads + shared_bytes // 4)
    return max(threads, min(CLOCKED_LANES, CLOCKED_BYTES // bytes_per_team * threads))


class Checker:
    """Watches the accesses and barriers of a chunk."""

    def __init__(self, lanes):
        self.lanes, self.layout = lanes, lanes.layout
        self.kernel = lanes.launch.kernel
        self.team, self.alone = team_of(self.layout), self.layout.cluster_size == 1
        by_thread = needs_thread_clocks(lanes.launch)
        self.clocks = ThreadClocks(self.team) if by_thread else BlockClocks(self.team)
        self.races = Races(lanes, self.clocks, self.team)
        self.cluster = ClusterChecks(lanes, self.clocks, self.team)
        self._flag_reads, self._flag_writes = flags_of(self.kernel)
        self.phases = Phases(lanes, self)
        self.warpgroups = Warpgroups(lanes, self)
        self.tensor = TensorChecks(lanes, self)
        self._chosen_later, self._loaded = chosen_later(self.kernel), {}
        self.registers = Registers(lanes)
        self._unwritten_local = None  # for each byte of local memory, whether nobody wrote it
        self._expected = np.zeros((BARRIERS, self.layout.blocks), np.int64)  # counts of barriers
        self._arrived: dict[int, np.ndarray] = {}  # barrier -> lanes that passed bar.arrive
        self._last = np.zeros(self.layout.shape, np.int32)  # where each lane's last block begins

    @cached_property
    def global_races(self) -> GlobalRaces:
        memory = self.lanes.launch.memory
        memory.history = memory.history or History()
        return GlobalRaces(self.lanes, self.clocks, self.team)

    # --- accesses: called through lanes.note ------------------------------------------------------

    def access(self, index: int, space: str, operation: str, addresses, size: int, mask) -> None:
        """`size` bytes a lane, all inside their memory. `operation`: "load", "store", "atomic"."""
        if space == "shared" and RESERVED in self.kernel.shared:
            mask = self._without_reserved(addresses, mask)
        if index in self._chosen_later:
            self._loaded[index] = space, addresses, size
            return
        self._access(index, space, operation, addresses, size, mask)

    def _access(self, index: int, space: str, operation: str, addresses, size, mask) -> None:
        if space in ("shared", "cluster"):
            if index in self._flag_reads or index in self._flag_writes:
                self._access_flag(index, operation, addresses, size, mask)
            else:
                self.races.access(index, operation, addresses, size, mask)
            if space == "cluster":
                self.cluster.touched(index, addresses, mask)
        elif space == "local" and index not in self.kernel.slot_loads:
            self._access_local(index, operation, addresses, size, mask)
        elif space == "global":  # constant memory, the other one, is written as it is declared
            self._access_global(index, operation, addresses, size, mask)

    def _access_flag(self, index: int, operation, addresses, size, mask) -> None:
        """As `access`. Whoever writes a flag is not asked whether it knows of the last one."""
        flags = [(("flag", place), self._sorted(here))
                 for place, here in self._by_barrier(addresses, mask)]  # fmt: skip
        for key, lanes in flags:
            self.clocks.leave(key, *lanes)
            if operation == "atomic" and index in self._flag_reads:
                self.clocks.take_turns(*lanes)
        of_flag = {"store": "tell", "load": "look", "atomic": "atomic"}
        self.races.access(index, of_flag[operation], addresses, size, mask)
        for key, lanes in flags if index in self._flag_writes else ():
            self.clocks.release(key, *lanes)

    def _without_reserved(self, addresses, mask):
        """Less the lanes at the driver's own bytes: who comes there knows what all before knew."""
        first = self.kernel.shared[RESERVED].offset
        inside = (np.asarray(addresses) >= first) & (addresses < first + RESERVED_BYTES)
        here = self.layout.full(inside & mask)
        if here.any():
            self.clocks.release(RESERVED, *self._sorted(here))
            self.clocks.leave(RESERVED, *self._sorted(here))
        return mask & ~inside

    def chosen(self, index: int, mask) -> None:
        """The lanes of `mask` use what the load `index` gave all of them: see program.py."""
        if index in self._loaded:
            space, addresses, size = self._loaded.pop(index)
            self._access(index, space, "load", addresses, size, mask)

    # --- global and local memory ------------------------------------------------------------------

    def _access_global(self, index, operation, addresses, size, mask) -> None:
        self.global_races.access(index, operation, addresses, size, mask)
        if operation != "load":
            self.lanes.copies.bulk.look_for_maps(index, addresses, size, mask)
        everything = self.lanes.launch.memory
        if not everything.unwritten:
            return
        parts, _ = everything.locate(addresses, size, mask)
        for buffer, offsets, allowed in parts:
            unwritten = everything.unwritten.get(buffer.base)
            if unwritten is not None:
                place = buffer.name, 0, buffer.element_bytes
                self._follow(index, operation, unwritten, offsets, size, allowed, np.any, place)

    def _access_local(self, index, operation, addresses, size, mask) -> None:
        if self._unwritten_local is None:
            self._unwritten_local = np.ones(self.lanes.local.buffer.bytes, bool)
        parts, _ = self.lanes.local.locate(addresses, size, mask)
        for _, offsets, allowed in parts:
            # A wide copy may take along parts that are not used.
            place = "local memory", self.lanes.local.lane_offsets, min(size, ELEMENT)
            self._follow(
                index, operation, self._unwritten_local, offsets, size, allowed, np.all, place
            )

    def _follow(self, index, operation, unwritten, offsets, size, mask, how, place) -> None:
        """Note what is written, or find what is read and `unwritten` (bool for each byte)."""
        offsets, mask = map(self.layout.full, (offsets, mask))
        touched = offsets[mask][:, None] + np.arange(size)
        if operation == "store" or index in mere_writes(self.kernel):
            unwritten[touched] = False
            return
        wrong = unwritten[touched]
        lanes = np.zeros(self.layout.shape, bool)
        lanes[mask] = how(wrong, axis=1)
        if lanes.any():
            name, begin, width = place
            first = int(np.flatnonzero(lanes[mask])[0])
            byte = touched[first, wrong[first].argmax()]
            byte = byte - self.layout.of(begin, mask)[first]
            what = f"{name}[{int(byte) // width}] was never written"
            self.lanes.find("uninitialised read", index, what, lanes)

    # --- barriers of blocks and warps -------------------------------------------------------------

    def arrive(self, index: int, number, count, mask, waits: bool) -> None:
        """The lanes of `mask` come to barrier `number` of their block, and stay if it `waits`."""
        if count is None:
            return
        number, count, mask = map(self.layout.full, (number, count, mask))
        uneven = mask & (count % WARP != 0)
        if uneven.any():
            wrong = int(count[uneven][0])
            what = f"the barrier is for {wrong} threads, which is no multiple of {WARP}"
            self.lanes.find("wrong barrier count", index, what, uneven)
        block = self.layout.full(self.layout.block_number)
        for barrier, here in self.layout.by_value(number, mask):
            known = self._expected[barrier]
            most = self.layout.per_block(np.where(here, count, 0), np.max)
            known[:] = np.where(known == 0, most, known)
            differs = here & (count != known[block])
            if differs.any():
                threads, before = int(count[differs][0]), int(known[block[differs][0]])
                what = f"barrier {barrier} is for {threads} threads here and for {before} elsewhere"
                self.lanes.find("wrong barrier count", index, what, differs)
            if not waits:
                self._arrived[barrier] = here | self._arrived.get(barrier, False)
            self._by_rank(self.clocks.release, barrier, here)

    def open(self, opened) -> None:
        index = min(opened.places) - 1
        blocks, lanes = opened.blocks, self.layout.full(opened.lanes)
        arrived = self._arrived.get(opened.number)
        if arrived is None:
            self._look_for_absent(index, opened, lanes)
        else:
            here = self.layout.of_block(blocks)
            self._look_for_absent(index, opened, lanes | (arrived & here))
            self._arrived[opened.number] = arrived & ~here
        self._expected[opened.number, blocks] = 0
        if opened.whole_block and not self.alone:
            self._by_rank(self.clocks.release, opened.number, lanes)
        if not (opened.whole_block and self.alone):
            self._by_rank(self.clocks.leave, opened.number, lanes)
            blocks = blocks & (self.layout.per_block(lanes) == self.layout.threads)
        if self.alone and blocks.any():
            self.clocks.barrier(blocks)

    def _by_rank(self, tell, number: int, lanes) -> None:
        """Release or leave barrier `number`: each block of a cluster has its own."""
        rank = self.layout.special["cluster_ctarank"]
        for each in range(self.layout.cluster_size):
            tell(("barrier", number, each), *self._sorted(lanes & (rank == each)))

    def warp_barrier(self, members, lanes) -> None:
        """Lanes meet that wait for others of their warp. `members`: uint32, whom each one names."""
        rows, there = self.layout.to_warps(members), self.layout.active(lanes)
        some = there.any(axis=1)
        there = there[some]
        bits = (rows[some][:, :, None] >> np.arange(WARP, dtype=np.uint32)) & 1 == 1
        named = bits & there[:, :, None] & there[:, None, :]
        block, warp = np.divmod(np.flatnonzero(some), self.layout.warps_per_block)
        thread = warp[:, None] * WARP + np.arange(WARP)
        if not self.alone:
            rank = self.layout.per_block(self.layout.special["cluster_ctarank"], np.max)[block]
            thread = thread + rank[:, None] * threads_of_rank(self.layout)
            block = self.layout.per_block(self.layout.cluster_number, np.max)[block]
        self.clocks.meet(block, np.where(there, thread, -1), named)

    def matched(self, members, mask) -> None:
        """Lanes have compared values: CUDA's library then lets one of them count for all."""
        if self._flag_reads:
            self.warp_barrier(np.asarray(members).view(np.uint32), mask)

    def _look_for_absent(self, index, opened, lanes) -> None:
        # Nobody waits for those that have returned: since Volta, that is what CUDA promises. But
        # who has gone round the barrier before should have come to it.
        instruction = self.kernel.instructions[index]
        if lanes.all() or not (instruction.name == "bar" or "aligned" in instruction.parts):
            return
        warps = self.layout.to_warps(lanes).any(axis=1, keepdims=True)
        expected = self.layout.from_warps(np.broadcast_to(warps, (len(warps), WARP)))
        if opened.whole_block:
            expected = self.layout.of_block(opened.blocks)
        alive = self.layout.full(self.lanes.alive)
        absent = expected & ~lanes
        gone = absent & ~alive
        if gone.any():
            last = np.unique(self._last[gone])
            behind = [block for block in last if not self._leads(block, index)]
            gone &= np.isin(self._last, behind)
        what = "went another way and returned, and never comes to this barrier, where others wait"
        self.lanes.find("missed barrier", index, what, gone)
        if (absent & alive).any():
            what = "does not come to this barrier, where others of its warp wait"
            self.lanes.find("divergent barrier", index, what, absent & alive)

    def executes(self, start: int, mask) -> None:
        block = self.kernel.blocks[start]
        if block.end - start > 1 or block.successors:  # more than a return
            np.copyto(self._last, start, where=mask)

    def _leads(self, start: int, index: int) -> bool:
        blocks = self.kernel.blocks
        seen, new = set(), list(blocks[int(start)].successors)
        while new:
            block = new.pop()
            if block in blocks and block not in seen:
                if block <= index < blocks[block].end:
                    return True
                seen.add(block)
                new += blocks[block].successors
        return False

    # --- asynchronous copies ----------------------------------------------------------------------

    def copy_started(self, index: int, addresses, size: int, mask) -> None:
        """Until `copy_landed` is told of the same bytes, who uses them makes a mistake."""
        if np.any(mask):
            self.races.copy_started(index, addresses, size, mask)
            if not self.alone:
                self.cluster.touched(index, addresses, mask, copies=True)

    def copy_landed(self, index: int, addresses, size: int, mask, barrier=None) -> None:
        """Who sees the phase of `barrier` complete knows the copy; None: the lanes waited."""
        if np.any(mask):
            if barrier is not None:
                barrier = names(self.layout, barrier)
            self.races.copy_landed(index, addresses, size, mask, barrier)
            if not self.alone and barrier is not None:
                self.cluster.landed(index, addresses, barrier, mask)

    def copy_counts(self, barrier, mask) -> None:
        """The lanes start copies whose bytes the phase of `barrier` waits for."""
        for name, here in self._by_barrier(barrier, mask):
            self.phases.copies(name, here)

    def reduced(self, barrier, mask) -> None:
        """Reductions are done: who sees the mbarrier's phase complete knows what the lanes know."""
        for name, here in self._by_barrier(barrier, mask):
            self.clocks.release(name, *self._sorted(here))

    # --- mbarriers: `barrier` is the byte address of each lane's mbarrier -------------------------

    def mbarrier_arrive(self, index: int, barrier, mask) -> None:
        """The lanes arrive (arrive, arrive_drop, arrive.expect_tx): what they did before is known
        to those who see the phase complete. Call it before the phase is completed."""
        self.mbarrier_look(index, barrier, mask)
        if not self.alone:
            self.cluster.touched(index, barrier, mask)
        for name, here in self._by_barrier(barrier, mask):
            lanes = self._sorted(here)
            self.phases.arrived(name, *lanes)
            self.clocks.release(name, *lanes)

    def mbarrier_look(self, index: int, barrier, mask) -> None:
        """The lanes look at an mbarrier without effect: test_wait and try_wait, also expect_tx."""
        self.access(index, "shared", "atomic", barrier, BARRIER_BYTES, mask)

    def phase_completed(self, barrier: int, blocks) -> None:
        """The mbarrier at byte `barrier` completes a phase in `blocks`, a (blocks,) bool array."""
        for name, teams in self._by_name(barrier, blocks):
            self.phases.completed(name, teams)
            self.clocks.complete(name, teams)

    def mbarrier_initialised(self, barrier: int, blocks) -> None:
        for name, teams in self._by_name(barrier, blocks):
            self.phases.initialised(name, teams)

    def mbarrier_acquire(self, index: int, barrier, mask, by_parity=True) -> None:
        """The lanes have seen the last completed phase: a try_wait or test_wait gave true."""
        for name, here in self._by_barrier(barrier, mask):
            lanes = self._sorted(here)
            self.phases.waited(index, name, *lanes, by_parity)
            self.clocks.acquire(name, *lanes)

    # --- clusters ---------------------------------------------------------------------------------

    def cluster_arrive(self, mask, releases: bool) -> None:
        """The lanes arrive at the cluster's barrier; unless it `releases`, nothing is told."""
        if releases:
            self.clocks.release("cluster", *self._sorted(mask))
        else:
            self.phases.precede("cluster", mask)

    def cluster_opened(self, clusters) -> None:
        """All have arrived, in some of the clusters: a (clusters,) mask."""
        self.clocks.complete("cluster", clusters)
        self.races.forget_inits(self.cluster.take_fenced(clusters))

    def cluster_wait(self, mask) -> None:
        self.clocks.acquire("cluster", *self._sorted(mask))
        self.cluster.met(mask)

    def finish(self) -> None:
        self.cluster.look_for_left()
        self.registers.look_at_the_sum()
        self.tensor.finish()

    def _by_name(self, barrier: int, blocks):
        """[(name, teams)] of the mbarriers at byte `barrier` of `blocks`: see clocks.names."""
        of_team = blocks[self.layout.block_of]
        for rank in np.flatnonzero(of_team.any(axis=0)).tolist():
            yield rank << RANK_SHIFT | int(barrier), of_team[:, rank]

    def _by_barrier(self, barrier, mask):
        return self.layout.by_value(names(self.layout, barrier), mask)

    def _sorted(self, mask):
        block = self.layout.of(self.team.block_number, mask)
        thread = self.layout.of(self.team.thread_number, mask)
        order = np.argsort(block, kind="stable")
        return block[order], thread[order]
