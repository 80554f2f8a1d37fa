"""Barriers of blocks and warps: who waits at which, and when they go on.

A block has 16 barriers. A lane waits at one with bar.sync, or passes it with bar.arrive, which
counts it as there. A barrier opens when as many lanes are there as its count says, or without a
count all lanes of the block that have not returned.

A lane that waits at a barrier of its warp names the lanes that it waits for. It goes on when all of
these that have not returned wait too, at the same instruction or another, and name the same lanes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ptxsim.architectures import WARP

BARRIERS = 16
ALL_LANES = np.uint32(0xFFFFFFFF)
NOBODY = -1  # the barrier of lanes that do not come to one


@dataclass(eq=False)
class Waiting:
    """Lanes that stand at a barrier. `place`: where they go on. `count`: None for all lanes."""

    place: int
    number: np.ndarray
    count: np.ndarray | None
    mask: np.ndarray | bool
    reduction: tuple | None = None  # (register, "popc", "and" or "or", value): see bar.red


@dataclass(eq=False)
class WaitingInWarp:
    """Lanes that stand at a barrier of their warp. `members`: uint32, the lanes each one names."""

    place: int
    members: np.ndarray
    mask: np.ndarray


@dataclass
class Opened:
    """A barrier that opened in some blocks. `lanes`: the mask of those that go on from it."""

    number: int
    blocks: np.ndarray  # (blocks,) bool
    whole_block: bool
    lanes: np.ndarray | bool
    places: dict[int, np.ndarray | bool]
    results: list[tuple[str, np.ndarray]]  # of bar.red: register and value, for the lanes


class Barriers:
    def __init__(self, layout):
        self.layout = layout
        self.waiting: list[Waiting] = []
        self.in_warps: list[WaitingInWarp] = []
        self.arrived = np.zeros((BARRIERS, layout.blocks), np.int64)

    def wait(self, place: int, number, count, mask, reduction=None) -> None:
        self.waiting.append(Waiting(place, _of_active(number, mask), count, mask, reduction))

    def arrive(self, number, mask) -> None:
        """Count the lanes of `mask` as there, without keeping them."""
        number = _of_active(number, mask)
        for barrier in np.unique(number[number != NOBODY]):
            self.arrived[barrier] += self.layout.per_block((number == barrier) & mask)

    def open(self, alive) -> list[Opened]:
        """The barriers that are complete now; their lanes no longer wait. `alive`: a mask."""
        distinct = (n for waiting in self.waiting for n in set(waiting.number.reshape(-1).tolist()))
        numbers = sorted({*distinct} - {NOBODY})
        complete = [self._open(number, alive) for number in numbers]
        return [opened for opened in complete if opened is not None]

    def _open(self, number: int, alive) -> Opened | None:
        layout = self.layout
        here = [waiting for waiting in self.waiting if (waiting.number == number).any()]
        masks = [w.mask if w.number.ndim == 0 else (w.number == number) & w.mask for w in here]
        there = sum(layout.per_block(mask) for mask in masks)
        needed = layout.per_block(alive)
        for waiting, mask in zip(here, masks, strict=True):
            if waiting.count is not None:
                expected = layout.per_block(np.where(mask, waiting.count, 0), np.max)
                needed = np.where(expected > 0, expected, needed)
        ready = (there > 0) & (there + self.arrived[number] >= needed)
        if not ready.any():
            return None
        places: dict = {}
        rest = []
        everyone = ready.all()
        go = True if everyone else layout.of_block(ready)
        for waiting, mask in zip(here, masks, strict=True):
            leaves = mask if everyone else mask & go
            if np.any(leaves):
                before = places.get(waiting.place, False)
                places[waiting.place] = leaves if before is False else before | leaves
            if not everyone or waiting.number.ndim:
                stays = waiting.mask & ~np.asarray(leaves)
                if stays.any():
                    rest.append(replace(waiting, mask=stays))
        self.waiting = [waiting for waiting in self.waiting if waiting not in here] + rest
        self.arrived[number][ready] = 0
        lanes = list(places.values())
        together = (
            lanes[0] if len(lanes) == 1 else np.logical_or.reduce(np.broadcast_arrays(*lanes))
        )
        whole = all(waiting.count is None for waiting in here)
        results = self._reduce(here, masks, together)
        return Opened(number, ready, whole, together, places, results)

    def _reduce(self, here, masks, together) -> list[tuple[str, np.ndarray]]:
        reducing = [(w.reduction, m) for w, m in zip(here, masks, strict=True) if w.reduction]
        if not reducing:
            return []
        count = sum(self.layout.per_block(mask & value) for (_, _, value), mask in reducing)
        asked = self.layout.per_block(together)
        values = {"popc": count, "and": count == asked, "or": count > 0}
        return [(register, self.layout.of_block(values[how])) for (register, how, _), _ in reducing]

    # --- barriers of a warp -----------------------------------------------------------------------

    def wait_in_warp(self, place: int, members, mask) -> None:
        """The lanes of `mask` wait for those of their warp that `members` has the bits of."""
        members = self.layout.full(np.asarray(members).view(np.uint32))
        self.in_warps.append(WaitingInWarp(place, members, self.layout.full(mask)))

    def open_in_warps(self, alive):
        """None, or who goes on now, a mask, whom they name (uint32), and {place: lanes}."""
        if not self.in_warps:
            return None
        members, here = np.uint32(0), np.False_
        for waiting in self.in_warps:
            members, here = np.where(waiting.mask, waiting.members, members), here | waiting.mask
        met = self.layout.from_warps(self._meet(members, here, alive))
        if not met.any():
            return None
        return met, members, self.take_from_warps(met)

    def take_from_warps(self, lanes) -> dict[int, np.ndarray]:
        """{place: lanes}, of those in the mask `lanes`, which no longer wait for their warp."""
        places, self.in_warps = parted(self.in_warps, lanes)
        return places

    def _meet(self, members, here, alive):
        here, alive = self.layout.active(here), self.layout.active(alive)
        members = self.layout.to_warps(members)
        if (members == ALL_LANES).all():
            return here & (here == alive).all(axis=1, keepdims=True)
        bits = (members[:, :, None] >> np.arange(WARP, dtype=np.uint32)) & 1 == 1
        same = here[:, None, :] & (members[:, None, :] == members[:, :, None])
        itself = bits[:, np.arange(WARP), np.arange(WARP)]
        return here & itself & (same | ~bits | ~alive[:, None, :]).all(axis=2)


def parted(waiting: list, lanes) -> tuple[dict[int, np.ndarray], list]:
    """({place: those of `lanes` that wait there}, those who wait on)."""
    places: dict[int, np.ndarray] = {}
    for each in waiting:
        if (leaves := each.mask & lanes).any():
            places[each.place] = leaves | places.get(each.place, False)
    left = [replace(each, mask=each.mask & ~lanes) for each in waiting]
    return places, [each for each in left if each.mask.any()]


def _of_active(number, mask) -> np.ndarray:
    """The number of each lane's barrier; a register of lanes that are not there may hold any."""
    number = np.asarray(number)
    return np.where(mask, number, NOBODY) if number.ndim else number
