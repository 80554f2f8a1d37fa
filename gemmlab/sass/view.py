"""Instructions of an inner loop for a reader: which bank each register comes from, and the waits.

With their control bits on request: see gemmlab.cuda.disassembler. The text and the HTML say the
same; in the HTML the registers also have the colours of the banks.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass

from gemmlab.cuda.disassembler import Control, NoListing
from gemmlab.report import GROUND, INK, RULE, aligned
from gemmlab.sass.inner_loop import BANKS, MULTIPLY_ADD, Loop, class_of, fetches, reused, waits

COLOURS = ("#0072B2", "#D55E00")  # of the banks: Okabe and Ito's blue and vermilion
HEADS = ("slot", "instruction", "from bank 0", "from bank 1", "from reuse", "waits")
CONTROL_HEADS = ("stall", "yields", "sets", "waits for")
_SOURCE = re.compile(r"\bR(\d+)(\.reuse)?")


@dataclass(frozen=True)
class LoopView:
    """`lines` instructions of a trip from slot `start` on, the first multiply-add if None.
    `control`: their control bits stand beside them."""

    loop: Loop
    lines: int = 24
    start: int | None = None
    control: bool = False

    def __post_init__(self) -> None:
        last = len(self.loop) - 1
        if self.start is not None and not 0 <= self.start <= last:
            raise ValueError(f"start is {self.start}; this trip has the issue slots 0 to {last}")
        if self.lines < 1:
            raise ValueError(f"lines is {self.lines}; it must be 1 or more")
        if self.control and None in [listed.control for listed in self.loop.instructions]:
            raise NoListing("this listing was made without control bits")

    @property
    def heads(self) -> tuple[str, ...]:
        return (*HEADS, *CONTROL_HEADS) if self.control else HEADS

    @property
    def slots(self) -> range:
        """The issue slots that are shown."""
        first = self.start
        if first is None:
            first = list(map(class_of, self.loop.instructions)).index(MULTIPLY_ADD)
        return range(first, min(first + self.lines, len(self.loop)))

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """A row of words for each instruction, in the order of `heads`."""
        trip = self.loop.instructions
        fetched, places, lost = fetches(trip), reused(trip), waits(trip * 2)[len(trip) :]
        rows = []
        for slot in self.slots:
            instruction = trip[slot]
            banks = [
                _named(number for number in sorted(fetched[slot]) if number % BANKS == bank)
                for bank in range(BANKS)
            ]
            stay = [r.register for r in instruction.reads if r.place in places[slot]]
            kept = _named(stay if fetched[slot] else ())
            row: tuple[str, ...] = str(slot), str(instruction), *banks, kept, str(lost[slot] or "")
            if self.control:  # in the order of CONTROL_HEADS; reuse stands with the operands
                bits = instruction.control or Control()
                waits_for = " ".join(map(str, bits.waits_for))
                row = *row, str(bits.stall), "yes" if bits.yields else "", bits.sets, waits_for
            rows.append(row)
        return rows

    def __repr__(self) -> str:
        return aligned([self.heads, *self.rows], range(len(self.heads)))

    def _repr_html_(self) -> str:
        ground = f"background: {GROUND}; color: {INK}"
        cell = "text-align: left; padding: 0.05em 0.8em; border: 0; white-space: pre"
        heads = "".join(
            f'<th scope="col" style="{cell}; border-bottom: 1px solid {RULE}'
            f'{_colour(at - 2)}">{html.escape(head)}</th>'
            for at, head in enumerate(self.heads)
        )
        body = ""
        for slot, row in zip(self.slots, self.rows, strict=True):
            coloured = bool(fetches(self.loop.instructions[slot : slot + 1])[0])
            cells = "".join(
                f'<td style="{cell}{_colour(at - 2)}">'
                f"{_marked(words) if at == 1 and coloured else html.escape(words)}</td>"
                for at, words in enumerate(row)
            )
            body += f'<tr style="{ground}">{cells}</tr>'
        return (
            f'<div style="{ground}; padding: 0.5em 0.8em; overflow-x: auto"><table style="'
            "border-collapse: collapse; border: 0; font-family: monospace; font-size: 12px; "
            f'line-height: 1.35; {ground}"><thead><tr style="{ground}">{heads}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )


def _named(registers: Iterable[int]) -> str:
    return " ".join(f"R{number}" for number in registers)


def _colour(bank: int) -> str:
    return f"; color: {COLOURS[bank]}" if 0 <= bank < BANKS else ""


def _marked(words: str) -> str:
    """An FFMA with its source registers in the banks' colours, bold where marked for reuse."""
    head, comma, sources = html.escape(words).partition(",")

    def mark(match: re.Match) -> str:
        weight = "; font-weight: 700" if match[2] else ""
        return f'<span style="color: {COLOURS[int(match[1]) % BANKS]}{weight}">{match[0]}</span>'

    return head + comma + _SOURCE.sub(mark, sources)
