"""What a search looks through: a rung's tuned parameters at one problem, and their restrictions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gemmlab import ladder
from gemmlab.ladder import Constraint, Problem, Rung, Settings
from gemmlab.records.tuning import sizes_of

Point = tuple[int, ...]
"""The values of the tuned parameters, in their order: settings without what is computed."""


@dataclass(frozen=True)
class Space:
    """The legal settings of a rung for a problem, as a search sees them.

    `values`: of each tuned parameter those that are legal by themselves. `fixed`: of the others,
    which say what is computed, the value. `restrictions`: the ladder's constraints, under which
    values go together. `among`: only these points, where others are not known; all if None.
    """

    rung: Rung
    problem: Problem
    values: dict[str, Point]
    fixed: Settings
    restrictions: tuple[Constraint, ...]
    among: frozenset[Point] | None = field(default=None, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the tuned parameters."""
        return tuple(self.values)

    @property
    def every(self) -> int:
        """How many combinations there were without restrictions."""
        count = 1
        for values in self.values.values():
            count *= len(values)
        return count

    def settings(self, point: Point) -> Settings:
        """All parameters of the rung, as a point sets them."""
        given = dict(zip(self.names, point, strict=True)) | self.fixed
        return {name: int(given[name]) for name in self.rung.defaults}

    def point(self, settings: Settings) -> Point:
        """Where settings lie in the space."""
        return tuple(int(settings[name]) for name in self.names)

    def legal(self) -> list[Point]:
        """Every point that meets the restrictions, in the ladder's order."""
        points = map(self.point, ladder.tuned_settings(self.rung, self.fixed))
        return [one for one in points if self.among is None or one in self.among]


def space_of(name: str, shape: tuple[int, ...], among: Iterable[Point] | None = None) -> Space:
    """The space of the rung `name` at a shape (M, N, K), or (M, N, K, batch).

    Raises LadderError for a name that is not there, and IllegalSetting for no shape.
    """
    rung = ladder.find(name)
    tuned = [parameter for parameter in rung.parameters if parameter.tuned]
    families = ()
    if rung.families:
        families = (Constraint("choices that go together", lambda s: _of_no_family(rung, s)),)
    return Space(
        rung=rung,
        problem=Problem(*sizes_of(tuple(shape))),
        values={one.name: one.legal for one in tuned},
        fixed={one.name: one.default for one in rung.parameters if not one.tuned},
        restrictions=(*families, *rung.constraints),
        among=None if among is None else frozenset(among),
    )


def _of_no_family(rung: Rung, settings: Settings) -> str | None:
    if any(one.items() <= settings.items() for one in rung.families):
        return None
    return f"is not among the {len(rung.families)} choices that go together"
