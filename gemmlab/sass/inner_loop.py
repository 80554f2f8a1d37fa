"""The issue slots of a kernel's inner loop, read from the GPU's instructions.

Each of the four schedulers of a multiprocessor issues at most one instruction of a warp per cycle,
an issue slot. A slot that carries an address or a load carries no multiply-add.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from gemmlab.cuda.disassembler import INSTRUCTION_BYTES, Instruction, NoListing

BANKS = 2  # of the register file, by register number, from Volta on
WINDOW = 3  # cycles that an FFMA has to collect its operands

MULTIPLY_ADD = "multiply-adds"
SHARED_LOAD = "shared loads"
COPY = "copies"
ADDRESS = "addresses"
CONTROL = "control"
OTHER = "other"
CLASSES = (MULTIPLY_ADD, SHARED_LOAD, COPY, ADDRESS, CONTROL, OTHER)

_OF_TENSOR_CORES = ("HMMA", "IMMA", "DMMA", "HGMMA", "IGMMA", "QGMMA")
# Opcodes without modifiers. Most have a twin that begins with a U: one for the whole warp.
_MEMBERS = {
    MULTIPLY_ADD: f"FFMA DFMA {' '.join(_OF_TENSOR_CORES)}",
    SHARED_LOAD: "LDS LDSM",
    COPY: "LDG LDGSTS LDGDEPBAR STS STSM UBLKCP UTMALDG UTMACMDFLUSH",
    ADDRESS: "IADD3 IADD IMAD LEA SHF SHL SHR LOP3 ISETP IABS IMNMX VIADD VIMNMX MOV SEL PRMT "
    "PLOP3 P2R R2P R2UR S2R S2UR CS2R LDC SGXT BMSK HFMA2",
    CONTROL: "BRA BRX BSSY BSYNC BAR DEPBAR EXIT NOP WARPSYNC WARPGROUP CALL RET BREAK YIELD "
    "MEMBAR FENCE SYNCS ELECT VOTE",
}
_CLASS = {opcode: name for name, opcodes in _MEMBERS.items() for opcode in opcodes.split()}
_FROM_GLOBAL = ("LDG", "LDGSTS")
_LEAVES = ("BRA", "BSYNC", "EXIT", "RET")
_PREDICATE = re.compile(r"!?U?P\d+")


def class_of(instruction: Instruction) -> str:
    """One of CLASSES. An HFMA2 of these kernels moves a constant, as ptxas likes to do."""
    operation = instruction.operation
    twin = operation[1:] if operation.startswith("U") else operation
    return _CLASS.get(operation) or _CLASS.get(twin, OTHER)


@dataclass(frozen=True)
class Loop:
    """One trip through the inner loop: the instructions in the order in which a warp issues them.

    They are those of a block that lies wholly inside the matrix and has more tiles to bring; of a
    loop inside the loop, one trip.
    """

    instructions: tuple[Instruction, ...]

    def __len__(self) -> int:
        return len(self.instructions)

    @cached_property
    def opcodes(self) -> Counter[str]:
        """Issue slots of each opcode, without its modifiers."""
        return Counter(instruction.operation for instruction in self.instructions)

    @cached_property
    def mix(self) -> dict[str, int]:
        """Issue slots of each of CLASSES."""
        counts = Counter(map(class_of, self.instructions))
        return {name: counts[name] for name in CLASSES}

    @property
    def multiply_adds(self) -> list[Instruction]:
        return [fma for fma in self.instructions if class_of(fma) == MULTIPLY_ADD]

    @property
    def reuse_share(self) -> float:
        """The share of multiply-adds that mark an operand for reuse."""
        adds = self.multiply_adds
        return sum(any(read.reuse for read in fma.reads) for fma in adds) / len(adds)

    def waits(self) -> int:
        """Cycles of one trip that are lost to register banks, see the function waits()."""
        return sum(self.waits_by_slot())

    def waits_by_slot(self) -> list[int]:
        """The trip is one of many: banks may still be busy from the trip before."""
        return waits(self.instructions * 2)[len(self) :]

    @cached_property
    def fetched(self) -> list[set[int]]:
        """As the function fetches() of the trip."""
        return fetches(self.instructions)

    @property
    def bank_reads(self) -> list[list[int]]:
        """For each instruction, how many registers each bank must deliver to an FFMA."""
        return [
            [sum(register % BANKS == bank for register in registers) for bank in range(BANKS)]
            for registers in self.fetched
        ]

    def share(self) -> float:
        """Multiply-adds over cycles, an issue slot each and the waits: at most this share of the
        arithmetic roof is in reach."""
        return self.mix[MULTIPLY_ADD] / (len(self) + self.waits())


def reused(instructions: Sequence[Instruction]) -> list[set[int]]:
    """For each instruction, the places of operands that it has from the reuse cache, not a bank.

    The cache holds an operand if the instruction before read the same register at the same place,
    and marked it for reuse (Jia et al. 2018). Loads and branches in between do not count: ptxas
    marks an operand ahead of a load, too, for the multiply-add after it.
    """
    places: list[set[int]] = []
    marked: set[tuple[int, int]] = set()
    for instruction in instructions:
        reads = instruction.reads
        places.append({read.place for read in reads if (read.place, read.register) in marked})
        if class_of(instruction) not in (SHARED_LOAD, COPY, CONTROL):
            marked = {(read.place, read.register) for read in reads if read.reuse}
    return places


def fetches(instructions: Sequence[Instruction]) -> list[set[int]]:
    """For each instruction, the registers that banks must deliver to an FFMA; none to others."""
    return [
        {read.register for read in instruction.reads if read.place not in places}
        if instruction.operation == "FFMA" else set()
        for instruction, places in zip(instructions, reused(instructions), strict=True)
    ]  # fmt: skip


def waits(instructions: Sequence[Instruction]) -> list[int]:
    """For each instruction, the cycles by which one warp issues it later, waiting for registers.

    The rule: each bank delivers one register of a warp per cycle, and an FFMA has WINDOW cycles
    from its issue on to collect its three; where that is not enough it is issued later. It is an
    approximation, after Huerta et al., Analyzing modern NVIDIA GPU cores, 2025, section 5.3, who
    measured Ampere (sm_86) and found no rule that fits all they saw. On Hopper, where a scheduler
    can also issue an FFMA every cycle; notebook 10 compares it with what was measured.
    """
    free, now = [0] * BANKS, 0  # the cycle in which each bank is free, and that of the next issue
    lost = []
    for registers in fetches(instructions):
        wanted = Counter(register % BANKS for register in registers)
        issued = max([now, *(free[bank] + wanted[bank] - WINDOW for bank in wanted)])
        for bank in wanted:
            free[bank] = max(free[bank], issued) + wanted[bank]
        lost.append(issued - now)
        now = issued + 1
    return lost


# ---- the inner loop ------------------------------------------------------------------------------


def runs_of(trip: Sequence[Instruction]) -> list[tuple[int, int]]:
    """Of a trip, the stretches of neighbours: (first, last + 1), by places in the kernel."""
    places = [instruction.address // INSTRUCTION_BYTES for instruction in trip]
    cuts = [0, *(n for n, (a, b) in enumerate(pairwise(places), 1) if b != a + 1), len(places)]
    return [(places[a], places[b - 1] + 1) for a, b in pairwise(cuts)]


def inner_loop(instructions: Sequence[Instruction], adds_per_tile: int | None = None) -> Loop:
    """One trip through the loop that has the most multiply-adds, loops inside it left out.

    Where there are tensor cores' among them, those alone tell the loop: what is done with the sums
    after it may be in a loop, too. Of loops with as many it is the shortest: another one does the
    same for matrices of any size. Where it takes several trips to do the `adds_per_tile` of a
    thread, and each may load tiles, these are as many trips, of which the last loads some. Raises
    NoListing where no loop has any multiply-adds, or none can be followed.
    """
    at = {instruction.address: index for index, instruction in enumerate(instructions)}
    # The first instruction of each loop -> its last. The end of every kernel branches to itself.
    latches = {
        first: index
        for index, instruction in enumerate(instructions)
        if instruction.target in at and (first := at[instruction.target]) < index
    }

    def inside(first: int) -> set[int]:
        """What of a loop is in loops inside it."""
        loops = ((a, b) for a, b in latches.items() if first < a and b <= latches[first])
        return {index for a, b in loops for index in range(a, b + 1)}

    adds = [instruction.operation in _OF_TENSOR_CORES for instruction in instructions]
    if not any(adds):
        adds = [class_of(instruction) == MULTIPLY_ADD for instruction in instructions]

    def own_adds(first: int) -> int:
        """Multiply-adds of a loop that are in no loop inside it."""
        indices = set(range(first, latches[first] + 1)) - inside(first)
        return sum(adds[index] for index in indices)

    adds_of = {first: count for first in latches if (count := own_adds(first))}
    if not adds_of:
        raise NoListing("no loop of this kernel has multiply-adds")
    for first in sorted(adds_of, key=lambda first: (-adds_of[first], latches[first] - first)):
        body = instructions[first : latches[first] + 1]
        within = {index - first for index in inside(first)}
        if trip := _trip(body, within):
            return Loop((*_before(trip, body, within, adds_per_tile), *trip))
        # A wait that ptxas put behind the kernel's end comes back, too: that is no loop.
    raise NoListing("the inner loop cannot be followed: no way leads from its start to its end")


def _before(
    trip: list[Instruction], body: Sequence[Instruction], inside: set[int], adds: int | None
) -> list[Instruction]:
    """The trips of the same tiles before the one that loads others."""
    done = sum(class_of(instruction) == MULTIPLY_ADD for instruction in trip)
    loads = any(class_of(instruction) == COPY for instruction in trip)
    if adds is None or adds % done or not loads:
        return []
    return _trip(body, inside, loads=False) * (adds // done - 1)


def _trip(
    body: Sequence[Instruction], inside: set[int], *, loads: bool = True
) -> list[Instruction]:
    """The way through a loop's body that a block inside the matrix takes.

    Of all ways it is one with the most multiply-adds; of those the one that `loads` the most bytes
    from global memory, or the fewest, first without and then with loops `inside`; of those the
    shortest, for what is done for a tile at the edge comes on top. A predicate is the same for all
    that it guards. Nothing where no way leads to the end.
    """
    at = {instruction.address: index for index, instruction in enumerate(body)}
    # The best ways to each instruction: what is known of predicates -> its score, and its
    # stretches, (first, last + 1), the last one first.
    ways: list[dict] = [{} for _ in range(len(body) + 1)]
    ways[0][frozenset()] = (0, 0, 0, 0), None
    for start, end in _stretches(body, at):
        last = body[end - 1]
        adds = sum(class_of(instruction) == MULTIPLY_ADD for instruction in body[start:end])
        may_set = last.operands[:3]  # of predicates, such as "P0"
        for known, (score, before) in ways[start].items():
            for supposed, size in _loaded(known, last):
                size = size if loads else -size
                more = (0, size) if end - 1 in inside else (size, 0)
                total = tuple(map(sum, zip(score, (adds, *more, start - end), strict=True)))
                still = frozenset(p for p in supposed if p.lstrip("!") not in may_set)
                for to, knows in _successors(body, end - 1, at, still):
                    if to >= end and (knows not in ways[to] or total > ways[to][knows][0]):
                        ways[to][knows] = total, ((start, end), before)
    if not ways[-1]:
        return []
    trip: list[Instruction] = []
    _, way = max(ways[-1].values(), key=lambda scored: scored[0])
    while way:
        (start, end), way = way
        trip[:0] = body[start:end]
    return trip


def _stretches(body: Sequence[Instruction], at: dict[int, int]) -> list[tuple[int, int]]:
    """Cut so that only the last instruction of each bears on the way, and nothing jumps inside."""
    cuts = {at[instruction.target] for instruction in body if instruction.target in at}
    for index, instruction in enumerate(body):
        sets_predicate = any(_PREDICATE.fullmatch(operand) for operand in instruction.operands[:3])
        if sets_predicate or instruction.operation in (*_FROM_GLOBAL, *_LEAVES):
            cuts.add(index + 1)
    return list(pairwise(sorted(cuts | {0, len(body)})))


def _loaded(known: frozenset[str], instruction: Instruction) -> list[tuple[frozenset[str], int]]:
    """What a thread loads from global memory, in bytes, and what is then known of predicates."""
    if instruction.operation not in _FROM_GLOBAL:
        return [(known, 0)]
    widths = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
    size = next((widths[part] for part in instruction.opcode.split(".") if part in widths), 4)
    met, unmet = instruction.predicate, _negated(instruction.predicate)
    if not met or met in known:
        return [(known, size)]
    return [(known, 0)] if unmet in known else [(known | {met}, size), (known | {unmet}, 0)]


def _negated(predicate: str) -> str:
    return predicate[1:] if predicate.startswith("!") else f"!{predicate}"


def _successors(
    body: Sequence[Instruction], index: int, at: dict[int, int], known: frozenset[str]
) -> list[tuple[int, frozenset[str]]]:
    """Where a warp may go on, and what is then known of predicates; the end is len(body)."""
    instruction, following = body[index], index + 1
    if following == len(body):
        return [(following, known)]
    if instruction.operation == "BSYNC":  # to where its BSSY said
        pairs = (p for p in reversed(body[:index]) if p.operation == "BSSY")
        opened = next((p for p in pairs if p.operands[0] == instruction.operands[0]), None)
        target = opened.target if opened else None
        return [(following if target is None else at.get(target, following), known)]
    if instruction.operation not in _LEAVES:
        return [(following, known)]
    met, unmet = instruction.predicate, _negated(instruction.predicate)
    second = len(instruction.operands) > 1  # BRA P1, target: nothing is learned of P1
    ways = []
    if second or (met and met not in known):
        ways.append((following, known if second else known | {unmet}))
    if instruction.target in at and (not met or unmet not in known):
        ways.append((at[instruction.target], known | {met} if met else known))
    return ways


def register_reads(loop: Loop) -> dict[str, float]:
    """How the FMAs of one trip read registers: banks, waits, and the share that is reused."""
    bank_0, bank_1 = map(sum, zip(*loop.bank_reads, strict=True))
    return {
        "slots": len(loop),
        "ffma": loop.mix[MULTIPLY_ADD],
        "bank_0": bank_0,
        "bank_1": bank_1,
        "two_in_a_bank": sum(max(counts) > 1 for counts in loop.bank_reads),
        "waits": loop.waits(),
        "reuse_pct": 100 * loop.reuse_share,
    }
