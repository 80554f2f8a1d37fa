"""What a search looks through: settings, their recorded times, and who is whose neighbour.

Two settings are neighbours if they differ in one parameter, by one value that is legal there.
"""

from dataclasses import dataclass, replace

from gemmlab import ladder
from gemmlab.ladder import Constraint, Problem, Rung, Settings
from gemmlab.records import tuning
from gemmlab.records.tuning import sizes_of

Point = tuple[int, ...]
"""The values of the tuned parameters, in their order: settings without what is computed."""


@dataclass(frozen=True)
class Space:
    """The legal settings of a rung for a problem, as a search sees them.

    `values`: of each tuned parameter those that are legal by themselves. `fixed`: the other
    parameters. `restrictions`: which values go together.
    """

    rung: Rung
    problem: Problem
    values: dict[str, Point]
    fixed: Settings
    restrictions: tuple[Constraint, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.values)

    def settings(self, point: Point) -> Settings:
        """All parameters of the rung, as a point sets them."""
        given = dict(zip(self.names, point, strict=True)) | self.fixed
        return {name: int(given[name]) for name in self.rung.defaults}

    def point(self, settings: Settings) -> Point:
        return tuple(int(settings[name]) for name in self.names)

    def legal(self) -> list[Point]:
        """Every point that meets the restrictions, in the ladder's order."""
        return list(map(self.point, ladder.tuned_settings(self.rung, self.fixed)))


def space_of(name: str, shape: tuple[int, ...]) -> Space:
    """The space of a rung at (M, N, K) or (M, N, K, batch). Raises LadderError, IllegalSetting."""
    rung = ladder.find(name)
    families = ()
    if rung.families:
        together = replace(rung, constraints=())
        families = (Constraint("choices that go together", together.broken),)
    return Space(
        rung=rung,
        problem=Problem(*sizes_of(tuple(shape))),
        values={p.name: p.legal for p in rung.parameters if p.tuned},
        fixed={p.name: p.default for p in rung.parameters if not p.tuned},
        restrictions=(*families, *rung.constraints),
    )


@dataclass(frozen=True)
class Recorded:
    """Times of all points of a space, in milliseconds, where and when they were measured."""

    space: Space
    times_ms: dict[Point, float]
    gpu: str
    recorded: str  # ISO date and time, UTC, of the last of them

    @property
    def best_ms(self) -> float:
        return min(self.times_ms.values())

    @property
    def best(self) -> Point:
        return min(self.times_ms, key=self.times_ms.__getitem__)

    def share(self, point: Point) -> float:
        """Of the speed of the fastest point, 0 to 1."""
        return self.best_ms / self.times_ms[point]

    @property
    def source(self) -> str:
        """Where the times come from, for the foot of a figure."""
        return f"{self.gpu}, recorded {self.recorded[:10]}"


def recorded(name: str, shape: tuple[int, ...]) -> Recorded:
    """A rung's recorded points at (M, N, K). Raises LadderError, NoRecord, StaleRecord."""
    rows, space = tuning.at(tuning.recorded(name), shape), space_of(name, shape)
    times = {space.point(row): float(row["time_ms"]) for row in rows.to_dict("records")}
    gpu, last = str(rows["gpu"].iloc[0]), str(rows["recorded"].max())
    return Recorded(space, times, gpu, last)


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


def landscape(known: Recorded) -> Landscape:
    """The neighbours of every recorded point, and the valley that each leads down to."""
    there = known.times_ms
    near = {point: _neighbours(known, point) for point in there}
    ends = {}
    for point in there:
        at = point
        while (down := min((at, *near[at]), key=there.__getitem__)) != at:
            at = down
        ends[point] = at
    return Landscape(known, near, ends)


def _neighbours(known: Recorded, point: Point) -> tuple[Point, ...]:
    """The recorded points one value up or down from a point, in one parameter."""
    near = []
    for at, values in enumerate(known.space.values.values()):
        place = values.index(point[at])
        for others in (values[place + 1 :], values[:place][::-1]):
            steps = ((*point[:at], value, *point[at + 1 :]) for value in others)
            near += [step for step in steps if step in known.times_ms][:1]
    return tuple(near)


def shares(known: Recorded) -> list[float]:
    """Of every point the share of the fastest's speed, 0 to 1, the best first."""
    return sorted(map(known.share, known.times_ms), reverse=True)
