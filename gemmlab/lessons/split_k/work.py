"""Which part of a product each block computes, and when, on a GPU of few SMs: from addresses.

A block that works along K reads a tile of A and then one of B with each step, BK long. The elements
that its first warp reads tell which tiles of C it works on, and how far along K.
"""

import heapq
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.trace import Trace


@dataclass(frozen=True)
class Part:
    """Steps along K, from `first` up to `end`, of a tile of C that one block computes.

    `tile`: row and column, in the matrix of `product`. `sm` and `start`: where and after how many
    steps it begins, if a block goes to the first free SM, and steps take equally long.
    """

    block: tuple[int, int, int]
    tile: tuple[int, int]
    first: int
    end: int
    sm: int
    start: int
    product: int = 0

    @property
    def stop(self) -> int:
        return self.start + self.end - self.first


@dataclass(frozen=True)
class Work:
    """A product or a batch on a GPU. `tiles`: rows and columns of C; `steps`: of a tile."""

    shape: tuple[int, int, int]
    sm_count: int
    tiles: tuple[int, int]
    steps: int
    parts: tuple[Part, ...]
    batch: int = 1

    @property
    def length(self) -> int:
        return max(part.stop for part in self.parts)

    @property
    def busy(self) -> float:
        """The share of the SMs' time, until the last one is done, in which they have work."""
        done = sum(part.end - part.first for part in self.parts)
        return done / (self.length * self.sm_count)


def work(kernel: Kernel, m: int, n: int, k: int, sm_count: int, batch: int = 1) -> Work:
    """What each block of an m×n×k product does, or of a batch, if the GPU had `sm_count` SMs."""
    trace = kernel.scheduled_for(sm_count).trace(m, n, k, batch=batch)
    sizes = [kernel.settings[name] for name in ("BM", "BN", "BK")]
    rows, columns, step = (-(-size // tile) for size, tile in zip((m, n, k), sizes, strict=True))
    free = [(0, sm) for sm in range(sm_count)]  # when, and which
    parts = []
    for z, y, x in product(*map(range, reversed(trace.grid))):  # along x first
        block = (x, y, z)
        start, sm = heapq.heappop(free)
        for (number, *tile), first, end in _stretches(trace, block, *sizes):
            parts.append(Part(block, tuple(tile), first, end, sm, start, number))
            start = parts[-1].stop
        heapq.heappush(free, (start, sm))
    return Work((m, n, k), sm_count, (rows, columns), step, tuple(parts), batch)


def launch_by_launch(product: Work, batch: int) -> Work:
    """A product as often as the batch has products, each in a launch that waits for the last."""
    parts = [
        replace(part, start=part.start + at * product.length, product=at)
        for at in range(batch)
        for part in product.parts
    ]
    return replace(product, parts=tuple(parts), batch=batch)


def _stretches(
    trace: Trace, block: tuple[int, int, int], rows: int, columns: int, step: int
) -> list[tuple[tuple[int, int, int], int, int]]:
    """(product, row, column) of each tile of one block, with its first step and the one after."""
    m, n, k = trace.m, trace.n, trace.k
    # Of each step: (product, which tile, step along K).
    steps_read: list[dict[str, set[tuple[int, int, int]]]] = []
    for access in trace.run.accesses(block, 0):
        if access.array not in ("A", "B"):
            continue
        at = access.addresses[access.active] // trace.element_bytes
        is_a = access.array == "A"
        op, lines, tile = (trace.ops[0], m, rows) if is_a else (trace.ops[1], n, columns)
        number, at = np.divmod(at, lines * k)
        along_k = (op == "N") == is_a  # the elements of a row of the stored matrix
        side, along = (at // k, at % k) if along_k else (at % lines, at // lines)
        if is_a and (not steps_read or steps_read[-1]["B"]):
            steps_read.append({"A": set(), "B": set()})
        where = zip(number, side // tile, along // step, strict=True)
        steps_read[-1][access.array].update(tuple(map(int, place)) for place in where)
    stretches: list[tuple[tuple[int, int, int], int, int]] = []
    for read in steps_read:
        ((number, row, along),) = read["A"]
        ((_, column, _),) = read["B"]
        place = number, row, column
        if stretches and stretches[-1][0] == place and stretches[-1][2] == along:
            stretches[-1] = place, stretches[-1][1], along + 1
        else:
            stretches.append((place, along, along + 1))
    return stretches
