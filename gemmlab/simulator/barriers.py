"""Barriers of a block: who waits at which, and when they go on.

A block has 16 barriers. A lane waits at one with bar.sync, or passes it with bar.arrive, which
counts it as there. A barrier opens when as many lanes are there as its count says, or without a
count all lanes of the block that have not returned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

BARRIERS = 16


@dataclass(eq=False)
class Waiting:
    """Lanes that stand at a barrier. `place`: where they go on. `count`: None for all lanes."""

    place: int
    number: np.ndarray
    count: np.ndarray | None
    mask: np.ndarray | bool
    reduction: tuple | None = None  # (register, "popc", "and" or "or", value): see bar.red


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
    """The barriers of all blocks of a Layout."""

    def __init__(self, layout):
        self.layout = layout
        self.waiting: list[Waiting] = []
        self.arrived = np.zeros((BARRIERS, layout.blocks), np.int64)

    def wait(self, place: int, number, count, mask, reduction=None) -> None:
        self.waiting.append(Waiting(place, np.asarray(number), count, mask, reduction))

    def arrive(self, number, mask) -> None:
        """Count the lanes of `mask` as there, without keeping them."""
        for one in np.unique(number):
            self.arrived[one] += self.layout.per_block((np.asarray(number) == one) & mask)

    def open(self, alive) -> list[Opened]:
        """The barriers that are complete now; their lanes no longer wait. `alive`: a mask."""
        numbers = sorted({int(n) for one in self.waiting for n in np.unique(one.number)})
        found = [self._open(number, alive) for number in numbers]
        return [opened for opened in found if opened is not None]

    def _open(self, number: int, alive) -> Opened | None:
        layout = self.layout
        here = [one for one in self.waiting if (one.number == number).any()]
        masks = [one.mask if one.number.ndim == 0 else (one.number == number) & one.mask
                 for one in here]  # fmt: skip
        there = sum(layout.per_block(mask) for mask in masks)
        needed = layout.per_block(alive)
        for one, mask in zip(here, masks, strict=True):
            if one.count is not None:
                expected = layout.per_block(np.where(mask, one.count, 0), np.max)
                needed = np.where(expected > 0, expected, needed)
        ready = (there > 0) & (there + self.arrived[number] >= needed)
        if not ready.any():
            return None
        places, rest = {}, []
        everyone = ready.all()
        go = True if everyone else layout.of_block(ready)
        for one, mask in zip(here, masks, strict=True):
            leaves = mask if everyone else mask & go
            if np.any(leaves):
                before = places.get(one.place, False)
                places[one.place] = leaves if before is False else before | leaves
            if not everyone or one.number.ndim:
                stays = one.mask & ~np.asarray(leaves)
                if stays.any():
                    rest.append(replace(one, mask=stays))
        self.waiting = [one for one in self.waiting if one not in here] + rest
        self.arrived[number][ready] = 0
        lanes = list(places.values())
        together = (
            lanes[0] if len(lanes) == 1 else np.logical_or.reduce(np.broadcast_arrays(*lanes))
        )
        whole = all(one.count is None for one in here)
        results = self._reduce(here, masks, together)
        return Opened(number, ready, whole, together, places, results)

    def _reduce(self, here, masks, together) -> list[tuple[str, np.ndarray]]:
        reducing = [(one.reduction, m) for one, m in zip(here, masks, strict=True) if one.reduction]
        if not reducing:
            return []
        count = sum(self.layout.per_block(mask & value) for (_, _, value), mask in reducing)
        asked = self.layout.per_block(together)
        values = {"popc": count, "and": count == asked, "or": count > 0}
        return [(register, self.layout.of_block(values[how])) for (register, how, _), _ in reducing]
