"""Which part of a product each block computes, and when, on a GPU of few SMs: from addresses alone.

A block that works along K reads a tile of A and then one of B with each step, BK long. The elements
that its first warp loads or copies tell which tiles of C it works on, and how far along K.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.trace import Trace, TraceError


@dataclass(frozen=True)
class Part:
    """Steps along K, from `first` up to `end`, of a tile of C that one block computes.

    `tile`: row and column of the tile. `sm` and `start`: where and after how many steps it begins,
    if a block goes to the SM that is free first, one block to an SM, and all steps take equally
    long.
    """

    block: tuple[int, int, int]
    tile: tuple[int, int]
    first: int
    end: int
    sm: int
    start: int

    @property
    def stop(self) -> int:
        return self.start + self.end - self.first


@dataclass(frozen=True)
class Work:
    """One product, spread over the SMs of a GPU.

    `tiles`: rows and columns of tiles of C. `steps`: of a tile along K.
    """

    name: str
    settings: dict[str, int]
    shape: tuple[int, int, int]
    sm_count: int
    tiles: tuple[int, int]
    steps: int
    parts: tuple[Part, ...]

    @property
    def length(self) -> int:
        """Steps until the last SM is done."""
        return max(part.stop for part in self.parts)

    @property
    def busy(self) -> float:
        """The share of the SMs' time, until the last one is done, in which they have work."""
        done = sum(part.end - part.first for part in self.parts)
        return done / (self.length * self.sm_count)


def work(kernel: Kernel, m: int, n: int, k: int, sm_count: int) -> Work:
    """What each block of an m×n×k product does, if the GPU had `sm_count` SMs.

    For kernels with BM, BN and BK. Raises what Kernel.trace raises, and TraceError for a kernel
    that reads A and B otherwise than tile by tile.
    """
    trace = kernel.scheduled_for(sm_count).trace(m, n, k)
    sizes = [kernel.settings.get(name) for name in ("BM", "BN", "BK")]
    if None in sizes:
        raise TraceError(f"{kernel.name} has no BM, BN and BK, so no tiles along K")
    rows, columns, step = (-(-size // tile) for size, tile in zip((m, n, k), sizes, strict=True))
    free = [(0, sm) for sm in range(sm_count)]  # when, and which
    parts = []
    for block in _in_order(trace.grid):
        start, sm = heapq.heappop(free)
        for tile, first, end in _stretches(trace, block, *sizes):
            parts.append(Part(block, tile, first, end, sm, start))
            start = parts[-1].stop
        heapq.heappush(free, (start, sm))
    return Work(
        kernel.name, kernel.settings, (m, n, k), sm_count, (rows, columns), step, tuple(parts)
    )


def _in_order(grid: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
    """Blocks as a GPU starts them: along x first, then y, then z."""
    for z, y, x in product(*(range(size) for size in reversed(grid))):
        yield x, y, z


def _stretches(
    trace: Trace, block: tuple[int, int, int], rows: int, columns: int, step: int
) -> list[tuple[tuple[int, int], int, int]]:
    """The tiles of C of one block in their order, each with its first step and the one after."""
    met: list[dict[str, set[tuple[int, int]]]] = []  # of each step, which tile and step along K
    for access in trace.run.accesses(block, 0):
        if access.array not in ("A", "B"):
            continue
        at = access.addresses[access.active] // trace.element_bytes
        if access.array == "A":
            where = zip(at // trace.k // rows, at % trace.k // step, strict=True)
        else:
            where = zip(at % trace.n // columns, at // trace.n // step, strict=True)
        if access.array == "A" and (not met or met[-1]["B"]):
            met.append({"A": set(), "B": set()})
        met[-1][access.array].update((int(tile), int(along)) for tile, along in where)
    found: list[tuple[tuple[int, int], int, int]] = []
    for one in met:
        (row, along), *more = one["A"]
        (column, beside), *others = one["B"]
        if more or others or along != beside:
            raise TraceError(
                f"{trace.kernel_name}: block {block} does not read A and B step by step"
            )
        tile = row, column
        if found and found[-1][0] == tile and found[-1][2] == along:
            found[-1] = tile, found[-1][1], along + 1
        else:
            found.append((tile, along, along + 1))
    return found
