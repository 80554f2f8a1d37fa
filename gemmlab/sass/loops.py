"""The inner loop of a kernel in machine code, slot by slot, without a GPU.

SASS is what the GPU executes; ptxas, the second half of the compiler, makes it of PTX.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from gemmlab.cuda.disassembler import disassemble, parse, section
from gemmlab.kernel import prebuilt
from gemmlab.kernel.compiler import options_for
from gemmlab.kernel.fingerprint import code_hash
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import SINGLE, Rung, Settings, require_arch, settings_for
from gemmlab.ladder.probes import mma_shape
from gemmlab.report import GROUND, INK, RULE, aligned
from gemmlab.sass.inner_loop import BANKS, Loop, inner_loop, reused
from ptxsim.architectures import SIMULATED_ARCH, WARP
from ptxsim.compile import nvrtc


def analyse(cubin: bytes, entry: str, adds_per_tile: int | None = None) -> Loop:
    """The inner loop of kernel `entry` in a cubin.

    For adds_per_tile see inner_loop.inner_loop. Raises NoDisassembler, and NoListing where there
    is no such kernel or no such loop.
    """
    return _loop(section(disassemble(cubin), entry), adds_per_tile)


def loop(kernel: Kernel, arch: str | None = None) -> Loop:
    """The inner loop of a kernel, as compiled for `arch`; if None, for its own.

    For sm_90a and a rung as it is, with its default settings, the SASS comes with the project, and
    neither compiler nor disassembler is needed. Raises CompileError, NoCompiler, NoDisassembler,
    NoListing, IllegalSetting.
    """
    arch = arch or kernel.arch
    require_arch(kernel.rung, kernel.settings, arch)
    lines = listing_of(kernel.rung, kernel.text, kernel.settings, arch)
    return _loop(lines, adds_per_tile(kernel))


def adds_per_tile(kernel: Kernel) -> int | None:
    """Multiply-add instructions of a warp for one pair of tiles; None where these have no depth BK.

    An FFMA is one multiply-add of each lane, and a tensor core's instruction a whole mma_shape. Of
    a warpgroup's instruction, each of its warps issues one for the whole width of the tile.
    """
    depth = kernel.rung.depth(kernel.settings)
    if kernel.rung.by_wgmma:
        return depth // mma_shape(kernel.precision)[-1]
    if "TN" in kernel.settings:  # a thread's sums, where some of the threads may have none
        return kernel.settings["TM"] * kernel.settings["TN"] * depth
    rows, columns = kernel.rung.tile(kernel.settings)
    warps = math.prod(kernel.rung.block(kernel.settings)) // WARP
    each = WARP if kernel.precision is SINGLE else math.prod(mma_shape(kernel.precision))
    return rows * columns * depth // (warps * each) if depth else None


@lru_cache(maxsize=64)
def _loop(lines: str, adds: int | None) -> Loop:
    return inner_loop(parse(lines), adds)


# ---- kept listings -------------------------------------------------------------------------------
# NVRTC may order the same instructions otherwise. So kernels/compiled/ holds a listing for every
# rung with its default settings, as nvdisasm prints it; `python -m gemmlab compile` makes them.


def listing_of(rung: Rung, source: str, settings: Settings, arch: str) -> str:
    """The listing of one kernel: the kept one if there is one of this very code, else a new one.
    Raises CompileError, NoCompiler, NoDisassembler."""
    kept = prebuilt.read(path_of(rung.name)) if arch == SIMULATED_ARCH else {}
    if kept.get("code") == code_hash(source, settings):
        return kept["listing"]
    return _new(rung, source, tuple(settings.items()), arch)


def make_listing(rung: Rung) -> dict[str, str]:
    """What is stored of a rung: a new listing, and the fingerprint of the code."""
    source, settings = rung.path.read_text(encoding="utf-8"), settings_for(rung, {})
    listing = _new(rung, source, tuple(settings.items()), SIMULATED_ARCH)
    return {"code": code_hash(source, settings), "listing": listing}


@lru_cache
def _new(rung: Rung, source: str, settings: tuple, arch: str) -> str:
    options = options_for(dict(settings))
    program = nvrtc.compile_anew(source, rung.path.name, arch=arch, options=options)
    return section(disassemble(program.cubin), rung.entry(dict(settings)))


def is_current(rung: Rung) -> bool:
    """Whether the kept listing is of the code and the default settings as they are now."""
    kept = prebuilt.read(path_of(rung.name))
    return kept.get("code") == code_hash(rung.path, settings_for(rung, {}))


def path_of(name: str) -> Path:
    return prebuilt.FOLDER / f"{name}.sass.xz"


# ---- for a reader --------------------------------------------------------------------------------

COLOURS = ("#0072B2", "#D55E00")  # of the banks: Okabe and Ito's blue and vermilion
HEADS = ("slot", "instruction", "from bank 0", "from bank 1", "from reuse", "waits")
CONTROL_HEADS = ("stall", "yields", "sets", "waits for")
_SOURCE = re.compile(r"\bR(\d+)(\.reuse)?")


def listing(
    kernel: Kernel, lines: int = 24, start: int | None = None, control: bool = False
) -> LoopView:
    """Some instructions of the inner loop, as text and as HTML, with the banks that they read.

    start: the issue slot of the trip to begin with, from 0 on; the first multiply-add if None.
    control: what the assembler tells the scheduler with each, too, see cuda.disassembler. Raises
    what loop() raises.
    """
    return LoopView(loop(kernel), lines, start, control)


@dataclass(frozen=True)
class LoopView:
    """What `listing` gives: instructions, the banks that their registers come from, the waits, and
    the control bits if wanted. The HTML says the same as the text, in the banks' colours."""

    loop: Loop
    lines: int = 24
    start: int | None = None
    control: bool = False

    @property
    def heads(self) -> tuple[str, ...]:
        return (*HEADS, *CONTROL_HEADS) if self.control else HEADS

    @property
    def slots(self) -> range:
        """The issue slots that are shown."""
        first = self.start
        if first is None:
            first = self.loop.instructions.index(self.loop.multiply_adds[0])
        return range(first, min(first + self.lines, len(self.loop)))

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """A row of words for each instruction, in the order of `heads`."""
        trip, fetched, lost = self.loop.instructions, self.loop.fetched, self.loop.waits_by_slot()
        rows, places = [], reused(trip)
        for slot in self.slots:
            instruction = trip[slot]
            banks = [
                _named(number for number in sorted(fetched[slot]) if number % BANKS == bank)
                for bank in range(BANKS)
            ]
            stay = [r.register for r in instruction.reads if r.place in places[slot]]
            kept = _named(stay if fetched[slot] else ())
            row: tuple[str, ...] = str(slot), str(instruction), *banks, kept, str(lost[slot] or "")
            if self.control and (bits := instruction.control):  # in the order of CONTROL_HEADS
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
            is_ffma = self.loop.instructions[slot].operation == "FFMA"
            cells = "".join(
                f'<td style="{cell}{_colour(at - 2)}">'
                f"{_marked(words) if at == 1 and is_ffma else html.escape(words)}</td>"
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
