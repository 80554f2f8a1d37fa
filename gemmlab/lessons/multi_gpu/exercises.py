"""The exercises of 21_multi_gpu: rings to write, and an event to find. They check themselves."""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from gemmlab.ladder import Problem
from gemmlab.lessons.multi_gpu import order
from gemmlab.lessons.multi_gpu.schedules import Schedule, ScheduleError, column_parallel

COUNTS, NAMED_COUNTS = (2, 3, 4, 7), "2, 3, 4 and 7"
PLANTED = (1, "gather 3", "product 1")  # rank, step, and the event that it lacks
Ring = Callable[[int, int], Sequence[int]]


def check_all_gather(ring: Ring) -> None:
    """Say whether ring(rank, ranks) is an all-gather on a ring.

    It gives, for each of ranks - 1 rounds, the part that this rank sends to the next one. Part r is
    at first on rank r alone; at the end every rank has all.
    """
    for ranks in COUNTS:
        if (rounds := _rounds(ring, ranks)) is None:
            return
        held = [{rank} for rank in range(ranks)]
        for at, sent in enumerate(rounds):
            for rank, part in enumerate(sent):
                if part not in held[rank]:
                    has = ", ".join(map(str, sorted(held[rank])))
                    print(
                        f"Not yet: of {ranks} ranks, rank {rank} sends part {part} in round {at}, "
                        f"and has only {has}."
                    )
                    return
            for rank, part in enumerate(sent):
                held[(rank + 1) % ranks].add(part)
        for rank, parts in enumerate(held):
            if lacks := sorted(set(range(ranks)) - parts):
                print(f"Not yet: of {ranks} ranks, rank {rank} lacks part {lacks[0]} at the end.")
                return
    print(f"Right: with {NAMED_COUNTS} ranks all have all parts after one round less.")


def check_reduce_scatter(ring: Ring) -> None:
    """Say whether ring(rank, ranks) is a reduce-scatter on a ring.

    It gives, for each of ranks - 1 rounds, the part whose sum so far this rank sends to the next
    one, which adds it to its own. At the end rank r has the sum of all ranks for part r.
    """
    for ranks in COUNTS:
        if (rounds := _rounds(ring, ranks)) is None:
            return
        # Of each rank and part, how often each rank's own number is in the sum.
        counts = np.tile(np.eye(ranks, dtype=int)[:, None], (1, ranks, 1))
        for sent in rounds:
            sums = [counts[rank, part].copy() for rank, part in enumerate(sent)]
            for rank, part in enumerate(sent):
                counts[(rank + 1) % ranks, part] += sums[rank]
        for rank, other in product(range(ranks), repeat=2):
            if (times := counts[rank, rank, other]) != 1:
                print(
                    f"Not yet: of {ranks} ranks, rank {rank} ends with the number of rank {other} "
                    f"{times} times in its sum."
                )
                return
    print(f"Right: with {NAMED_COUNTS} ranks each has the whole sum of its part.")


def _rounds(ring: Ring, ranks: int) -> list[tuple[int, ...]] | None:
    """Of each round the part of each rank; None, said, where it is something else."""
    by_rank = []
    for rank in range(ranks):
        given = ring(rank, ranks)
        parts = list(given) if isinstance(given, Sequence) else None
        if parts is None or len(parts) != ranks - 1:
            print(
                f"Not yet: of {ranks} ranks, rank {rank} needs a list of {ranks - 1} parts, one "
                "for each round."
            )
            return None
        wrong = [part for part in parts if part not in range(ranks)]
        if wrong:
            print(
                f"Not yet: of {ranks} ranks, rank {rank} sends part {wrong[0]!r}; there are 0 to "
                f"{ranks - 1}."
            )
            return None
        by_rank.append([int(part) for part in parts])
    return list(zip(*by_rank, strict=True))


def without_an_event() -> Schedule:
    """A column parallel product of three ranks in four chunks, in which one event is missing."""
    return column_parallel(Problem(24, 9, 6), 3, 4).without(*PLANTED)


def find_event(schedule: Schedule, rank: int | None, step: str | None, event: str | None) -> None:
    """Say whether nothing races once `step` of `rank` waits for `event`. None: no answer yet."""
    if rank is None or step is None or event is None:
        print("Not answered yet: put rank, step and event in place of None and run it again.")
        return
    try:
        remaining = order.findings(schedule.with_event(rank, step, event))
    except ScheduleError as error:
        print(f"Not yet: {error}.")
        return
    before = len(order.findings(schedule))
    if remaining:
        print(f"Not yet: of {before} findings {len(remaining)} are left. {remaining[0]}.")
    else:
        print(f"Right: {step!r} of rank {rank} waits for {event!r} now, and nothing races.")
        if (rank, step, event) != PLANTED:
            print(
                "It waits for longer than it must: there is a later step that could wait instead."
            )
