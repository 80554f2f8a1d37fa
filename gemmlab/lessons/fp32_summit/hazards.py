"""What a stretch of SASS may not do: use what is under way, or has not been computed yet.

Hardware checks neither. A barrier counts until the result of a load from shared memory is there, or
its address is read; loads are done in their order. Of all else the assembler knows the cycles.
Registers are "R12", predicates "P0". A value is the text of an operation on its sources' values.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gemmlab.cuda.disassembler import Instruction
from gemmlab.sass.inner_loop import SHARED_LOAD, class_of

NO_RESULT = ("BRA", "BSSY", "BSYNC", "BREAK", "NOP", "YIELD", "WARPSYNC", "EXIT")
COMPARES = ("ISETP", "PLOP3")  # write two predicates
WIDTHS = {"128": 4, "64": 2}  # registers, by a modifier of the opcode
_NAME = re.compile(r"\b(?:R\d+|U?P\d|UR\d+)\b")
_NUMBERED = re.compile(r"R(\d+)")


@dataclass(frozen=True)
class Effect:
    """Of one instruction: the names that it writes, and those that it reads."""

    writes: tuple[str, ...]
    reads: tuple[str, ...]


def results_of(instruction: Instruction) -> int:
    """How many of its operands, the first ones, are written."""
    if instruction.operation in NO_RESULT:
        return 0
    return 2 if instruction.operation in COMPARES else 1


def effect(instruction: Instruction) -> Effect:
    results = results_of(instruction)
    writes = [name for text in instruction.operands[:results] for name in _NAME.findall(text)]
    width = next((WIDTHS[part] for part in instruction.opcode.split(".") if part in WIDTHS), 1)
    if width > 1 and (first := _NUMBERED.fullmatch(instruction.operands[0])):
        writes = [f"R{int(first[1]) + n}" for n in range(width)]
    texts = [instruction.predicate, *instruction.operands[results:]]
    return Effect(tuple(writes), tuple(name for text in texts for name in _NAME.findall(text)))


def values(instructions: Sequence[Instruction]) -> dict[str, int]:
    """What stands in each register and predicate that they write, as the hash of its expression."""
    state: dict[str, int | str] = {}
    for instruction in instructions:
        done = effect(instruction)
        sources = tuple(
            _NAME.sub(lambda match: str(state.get(match[0], match[0])), text.replace(".reuse", ""))
            for text in (instruction.predicate, *instruction.operands[results_of(instruction) :])
        )
        for at, name in enumerate(done.writes):
            state[name] = hash((instruction.opcode, sources, at))
    return state


ENOUGH = 6  # cycles: what takes a fixed number of them is done by then


@dataclass(frozen=True)
class Load:
    """A load from shared memory under way: what it writes, and its address.

    `address`: registers that it has yet to read.
    """

    instruction: Instruction
    results: frozenset[str]
    address: frozenset[str]


def under_way(trip: Sequence[Instruction]) -> list[str]:
    """Uses of results that loads have not delivered yet, in one trip of many."""
    uses: list[str] = []
    loads: list[Load] = []
    for at, instruction in enumerate((*trip, *trip)):
        for barrier in instruction.control.waits_for:
            loads = _after(loads, barrier)
        done, is_load = effect(instruction), class_of(instruction) == SHARED_LOAD
        for load in loads if at >= len(trip) else ():
            used = load.results & {*done.reads, *done.writes}
            if not is_load:  # which would write only after this one has read its address
                used |= load.address & {*done.writes}
            if used:
                where, names = at - len(trip), ", ".join(sorted(used))
                uses.append(f"slot {where}, {instruction}: {names} is in use by {load.instruction}")
        if is_load:
            loads.append(Load(instruction, frozenset(done.writes), frozenset(done.reads)))
    return uses


def _after(loads: list[Load], barrier: int) -> list[Load]:
    """The loads that are still in use once a barrier is at 0."""
    wrote = read = 0
    for at, load in enumerate(loads, 1):
        if load.instruction.control.write_barrier == barrier:
            wrote = at
        if load.instruction.control.read_barrier == barrier:
            read = at
    return [
        replace(load, address=frozenset()) if at < read else load
        for at, load in enumerate(loads)
        if at >= wrote
    ]


def distances(trip: Sequence[Instruction]) -> list[tuple[int, int, int]]:
    """Results of fixed latency used soon, in one trip of many: producer, user, cycles between."""
    wrote: dict[str, tuple[int, int]] = {}
    used_soon, now = [], 0
    for at, instruction in enumerate((*trip, *trip)):
        done = effect(instruction)
        for name in done.reads:
            if name in wrote and (cycles := now - wrote[name][1]) < ENOUGH and at >= len(trip):
                used_soon.append((wrote[name][0] % len(trip), at % len(trip), cycles))
        for name in done.writes:
            if class_of(instruction) == SHARED_LOAD:
                wrote.pop(name, None)
            else:
                wrote[name] = at, now
        now += max(1, instruction.control.stall)
    return used_soon


def shortest(trip: Sequence[Instruction]) -> dict[tuple[str, str], int]:
    """The fewest cycles that lie between a result and its use, by operations, below ENOUGH."""
    fewest: dict[tuple[str, str], int] = {}
    for producer, user, cycles in distances(trip):
        pair = trip[producer].operation, trip[user].operation
        fewest[pair] = min(cycles, fewest.get(pair, ENOUGH))
    return fewest


def too_soon(
    trip: Sequence[Instruction], allowed: dict[tuple[str, str], int]
) -> list[tuple[int, int]]:
    """Results that are used too early: the producer's slot and the missing cycles.

    `allowed`: as `shortest` found it in a listing of the assembler; ENOUGH for other pairs.
    """
    early = []
    for producer, user, cycles in distances(trip):
        pair = trip[producer].operation, trip[user].operation
        if (lack := allowed.get(pair, ENOUGH) - cycles) > 0:
            early.append((producer, lack))
    return early
