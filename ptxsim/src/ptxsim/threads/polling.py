"""Loops in which threads wait for what other threads write: locks, flags, barriers of a grid.

Such a loop reads memory and goes back, until it reads something else. Lanes that come back with the
same registers as the last time would only read the same again while nobody else does anything: they
rest until all others have gone as far as they can. So do lanes that have come back for the
PATIENCE-th time with other registers, which count how often, or wait longer each time.

While lanes of a warp rest, the others of that warp are held too, as long as something else can go
on: behind the loop they would meet again.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ptxsim.architectures import WARP
from ptxsim.ptx import KEPT_KERNELS, Kernel

PATIENCE = 32
# Loads that a compiler may not move out of a loop, and instructions that make it read anew.
ANEW = {"volatile", "acquire", "relaxed", "mmio", "cv", "cg"}
FENCES = {"membar", "fence", "nanosleep"}


@lru_cache(maxsize=KEPT_KERNELS)
def polling_branches(kernel: Kernel) -> frozenset[int]:
    """The basic blocks at whose end a branch leads back to the start of a loop that polls."""
    reads, fences, loads = [], [], []
    for instruction in kernel.instructions:
        name, parts = instruction.name, instruction.parts
        is_load = name == "ld" and not {"param", "const"}.intersection(parts)
        if name == "atom" or (is_load and ANEW.intersection(parts)):
            reads.append(instruction.index)
        elif is_load and "local" not in parts:
            loads.append(instruction.index)
        elif name in FENCES:
            fences.append(instruction.index)
    if not reads and not (loads and fences):
        return frozenset()

    def has(indices, start, end) -> bool:
        return any(start <= index < end for index in indices)

    return frozenset(
        block.start
        for block in kernel.blocks.values()
        if block.target is not None
        and block.target <= block.start
        and (
            has(reads, block.target, block.end)
            or (has(loads, block.target, block.end) and has(fences, block.target, block.end))
        )
    )


class Polling:
    """The lanes of a chunk that rest. `places`: {where they go on: lanes}."""

    def __init__(self, lanes):
        self.lanes, self.branches = lanes, polling_branches(lanes.launch.kernel)
        self.places: dict[int, np.ndarray | bool] = {}
        self.surely_in_vain = True  # whether all who rest came back with the same registers
        self._seen: dict[int, tuple] = {}  # place -> (lanes, registers) when it was last reached
        self._times: dict[int, int] = {}  # place -> how often in a row
        self._changes_before = -1

    def rests(self, block, taken) -> bool:
        """The lanes `taken` go back from the end of `block`; whether they rest there."""
        place, lanes = block.target, self.lanes
        live = self.lanes.launch.kernel.blocks[place].live_in
        now = {name: lanes.registers[name] for name in live}
        before, self._seen[place] = self._seen.get(place), (taken, now)
        again = before is not None and self._same(taken, before, now)
        self._times[place] = self._times.get(place, 0) + 1
        if not again and self._times[place] < PATIENCE:
            return False
        self._times[place] = 0
        self.surely_in_vain &= again
        self.places[place] = taken | np.asarray(self.places.get(place, False))
        return True

    def wake(self, changes: int) -> dict[int, np.ndarray | bool]:
        """Those who rest, if anything was changed since they were last woken; else nothing."""
        if changes == self._changes_before:
            return {}
        self._changes_before, self.surely_in_vain = changes, True
        places, self.places = self.places, {}
        return places

    def try_again(self) -> None:
        self._changes_before = -1

    def hold(self, ready) -> tuple[int, np.ndarray | bool] | None:
        """The first of {place: lanes} where lanes may go on, and these; None if all are held."""
        layout = self.lanes.layout
        resting = np.zeros(layout.shape, bool)
        for mask in self.places.values():
            resting |= mask
        warps = layout.to_warps(resting).any(axis=1, keepdims=True)
        free = ~layout.from_warps(np.broadcast_to(warps, (len(warps), WARP)))
        for place in sorted(ready):
            mask = free & ready[place]
            if mask.any():
                return place, mask
        return None

    @staticmethod
    def _same(taken, before, now) -> bool:
        mask, registers = before
        if mask is not taken and not np.array_equal(mask, taken):
            return False
        return all(
            value is registers[name] or not (np.not_equal(value, registers[name]) & taken).any()
            for name, value in now.items()
        )
