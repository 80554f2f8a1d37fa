"""Clusters of blocks: the addresses of their shared memory, and the barrier that they share.

A block's own shared memory begins at address 0. `mapa` makes an address in the block of a rank: it
has the rank, counted from 1, in the bits from RANK_SHIFT on. So an address below 1 << RANK_SHIFT is
one of the own block, and any other is *far*, even where the rank is the own one. (On an NVIDIA H200
the bits from 24 on are the rank itself, in addresses of the own block too.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxsim.threads.barriers import parted

RANK_SHIFT = 24
PLACE = (1 << RANK_SHIFT) - 1  # the bits of an address that are the place in a block's memory
RANKS = 0xFF  # those of the rank, once they are shifted down


def place_of(addresses):
    """The place in the shared memory of the block that an address leads to."""
    return addresses & addresses.dtype.type(PLACE)


def are_far(addresses) -> bool:
    return bool((np.asarray(addresses) >> RANK_SHIFT).any())


def ranks_of(layout, addresses):
    """The rank of the block that each address (in shared memory) leads to."""
    named = (np.asarray(addresses) >> RANK_SHIFT) & RANKS
    return np.where(named == 0, layout.special["cluster_ctarank"], named - 1).astype(np.int32)


def owners(layout, addresses):
    """(the number of the block that each address leads to, whether there is one)."""
    ranks = ranks_of(layout, addresses)
    inside = ranks < layout.cluster_size
    return layout.block_of[layout.cluster_number, np.where(inside, ranks, 0)], inside


def of_even_block(layout, addresses, kept):
    """addresses & kept, where `kept` clears the lowest bit of the rank: the same place in the even
    block of the pair."""
    rank, even = layout.special["cluster_ctarank"], ranks_of(layout, addresses) & ~1
    named = np.where(even == rank, 0, even + 1).astype(addresses.dtype)
    return (addresses & kept & addresses.dtype.type(PLACE)) | (named << RANK_SHIFT)


def in_block(layout, address, rank):
    """mapa: the place of `address` in the shared memory of the block of `rank`.

    A rank that the cluster does not have is no mistake yet, but an access to such an address is:
    kernels of CuTe DSL map addresses in all lanes of a warp, and use those of some.
    """
    kind = address.dtype.type
    kept = kind(PLACE) if address.dtype.itemsize == 4 else kind(~(RANKS << RANK_SHIFT))
    named = np.where((rank < 0) | (rank >= RANKS), RANKS, rank + 1)
    if layout.cluster_size == 1:  # whose own block has no rank in its addresses
        named = np.where(rank == 0, 0, named)
    return (address & kept) | (named.astype(kind) << kind(RANK_SHIFT))


@dataclass(eq=False)
class Waiting:
    place: int
    mask: np.ndarray


class ClusterBarrier:
    """The barrier of each cluster; it opens when all living lanes have arrived."""

    def __init__(self, lanes):
        self.lanes, self.layout = lanes, lanes.layout
        self.waiting: list[Waiting] = []
        # Lanes that have arrived and not been let go; and those that may pass when they wait.
        self._arrived = np.zeros(self.layout.shape, bool)
        self._let_go = np.zeros(self.layout.shape, bool)
        self._relaxed = np.zeros(self.layout.clusters, bool)  # where a lane arrived without release

    def arrive(self, index: int, releases: bool, mask) -> None:
        """`releases`: whether others are to see what the lanes wrote (not `.relaxed`)."""
        mask = self.layout.full(mask)
        again = mask & (self._arrived | self._let_go)
        what = "arrives a second time at the barrier of the cluster, and has not waited between"
        self.lanes.find("wrong cluster barrier", index, what, again)
        self._arrived = self._arrived | mask
        if not releases:
            self._relaxed[self.layout.of(self.layout.cluster_number, mask)] = True
        if self.lanes.checker:
            self.lanes.checker.cluster_arrive(mask, releases)

    def wait(self, index: int, mask) -> None:
        """The lanes of `mask` wait, and go on behind instruction `index`."""
        mask = self.layout.full(mask)
        never = mask & ~(self._arrived | self._let_go)
        if never.any():
            what = "waits at the barrier of the cluster, and has not arrived there"
            self.lanes.find("wrong cluster barrier", index, what, never)
            self._arrived = self._arrived | never
        self.waiting.append(Waiting(index + 1, mask))

    def open(self, alive) -> dict[int, np.ndarray]:
        """{place: lanes that go on}. `alive`: a mask."""
        if not self.waiting:
            return {}
        missing = self.layout.of(self.layout.cluster_number, alive & ~self._arrived)
        complete = np.bincount(missing, minlength=self.layout.clusters) == 0
        if complete.any():
            opened = self._arrived & complete[self.layout.cluster_number]
            if opened.any():
                self._let_go, self._arrived = self._let_go | opened, self._arrived & ~opened
                met = np.zeros(self.layout.blocks, bool)
                met[self.layout.block_of[complete & ~self._relaxed]] = True
                self.lanes.copies.mbarriers.met(met)
                self._relaxed = self._relaxed & ~complete
                if self.lanes.checker:
                    self.lanes.checker.cluster_opened(complete)
        places, self.waiting = parted(self.waiting, self._let_go)
        for mask in places.values():
            self._let_go = self._let_go & ~mask
            if self.lanes.checker:
                self.lanes.checker.cluster_wait(mask)
        return places
