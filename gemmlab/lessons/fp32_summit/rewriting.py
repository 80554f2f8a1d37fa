"""A loop of a cubin written anew: the same instructions, its shared loads in other places.

It is tied to the listing that one version of NVRTC makes of one source; NoListing says why another
cannot be rewritten. `rewritten` checks its result: a mistake would be a wrong result, or a hang.
"""

import struct
from dataclasses import dataclass, replace

from gemmlab.cuda.disassembler import (
    INSTRUCTION_BYTES,
    Control,
    Instruction,
    NoListing,
    disassemble,
    parse,
    section,
)
from gemmlab.cuda.options import options_for
from gemmlab.kernel.kernel import Kernel
from gemmlab.lessons.fp32_summit import hazards
from gemmlab.lessons.fp32_summit.hazards import effect, values
from gemmlab.sass.inner_loop import MULTIPLY_ADD, SHARED_LOAD, class_of, inner_loop, runs_of
from ptxsim.compile import nvrtc

NEAR = 30  # slots: loads that lie closer together belong to one step


class NotTheSame(NoListing):
    """A rewritten loop would not compute what it did. The message names the first difference."""


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


def compiled_here(kernel: Kernel) -> bytes:
    """Its cubin, compiled now by the NVRTC that is installed. Raises NoCompiler, CompileError."""
    options, name = options_for(kernel.settings), kernel.rung.path.name
    return nvrtc.compile_anew(kernel.text, name, arch=kernel.arch, options=options).cubin


def rewritten(cubin: bytes, entry: str, change: Change) -> bytes:
    """The cubin with `entry`'s inner loop changed and checked. Raises NoListing, NotTheSame."""
    start, lines = _lines(cubin, entry)
    trip = inner_loop([line.parsed for line in lines]).instructions
    allowed = hazards.shortest(trip)
    made = bytearray(cubin)
    for first, end in runs_of(trip):
        part = _spread(lines[first:end], change)
        _mend(part, allowed)
        for at, line in enumerate(part, first):
            struct.pack_into("<QQ", made, start + at * INSTRUCTION_BYTES, line.lower, line.upper)
    require_same(cubin, bytes(made), entry)
    return bytes(made)


def require_same(before: bytes, after: bytes, entry: str) -> None:
    """Raise NotTheSame unless one trip through the inner loop of both computes the same.

    Nothing of it may use what is under way, or come sooner after its source than in `before`.
    """
    old_trip, new_trip = (
        inner_loop(parse(section(disassemble(binary), entry))).instructions
        for binary in (before, after)
    )
    computed = values(old_trip), values(new_trip)
    for name in sorted({*computed[0], *computed[1]}):
        if computed[0].get(name) != computed[1].get(name):
            raise NotTheSame(f"{entry}: {name} is another after one trip")
    for use in hazards.under_way(new_trip):
        raise NotTheSame(f"{entry}: {use}")
    for at, lack in hazards.too_soon(new_trip, hazards.shortest(old_trip)):
        raise NotTheSame(f"{entry}: result of slot {at}, {new_trip[at]}, needs {lack} more cycles")


def _lines(cubin: bytes, entry: str) -> tuple[int, list[Line]]:
    """Where the code of a kernel begins in a cubin, and its instructions with their words."""
    code = parse(section(disassemble(cubin), entry))
    start, size = _section_of(cubin, f".text.{entry}")
    if size < len(code) * INSTRUCTION_BYTES:
        raise NoListing(f"{entry} has {size} bytes, and {len(code)} instructions")
    words = struct.iter_unpack("<QQ", cubin[start : start + len(code) * INSTRUCTION_BYTES])
    lines = [Line(instruction, *pair) for instruction, pair in zip(code, words, strict=True)]
    for at, line in enumerate(lines):
        if line.parsed.address != at * INSTRUCTION_BYTES:
            raise NoListing(f"{entry} has a gap before {line.parsed}")
        if line.parsed.control != Control.of(line.upper):
            raise NoListing(f"{entry} has other bits at {line.parsed} than its listing")
    return start, lines


def _section_of(cubin: bytes, name: str) -> tuple[int, int]:
    table = struct.unpack_from("<Q", cubin, 0x28)[0]
    size, count, names_at = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + at * size) for at in range(count)]
    names = headers[names_at][4]
    for header in headers:
        begin = names + header[0]
        if cubin[begin : cubin.index(b"\0", begin)].decode() == name:
            return header[4], header[5]
    raise NoListing(f"this cubin has no section {name}")


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
    if class_of(instruction) == SHARED_LOAD or instruction.target is not None:
        return True
    loads, does = effect(load), effect(instruction)
    touched = {*does.reads, *does.writes}
    return bool(touched & set(loads.writes)) or bool(set(does.writes) & set(loads.reads))


def _mend(part: list[Line], allowed: dict[tuple[str, str], int]) -> None:
    """Where a result would come too late, let its instruction stall longer."""
    while early := hazards.too_soon([line.parsed for line in part], allowed):
        at, lack = early[0]
        line = part[at]
        control = replace(line.parsed.control, stall=line.parsed.control.stall + lack)
        line.parsed = replace(line.parsed, control=control)
        line.upper = control.put_into(line.upper)
