"""Schedules: what each rank has and does, and a product cut by its columns, and by its sum.

A buffer is a matrix of one rank, stored row by row: a collective moves contiguous rows. Steps of a
stream run one after the other; a step may wait for others of its rank by their names.

column_parallel and row_parallel are the two halves of a Transformer's MLP as M. Shoeybi and others,
"Megatron-LM", arXiv 1909.08053, cut it, with rows of the tokens spread over the ranks before and
after as V. Korthikanti and others, arXiv 2205.05198, have them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from textwrap import dedent

from gemmlab.ladder import Precision, Problem
from gemmlab.report import Listing

Span = tuple[int, int]  # from, up to


class ScheduleError(ValueError):
    """A schedule that cannot be made, or cannot be run; the message says what would be right."""


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

    @property
    def places(self) -> set[tuple[str, int]]:
        """Buffer and number of each row."""
        return {(self.buffer, row) for row in range(self.start, self.stop)}

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

    def flop(self, rank: int, work: Product) -> int:
        """A multiplication and an addition for each element of A and column of B."""
        return 2 * work.c.rows * work.b.rows * self.buffers[rank][work.b.buffer].columns

    def received_bytes(self, rank: int, precision: Precision) -> int:
        """What other ranks send to this one, in all."""
        return sum(
            self.bytes_of(rank, message.kept, precision)
            for step in self.steps[rank]
            if isinstance(step.work, Collective)
            for message in step.work.kept_by(rank)
            if message.source != rank
        )

    def bytes_of(self, rank: int, part: Part, precision: Precision) -> int:
        buffer = self.buffers[rank][part.buffer]
        return part.rows * buffer.columns * getattr(precision, buffer.matrix.lower()).bytes

    def listing(self, rank: int) -> str:
        """The steps of a rank, a line each: stream, name, what it does, what it waits for."""
        rows = [_words(step) for step in self.steps[rank]]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)

    def without(self, rank: int, name: str, event: str) -> Schedule:
        """The same without an event that this step waits for. Raises ScheduleError."""
        step = self._step(rank, name)
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


# ---- the two cuts --------------------------------------------------------------------------------

SLOTS = 2  # of chunks: one is multiplied, one is on its way
COLUMN, ROW, ONE = "column parallel", "row parallel", "one rank"


def one_rank(problem: Problem) -> Schedule:
    """The whole product on one rank, with which the others are compared."""
    m, n, k = problem.shape
    a, b, c = (Part(name, 0, rows) for name, rows in zip("ABC", (m, k, m), strict=True))
    buffers = {"A": Buffer(m, k, "A"), "B": Buffer(k, n, "B"), "C": Buffer(m, n, "C")}
    steps = (Step("product", Product(a, b, c), PRODUCTS),)
    held = (Held("A", 0, a, 0, (0, k)), Held("B", 0, b, 0, (0, n)))
    return Schedule(ONE, problem, (buffers,), (steps,), held, (Held("C", 0, c, 0, (0, n)),))


def column_parallel(problem: Problem, ranks: int, chunks: int = 1) -> Schedule:
    """Each rank has rows of A and columns of B, and gets all rows of its columns of C.

    A chunk of rows is gathered from all ranks while the chunk before it is multiplied. Rows of C
    lie in the order of the chunks, which is that of row_parallel with as many chunks.
    """
    rows = _rows(problem, ranks, chunks)
    columns, k = parts(problem.n, ranks), problem.k
    most = max(sum(map(length, chunk)) for chunk in rows)
    a_of = [spans_to_parts("A", [chunk[rank] for chunk in rows]) for rank in range(ranks)]
    c_of = spans_to_parts("C", [(0, sum(map(length, chunk))) for chunk in rows])
    buffers, steps, inputs, outputs = [], [], [], []
    for rank in range(ranks):
        wide = length(columns[rank])
        slots = {_slot("A", at): Buffer(most, k, "A") for at in range(min(SLOTS, chunks))}
        buffers.append({
            "A": Buffer(sum(part.rows for part in a_of[rank]), k, "A"), "B": Buffer(k, wide, "B"),
            **slots, "C": Buffer(problem.m, wide, "C"),
        })  # fmt: skip
        b, rank_steps = Part("B", 0, k), []
        for at, chunk in enumerate(rows):
            kept = spans_to_parts(_slot("A", at), chunk)
            messages = tuple(
                Message(source, target, a_of[source][at], kept[source])
                for source in range(ranks)
                for target in range(ranks)
            )
            gathered = Part(_slot("A", at), 0, kept[-1].stop)
            # the steps of a chunk
            free = (f"product {at - SLOTS}",) if at >= SLOTS else ()
            gather = Collective(ALL_GATHER, tuple(range(ranks)), messages)
            rank_steps += [
                Step(f"gather {at}", gather, COPIES, after=free),
                Step(f"product {at}", Product(gathered, b, c_of[at]), PRODUCTS,
                     after=(f"gather {at}",)),
            ]  # fmt: skip
        steps.append(tuple(rank_steps))
        inputs.append(Held("A", rank, Part("A", 0, a_of[rank][-1].stop), rows[0][rank][0], (0, k)))
        inputs.append(Held("B", rank, b, 0, columns[rank]))
        outputs += _held_in_chunks("C", rank, c_of, rows, columns[rank])
    return Schedule(COLUMN, problem, *map(tuple, (buffers, steps, inputs, outputs)))


def row_parallel(problem: Problem, ranks: int, chunks: int = 1) -> Schedule:
    """Each rank has columns of A and the rows of B that they meet, and gets rows of C.

    Its product is a part of the sum for all of C: when a chunk of rows is multiplied, each rank
    gets its rows of it from all others, and adds them in the order of ranks, while the next chunk
    is multiplied. Rows of A lie in the order of the chunks, as column_parallel leaves its C.
    """
    rows = _rows(problem, ranks, chunks)
    depths, n = parts(problem.k, ranks), problem.n
    most = max(sum(map(length, chunk)) for chunk in rows)
    a_of = spans_to_parts("A", [(0, sum(map(length, chunk))) for chunk in rows])
    buffers, steps, inputs, outputs = [], [], [], []
    for rank in range(ranks):
        deep, slots = length(depths[rank]), range(min(SLOTS, chunks))
        c_of = spans_to_parts("C", [chunk[rank] for chunk in rows])
        most_rows = max(part.rows for part in c_of)
        b, rank_steps = Part("B", 0, deep), []
        buffers.append({
            "A": Buffer(problem.m, deep, "A"), "B": Buffer(deep, n, "B"),
            **{_slot("partial", at): Buffer(most, n, "C") for at in slots},
            **{_slot(f"of rank {other}", at): Buffer(most_rows, n, "C")
               for at in slots for other in range(ranks) if other != rank},
            "C": Buffer(sum(part.rows for part in c_of), n, "C"),
        })  # fmt: skip
        for at, chunk in enumerate(rows):
            partial = spans_to_parts(_slot("partial", at), chunk)
            messages = tuple(
                Message(source, target, partial[target],
                        Part(_slot(f"of rank {source}", at), 0, length(chunk[target])))
                for source in range(ranks)
                for target in range(ranks)
                if source != target
            )  # fmt: skip
            terms = tuple(
                partial[rank] if source == rank
                else Part(_slot(f"of rank {source}", at), 0, length(chunk[rank]))
                for source in range(ranks)
            )  # fmt: skip
            c = Part(_slot("partial", at), 0, partial[-1].stop)
            # the steps of a chunk
            free = (f"exchange {at - SLOTS}", f"sum {at - SLOTS}") if at >= SLOTS else ()
            exchange = Collective(EXCHANGE, tuple(range(ranks)), messages)
            rank_steps += [
                Step(f"product {at}", Product(a_of[at], b, c), PRODUCTS, after=free),
                Step(f"exchange {at}", exchange, COPIES, after=(f"product {at}",)),
                Step(f"sum {at}", Sum(terms, c_of[at]), COPIES, after=(f"product {at}",)),
            ]
        steps.append(tuple(rank_steps))
        inputs += _held_in_chunks("A", rank, a_of, rows, depths[rank])
        inputs.append(Held("B", rank, b, depths[rank][0], (0, n)))
        outputs.append(Held("C", rank, Part("C", 0, c_of[-1].stop), rows[0][rank][0], (0, n)))
    return Schedule(ROW, problem, *map(tuple, (buffers, steps, inputs, outputs)))


def _rows(problem: Problem, ranks: int, chunks: int) -> list[list[Span]]:
    """Of each chunk the rows of each rank: its own rows in as many parts as there are chunks.

    Raises ScheduleError where a rank would have nothing.
    """
    least = ranks * chunks
    if problem.m < least or min(problem.n, problem.k) < ranks:
        raise ScheduleError(
            f"{problem} has too little for {ranks} ranks and {chunks} chunks: take an M of {least} "
            f"or more, an N and a K of {ranks} or more"
        )
    of_ranks = [parts(length(span), chunks, span[0]) for span in parts(problem.m, ranks)]
    return [list(chunk) for chunk in zip(*of_ranks, strict=True)]


def _slot(name: str, at: int) -> str:
    return f"{name} slot {at % SLOTS}"


def _held_in_chunks(matrix: str, rank: int, of_chunks, rows, columns) -> list[Held]:
    """Where rows lie that are in the order of chunks, and in each in that of ranks."""
    return [
        Held(matrix, rank, Part(matrix, part.start + at.start, part.start + at.stop), span[0],
             columns)
        for part, chunk in zip(of_chunks, rows, strict=True)
        for at, span in zip(spans_to_parts(matrix, chunk), chunk, strict=True)
    ]  # fmt: skip


def schedule_lines(maker: Callable[..., Schedule]) -> Listing:
    """A maker's source from its comment on steps to the end of their list, numbered as the file."""
    source, first = inspect.getsourcelines(maker)
    stripped = [line.strip() for line in source]
    begin = stripped.index("# the steps of a chunk")
    end = next(at for at in range(begin, len(source)) if stripped[at].startswith("]")) + 1
    text = dedent("".join(source[begin:end])).replace("  # fmt: skip", "").rstrip()
    return Listing(text, "python", tuple(range(first + begin, first + end)))
