"""Descriptors of wgmma: where the units of an operand lie in shared memory.

A descriptor is a 64-bit number. Bits 0 to 13 are the address, 16 to 29 the leading offset, 32 to 45
the stride offset, all three in units of 16 bytes; 49 to 51 the base offset; 62 and 63 the swizzle:
none, 128, 64 or 32 bytes. No other bit has a meaning.

An operand is made of lines of units. K-major, a line is a row of A or a column of B, two units of
k. Transposed, a line is one k, its units run along m or n. Eight lines are a group, whose lines
follow one another, each as wide as the swizzle (16 bytes without). The PTX ISA says what the two
offsets count, in its sections on wgmma; recorded on an NVIDIA H200, see record_wgmma.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

UNIT = 16  # bytes
LINES = 8  # of a group
WIDTHS = np.array([16, 128, 64, 32])  # bytes of a line, by the code of the swizzle
FIELD = 0x3FFF  # 14 bits


@dataclass(frozen=True)
class Fields:
    """Of descriptors, (n,) each, int64: bytes, and of `width` those of a swizzled line."""

    start: np.ndarray
    leading: np.ndarray
    stride: np.ndarray
    base: np.ndarray
    width: np.ndarray

    @staticmethod
    def of(descriptors) -> Fields:
        bits = np.asarray(descriptors).astype(np.uint64)
        start, leading, stride = (
            ((bits >> np.uint64(shift)).astype(np.int64) & FIELD) * UNIT for shift in (0, 16, 32)
        )
        base = (bits >> np.uint64(49)).astype(np.int64) & 7
        return Fields(start, leading, stride, base, WIDTHS[bits >> np.uint64(62)])


def places(descriptors, lines: int, units: int, transposed: bool) -> np.ndarray:
    """int64 (n, lines, units): the byte of shared memory where each unit begins."""
    own = Fields.of(descriptors)
    start, leading, stride, base, width = (
        x[:, None, None] for x in (own.start, own.leading, own.stride, own.base, own.width)
    )
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
