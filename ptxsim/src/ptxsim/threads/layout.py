"""The position of each lane: axes, special registers, warps.

The lanes of some blocks are laid out over the axes (block z, thread z, block y, thread y, block x,
thread x), without those of length 1. So blockIdx.y * blockDim.y + threadIdx.y runs along two
neighbouring axes, and a value that does not depend on x has length 1 there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ptxsim.architectures import WARP

AXES = ("block z", "thread z", "block y", "thread y", "block x", "thread x")
DIMENSIONS = "xyz"

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class DistinctWarps:
    """Warps of some blocks, equal ones taken together."""

    row: np.ndarray  # (n,) which row of addresses
    active: np.ndarray  # (n, 32) lanes
    times: np.ndarray  # (n,) how many warps
    of_warp: np.ndarray  # for each warp which of the n it is; -1 where no lane is active


class Layout:
    """The lanes of a box of blocks.

    `shape`: lengths along `axes`. `special`: the registers that the hardware fills, by name.
    `block_number`: for every lane, which of the `blocks` it belongs to; `thread_number`: which of
    the `threads` of its block it is. Both broadcast to `shape`.
    """

    def __init__(self, ranges, block: Triple, grid: Triple, cluster: Triple = (1, 1, 1)):
        """`ranges`: ((x0, x1), (y0, y1), (z0, z1)), the blocks, in whole clusters."""
        self.ranges, self.block = ranges, block
        lengths = {}
        for dimension, (first, last), threads in zip(DIMENSIONS, ranges, block, strict=True):
            lengths[f"block {dimension}"] = last - first
            lengths[f"thread {dimension}"] = threads
        self.axes = [axis for axis in AXES if lengths[axis] > 1 or axis == "thread x"]
        self.shape = tuple(lengths[axis] for axis in self.axes)
        self.blocks = int(np.prod([last - first for first, last in ranges]))
        self.threads = int(np.prod(block))
        self.warps_per_block = -(-self.threads // WARP)

        def along(axis: str, first: int = 0):
            if axis not in self.axes:
                return np.int32(first)
            shape = [-1 if other == axis else 1 for other in self.axes]
            return np.arange(first, first + lengths[axis], dtype=np.int32).reshape(shape)

        self.block_number = along("block x") + lengths["block x"] * (
            along("block y") + lengths["block y"] * along("block z")
        ).astype(np.int64)
        thread = along("thread x") + block[0] * (along("thread y") + block[1] * along("thread z"))
        self.thread_number = thread.astype(np.int32)
        self.special = {
            "laneid": self.thread_number & np.int32(WARP - 1),
            "warpid": self.thread_number // np.int32(WARP),
            "nwarpid": np.int32(self.warps_per_block),
        }
        lane = self.special["laneid"].astype(np.uint32)
        bit, below = np.uint32(1) << lane, (np.uint32(1) << lane) - np.uint32(1)
        masks = {"eq": bit, "lt": below, "le": bit | below, "gt": ~(bit | below), "ge": ~below}
        self.special |= {f"lanemask_{name}": mask.view(np.int32) for name, mask in masks.items()}
        for i, d in enumerate(DIMENSIONS):
            self.special[f"tid.{d}"] = along(f"thread {d}")
            self.special[f"ctaid.{d}"] = along(f"block {d}", ranges[i][0])
            self.special[f"ntid.{d}"] = np.int32(block[i])
            self.special[f"nctaid.{d}"] = np.int32(grid[i])
            number, rank = np.divmod(self.special[f"ctaid.{d}"], np.int32(cluster[i]))
            self.special[f"clusterid.{d}"] = number
            self.special[f"nclusterid.{d}"] = np.int32(grid[i] // cluster[i])
            self.special[f"cluster_ctaid.{d}"] = rank
            self.special[f"cluster_nctaid.{d}"] = np.int32(cluster[i])
        self._number_clusters(cluster)

        # Warps are rows of 32 threads in the order (z, y, x) inside a block: for counting, arrays
        # are turned to (blocks…, threads…).
        self.warp_order = [
            self.axes.index(f"{kind} {d}")
            for kind in ("block", "thread")
            for d in "zyx"
            if f"{kind} {d}" in self.axes
        ]
        self.block_axes = sum(axis.startswith("block") for axis in self.axes)
        self.thread_axes = tuple(i for i, axis in enumerate(self.axes) if axis.startswith("thread"))
        self._warps: dict = {}  # shape of addresses -> (mask, DistinctWarps)

    # --- clusters ---------------------------------------------------------------------------------

    def _number_clusters(self, cluster: Triple) -> None:
        """`cluster_number`: of every lane; `block_of`: (clusters, blocks of each)."""
        self.cluster_size = int(np.prod(cluster))
        self.clusters = self.blocks // self.cluster_size
        rank, number = np.int32(0), np.int64(0)
        for i in (2, 1, 0):
            first, last = self.ranges[i]
            d, size = DIMENSIONS[i], np.int32(cluster[i])
            rank = rank * size + self.special[f"cluster_ctaid.{d}"]
            here = self.special[f"clusterid.{d}"] - np.int32(first) // size
            number = number * ((last - first) // cluster[i]) + here
        self.special |= {
            "cluster_ctarank": rank,
            "cluster_nctarank": np.int32(self.cluster_size),
            "is_explicit_cluster": np.bool_(self.cluster_size > 1),
        }
        self.cluster_number = number
        self.block_of = np.arange(self.blocks).reshape(self.clusters, self.cluster_size)
        if self.cluster_size > 1:
            shape = np.broadcast_shapes(np.shape(number), np.shape(rank), self.block_number.shape)
            where = (np.broadcast_to(v, shape) for v in (number, rank))
            self.block_of[tuple(where)] = np.broadcast_to(self.block_number, shape)

    # --- lanes, warps and blocks ------------------------------------------------------------------

    def full(self, value) -> np.ndarray:
        """A value of every lane, of `shape`."""
        return np.broadcast_to(value, self.shape)

    def of(self, values, mask) -> np.ndarray:
        """(n,): the values of the lanes in `mask`."""
        return self.full(values)[self.full(mask)]

    def by_value(self, values, mask) -> list[tuple[int, np.ndarray]]:
        """[(value, lanes)], for each integer that the lanes of `mask` have."""
        values, mask = self.full(values), self.full(mask)
        return [(each, mask & (values == each)) for each in np.unique(values[mask]).tolist()]

    def mask_of(self, numbers) -> np.ndarray:
        """The mask of the lanes of these numbers, counted over `shape`."""
        mask = np.zeros(self.shape, bool)
        mask.reshape(-1)[numbers] = True
        return mask

    @cached_property
    def _exists(self) -> np.ndarray:
        """(warps, 32): whether there is a thread; the last warp of a block may be a part of one."""
        lane = np.arange(self.blocks * self.warps_per_block * WARP).reshape(-1, WARP)
        return lane % (self.warps_per_block * WARP) < self.threads

    def active(self, mask) -> np.ndarray:
        """(warps, 32): the lanes of `mask`, without those that are no threads."""
        return self.to_warps(mask) & self._exists

    def to_warps(self, value) -> np.ndarray:
        """(warps, 32): a value of every lane, a row for each warp; lanes that are none repeat 0."""
        return self.rows(np.broadcast_to(value, self.shape))

    def from_warps(self, rows) -> np.ndarray:
        """The reverse of `to_warps`: an array of `shape`."""
        turned = tuple(self.shape[axis] for axis in self.warp_order)
        flat = np.asarray(rows).reshape(self.blocks, self.warps_per_block * WARP)
        return flat[:, : self.threads].reshape(turned).transpose(np.argsort(self.warp_order))

    def per_block(self, values, reduce=np.sum) -> np.ndarray:
        """(blocks,): the values of each block's lanes, put together; of a mask, how many."""
        if values is True and reduce is np.sum:
            return np.full(self.blocks, self.threads)
        values = np.broadcast_to(values, self.shape)
        reduced = reduce(values, axis=self.thread_axes, keepdims=True)
        return reduced.transpose(self.warp_order).reshape(self.blocks)

    def of_block(self, values) -> np.ndarray:
        """A value (blocks,) of each block, for every lane."""
        return np.asarray(values)[self.block_number]

    def warps_of(self, block: Triple) -> slice:
        """Which of all warps are those of the block with these indices in the grid."""
        number = 0
        for index, (first, last) in reversed(list(zip(block, self.ranges, strict=True))):
            number = number * (last - first) + index - first
        return slice(number * self.warps_per_block, (number + 1) * self.warps_per_block)

    def first(self, lanes) -> tuple[Triple, Triple]:
        """The indices of block and thread of the first lane in the mask `lanes`."""
        lanes = np.broadcast_to(lanes, self.shape)
        first = dict(zip(self.axes, np.argwhere(lanes)[0], strict=True))
        block, thread = (
            [int(first.get(f"{kind} {d}", 0)) for d in DIMENSIONS] for kind in ("block", "thread")
        )
        x, y, z = (i + low for i, (low, _) in zip(block, self.ranges, strict=True))
        return (x, y, z), (thread[0], thread[1], thread[2])

    # --- equal warps taken together ---------------------------------------------------------------

    def rows(self, values) -> np.ndarray:
        """The values as rows of one warp each; warps that share their values share a row."""
        shape = self._row_shape(values.shape)
        spread = np.broadcast_to(values, shape).transpose(self.warp_order)
        threads = spread.shape[self.block_axes :]
        flat = spread.reshape(-1, int(np.prod(threads)))
        if missing := -flat.shape[1] % WARP:
            flat = np.pad(flat, ((0, 0), (0, missing)))
        return flat.reshape(-1, WARP)

    def distinct_warps(self, mask, shape) -> DistinctWarps:
        """The warps that differ in their row or active lanes. Kept for the last mask."""
        last, warps = self._warps.get(shape, (None, None))
        if last is not mask:
            warps = self._find_distinct_warps(mask, shape)
            self._warps[shape] = mask, warps
        return warps

    def _row_shape(self, shape) -> tuple[int, ...]:
        """`shape` with full length along the axes on which the lanes of one warp lie."""
        shape = (1,) * (len(self.shape) - len(shape)) + tuple(shape)
        whole_rows = self.block[0] % WARP == 0  # then a warp lies along thread x alone
        along_warp = ("thread x",) if whole_rows else ("thread x", "thread y", "thread z")
        return tuple(
            full if axis in along_warp else length
            for axis, full, length in zip(self.axes, self.shape, shape, strict=True)
        )

    def _find_distinct_warps(self, mask, shape) -> DistinctWarps:
        active = self.rows(np.broadcast_to(mask, self.shape))
        # Number the rows of the addresses, and spread the numbers like the addresses themselves.
        row_shape = self._row_shape(shape)
        numbers = np.arange(len(self.rows(np.zeros(row_shape, bool))))
        order = [row_shape[axis] for axis in self.warp_order]
        blocks, threads = order[: self.block_axes], order[self.block_axes :]
        warps_of_row = -(-int(np.prod(threads)) // WARP)
        if self.block[0] % WARP == 0:
            numbers = numbers.reshape(*blocks, *threads[:-1], threads[-1] // WARP)
        else:
            numbers = numbers.reshape(*blocks, warps_of_row)
        full = [self.shape[axis] for axis in self.warp_order[: numbers.ndim - 1]]
        numbers = np.broadcast_to(numbers, (*full, numbers.shape[-1])).reshape(-1)
        lanes = np.packbits(active, axis=1).view(np.uint32)[:, 0]
        key = (numbers << 32) | lanes
        some = lanes != 0
        unique, first, back, times = np.unique(
            key[some], return_index=True, return_inverse=True, return_counts=True
        )
        of_warp = np.full(len(key), -1)
        of_warp[some] = back
        return DistinctWarps(unique >> 32, active[some][first], times, of_warp)
