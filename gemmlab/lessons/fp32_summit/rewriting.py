"""A loop of a cubin written anew: the same instructions, its shared loads in other places.

It is tied to the listing that one version of NVRTC makes of one source; NoListing says why another
cannot be rewritten.

Hardware does not check whether an operand is there. Of a load a barrier says it, of all else the
assembler knows the cycles. So a load moves past nothing that touches its result, changes its
address, or waits for its barrier; and what would then come too late stalls longer.
"""

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gemmlab.cuda.disassembler import INSTRUCTION_BYTES, Instruction, disassemble, parse, section
from gemmlab.sass.inner_loop import MULTIPLY_ADD, SHARED_LOAD, class_of, inner_loop, runs_of

NEAR = 30  # slots: loads that lie closer together belong to one step
ENOUGH = 6  # cycles: what takes a fixed number of them is done by then
NO_RESULT = ("BRA", "BSSY", "BSYNC", "BREAK", "NOP", "YIELD", "WARPSYNC", "EXIT")
COMPARES = ("ISETP", "PLOP3")  # write two predicates
WIDTHS = {"128": 4, "64": 2}  # registers, by a modifier of the opcode
_NAME = re.compile(r"\b(?:R\d+|U?P\d|UR\d+)\b")
_NUMBERED = re.compile(r"R(\d+)")
_WORD = re.compile(r"/\* 0x([0-9a-f]{16}) \*/")  # half of an instruction, in a listing


@dataclass(frozen=True)
class Change:
    """Where the shared loads of a step go.

    `spacing`: multiply-adds from one load of a step to the next. `first`: multiply-adds by which a
    step's first load moves.
    """

    spacing: int
    first: int = 4


@dataclass
class Line:
    """An instruction with its two words of 64 bits."""

    parsed: Instruction
    lower: int
    upper: int


def rewritten(cubin: bytes, entry: str, change: Change) -> bytes:
    """The cubin with `entry`'s inner loop changed. Raises NoListing."""
    start, lines = _lines(cubin, entry)
    trip = inner_loop([line.parsed for line in lines]).instructions
    shortest: dict[tuple[str, str], int] = {}  # from a result to its use, by their operations
    for producer, user, cycles in distances(trip):
        pair = trip[producer].operation, trip[user].operation
        shortest[pair] = min(cycles, shortest.get(pair, ENOUGH))
    made = bytearray(cubin)
    for first, end in runs_of(trip):
        part = _spread(lines[first:end], change)
        _mend(part, shortest)
        for at, line in enumerate(part, first):
            struct.pack_into("<QQ", made, start + at * INSTRUCTION_BYTES, line.lower, line.upper)
    return bytes(made)


def _lines(cubin: bytes, entry: str) -> tuple[int, list[Line]]:
    """Where the code of a kernel begins in a cubin, and its instructions with their words."""
    listing = disassemble(cubin)
    code = parse(section(listing, entry))
    of_entry = listing[listing.index(f".text.{entry},") :]
    words = [int(word, 16) for word in _WORD.findall(of_entry)[: 2 * len(code)]]
    start = cubin.index(struct.pack(f"<{len(words)}Q", *words))
    return start, list(map(Line, code, words[::2], words[1::2]))


def _spread(part: list[Line], change: Change) -> list[Line]:
    """Move each step's loads later: the n-th to `first` + n·`spacing` multiply-adds from where the
    first one was, or as far as nothing is in the way."""
    groups: list[list[Line]] = []
    last = -NEAR
    for at, line in enumerate(part):
        if class_of(line.parsed) == SHARED_LOAD:
            if at - last >= NEAR:
                groups.append([])
            groups[-1].append(line)
            last = at
    part = list(part)
    for group in reversed(groups):
        begin = part.index(group[0])
        for n, load in reversed(list(enumerate(group))):
            at, adds = begin, 0
            while at < len(part) and adds < change.first + n * change.spacing:
                adds += class_of(part[at].parsed) == MULTIPLY_ADD
                at += 1
            now = part.index(load)
            to = next((k for k in range(now + 1, at) if _stops(part[k].parsed, load.parsed)), at)
            if to > now + 1:
                part.insert(to, load)
                part.pop(now)
    return part


def _stops(instruction: Instruction, load: Instruction) -> bool:
    """Whether a load must stay before an instruction. Loads keep their order, in which they are
    done: a barrier of the last one is for those before it, too."""
    if class_of(instruction) == SHARED_LOAD or instruction.target is not None:
        return True
    (result, address), (writes, reads) = effect(load), effect(instruction)
    barriers = {load.control.write_barrier, load.control.read_barrier}
    return bool(
        {*reads, *writes} & {*result}
        or {*writes} & {*address}
        or barriers & {*instruction.control.waits_for}
    )


def _mend(part: list[Line], shortest: dict[tuple[str, str], int]) -> None:
    """Where a result would come too late, let its instruction stall longer."""

    def missing(producer: int, user: int, cycles: int) -> int:
        pair = part[producer].parsed.operation, part[user].parsed.operation
        return shortest.get(pair, ENOUGH) - cycles

    while late := [
        (use[0], lack)
        for use in distances([line.parsed for line in part])
        if (lack := missing(*use)) > 0
    ]:
        at, lack = late[0]
        line = part[at]
        control = replace(line.parsed.control, stall=line.parsed.control.stall + lack)
        line.parsed = replace(line.parsed, control=control)
        line.upper = control.put_into(line.upper)


def effect(instruction: Instruction) -> tuple[list[str], list[str]]:
    """The names, such as "R12" and "P0", that an instruction writes, and those that it reads."""
    results = 1 + (instruction.operation in COMPARES)
    if instruction.operation in NO_RESULT:
        results = 0
    writes = _NAME.findall(" ".join(instruction.operands[:results]))
    width = next((WIDTHS[part] for part in instruction.opcode.split(".") if part in WIDTHS), 1)
    if width > 1 and (first := _NUMBERED.fullmatch(instruction.operands[0])):
        writes = [f"R{int(first[1]) + n}" for n in range(width)]
    reads = _NAME.findall(" ".join((instruction.predicate, *instruction.operands[results:])))
    return writes, reads


def distances(trip: Sequence[Instruction]) -> Iterator[tuple[int, int, int]]:
    """Results of fixed latency used soon, in one trip of many: producer, user, cycles between."""
    wrote: dict[str, tuple[int, int]] = {}
    now = 0
    for at, instruction in enumerate((*trip, *trip)):
        writes, reads = effect(instruction)
        for name in reads:
            if name in wrote and (cycles := now - wrote[name][1]) < ENOUGH and at >= len(trip):
                yield wrote[name][0] % len(trip), at % len(trip), cycles
        is_load = class_of(instruction) == SHARED_LOAD  # of which a barrier says when it is done
        for name in writes:
            wrote[name] = at, now
            if is_load:
                del wrote[name]
        now += max(1, instruction.control.stall)
