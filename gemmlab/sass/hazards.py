"""What a stretch of SASS may not do: use what is under way, or has not been computed yet.

Hardware looks at neither. Of a load from shared memory, a barrier counts until its result is there
or its address is read; loads are done in their order. Of all else the assembler knows how many
cycles it takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from gemmlab.cuda.disassembler import Instruction
from gemmlab.sass.effects import effect
from gemmlab.sass.inner_loop import SHARED_LOAD, class_of

ENOUGH = 6  # cycles: what takes a fixed number of them is done by then


def under_way(trip: Sequence[Instruction]) -> list[str]:
    """Uses of what loads have not brought yet, in one trip of many; empty where there are none."""
    found: list[str] = []
    loads: list[tuple[Instruction, set[str], str]] = []  # result and address still in use
    for at, one in enumerate((*trip, *trip)):
        for barrier in one.control.waits_for:
            loads = _after(loads, barrier)
        done = effect(one)
        for load, results, address in loads:
            used = results & {*done.reads, *done.writes}
            if at >= len(trip) and (used or address in done.writes):
                what = ", ".join(sorted(used)) or address
                found.append(f"slot {at - len(trip)}, {one}: {what} is in use by {load}")
        if class_of(one) == SHARED_LOAD:
            loads.append((one, set(done.writes), next(iter(done.reads))))
    return found


def _after(
    loads: list[tuple[Instruction, set[str], str]], barrier: int
) -> list[tuple[Instruction, set[str], str]]:
    """The loads that are still in use once a barrier is at 0."""
    wrote = read = 0
    for at, (load, _, _) in enumerate(loads, 1):
        if load.control.write_barrier == barrier:
            wrote = at
        if load.control.read_barrier == barrier:
            read = at
    return [
        (load, results, "" if at < read else address)
        for at, (load, results, address) in enumerate(loads)
        if at >= wrote
    ]


def distances(trip: Sequence[Instruction]) -> list[tuple[int, int, int]]:
    """Each result of fixed latency that is used soon: producer, user, cycles between; by slots.

    Of one trip of many: what the trip before left may be used, too.
    """
    wrote: dict[str, tuple[int, int]] = {}
    found, now = [], 0
    for at, one in enumerate((*trip, *trip)):
        done = effect(one)
        for name in done.reads:
            if name in wrote and (cycles := now - wrote[name][1]) < ENOUGH and at >= len(trip):
                found.append((wrote[name][0] % len(trip), at % len(trip), cycles))
        for name in done.writes:
            if class_of(one) == SHARED_LOAD:
                wrote.pop(name, None)
            else:
                wrote[name] = at, now
        now += max(1, one.control.stall)
    return found


def shortest(trip: Sequence[Instruction]) -> dict[tuple[str, str], int]:
    """The fewest cycles that lie between a result and its use, by operations, below ENOUGH."""
    found: dict[tuple[str, str], int] = {}
    for producer, user, cycles in distances(trip):
        pair = trip[producer].operation, trip[user].operation
        found[pair] = min(cycles, found.get(pair, ENOUGH))
    return found


def too_soon(
    trip: Sequence[Instruction], allowed: dict[tuple[str, str], int]
) -> list[tuple[int, int]]:
    """Results that are used before they are there: producer's slot, and the cycles that lack.

    `allowed`: as `shortest` found it in a listing of the assembler; ENOUGH for other pairs.
    """
    found = []
    for producer, user, cycles in distances(trip):
        pair = trip[producer].operation, trip[user].operation
        if (lack := allowed.get(pair, ENOUGH) - cycles) > 0:
            found.append((producer, lack))
    return found
