"""Legal accesses of a thread to the memory of another block of its cluster, and when.

The other block must have begun, which the cluster's barrier tells, or any other way in which a
thread of it has told of itself. And it must not be gone: a thread of it has to know of the access
before it returns, by the cluster's barrier or an mbarrier. Whether it was in fact there, in the
order in which the simulator happened to run the threads, plays no part. Of a copy into its memory
it is enough that a thread of it has seen the mbarrier that tells of the copy.
"""

from __future__ import annotations

import numpy as np

from ptxsim.checks.clocks import KNOWN_TO_ALL, threads_of_rank
from ptxsim.threads import clusters


class ClusterChecks:
    def __init__(self, lanes, clocks, team):
        self.lanes, self.layout, self.clocks, self.team = lanes, lanes.layout, clocks, team
        self._met = np.zeros(self.layout.shape, bool)  # lanes that have waited for the barrier
        # (clusters, size, threads): when a thread last reached into the block of a rank.
        self._last = None
        # (cluster, rank of the block, mbarrier): the last copy there of which it tells, and when.
        self._copied: dict[tuple[int, int, int], tuple[int, int]] = {}
        self._fenced: list[tuple[int, np.ndarray]] = []  # mbarriers: their places, and the blocks

    def touched(self, index: int, addresses, mask, copies: bool = False) -> None:
        """The lanes of `mask` reach for `addresses`, or start `copies` there that land later."""
        layout = self.layout
        ranks, far = self._far(addresses, mask)
        if not far.any():
            return
        if self._last is None:
            shape = (layout.clusters, layout.cluster_size, self.team.threads)
            self._last = np.zeros(shape, np.int32)
        team = layout.of(self.team.block_number, far)
        thread = layout.of(self.team.thread_number, far)
        rank = ranks[far]
        unmet = ~self._met[far]
        if unmet.any():
            known = self.clocks.known[team, thread, : self.team.threads]
            known = known.reshape(len(known), layout.cluster_size, -1).max(axis=2)
            unmet &= known[np.arange(len(known)), rank] <= KNOWN_TO_ALL
        if unmet.any():
            wrong = np.zeros(layout.shape, bool)
            wrong[far] = unmet
            what = f"the block of rank {int(rank[unmet][0])} may not have begun yet"
            self.lanes.find("access to a block that may not run", index, what, wrong)
        time = self.clocks.tick(index)
        if not copies:
            self._last[team, rank, thread] = time

    def landed(self, index: int, addresses, barrier, mask) -> None:
        """Copies that the lanes of `mask` started are there; `barrier`, a name, tells of them."""
        ranks, far = self._far(addresses, mask)
        if not far.any():
            return
        teams, names = (self.layout.of(v, far) for v in (self.team.block_number, barrier))
        time = self.clocks.tick(index)
        for key in set(zip(teams.tolist(), ranks[far].tolist(), names.tolist(), strict=True)):
            self._copied[key] = time, index

    def _far(self, addresses, mask):
        """The rank of the block of each address, and which lanes of `mask` reach for another's."""
        layout = self.layout
        addresses, mask = map(layout.full, (addresses, mask))
        ranks = clusters.ranks_of(layout, addresses)
        rank = layout.special["cluster_ctarank"]
        return ranks, mask & (ranks != rank) & (ranks < layout.cluster_size)

    def met(self, mask) -> None:
        self._met = self._met | mask

    def fenced(self, place: int, blocks) -> None:
        """fence.mbarrier_init was executed for the mbarriers at `place` of some blocks."""
        self._fenced.append((place, blocks))

    def take_fenced(self, opened) -> list[tuple[int, np.ndarray]]:
        """[(place, blocks)] of those whose cluster's barrier has `opened`, a (clusters,) mask."""
        fenced, left = [], []
        of_cluster = np.zeros(self.layout.blocks, np.int64)
        of_cluster[self.layout.block_of] = np.arange(self.layout.clusters)[:, None]
        for place, blocks in self._fenced:
            fenced.append((place, blocks & opened[of_cluster]))
            if (rest := blocks & ~opened[of_cluster]).any():
                left.append((place, rest))
        self._fenced = left
        return fenced

    def look_for_left(self) -> None:
        """All threads have returned: find blocks that did not know of others' accesses."""
        per_rank = threads_of_rank(self.layout)
        for (team, rank, barrier), (time, index) in self._copied.items():
            of_rank = slice(rank * per_rank, (rank + 1) * per_rank)
            if self.clocks.known[team, of_rank, self.clocks.column(barrier)].max() < time:
                self._find_left(index, rank, self.team.block_number == team)
        if self._last is None:
            return
        threads = self.team.threads
        for team, rank in np.argwhere(self._last.any(axis=2)).tolist():
            of_rank = slice(rank * per_rank, (rank + 1) * per_rank)
            known = self.clocks.known[team, of_rank, :threads].max(axis=0)
            unknown = self._last[team, rank] > known
            if not unknown.any():
                continue
            first = int(unknown.argmax())
            index = self.clocks.instruction(int(self._last[team, rank, first]))
            did = np.isin(self.team.thread_number, np.flatnonzero(unknown))
            self._find_left(index, rank, (self.team.block_number == team) & did)

    def _find_left(self, index: int, rank: int, wrong) -> None:
        what = (
            f"the block of rank {rank} may have returned: none of its threads waits until this "
            "is done"
        )
        self.lanes.find("access to a block that has left", index, what, wrong)
