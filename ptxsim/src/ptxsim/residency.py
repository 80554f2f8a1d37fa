"""How many blocks of a launch a GPU can hold at a time: others begin when some have returned."""

from __future__ import annotations

from math import prod

from ptxsim.architectures import base
from ptxsim.occupancy import OccupancyError, occupancy

# Architecture -> a GPU of it, and its SMs.
GPUS = {
    "sm_75": ("T4", 40), "sm_80": ("A100", 108), "sm_86": ("RTX 3090", 82),
    "sm_89": ("RTX 4090", 128), "sm_90": ("H200", 132), "sm_100": ("B200", 148),
    "sm_120": ("RTX 5090", 170),
}  # fmt: skip


def most_blocks(launch) -> int:
    """As far as threads and shared memory allow: how many registers ptxas takes, PTX does not tell.

    All blocks of the grid where the architecture's GPU is not known.
    """
    blocks = prod(launch.grid)
    if base(launch.arch) not in GPUS:
        return blocks
    threads, shared = prod(launch.block), launch.shared_bytes
    try:
        fit = occupancy(launch.arch, threads=threads, registers=0, shared_bytes=shared)
    except OccupancyError:
        return blocks
    return min(blocks, fit.blocks_per_sm * GPUS[base(launch.arch)][1])


def why_not_all(launch, waiting: int) -> str:
    """What to say of `waiting` blocks that cannot begin before others return."""
    gpu, _ = GPUS[base(launch.arch)]
    return (
        f": {waiting} of the grid's {prod(launch.grid)} blocks have not begun, for an NVIDIA {gpu} "
        f"has room for {most_blocks(launch)} at a time, at most"
    )
