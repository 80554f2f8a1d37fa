"""What an instruction of a loop reads and writes, and what a stretch of them computes, as symbols.

Enough to tell whether two orders of the same instructions compute the same: a value is the text of
the operation on the values of its sources. Registers are "R12", predicates "P0"; a register that
nobody has written yet has its own name as its value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gemmlab.cuda.disassembler import Instruction

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


def results_of(one: Instruction) -> int:
    """How many of its operands, the first ones, are written."""
    return 0 if one.operation in NO_RESULT else 2 if one.operation in COMPARES else 1


def effect(one: Instruction) -> Effect:
    """What it reads and writes; a memory load reads its address."""
    results = results_of(one)
    writes = [name for text in one.operands[:results] for name in _NAME.findall(text)]
    width = next((WIDTHS[part] for part in one.opcode.split(".") if part in WIDTHS), 1)
    if width > 1 and (first := _NUMBERED.fullmatch(one.operands[0])):
        writes = [f"R{int(first[1]) + n}" for n in range(width)]
    texts = [one.predicate, *one.operands[results:]]
    return Effect(tuple(writes), tuple(name for text in texts for name in _NAME.findall(text)))


def values(instructions: Sequence[Instruction]) -> dict[str, int]:
    """What stands in each register and predicate that they write, as the hash of its expression."""
    state: dict[str, int | str] = {}
    for one in instructions:
        done = effect(one)
        sources = tuple(
            _NAME.sub(lambda match: str(state.get(match[0], match[0])), text.replace(".reuse", ""))
            for text in (one.predicate, *one.operands[results_of(one) :])
        )
        for at, name in enumerate(done.writes):
            state[name] = hash((one.opcode, sources, at))
    return state
