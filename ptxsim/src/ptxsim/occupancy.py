"""Occupancy: how many blocks of a kernel fit on one streaming multiprocessor (SM) at a time.

Blocks need room in four respects: registers, shared memory, threads, and slots for blocks. The
scarcest of them decides. Each architecture's limits are in architectures.py; how much of a
resource a block is given, rounding included, follows NVIDIA's occupancy calculator
(cuda_occupancy.h of the CUDA toolkit, version 13.0).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

from ptxsim import architectures
from ptxsim.architectures import LIMITS, REGISTERS_PER_SM, WARP, SmLimits, base

REGISTER_UNIT = 256  # a warp's registers are rounded up to this many ...
SM_PARTITIONS = 4  # ... and lie in the quarter of the SM that the warp runs in


class OccupancyError(ValueError):
    """An architecture that is not known, or a block that no GPU takes."""


@dataclass(frozen=True)
class Occupancy:
    """How many blocks and warps one SM holds, and which resource runs out first.

    limited_by is "threads", "blocks", "registers" or "shared memory"; where several run out
    together, the first in this order. blocks_by says for each how many blocks it alone would allow,
    None for without limit. A kernel with 0 blocks cannot be launched.
    """

    arch: str
    blocks_per_sm: int
    warps_per_sm: int
    occupancy: float  # resident warps over the most that the SM can hold, 0 to 1
    limited_by: str
    blocks_by: dict[str, int | None]

    def __str__(self) -> str:
        blocks = "1 block" if self.blocks_per_sm == 1 else f"{self.blocks_per_sm} blocks"
        return (
            f"{blocks} per SM ({self.warps_per_sm} warps, {self.occupancy:.0%} occupancy) "
            f"on {self.arch}, limited by {self.limited_by}"
        )


def sm_limits(arch: str) -> SmLimits:
    """The limits of one SM. A suffix does not matter: sm_90a is sm_90. Raises OccupancyError."""
    if base(arch) not in LIMITS:
        known = ", ".join(LIMITS)
        raise OccupancyError(f"{arch!r} is not a known architecture; known are {known}.")
    return LIMITS[base(arch)]


def occupancy(arch: str, *, threads: int, registers: int, shared_bytes: int = 0) -> Occupancy:
    """Occupancy of blocks of so many threads on one SM of an architecture ("sm_90", "sm_90a").

    threads: per block, 1 to 1024. registers: per thread, 0 to 255. shared_bytes: per block, static
    and dynamic together. An SM splits its memory between L1 cache and shared memory; the largest
    share that shared memory can have is assumed.

    Raises OccupancyError, naming the value and what would be right.
    """
    sm = sm_limits(arch)
    _check("threads", threads, 1, architectures.MAX_THREADS_PER_BLOCK, "a block has")
    _check("registers", registers, 0, architectures.MAX_REGISTERS_PER_THREAD, "a thread has")
    _check("shared_bytes", shared_bytes, 0, None, "a block has")

    warps = -(-threads // WARP)
    shared = _round_up(shared_bytes + sm.reserved_bytes, sm.shared_unit)
    blocks_by = {
        "threads": sm.warps // warps,
        "blocks": sm.blocks,
        "registers": _blocks_by_registers(warps, registers),
        "shared memory": sm.shared_bytes // shared if shared else None,
    }
    # min takes the first of equals, hence the order of limited_by.
    finite = {name: blocks for name, blocks in blocks_by.items() if blocks is not None}
    limited_by = min(finite, key=finite.__getitem__)
    blocks = finite[limited_by]
    return Occupancy(
        arch=arch,
        blocks_per_sm=blocks,
        warps_per_sm=blocks * warps,
        occupancy=blocks * warps / sm.warps,
        limited_by=limited_by,
        blocks_by=blocks_by,
    )


def _blocks_by_registers(warps: int, registers: int) -> int | None:
    """Blocks of so many warps whose registers fit on an SM; None where registers are no limit.

    Registers are handed to a warp as a whole, within its quarter of the SM. The launch check counts
    a block's warps rounded up to a multiple of the four quarters.
    """
    if registers == 0:
        return None
    per_warp = _round_up(registers * WARP, REGISTER_UNIT)
    if per_warp * _round_up(warps, SM_PARTITIONS) > REGISTERS_PER_SM:
        return 0
    warps_per_partition = REGISTERS_PER_SM // SM_PARTITIONS // per_warp
    return warps_per_partition * SM_PARTITIONS // warps


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _check(name: str, value: int, least: int, most: int | None, owner: str) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise OccupancyError(f"{name} is {value!r}; it must be a whole number.")
    if value < least or (most is not None and value > most):
        allowed = f"{least} to {most}" if most is not None else f"{least} or more"
        raise OccupancyError(f"{name} is {value}; {owner} {allowed}.")
