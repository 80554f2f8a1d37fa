"""Parts of wgmma, Hopper's product of matrices: warpgroups, and descriptors of operands.

A warpgroup is four warps of a block, one after the other, that execute wgmma together.

A descriptor says where the units of an operand lie in shared memory. It is a 64-bit number. Bits 0
to 13 are the address, 16 to 29 the leading offset, 32 to 45
the stride offset, all three in units of 16 bytes; 49 to 51 the base offset; 62 and 63 the swizzle:
none, 128, 64 or 32 bytes. No other bit has a meaning.

An operand is made of lines of units. K-major, a line is a row of A or a column of B, two units of
k. Transposed, a line is one k, its units run along m or n. Eight lines are a group, whose lines
follow one another, each as wide as the swizzle (16 bytes without). The PTX ISA says what the two
offsets count, in its sections on wgmma; recorded on an NVIDIA H200, see record_wgmma.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ptxsim.architectures import WARP
from ptxsim.threads.layout import Layout

if TYPE_CHECKING:  # it takes time to load
    import numpy.typing as npt

GROUP_WARPS = 4
GROUP_THREADS = GROUP_WARPS * WARP

UNIT = 16  # bytes
LINES = 8  # of a group
WIDTHS = np.array([16, 128, 64, 32])  # bytes of a line, by the code of the swizzle
FIELD = 0x3FFF  # 14 bits


def to_groups(layout: Layout, value: npt.ArrayLike) -> np.ndarray:
    """(groups, 128): a value of every lane, a row for each warpgroup."""
    rows = layout.to_warps(value)
    if layout.threads % GROUP_THREADS:
        rows = rows.reshape(layout.blocks, layout.warps_per_block, WARP)
        rows = rows[:, : layout.threads // GROUP_THREADS * GROUP_WARPS]
    return rows.reshape(-1, GROUP_THREADS)


def from_groups(layout: Layout, rows: np.ndarray) -> np.ndarray:
    if layout.threads % GROUP_THREADS:
        threads = rows.reshape(layout.blocks, -1)
        rows = np.zeros((layout.blocks, layout.warps_per_block * WARP), rows.dtype)
        rows[:, : threads.shape[1]] = threads
    return layout.from_warps(rows)


def lanes_of(layout: Layout, groups: np.ndarray) -> np.ndarray:
    """The mask of the lanes of some groups, a bool (groups,)."""
    return from_groups(layout, np.repeat(groups, GROUP_THREADS).reshape(-1, GROUP_THREADS))


def descriptor_fields(
    descriptors: npt.ArrayLike, widths: np.ndarray = WIDTHS, first_bit: int = 62
) -> tuple[np.ndarray, ...]:
    """Start, leading offset, stride offset, base offset and width of descriptors, (n,) int64 each.

    In bytes; the width is that of a swizzled line. `widths`: by the code of the swizzle, which has
    the bits from `first_bit` on.
    """
    bits = np.asarray(descriptors).astype(np.uint64)
    start, leading, stride = (
        ((bits >> np.uint64(shift)).astype(np.int64) & FIELD) * UNIT for shift in (0, 16, 32)
    )
    base = (bits >> np.uint64(49)).astype(np.int64) & 7
    return start, leading, stride, base, widths[bits >> np.uint64(first_bit)]


def places(descriptors: npt.ArrayLike, lines: int, units: int, transposed: bool) -> np.ndarray:
    """int64 (n, lines, units): the byte of shared memory where each unit begins."""
    return unit_places(descriptor_fields(descriptors), lines, units, transposed)


def unit_places(
    fields: tuple[np.ndarray, ...], lines: int, units: int, transposed: bool
) -> np.ndarray:
    """As `places`, of descriptors that are taken apart already."""
    start, leading, stride, base, width = (values[:, None, None] for values in fields)
    line, unit = np.arange(lines)[:, None], np.arange(units)
    group, plain, per_line = line // LINES, width == UNIT, width // UNIT
    if transposed:
        further = np.where(
            plain,
            group * leading + unit * stride,
            group * stride + unit // per_line * leading + unit % per_line * UNIT,
        )
    else:
        further = group * stride + unit * np.where(plain, leading, UNIT)
    address = start + further + line % LINES * width
    turn = (address >> 7) - base & per_line - 1
    return address ^ turn * UNIT
