"""Rules of wgmma and setmaxnreg for the threads that use them, which hardware does not check.

The mistakes with wgmma that are found are in docs/simulator.md. All threads of a warpgroup know
that a wgmma is complete once one has waited, as the four warps read together. A wgmma that is not
committed is not waited for.

A register is known by its name in the PTX. A plain `mov` is no use: of one register to another, the
GPU's assembler takes one for both; and a constant comes into its register where the compiler likes.

By setmaxnreg warps give up registers and take them. ptxas gives each thread of such a kernel as
many as `__launch_bounds__` leaves room for, a multiple of REGISTER_STEP. What all threads of a
block have together is the block's; `inc` waits until others have given up enough. Without launch
bounds ptxas ignores the instruction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxsim.architectures import MAX_REGISTERS_PER_THREAD, REGISTERS_PER_SM
from ptxsim.hopper import GROUP_THREADS, UNIT, from_groups, lanes_of, to_groups
from ptxsim.ptx import Immediate, Instruction, Kernel, Register, Vector

NEVER = -1  # the line of no instruction
REGISTER_STEP = 8
CONSTANT = ""  # in place of the name of a register that is copied


@dataclass
class Reading:
    """Units that a wgmma reads, and (groups,) the number of the commit group; 0 for none."""

    index: int
    addresses: np.ndarray
    group: np.ndarray


class Warpgroups:
    """The wgmmas in flight of a chunk. `groups` is a bool (groups,) everywhere."""

    def __init__(self, lanes, checker):
        self.lanes, self.layout, self.checker = lanes, lanes.layout, checker
        self.kernel = lanes.launch.kernel
        # The warps that are left over belong to no warpgroup.
        count = self.layout.blocks * (self.layout.threads // GROUP_THREADS)
        self._watched = watched(self.kernel)
        self._uses: dict[int, list] = {}  # by the start of a block
        self._fenced = np.zeros(count, bool)
        self._committed = np.zeros(count, np.int64)
        # Register -> (groups,): the number of the commit group whose wgmma adds to it, or reads it;
        # 0 where none is in flight. And the line that last used it since the fence.
        self._sums, self._factors, self._used = {}, {}, {}
        self._started_by: dict[str, int] = {}  # register -> the latest wgmma
        self._reading: list[Reading] = []

    # --- wgmma itself -----------------------------------------------------------------------------

    def start(self, index: int, read, groups) -> None:
        """A wgmma. `read`: bytes (active groups, units) where it reads shared memory."""
        instruction = self.kernel.instructions[index]
        sums, factors = registers_of(instruction)
        self._look_for_fence(index, (*sums, *factors), groups)
        self.checker.phases.meet(groups)
        for name in factors:
            self._look(index, name, groups, writes=False)
        number = np.where(groups, self._committed + 1, 0)
        for table, names in ((self._sums, sums), (self._factors, factors)):
            for name in names:
                table[name] = np.maximum(table.get(name, 0), number)
                self._started_by[name] = index
        for places in read:
            for addresses in self._pieces(places, groups):
                self._reading.append(Reading(index, addresses, number.copy()))
                mask = lanes_of(self.layout, groups)
                self.checker.races.group_read_started(index, addresses, UNIT, mask)

    def fence(self, groups) -> None:
        self._fenced |= groups
        for lines in self._used.values():
            lines[groups] = NEVER

    def commit(self, groups) -> None:
        self._committed += groups

    def wait(self, most: int, groups) -> None:
        complete = np.where(groups, np.maximum(self._committed - most, 0), 0)
        for table in (self._sums, self._factors):
            for number in table.values():
                number[number <= complete] = 0
        left = []
        for reading in self._reading:
            done = (reading.group > 0) & (reading.group <= complete)
            if done.any():
                mask = lanes_of(self.layout, done)
                self.checker.races.group_read_ended(reading.index, reading.addresses, UNIT, mask)
                reading.group[done] = 0
            left += [reading] * bool(reading.group.any())
        for reading in left:  # the same bytes may have been released for another wgmma
            mask = lanes_of(self.layout, reading.group > 0)
            self.checker.races.group_read_continues(reading.index, reading.addresses, UNIT, mask)
        self._reading = left

    def _pieces(self, places, groups):
        units = places.shape[1]
        for first in range(0, units, GROUP_THREADS):
            rows = np.zeros((len(groups), GROUP_THREADS), np.int32)
            rows[groups] = places[:, np.arange(first, first + GROUP_THREADS) % units]
            yield from_groups(self.layout, rows)

    def _look_for_fence(self, index: int, names, groups) -> None:
        missing = groups & ~self._fenced
        if missing.any():
            what = "the warpgroup has executed no wgmma.fence before"
            self._find("missing wgmma.fence", index, what, missing)
            return
        for name in names:
            lines = self._used.get(name)
            if lines is not None and (groups & (lines != NEVER)).any():
                missing = groups & (lines != NEVER)
                line = int(lines[missing][0])
                what = f"line {line} used a register of it, with no wgmma.fence since"
                self._find("missing wgmma.fence", index, what, missing)
                return

    # --- other instructions -----------------------------------------------------------------------

    def executed(self, block, mask) -> None:
        """The lanes of `mask` have executed a basic block."""
        if not self._watched:
            return
        if block.start not in self._uses:
            self._uses[block.start] = list(self._uses_in(block))
        if not self._uses[block.start]:
            return
        groups = to_groups(self.layout, mask).any(axis=1)
        for index, name, source, writes in self._uses[block.start]:
            if source:
                for table in (self._sums, self._factors, self._used):
                    self._take_over(table, name, source, groups)
                self._started_by[name] = self._started_by.get(source, index)
                continue
            self._look(index, name, groups, writes)
            lines = self._used.setdefault(name, np.full(groups.size, NEVER))
            lines[groups] = NEVER if source == CONSTANT else self.lanes.line(index)

    def _uses_in(self, block):
        """(instruction, register, what is copied to it or None, whether it is written)."""
        for instruction in self.kernel.instructions[block.start : block.end]:
            if instruction.name == "wgmma":
                continue
            pair = copied(instruction)
            if pair:
                if pair[0] in self._watched:
                    yield instruction.index, *pair, True
                continue
            of_constant = instruction.name == "mov" and isinstance(
                instruction.operands[-1], Immediate
            )
            for name in sorted(instruction.uses & self._watched):
                yield instruction.index, name, None, False
            for name in sorted(instruction.defines & self._watched):
                yield instruction.index, name, CONSTANT if of_constant else None, True

    def _take_over(self, table, name, source, groups) -> None:
        if name in table or source in table:
            nothing = np.full(len(groups), NEVER if table is self._used else 0)
            times, other = table.get(name, nothing), table.get(source, nothing)
            table[name] = np.where(groups, other, times)

    def _look(self, index: int, name: str, groups, writes: bool) -> None:
        """Find uses of a register that a wgmma in flight adds to, or writes of one it reads."""
        tables = [(self._sums, "sums in flight", "is one of the sums")]
        if writes:
            tables.append((self._factors, "registers in flight", "holds a part of A"))
        for table, kind, what in tables:
            under_way = table.get(name)
            if under_way is None or not (groups & (under_way > 0)).any():
                continue
            line = self.lanes.line(self._started_by[name])
            what = f"a register that it {'writes' if writes else 'reads'} {what} of the wgmma of "
            what += f"line {line}, which is not waited for"
            self._find(kind, index, what, groups & (under_way > 0))

    def _find(self, kind: str, index: int, what: str, groups) -> None:
        self.lanes.find(kind, index, what, lanes_of(self.layout, groups))


def registers_of(instruction: Instruction) -> tuple[list[str], list[str]]:
    """Of a wgmma.mma_async: those of the sums, and of A."""
    d, a = instruction.operands[:2]
    factors = [register.name for register in a.items] if isinstance(a, Vector) else []
    return [register.name for register in d.items], factors


def copied(instruction: Instruction) -> tuple[str, str] | None:
    """(target, source) of a plain mov between registers."""
    if instruction.name != "mov" or instruction.predicate is not None:
        return None
    operands = instruction.operands
    both = all(isinstance(operand, Register) for operand in operands)
    return (operands[0].name, operands[1].name) if both else None


def watched(kernel: Kernel) -> frozenset[str]:
    """The registers of all wgmmas, and those that they are copied from and to."""
    registers: set[str] = set()
    for instruction in kernel.instructions:
        if instruction.opcode.startswith("wgmma.mma_async"):
            registers.update(*registers_of(instruction))
    if not registers:
        return frozenset()
    copies = [pair for pair in map(copied, kernel.instructions) if pair]
    before = 0
    while len(registers) > before:
        before = len(registers)
        for pair in copies:
            if not registers.isdisjoint(pair):
                registers.update(pair)
    return frozenset(registers)


class Registers:
    """How many registers each thread of a chunk has, as far as setmaxnreg has set it."""

    def __init__(self, lanes):
        self.lanes, self.layout = lanes, lanes.layout
        kernel = lanes.launch.kernel
        compiled_for = kernel.most_threads or int(np.prod(kernel.block or (0,)))
        self._first = None
        if compiled_for:
            per_thread = min(REGISTERS_PER_SM // compiled_for, MAX_REGISTERS_PER_THREAD + 1)
            self._first = per_thread // REGISTER_STEP * REGISTER_STEP
        self._counts, self._index = None, -1

    def set(self, index: int, count: int, grows: bool, mask) -> None:
        """The lanes of `mask` have `count` registers from now on: `grows` for `inc`."""
        if self._first is None:
            what = "without __launch_bounds__ ptxas ignores setmaxnreg"
            self.lanes.find("setmaxnreg ignored", index, what, mask)
            return
        if self._counts is None:
            self._counts = np.full(self.layout.shape, self._first)
        mask = self.layout.full(mask)
        wrong = mask & ((self._counts > count) if grows else (self._counts < count))
        if wrong.any():
            has = int(self._counts[wrong][0])
            how, other = ("inc", "more") if grows else ("dec", "less")
            what = f"setmaxnreg.{how} sets {count} registers, and the thread has {has}, {other}"
            self.lanes.find("wrong number of registers", index, what, wrong)
        self._counts, self._index = np.where(mask, count, self._counts), index

    def look_at_the_sum(self) -> None:
        """All threads have returned: find blocks that asked for more than they have."""
        if self._counts is None:
            return
        budget = self._first * self.layout.threads
        asked = self.layout.per_block(self._counts)
        over = self.layout.of_block(asked > budget) & (self._counts > self._first)
        if over.any():
            what = (
                f"the threads of the block need {int(asked.max())} registers together, and have "
                f"{budget}: {self._first} for each of {self.layout.threads}"
            )
            self.lanes.find("registers over the budget", self._index, what, over)
