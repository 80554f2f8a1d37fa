"""What a schedule is made of: buffers, steps that read and write rows of them, streams, events.

A buffer is a matrix of one rank, stored row by row: a collective moves contiguous rows. Steps of a
stream run one after the other; a step may wait for others of its rank by their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise

from gemmlab.ladder import Precision, Problem, is_whole

Span = tuple[int, int]  # from, up to


class ScheduleError(ValueError):
    """A schedule that cannot be made, or cannot be run; the message says what would be right."""


def whole(name: str, value: object, least: int = 1) -> int:
    """The value, if it is a whole number from `least` on. Raises ScheduleError."""
    if not is_whole(value) or value < least:
        raise ScheduleError(f"{name} is {value!r}; it must be a whole number, {least} or more")
    return int(value)


def parts(size: int, count: int, start: int = 0) -> list[Span]:
    """`size` numbers from `start` on in `count` spans, the longer ones, by 1, first."""
    cuts = [start + at * (size // count) + min(at, size % count) for at in range(count + 1)]
    return list(pairwise(cuts))


def length(span: Span) -> int:
    return span[1] - span[0]


PRODUCTS, COPIES = "products", "copies"  # streams
ALL_GATHER, EXCHANGE = "all-gather", "exchange"  # kinds of collectives


@dataclass(frozen=True)
class Buffer:
    """Room of a rank for a matrix. `matrix`: "A", "B" or "C", whose element type it has."""

    rows: int
    columns: int
    matrix: str


@dataclass(frozen=True)
class Part:
    """Rows `start` up to `stop` of a buffer."""

    buffer: str
    start: int
    stop: int

    def __str__(self) -> str:
        return f"{self.buffer}[{self.start}:{self.stop}]"

    @property
    def rows(self) -> int:
        return self.stop - self.start

    def shared(self, other: Part) -> Part | None:
        """The rows that are in both; None where there are none."""
        start, stop = max(self.start, other.start), min(self.stop, other.stop)
        same = self.buffer == other.buffer and start < stop
        return Part(self.buffer, start, stop) if same else None


@dataclass(frozen=True)
class Product:
    """c = a @ b, by the rung's kernel."""

    a: Part
    b: Part
    c: Part

    def reads(self, rank: int) -> tuple[Part, ...]:
        return (self.a, self.b)

    def writes(self, rank: int) -> tuple[Part, ...]:
        return (self.c,)


@dataclass(frozen=True)
class Sum:
    """into = the terms added in float32, in this order, and rounded once."""

    terms: tuple[Part, ...]
    into: Part

    def reads(self, rank: int) -> tuple[Part, ...]:
        return self.terms

    def writes(self, rank: int) -> tuple[Part, ...]:
        return (self.into,)


@dataclass(frozen=True)
class Message:
    """What rank `source` sends of its buffers, and where rank `target` keeps it."""

    source: int
    target: int
    sent: Part
    kept: Part


@dataclass(frozen=True)
class Collective:
    """Messages among `members`, in a step that each of them has under the same name.

    `kind`: ALL_GATHER: all have the parts of all, in the order of ranks; EXCHANGE: any messages.
    """

    kind: str
    members: tuple[int, ...]
    messages: tuple[Message, ...]

    def reads(self, rank: int) -> tuple[Part, ...]:
        return tuple(message.sent for message in self.sent_by(rank))

    def writes(self, rank: int) -> tuple[Part, ...]:
        return tuple(message.kept for message in self.kept_by(rank))

    def sent_by(self, rank: int) -> list[Message]:
        return [message for message in self.messages if message.source == rank]

    def kept_by(self, rank: int) -> list[Message]:
        return [message for message in self.messages if message.target == rank]


Work = Product | Sum | Collective


@dataclass(frozen=True)
class Step:
    """Work on a stream, begun when the steps of the same rank that `after` names are done."""

    name: str
    work: Work
    stream: str
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Held:
    """Which part of a matrix a rank has: rows from `row` on, and a span of columns."""

    matrix: str
    rank: int
    part: Part
    row: int
    columns: Span

    @property
    def rows(self) -> Span:
        return self.row, self.row + self.part.rows


@dataclass(frozen=True)
class Schedule:
    """What each rank has, does and gets. `steps`: of each rank, in the order of its program.

    `inputs`: where A and B are before, `outputs`: where C is after. `buffers`: of each rank.
    """

    name: str
    problem: Problem
    buffers: tuple[dict[str, Buffer], ...]
    steps: tuple[tuple[Step, ...], ...]
    inputs: tuple[Held, ...]
    outputs: tuple[Held, ...]

    def __repr__(self) -> str:
        return f"{self.name}, {self.problem}, {self.ranks} ranks"

    @property
    def ranks(self) -> int:
        return len(self.steps)

    @cached_property
    def streams(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(step.stream for steps in self.steps for step in steps))

    def __iter__(self) -> Iterator[tuple[int, Step]]:
        return ((rank, step) for rank, steps in enumerate(self.steps) for step in steps)

    def width(self, rank: int, part: Part) -> int:
        return self.buffers[rank][part.buffer].columns

    def flop(self, rank: int, work: Product) -> int:
        """A multiplication and an addition for each element of A and column of B."""
        return 2 * work.c.rows * self.width(rank, work.a) * self.width(rank, work.b)

    def received_bytes(self, rank: int, precision: Precision) -> int:
        """What other ranks send to this one, in all."""
        return sum(
            message.kept.rows
            * self.width(rank, message.kept)
            * self.element_bytes(rank, message.kept, precision)
            for step in self.steps[rank]
            if isinstance(step.work, Collective)
            for message in step.work.kept_by(rank)
            if message.source != rank
        )

    def element_bytes(self, rank: int, part: Part, precision: Precision) -> int:
        return getattr(precision, self.buffers[rank][part.buffer].matrix.lower()).bytes

    def listing(self, rank: int) -> str:
        """The steps of a rank, a line each: stream, name, what it does, what it waits for."""
        rows = [_words(step) for step in self.steps[rank]]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)

    def without(self, rank: int, name: str, event: str) -> Schedule:
        """The same without an event that this step waits for. Raises ScheduleError."""
        step = self._step(rank, name)
        if event not in step.after:
            raise ScheduleError(f"rank {rank}: {name!r} does not wait for {event!r}")
        return self._changed(rank, step, tuple(other for other in step.after if other != event))

    def with_event(self, rank: int, name: str, event: str) -> Schedule:
        """The same with one event more that this step waits for. Raises ScheduleError."""
        step = self._step(rank, name)
        return self._changed(rank, step, (*step.after, self._step(rank, event).name))

    def _step(self, rank: int, name: str) -> Step:
        for step in self.steps[rank] if 0 <= rank < self.ranks else ():
            if step.name == name:
                return step
        raise ScheduleError(f"rank {rank} has no step {name!r}; see listing({rank})")

    def _changed(self, rank: int, step: Step, after: tuple[str, ...]) -> Schedule:
        steps = [list(every) for every in self.steps]
        steps[rank][steps[rank].index(step)] = replace(step, after=after)
        return replace(self, steps=tuple(map(tuple, steps)))


def _words(step: Step) -> tuple[str, str, str, str]:
    work = step.work
    if isinstance(work, Product):
        does = f"{work.c} = {work.a} @ {work.b}"
    elif isinstance(work, Sum):
        does = f"{work.into} = {' + '.join(map(str, work.terms))}"
    else:
        does = f"{work.kind} among {', '.join(map(str, work.members))}"
    waits = f"after {', '.join(step.after)}" if step.after else ""
    return step.stream, step.name, does, waits


def spans_to_parts(buffer: str, spans: list[Span]) -> list[Part]:
    """Parts of a buffer that lie behind one another, as long as the spans."""
    ends = accumulate(map(length, spans), initial=0)
    return [Part(buffer, start, stop) for start, stop in pairwise(ends)]
