"""The landscape of a space: how good settings are, and which a search of neighbours gets stuck in.

Two settings are neighbours where one parameter has the next value that is legal there, the others
being equal.
"""

from __future__ import annotations

from dataclasses import dataclass

from gemmlab.search.recorded import Recorded
from gemmlab.search.space import Point, Space


@dataclass(frozen=True)
class Landscape:
    """Of each recorded point its neighbours, and where going to the fastest of them ends."""

    known: Recorded
    neighbours: dict[Point, tuple[Point, ...]]
    ends: dict[Point, Point]

    @property
    def valleys(self) -> list[Point]:
        """Points that no neighbour is faster than, the fastest first."""
        return sorted(set(self.ends.values()), key=self.known.times_ms.__getitem__)

    def basin(self, valley: Point) -> int:
        """How many points end there."""
        return sum(end == valley for end in self.ends.values())


def landscape(known: Recorded) -> Landscape:
    """The neighbours of every recorded point, and the valley that each leads down to."""
    there = known.times_ms
    near = {point: neighbours(known.space, point, there) for point in there}
    ends = {}
    for point in there:
        at = point
        while (down := min((at, *near[at]), key=there.__getitem__)) != at:
            at = down
        ends[point] = at
    return Landscape(known, near, ends)


def neighbours(space: Space, point: Point, among) -> tuple[Point, ...]:
    """Of a point those in `among` that differ in one parameter, by the next value up or down that
    is there."""
    found = []
    for at, values in enumerate(space.values.values()):
        place = values.index(point[at])
        for others in (values[place + 1 :], values[:place][::-1]):
            steps = ((*point[:at], value, *point[at + 1 :]) for value in others)
            found += [step for step in steps if step in among][:1]
    return tuple(found)


def shares(known: Recorded) -> list[float]:
    """Of every point the share of the fastest's speed, 0 to 1, the best first."""
    return sorted(map(known.share, known.times_ms), reverse=True)


def best_by_two(known: Recorded, down: str, across: str) -> dict[tuple[int, int], float]:
    """For values of two parameters the best share that the others allow; nothing where no point
    is legal."""
    rows, columns = known.space.names.index(down), known.space.names.index(across)
    found: dict[tuple[int, int], float] = {}
    for point in known.times_ms:
        cell = point[rows], point[columns]
        found[cell] = max(found.get(cell, 0.0), known.share(point))
    return found
