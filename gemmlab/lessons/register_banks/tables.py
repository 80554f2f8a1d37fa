"""The orders of the FMAs of an outer product, and how far ahead of their use loads stand."""

import re
from itertools import accumulate, pairwise

from gemmlab.lessons.register_banks.measure import ORDERS
from gemmlab.sass.inner_loop import MULTIPLY_ADD, SHARED_LOAD, Loop, class_of

BY_ROWS, SNAKING = ORDERS[0], ORDERS[2]


def places(order: str, rows: int, columns: int) -> list[tuple[int, int]]:
    """(row, column) of each sum in its turn: BY_ROWS, or SNAKING up a column and down the next."""
    if order == BY_ROWS:
        return [(i, j) for i in range(rows) for j in range(columns)]
    return [(i if j % 2 else rows - 1 - i, j) for j in range(columns) for i in range(rows)]


def kept(order: str, rows: int, columns: int) -> int:
    """How many FMAs of one outer product share an operand of A or B with the one before."""
    return sum(
        place[0] == other[0] or place[1] == other[1]
        for place, other in pairwise(places(order, rows, columns))
    )


def loads_ahead(loop: Loop) -> list[tuple[int, int]]:
    """For each load from shared memory of a trip: the FMAs before it, and those before its use.

    The use is the first instruction that reads what it loads; the FMAs between hide its latency.
    """
    trip = loop.instructions * 2  # what the end of a trip loads is used in the next one
    before = [0, *accumulate(class_of(instruction) == MULTIPLY_ADD for instruction in trip)]
    loads = []
    for at, instruction in enumerate(loop.instructions):
        loaded = re.match(r"R(\d+)", instruction.operands[0]) if instruction.operands else None
        if class_of(instruction) != SHARED_LOAD or not loaded:
            continue
        width = next((n for n in (4, 2) if f"{32 * n}" in instruction.opcode.split(".")), 1)
        registers = range(int(loaded[1]), int(loaded[1]) + width)
        used = next(
            n for n in range(at + 1, len(trip))
            if any(read.register in registers for read in trip[n].reads)
        )  # fmt: skip
        loads.append((before[at], before[used]))
    return loads


def change_of_tiles(loop: Loop) -> int:
    """The FMAs of a trip before its last wait for the next tiles, at a barrier or an mbarrier."""
    waits = [
        at for at, instruction in enumerate(loop.instructions)
        if instruction.operation == "BAR" or "TRYWAIT" in instruction.opcode
    ]  # fmt: skip
    before = loop.instructions[: waits[-1]]
    return sum(class_of(instruction) == MULTIPLY_ADD for instruction in before)
