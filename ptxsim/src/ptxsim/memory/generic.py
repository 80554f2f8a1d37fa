"""Generic addresses: one number that says by its size which memory it leads to.

The hardware maps shared and local memory to windows of the address space; what is in no window is
global. An address in a window, less the window's start, is an address of that memory.
"""

from __future__ import annotations

import numpy as np

from ptxsim.threads import clusters

WINDOW_BYTES = 1 << 32
WINDOWS = {"shared": 0x7E00_0000_0000, "local": 0x7D00_0000_0000}


def window(space: str) -> np.int64:
    """What a generic address of this space has more than an address in the space."""
    return np.int64(WINDOWS.get(space, 0))


def is_in_own_block(lanes, addresses):
    """Which generic addresses (int64) lead to the shared memory of the lane's own block."""
    own = clusters.ranks_of(lanes.layout, addresses) == lanes.special["cluster_ctarank"]
    return is_in(addresses, "shared") & own


def is_in(addresses, space: str):
    """Which generic addresses (int64) lead to the space."""
    if space in WINDOWS:
        return _window_number(addresses) == _window_number(window(space))
    inside = [is_in(addresses, other) for other in WINDOWS]
    return ~np.logical_or.reduce(inside)


def _window_number(addresses):
    return addresses // np.int64(WINDOW_BYTES)


def split(lanes, addresses, mask):
    """[(space, addresses in it, lanes of `mask` whose address leads to it)]."""
    addresses = np.asarray(addresses)
    found = []
    for space in ("global", *WINDOWS):
        inside = is_in(addresses, space)
        own = addresses - window(space)
        if space == "shared":  # whose addresses have 32 bits
            own = own.astype(np.int32)
        if inside.all():
            return _by_block(lanes, space, own, mask)
        active = inside & mask
        if active.any():
            found += _by_block(lanes, space, own, active)
    return found


def _by_block(lanes, space: str, addresses, mask):
    """One part of `split`; shared memory that may be another block's is `lanes.far`."""
    if space == "shared" and clusters.are_far(np.where(mask, addresses, 0)):
        return [(lanes.far, addresses.astype(np.int32), mask)]
    return [(space, addresses, mask)]
