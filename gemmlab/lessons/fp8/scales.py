"""Which scales go into one element of C: those that its warp reads, as traced."""

from __future__ import annotations

from dataclasses import dataclass

from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.trace import Trace
from gemmlab.ladder import Problem
from gemmlab.ladder.precision import Scales
from gemmlab.lessons.fp8.rung import SCALES
from gemmlab.lessons.tma_wgmma.rung import GROUP_ROWS
from ptxsim.hopper import GROUP_WARPS

WARP_ROWS = GROUP_ROWS // GROUP_WARPS  # of C, for which a warp has the sums


@dataclass(frozen=True)
class Region:
    """Of a matrix the rows from `rows[0]` to `rows[1]` and the columns likewise, ends excluded."""

    rows: tuple[int, int]
    columns: tuple[int, int]


@dataclass(frozen=True)
class Reach:
    """What the scales reach that go into C[row, column]: regions of A, M×K, and of B, K×N."""

    scales: Scales
    problem: Problem
    row: int
    column: int
    a: tuple[Region, ...]
    b: tuple[Region, ...]


def reach(kernel: Kernel, m: int, n: int, k: int, row: int, column: int) -> Reach:
    """The scales that go into C[row, column] of a product: of those that its warp reads, as traced.

    Raises ValueError for an element that is not in the first tile of C, or a kernel without scales.
    """
    scales = kernel.precision.scales
    rows, columns = kernel.rung.tile(kernel.settings)
    if scales is None:
        raise ValueError(f"{kernel.name} takes no scales.")
    if not (0 <= row < min(rows, m) and 0 <= column < min(columns, n)):
        raise ValueError(f"C[{row}, {column}] is not in the first tile of C, {rows}×{columns}.")
    trace = kernel.trace(m, n, k)
    problem = trace.problem
    warp = row // WARP_ROWS
    of_a = _read(trace, warp, "scale_a", scales.shape_of_a(problem))
    of_b = _read(trace, warp, "scale_b", scales.shape_of_b(problem))
    over_a = _regions(of_a, scales.rows, scales.depth, m, k, row)
    over_b = _regions(of_b, scales.columns, scales.depth, n, k, column)
    turned = tuple(Region(region.columns, region.rows) for region in over_b)
    return Reach(scales, problem, row, column, over_a, turned)


def every_kind(load, m: int, n: int, k: int, row: int, column: int) -> list[Reach]:
    """`reach` for scales of tensors, rows and blocks. load: makes the kernel of SCALES."""
    return [reach(load(SCALES=kind), m, n, k, row, column) for kind in range(len(SCALES))]


def _read(trace: Trace, warp: int, name: str, shape: tuple[int, ...]) -> set[tuple[int, int]]:
    """Places of scales, (of lines, along k), that this warp of the first block reads."""
    numbers = {
        int(address) // 4
        for access in trace.run.accesses((0, 0, 0), warp)
        if access.array == name
        for address in access.addresses[access.active]
    }
    along = shape[1] if len(shape) > 1 else 1
    return {divmod(number, along) for number in numbers}


def _regions(
    places: set[tuple[int, int]], together: int, depth: int, lines: int, k: int, line: int
) -> tuple[Region, ...]:
    """Of a matrix of `lines` × k, what these scales reach, as far as `line` is in it."""
    regions = []
    for of_lines, along in sorted(places):
        low = of_lines * together
        high = min(low + together, lines) if together else lines
        if low <= line < high:
            deep = (along * depth, min((along + 1) * depth, k)) if depth else (0, k)
            regions.append(Region((low, high), deep))
    return tuple(regions)
