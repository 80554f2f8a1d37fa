"""The shared memory of all blocks of a cluster, at the addresses that `mapa` makes.

See threads/clusters.py for these.
"""

from __future__ import annotations

import numpy as np

from ptxsim.memory.global_memory import BadAccess
from ptxsim.memory.shared_memory import SharedMemory
from ptxsim.threads import clusters


class ClusterMemory:
    """Looks at each lane's address for the block that it leads to. Used as SharedMemory is."""

    def __init__(self, layout, shared: SharedMemory):
        self.layout, self.shared = layout, shared

    def take(self, addresses, dtype, count: int, mask):
        """Raises IndexError: the addresses have to be located one by one."""
        raise IndexError("several blocks")

    def locate(self, addresses, size: int, mask):
        """As GlobalMemory.locate."""
        block, inside = clusters.owners(self.layout, addresses)
        bad = []
        if not inside.all() and (lanes := ~inside & mask).any():
            what = f"the cluster has {self.layout.cluster_size} blocks"
            bad.append(BadAccess("out-of-bounds", what, lanes))
            mask = inside & mask
        place = clusters.place_of(addresses)
        allowed, wrong = self.shared.own.check(place, size, mask)
        return [(self.shared.buffer, place + block * self.shared.stride, allowed)], bad + wrong

    def stored(self, addresses, size: int, *given) -> None:
        """Blocks that got something from others are no longer alike."""
        place = clusters.place_of(np.asarray(addresses))
        self.shared.stored(place, size, self.layout.block_number)
