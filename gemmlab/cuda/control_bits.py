"""What the assembler tells the scheduler with each instruction: the control bits of SASS.

From Volta on an instruction has 128 bits. 21 of its upper word say when the next one may be issued,
and what this one waits for; hardware does not find that out by itself. The layout is that of Jia et
al., Dissecting the NVIDIA Volta GPU architecture via microbenchmarking, 2018, section 2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

SHIFT, WIDTH = 41, 21  # of the control bits, in the upper word of 64 bits
BARRIERS = 6  # of a warp, 0 to 5: counters of what is under way
NO_BARRIER = 7
MOST_STALLED = 15  # cycles
OPERANDS = 3  # that can be kept for reuse: the first, second and third source


@dataclass(frozen=True)
class Control:
    """The control bits of one instruction.

    `stall`: cycles from its issue until the warp's next instruction may be issued. `yields`: then
    another warp goes first, if one can. `write_barrier`: counts this instruction until its result
    is there, `read_barrier`: until its sources are read; None where they are not counted, for what
    takes a fixed number of cycles needs no counting. `waits_for`: the barriers that must be at 0
    before this instruction is issued. `reuse`: the sources, 0 to 2, that stay for the next one.
    """

    stall: int = 1
    yields: bool = False
    write_barrier: int | None = None
    read_barrier: int | None = None
    waits_for: tuple[int, ...] = ()
    reuse: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.stall <= MOST_STALLED:
            raise ValueError(f"stall is {self.stall}; it must be 0 to {MOST_STALLED} cycles")
        named = (self.write_barrier, self.read_barrier, *self.waits_for)
        for number in named:
            if number is not None and not 0 <= number < BARRIERS:
                raise ValueError(f"there is no barrier {number}; they are 0 to {BARRIERS - 1}")
        for number in self.reuse:
            if not 0 <= number < OPERANDS:
                raise ValueError(f"there is no source {number}; they are 0 to {OPERANDS - 1}")

    @classmethod
    def of(cls, upper: int) -> Control:
        """Of an instruction's upper 64 bits."""
        return cls.from_bits(upper >> SHIFT & (1 << WIDTH) - 1)

    @classmethod
    def from_bits(cls, bits: int) -> Control:
        """Of the 21 control bits alone."""

        def barrier(shift: int) -> int | None:
            number = bits >> shift & 7
            return None if number >= BARRIERS else number

        return cls(
            stall=bits & 15,
            yields=not bits >> 4 & 1,
            write_barrier=barrier(5),
            read_barrier=barrier(8),
            waits_for=tuple(n for n in range(BARRIERS) if bits >> 11 + n & 1),
            reuse=tuple(n for n in range(OPERANDS) if bits >> 17 + n & 1),
        )

    @property
    def bits(self) -> int:
        """The 21 control bits."""

        def number(barrier: int | None) -> int:
            return NO_BARRIER if barrier is None else barrier

        return (
            self.stall | (not self.yields) << 4
            | number(self.write_barrier) << 5 | number(self.read_barrier) << 8
            | sum(1 << n for n in self.waits_for) << 11 | sum(1 << n for n in self.reuse) << 17
        )  # fmt: skip

    def put_into(self, upper: int) -> int:
        """An instruction's upper 64 bits, with these control bits instead of its own."""
        return upper & ~(((1 << WIDTH) - 1) << SHIFT) | self.bits << SHIFT

    def but(self, **fields: Any) -> Control:
        """The same, some fields otherwise. Raises ValueError for what there is not."""
        return replace(self, **fields)

    def __str__(self) -> str:
        """As "stall 2, yields, sets W0 R1, waits for 0 4"."""
        words = [f"stall {self.stall}", *["yields"] * self.yields]
        if sets := self.sets:
            words.append(f"sets {sets}")
        if self.waits_for:
            words.append(f"waits for {' '.join(map(str, self.waits_for))}")
        return ", ".join(words)

    @property
    def sets(self) -> str:
        """The barriers that count it: "W0 R1", W until its result is there, R its sources read."""
        named = (("W", self.write_barrier), ("R", self.read_barrier))
        return " ".join(f"{letter}{number}" for letter, number in named if number is not None)
