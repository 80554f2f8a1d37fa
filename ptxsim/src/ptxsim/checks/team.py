"""Whose threads the checks tell apart: those of a block, or of all blocks of a cluster together.

Threads of different blocks meet only in clusters. There the checks take a cluster for one large
block: its threads are numbered through, by the rank of their block, and so are the bytes of its
shared memory. Without clusters a Layout is a team itself.
"""

from __future__ import annotations

import numpy as np

from ptxsim.threads import clusters
from ptxsim.threads.layout import Layout

GROUP = 128  # threads of a warpgroup


class Team:
    """The attributes of a Layout that the checks ask for, with a cluster in place of a block."""

    def __init__(self, layout: Layout):
        self.layout, self.shape, self.block = layout, layout.shape, layout.block
        own = threads_of_rank(layout)
        self.blocks, self.threads = layout.clusters, own * layout.cluster_size
        self.block_number = layout.cluster_number
        rank = layout.special["cluster_ctarank"]
        self.thread_number = (layout.thread_number + rank * np.int32(own)).astype(np.int32)


def threads_of_rank(layout: Layout) -> int:
    """How many numbers a block has in a team; in a cluster whole warpgroups, used or not."""
    return layout.threads if layout.cluster_size == 1 else -(-layout.threads // GROUP) * GROUP


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
