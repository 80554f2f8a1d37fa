"""clusterlaunchcontrol: a cluster takes the work of one that has not begun, and then never does.

As many blocks begin as the GPU has SMs. Of the other clusters each of these may take its share, the
next in order at a time; what nobody takes begins when the first have ended. The 16 bytes of an
answer are an encoding of the simulator's own: the indices of the first block, and 1 for success.
"""

from __future__ import annotations

from collections import Counter, deque
from itertools import product
from math import prod

import numpy as np

from ptxsim.async_copy.bulk import BulkCopy, begins
from ptxsim.async_copy.tensor_map import MOVED

ANSWER_BYTES = 16


class Pending:
    """The clusters of a launch; those behind the first `room` blocks can be taken."""

    def __init__(self, grid, cluster, room: int):
        clusters = [range(0, n, along) for n, along in zip(grid, cluster, strict=True)]
        firsts = [(x, y, z) for z, y, x in product(*reversed(clusters))]
        begun = max(1, room // prod(cluster))
        self.size, self.number = cluster, len(firsts)
        self._begin, self._waiting = firsts[:begun], deque(firsts[begun:])
        self._share = -(-len(self._waiting) // begun)
        self._taken: Counter = Counter()

    def ranges(self):
        """Boxes of one cluster each, as they begin."""
        yield from map(self._box, self._begin)
        while self._waiting:
            yield self._box(self._waiting.popleft())

    def take(self, taker) -> tuple[int, int, int] | None:
        """The first block of a cluster that will not begin, or None."""
        if self._taken[taker] >= self._share or not self._waiting:
            return None
        self._taken[taker] += 1
        return self._waiting.popleft()

    def _box(self, first):
        return tuple((i, i + n) for i, n in zip(first, self.size, strict=True))


def try_cancel(lanes, index: int, address, mbarrier, to_all: bool, mask) -> None:
    """The answer comes as a copy does; `to_all`: to the same place in each block of the cluster."""
    address, mbarrier = np.asarray(address), np.asarray(mbarrier)
    pending = lanes.launch.pending
    mask = lanes.layout.full(mask)
    values = np.zeros((*lanes.shape, 4), np.int32)
    for place in np.argwhere(mask):
        if pending and (first := pending.take(lanes.ranges)) is not None:
            values[tuple(place)] = (*first, 1)
    wrong = (address % ANSWER_BYTES != 0) & mask
    lanes.find("misaligned write", index, f"the answer needs {ANSWER_BYTES} bytes, aligned", wrong)
    mask = mask & ~wrong
    ranks = np.int32((1 << lanes.layout.cluster_size) - 1) if to_all else None
    for to, notified, here in lanes.copies.bulk.to_ranks(index, address, mbarrier, ranks, mask):
        here = lanes.layout.full(here)
        given = values[here].view(MOVED)
        copy = BulkCopy(
            index, ANSWER_BYTES, to, notified, here, begins(lanes, to, here)[:, None],
            given, ANSWER_BYTES,
        )  # fmt: skip
        lanes.copies.bulk.start(copy, (lanes.layout.block_number,))


def is_canceled(high):
    """Whether an answer, of which `high` is the upper half, says that a cluster was taken."""
    return (np.asarray(high) >> np.int64(32)) == 1


def first_block(low, high, axis: int):
    """The index of its first block along an axis."""
    half = np.asarray(low if axis < 2 else high)
    return (half >> np.int64(32 * (axis % 2))).astype(np.int32)
