"""The schedules: a product cut by its columns, and by its sum.

column_parallel and row_parallel are the two halves of a Transformer's MLP as M. Shoeybi and others,
"Megatron-LM", arXiv 1909.08053, cut it, with rows of the tokens spread over the ranks before and
after as V. Korthikanti and others, arXiv 2205.05198, have them.
"""

import inspect
from collections.abc import Callable
from dataclasses import replace

from gemmlab.ladder import Problem
from gemmlab.lessons.multi_gpu.schedule import (
    ALL_GATHER,
    COPIES,
    EXCHANGE,
    PRODUCTS,
    Buffer,
    Collective,
    Held,
    Message,
    Part,
    Product,
    Schedule,
    Step,
    Sum,
    length,
    parts,
    spans_to_parts,
    whole,
)
from gemmlab.report import Listing

SLOTS = 2  # of chunks: one is multiplied, one is on its way
COLUMN, ROW, ONE = "column parallel", "row parallel", "one rank"


def one_rank(problem: Problem) -> Schedule:
    """The whole product on one rank, with which the others are compared."""
    m, n, k = problem.shape
    a, b, c = (Part(name, 0, rows) for name, rows in zip("ABC", (m, k, m), strict=True))
    buffers = {"A": Buffer(m, k, "A"), "B": Buffer(k, n, "B"), "C": Buffer(m, n, "C")}
    steps = (Step("product", Product(a, b, c), PRODUCTS),) if m and n else ()
    held = (Held("A", 0, a, 0, (0, k)), Held("B", 0, b, 0, (0, n)))
    return Schedule(ONE, problem, (buffers,), (steps,), held, (Held("C", 0, c, 0, (0, n)),))


def column_parallel(problem: Problem, ranks: int, chunks: int = 1) -> Schedule:
    """Each rank has rows of A and columns of B, and gets all rows of its columns of C.

    A chunk of rows is gathered from all ranks while the chunk before it is multiplied. Rows of C
    lie in the order of the chunks, which is that of row_parallel with as many chunks.
    """
    rows = _rows(problem.m, whole("ranks", ranks), whole("chunks", chunks))
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
        inputs += [Held("A", rank, a_of[rank][at], rows[at][rank][0], (0, k)) for at in range(chunks)]  # fmt: skip # noqa: E501
        inputs.append(Held("B", rank, b, 0, columns[rank]))
        outputs += _held_in_chunks("C", rank, c_of, rows, columns[rank])
    return _made(COLUMN, problem, buffers, steps, inputs, outputs)


def row_parallel(problem: Problem, ranks: int, chunks: int = 1) -> Schedule:
    """Each rank has columns of A and the rows of B that they meet, and gets rows of C.

    Its product is a part of the sum for all of C: when a chunk of rows is multiplied, each rank
    gets its rows of it from all others, and adds them in the order of ranks, while the next chunk
    is multiplied. Rows of A lie in the order of the chunks, as column_parallel leaves its C.
    """
    rows = _rows(problem.m, whole("ranks", ranks), whole("chunks", chunks))
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
        outputs += [Held("C", rank, c_of[at], rows[at][rank][0], (0, n)) for at in range(chunks)]
    return _made(ROW, problem, buffers, steps, inputs, outputs)


def _rows(m: int, ranks: int, chunks: int) -> list[list[tuple[int, int]]]:
    """Of each chunk the rows of each rank: its own rows in as many parts as there are chunks."""
    of_ranks = [parts(length(span), chunks, span[0]) for span in parts(m, ranks)]
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


def _made(name: str, problem: Problem, buffers, steps, inputs, outputs) -> Schedule:
    """Without messages, products and sums of nothing, and events of steps that are not there."""
    kept = []
    for rank_steps in steps:
        there = [slim for step in rank_steps if (slim := _slim(step)) is not None]
        names = {step.name for step in there}
        kept.append(
            tuple(replace(step, after=tuple(n for n in step.after if n in names)) for step in there)
        )
    held = [tuple(held for held in every if held.part.rows) for every in (inputs, outputs)]
    return Schedule(name, problem, tuple(buffers), tuple(kept), *held)


def _slim(step: Step) -> Step | None:
    work = step.work
    if isinstance(work, Collective):
        messages = tuple(message for message in work.messages if message.sent.rows)
        return replace(step, work=replace(work, messages=messages)) if messages else None
    written = work.c if isinstance(work, Product) else work.into
    return step if written.rows else None


MARK = "# the steps of a "


def schedule_lines(maker: Callable[..., Schedule]) -> Listing:
    """From the mark in a maker's source to the end of that block, with the numbers of the file."""
    source, first = inspect.getsourcelines(maker)
    begin = next(at for at, line in enumerate(source) if line.strip().startswith(MARK))
    margin = " " * (len(source[begin]) - len(source[begin].lstrip()))
    ends = (at for at in range(begin, len(source)) if not source[at].startswith(margin))
    end = next(ends, len(source))
    lines = (line[len(margin) :].partition("  # fmt")[0].rstrip() for line in source[begin:end])
    return Listing("\n".join(lines), "python", tuple(range(first + begin, first + end)))
