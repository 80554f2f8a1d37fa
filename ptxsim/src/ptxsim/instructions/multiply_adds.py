"""Multiply-adds that do not depend on one another: see fused.py."""

from __future__ import annotations

from ptxsim.arithmetic import fused
from ptxsim.ptx import LEAVES_BLOCK, Instruction
from ptxsim.types import FLOATS

FUSED = "fma.rn.ftz.f32"


def steps(instructions: list[Instruction]):
    """The instructions of a basic block, in an order that changes nothing.

    Multiply-adds that do not depend on one another come together, in a list. They wait until an
    instruction reads their results, or writes what they read.
    """
    waiting: list[Instruction] = []
    written: set[str] = set()
    read: set[str] = set()
    for one in instructions:
        target, sources = one.defines, one.uses
        if target & (written | read) or sources & written or one.name in LEAVES_BLOCK:
            yield from [waiting] if waiting else []
            waiting, written, read = [], set(), set()
        if one.opcode == FUSED and one.predicate is None:
            waiting.append(one)
            written |= target
            read |= sources
        else:
            yield one
    yield from [waiting] if waiting else []


def write(w, instructions: list[Instruction]) -> None:
    """The lines for multiply-adds in any order: those that share a factor together."""
    for group in _groups(instructions):
        if len(group) == 1:
            w.instruction(group[0][0])
        else:
            _write_group(w, group)


def _groups(instructions: list[Instruction]):
    """Lists of (instruction, its shared factor, its other factor)."""
    both = []
    for first in (1, 2):
        groups: dict = {}
        for one in instructions:
            shared, other = one.operands[first], one.operands[3 - first]
            groups.setdefault(shared, []).append((one, shared, other))
        both.append(list(groups.values()))
    return min(both, key=len)


def _write_group(w, group) -> None:
    w.fma_count += len(group)
    dimensions = "len(lanes.shape)"
    shared = w.wide(group[0][1], ftz=True)
    others = ", ".join(w.wide(other, ftz=True) for _, _, other in group)
    factors = w.once(f"{w.use(fused.stack)}({dimensions}, {others})")
    sums = ", ".join(w.number(one.operands[3], FLOATS["f32"], ftz=True) for one, _, _ in group)
    degree = max(w.exactness.degrees[one.operands[0].name] for one, _, _ in group)
    given = all(w.exactness.are_given(shared, other) for _, shared, other in group)
    rows = f"g{len(w.lines)}"
    w.lines.append(
        f"{rows} = {w.use(fused.fma_rows)}({shared}, {factors}, ({sums}), "
        f"lanes.known_sums[{degree, given}], lanes.stacks, {dimensions})"
    )
    for row, (one, _, _) in enumerate(group):
        w.assign(one.operands[0], f"{rows}[{row}]", FLOATS["f32"], one)
