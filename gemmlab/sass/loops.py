"""The inner loop of a kernel in machine code, slot by slot, without a GPU.

SASS is what the GPU executes; ptxas, the second half of the compiler, makes it of PTX.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from gemmlab.cuda.disassembler import Instruction, disassemble, parse, section
from gemmlab.kernel import prebuilt
from gemmlab.kernel.compiler import options_for
from gemmlab.kernel.fingerprint import code_hash
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import SINGLE, Rung, Settings, require_arch, settings_for
from gemmlab.ladder.probes import mma_shape
from gemmlab.report import PAPER, RULE, Shown, aligned
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


def path_of(name: str) -> Path:
    return prebuilt.FOLDER / f"{name}.sass.xz"


# ---- for a reader --------------------------------------------------------------------------------

COLOURS = ("#0072B2", "#D55E00")  # of the banks: Okabe and Ito's blue and vermilion
HEADS = ("slot", "instruction", "from bank 0", "from bank 1", "from reuse", "waits")
CONTROL_HEADS = ("stall", "yields", "sets", "waits for")
_SOURCE = re.compile(r"\bR(\d+)(\.reuse)?")


def listing(
    kernel: Kernel, lines: int = 24, start: int | None = None, control: bool = False
) -> Shown:
    """Some instructions of the inner loop, as text and as HTML, with the banks that they read.

    start: the issue slot of the trip to begin with, from 0 on; the first multiply-add if None.
    control: what the assembler tells the scheduler with each, too, see cuda.disassembler. The HTML
    says the same as the text, in the banks' colours. Raises what loop() raises.
    """
    trip = loop(kernel)
    first = trip.instructions.index(trip.multiply_adds[0]) if start is None else start
    slots = range(first, min(first + lines, len(trip)))
    heads = (*HEADS, *CONTROL_HEADS) if control else HEADS
    rows = rows_of(trip, slots, control)
    text = aligned([heads, *rows], range(len(heads)))
    return Shown(text, _markup(heads, rows, [trip.instructions[slot] for slot in slots]))


def rows_of(trip: Loop, slots: range, control: bool = False) -> list[tuple[str, ...]]:
    """A row of words for the instruction in each slot of the trip: HEADS, and CONTROL_HEADS."""
    lost, rows, places = trip.waits_by_slot(), [], reused(trip.instructions)
    for slot in slots:
        instruction, fetched = trip.instructions[slot], trip.fetched[slot]
        banks = [
            _named(number for number in sorted(fetched) if number % BANKS == bank)
            for bank in range(BANKS)
        ]
        stay = [r.register for r in instruction.reads if r.place in places[slot]]
        kept = _named(stay if fetched else ())
        row: tuple[str, ...] = str(slot), str(instruction), *banks, kept, str(lost[slot] or "")
        if control and (bits := instruction.control):
            waits_for = " ".join(map(str, bits.waits_for))
            row = *row, str(bits.stall), "yes" if bits.yields else "", bits.sets, waits_for
        rows.append(row)
    return rows


def _markup(
    heads: Sequence[str], rows: Sequence[Sequence[str]], instructions: Sequence[Instruction]
) -> str:
    cell = "text-align: left; padding: 0.05em 0.8em; border: 0; white-space: pre"
    head = "".join(
        f'<th scope="col" style="{cell}; border-bottom: 1px solid {RULE}'
        f'{_colour(at - 2)}">{html.escape(words)}</th>'
        for at, words in enumerate(heads)
    )
    body = ""
    for instruction, row in zip(instructions, rows, strict=True):
        is_ffma = instruction.operation == "FFMA"
        cells = "".join(
            f'<td style="{cell}{_colour(at - 2)}">'
            f"{_marked(words) if at == 1 and is_ffma else html.escape(words)}</td>"
            for at, words in enumerate(row)
        )
        body += f'<tr style="{PAPER}">{cells}</tr>'
    return (
        f'<div style="{PAPER}; padding: 0.5em 0.8em; overflow-x: auto"><table style="'
        "border-collapse: collapse; border: 0; font-family: monospace; font-size: 12px; "
        f'line-height: 1.35; {PAPER}"><thead><tr style="{PAPER}">{head}</tr></thead>'
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
