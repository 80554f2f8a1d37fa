"""What happens before what in a schedule, and what that leaves open: races and endless waits.

A step happens before another if the other comes later on the same stream, waits for it, or keeps
what was sent after it; and so on through further steps. Steps of one rank without such an order may
run at the same time: if both touch the same rows, and one writes, they race. The order is that of
L. Lamport, "Time, clocks, and the ordering of events in a distributed system", CACM 21 (7), 1978.
"""

from graphlib import CycleError, TopologicalSorter
from itertools import combinations, takewhile

from gemmlab.lessons.multi_gpu.schedules import Collective, Schedule, ScheduleError, Step

Unit = list[tuple[int, Step]]  # a step of one rank, or a collective with that of each member


def in_order(schedule: Schedule) -> list[Unit]:
    """All steps, each behind those that happen before it; a collective is one.

    Raises ScheduleError where some would wait for ever.
    """
    units: dict[object, Unit] = {}
    key_of = {}
    for rank, step in schedule:
        key = step.name if isinstance(step.work, Collective) else (rank, step.name)
        units.setdefault(key, []).append((rank, step))
        key_of[rank, step.name] = key
    before = {
        key: [key_of[rank, name] for rank, step in unit for name in _before(schedule, rank, step)]
        for key, unit in units.items()
    }
    try:
        return [units[key] for key in TopologicalSorter(before).static_order()]
    except CycleError as error:
        waiting = (units[key][0] for key in dict.fromkeys(error.args[1]))
        names = " for ".join(f"{step.name!r} of rank {rank}" for rank, step in waiting)
        raise ScheduleError(
            f"these steps would wait for ever, each for the next: {names}"
        ) from None


def _before(schedule: Schedule, rank: int, step: Step) -> tuple[str, ...]:
    """The names of the steps that this one directly comes after."""
    first = takewhile(lambda other: other is not step, schedule.steps[rank])
    same = [other.name for other in first if other.stream == step.stream]
    return (*same[-1:], *step.after)


def earlier(schedule: Schedule) -> dict[tuple[int, str], frozenset[tuple[int, str]]]:
    """Of each step, by rank and name, all that happen before it. Raises ScheduleError."""
    before: dict[tuple[int, str], frozenset] = {}
    for unit in in_order(schedule):
        before_on_rank = {
            rank: frozenset().union(
                *(before[rank, name] | {(rank, name)} for name in _before(schedule, rank, step))
            )
            for rank, step in unit
        }
        for rank, step in unit:
            sources = ()
            if isinstance(step.work, Collective):
                sources = {message.source for message in step.work.kept_by(rank)}
            before[rank, step.name] = before_on_rank[rank].union(
                *(before_on_rank[source] for source in sources)
            )
    return before


def findings(schedule: Schedule) -> list[str]:
    """A sentence for each race, and for each read of rows that nobody wrote."""
    before = earlier(schedule)
    sentences = []
    for rank, steps in enumerate(schedule.steps):
        for first, second in combinations(steps, 2):
            ordered = (rank, first.name) in before[rank, second.name] or (
                (rank, second.name) in before[rank, first.name]
            )
            if not ordered:
                sentences += _races(rank, first, second)
        works = {step.name: step.work for step in steps}
        given = [held.part for held in schedule.inputs if held.rank == rank]
        for step in steps:
            names = [name for at, name in before[rank, step.name] if at == rank]
            written = [*given, *(part for name in names for part in works[name].writes(rank))]
            places = set().union(*(part.places for part in written))
            sentences += [
                f"rank {rank}: {step.name!r} reads {part}, of which some rows may not have been "
                "written yet"
                for part in step.work.reads(rank)
                if not part.places <= places
            ]
    return sentences


def _races(rank: int, step: Step, other: Step) -> list[str]:
    """A sentence if one of them writes rows that the other touches."""
    for parts, other_parts, does, other_does in (
        (step.work.writes(rank), other.work.writes(rank), "write", "writes"),
        (step.work.writes(rank), other.work.reads(rank), "write", "reads"),
        (step.work.reads(rank), other.work.writes(rank), "read", "writes"),
    ):
        shared = (part.shared(other_part) for part in parts for other_part in other_parts)
        if rows := next(filter(None, shared), None):
            return [
                f"rank {rank}: {other.name!r} {other_does} {rows} while {step.name!r} may {does} "
                "it: no event orders the two"
            ]
    return []
