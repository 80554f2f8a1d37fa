"""Nsight Compute's counters of the copy engine (TMA) and of other blocks' shared memory.

As an NVIDIA H200 did in the launches of tests/recorded/clusters.npz, tensor_maps.npz and
bulk_copies.json:

- Each copy of each thread is an instruction, also one to several blocks at once. Stores of lanes of
  a warp that have the same operands are one: ptxas makes a loop that issues a store for each
  different set of operands, where it issues a load or a reduction for each lane.
- The engine takes each row of a box in pieces of PIECE bytes. A load of a piece counts the sectors
  that its part inside of the array touches, and a sector for each 32 bytes, or part of them,
  outside: so what is filled counts too.
- A box by multicast counts for each block that gets it, also if that is one. Of a piece, what is
  inside counts by lines of 128 bytes: the sectors touched in a line, but two at least, and three
  where the array ends within a unit of 16 bytes. What is outside counts as above, but at least
  three.
- A store and a reduction count the sectors that are written, none outside.
- A copy from shared memory to a block of the cluster counts a sector for each 32 bytes, or part of
  them, also to the own block. No metric has what it reads.
- A load, store, st.async or red.async of another block's memory is an instruction of a warp, if any
  lane reaches another block.

Not recorded: stretches that do not begin at whole sectors or go to several blocks, and boxes of
which not every element is taken. Not counted here: atomics on other blocks' memory, of some of
which the GPU makes loops, and sectors, requests and wavefronts of accesses to other blocks' memory.
"""

from __future__ import annotations

from itertools import product

import numpy as np

SECTOR_BYTES, PIECE, LINE_BYTES = 32, 128, 128
LEAST, LEAST_FILLED = 2, 3  # sectors by multicast, of a line and of what is filled
INSTRUCTIONS = "smsp__sass_inst_executed_op_{}.sum"
READ = "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum"
WRITTEN = "l1tex__m_l1tex2xbar_write_sectors_mem_{}.sum"
# Of the copy engine with global memory: what metrics call it, and what a line of a trace does.
IN_GLOBAL_MEMORY = {"tma_ld": "bulk load", "tma_st": "bulk store", "tma_red": "bulk reduction"}
# Of the memory of other blocks: copies, which have sectors, and accesses.
COPIES_ACROSS = ("dshared_tma_st", "dshared_tma_red")
ACCESSES_ACROSS = ("dshared_ld", "dshared_st", "dshared_stas", "dshared_redas")


def count(lanes, what: str, number: int, sectors: int | None = None) -> None:
    """Add instructions, such as "dshared_tma_red", and their sectors."""
    events = lanes.counter.events
    if lanes.launch.count:
        events[INSTRUCTIONS.format(what)] += number
    if lanes.launch.count and sectors is not None:
        events[sectors_metric(what)] += sectors


def issued_stores(lanes, operands, mask):
    """The lanes of `mask` that count for a bulk store: of a warp, the first with its operands."""
    active = lanes.layout.to_warps(mask)
    same = active[:, :, None] & active[:, None, :]  # (warps, 32, 32)
    for operand in operands:
        rows = lanes.layout.to_warps(operand)
        same &= rows[:, :, None] == rows[:, None, :]
    return lanes.layout.from_warps(active & ~np.tril(same, -1).any(axis=2))


def count_bulk(
    lanes, index: int, what: str, array: str, copies: int, sectors: int, bytes_moved: int
) -> None:
    """Add copies between `array` and shared memory, one of IN_GLOBAL_MEMORY, to their line."""
    key = lanes.line(index), "global", IN_GLOBAL_MEMORY[what], array
    lanes.counter.add_again(key, (copies, sectors, bytes_moved, 0))


def count_stretches(lanes, index: int, what: str, begin, size: int, copies: int) -> None:
    """The same of stretches of `size` bytes that begin at the addresses `begin` (n,)."""
    if not (lanes.launch.count and len(begin)):
        return
    if buffer := lanes.launch.memory.buffer_at(int(begin[0])):
        sectors = stretch(begin, size)
        count_bulk(lanes, index, what, buffer.name, copies, sectors, len(begin) * size)


def sectors_metric(what: str) -> str:
    if what == "tma_ld":
        return READ
    space, _, how = what.rpartition("tma_")
    return WRITTEN.format(f"{space or 'global_'}op_tma_{how}")


def touched(begin, size):
    """How many sectors the `size` bytes from byte `begin` on touch; 0 for none."""
    return np.where(size > 0, (begin + size - 1) // SECTOR_BYTES - begin // SECTOR_BYTES + 1, 0)


def stretch(begin, size: int) -> int:
    """Sectors of stretches of `size` bytes that begin at the addresses `begin` (n,)."""
    return int(touched(np.asarray(begin, np.int64), np.int64(size)).sum())


def loaded(used, corners, by_multicast: bool = False) -> int:
    """Sectors of the boxes of a TensorMap at `corners` (n, axes), in the order of its array."""
    total = 0
    width = used.array.shape[-1] * used.array.itemsize
    for begin, inside, last, piece in _pieces(used, corners, PIECE):
        outside = -(-(piece - inside) // SECTOR_BYTES)
        if by_multicast:
            sectors = _by_lines(begin, inside, last > width)
            outside = np.where(outside > 0, np.maximum(outside, LEAST_FILLED), 0)
        else:
            sectors = touched(begin, inside)
        total += int((sectors + outside).sum())
    return total


def _by_lines(begin, size, ends_within):
    """Sectors by multicast of `size` bytes, no more than a line has, from byte `begin` on."""
    before = np.minimum(size, -begin % LINE_BYTES)
    before = np.where(before == 0, size, before)
    after = size - before
    total = 0
    for start, part, is_last in ((begin, before, after == 0), (begin + before, after, True)):
        least = np.where(ends_within & is_last, LEAST_FILLED, LEAST)
        total = total + np.where(part > 0, np.maximum(touched(start, part), least), 0)
    return total


def stored(used, corners) -> int:
    """As `loaded`, of boxes that are stored: a row ends with its last unit of 16 bytes."""
    pieces = _pieces(used, corners, None)
    return sum(int(touched(begin, inside).sum()) for begin, inside, _, _ in pieces)


def _pieces(used, corners, most: int | None):
    """For each piece of a row of the box: of each box, where it lies.

    Gives (address of its first byte inside of the array, how many are inside, where the last is
    from the row's begin), each (n,), and the bytes of the piece.
    """
    array, size = used.array, used.array.itemsize
    row = used.columns(used.box[-1]) * size
    width = -(-array.shape[-1] * size // 16) * 16
    column = used.columns(corners[:, -1].astype(np.int64)) * size
    for outer in product(*(range(n) for n in used.box[:-1])):
        index = corners[:, :-1] + np.array(outer, np.int64).reshape(1, -1)
        in_rows = ((index >= 0) & (index < array.shape[:-1])).all(axis=1)
        begin = used.begin + index @ np.array(array.strides[:-1], np.int64)
        for start in range(0, row, most or row):
            piece = min(row - start, most or row)
            first = np.maximum(column + start, 0)
            last = np.minimum(column + start + piece, width)
            inside = np.where(in_rows, np.maximum(last - first, 0), 0)
            yield begin + first, inside, last, piece
