"""Ranks in a grid, and a size cut into parts for them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from gemmlab.ladder import is_whole

Span = tuple[int, int]  # from, up to


class ScheduleError(ValueError):
    """A schedule that cannot be made, or cannot be run; the message says what would be right."""


def whole(name: str, value: object, least: int = 1) -> int:
    """The value, if it is a whole number from `least` on. Raises ScheduleError."""
    if not is_whole(value) or value < least:
        raise ScheduleError(f"{name} is {value!r}; it must be a whole number, {least} or more")
    return int(value)


def parts(size: int, count: int, start: int = 0) -> list[Span]:
    """`size` numbers from `start` on in `count` spans, whose lengths differ by 1 at most.

    The longer ones come first; where there are more spans than numbers the last ones are empty.
    """
    cuts = [start + at * (size // count) + min(at, size % count) for at in range(count + 1)]
    return list(pairwise(cuts))


def length(span: Span) -> int:
    return span[1] - span[0]


@dataclass(frozen=True)
class Grid:
    """`rows` × `columns` ranks, numbered along the rows. Raises ScheduleError for sizes below 1."""

    rows: int
    columns: int

    def __post_init__(self):
        whole("rows of the grid", self.rows)
        whole("columns of the grid", self.columns)

    def __str__(self) -> str:
        return f"{self.rows}×{self.columns}"

    @property
    def count(self) -> int:
        return self.rows * self.columns

    def place(self, rank: int) -> tuple[int, int]:
        """Row and column of a rank."""
        return divmod(rank, self.columns)

    def row(self, at: int) -> tuple[int, ...]:
        """The ranks of a row."""
        return tuple(range(at * self.columns, (at + 1) * self.columns))

    def column(self, at: int) -> tuple[int, ...]:
        """The ranks of a column."""
        return tuple(range(at, self.count, self.columns))


def squarest(count: int) -> Grid:
    """The grid of so many ranks whose sides differ least, no more rows than columns."""
    whole("the number of ranks", count)
    rows = max(one for one in range(1, int(count**0.5) + 1) if count % one == 0)
    return Grid(rows, count // rows)
