"""Warpgroups: four warps of a block, one after the other, that execute wgmma together."""

from __future__ import annotations

import numpy as np

from gemmlab.cuda.architectures import WARP
from gemmlab.simulator.threads.layout import Layout

WARPS = 4
THREADS = WARPS * WARP


def count(layout: Layout) -> int:
    """Whole warpgroups of all blocks; the warps that are left over belong to none."""
    return layout.blocks * (layout.threads // THREADS)


def to_groups(layout: Layout, value) -> np.ndarray:
    """(groups, 128): a value of every lane, a row for each warpgroup."""
    rows = layout.to_warps(value)
    if layout.threads % THREADS:
        rows = rows.reshape(layout.blocks, layout.warps_per_block, WARP)
        rows = rows[:, : layout.threads // THREADS * WARPS]
    return rows.reshape(-1, THREADS)


def from_groups(layout: Layout, rows) -> np.ndarray:
    """The reverse of `to_groups`: an array of the layout's shape, 0 in warps of no group."""
    if layout.threads % THREADS:
        own = rows.reshape(layout.blocks, -1)
        rows = np.zeros((layout.blocks, layout.warps_per_block * WARP), rows.dtype)
        rows[:, : own.shape[1]] = own
    return layout.from_warps(rows)


def lanes_of(layout: Layout, groups) -> np.ndarray:
    """The mask of the lanes of some groups, a bool (groups,)."""
    return from_groups(layout, np.repeat(groups, THREADS).reshape(-1, THREADS))
