"""A loop of a cubin written anew: the same instructions, in other places, with other control bits.

It is tied to the listing that one version of NVRTC makes of one source; NoListing says why another
cannot be rewritten. `rewritten` checks its result: a mistake would be a wrong result, or a hang.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

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
CONVERGENCE = ("BSSY", "BSYNC", "BREAK")  # of convergence barriers
BRANCH, OPEN = 0x947, 0x945  # opcodes of BRA and BSSY, whose targets are moved
NOTHING = (0x7918, 0)  # NOP, but for its control bits


class NotTheSame(NoListing):
    """A rewritten loop would not compute what it did. The message names the first difference."""


@dataclass(frozen=True)
class Change:
    """What is done to the loop.

    `spacing`: multiply-adds from one shared load of a step to the next; None as ptxas put them.
    `first`: multiply-adds by which a step's first load moves. `behind`: the change of stage lies
    behind the loop, which then has no meeting point of threads. `reuse`: whether sources are kept
    for reuse across a load. `yields`: multiply-adds after which another warp goes first; 0: never.
    """

    spacing: int | None = None
    first: int = 4
    behind: bool = False
    reuse: bool = True
    yields: int = 0


@dataclass
class Line:
    """An instruction with its two words of 64 bits. `was`: its place in the kernel before."""

    parsed: Instruction
    lower: int
    upper: int
    was: int

    def set_control(self, control: Control) -> None:
        self.parsed = replace(self.parsed, control=control)
        self.upper = control.put_into(self.upper)


def compiled_here(kernel: Kernel) -> bytes:
    """Its cubin, compiled now by the NVRTC that is installed. Raises NoCompiler, CompileError."""
    options, name = options_for(kernel.settings), kernel.rung.path.name
    return nvrtc.compile_anew(kernel.text, name, arch=kernel.arch, options=options).cubin


def rewritten(cubin: bytes, entry: str, change: Change) -> bytes:
    """The cubin with `entry`'s inner loop changed and checked. Raises NoListing, NotTheSame."""
    start, lines = _lines(cubin, entry)
    trip = inner_loop([line.parsed for line in lines]).instructions
    allowed = hazards.shortest(trip)
    runs = runs_of(trip)
    for first, end in runs:
        part = lines[first:end]
        if change.spacing is not None:
            part = _spread(part, change.first, change.spacing)
        if not change.reuse:
            _forget_before_loads(part)
        if change.yields:
            _let_yield(part, change.yields)
        _mend(part, allowed)
        for place, line in enumerate(part, first):
            line.was = place  # a branch goes to a place, whatever has moved there
        lines[first:end] = part
    if change.behind:
        lines = _behind(lines, runs)
    _aim(lines)
    made = bytearray(cubin)
    for at, line in enumerate(lines):
        struct.pack_into("<QQ", made, start + at * INSTRUCTION_BYTES, line.lower, line.upper)
    require_same(cubin, bytes(made), entry)
    return bytes(made)


def require_same(before: bytes, after: bytes, entry: str) -> None:
    """Raise NotTheSame unless one trip through the inner loop of both computes the same.

    Nothing of it may use what is under way, or come sooner after its source than in `before`; the
    rest of the kernel has the same instructions.
    """
    old, new = (parse(section(disassemble(binary), entry)) for binary in (before, after))
    old_trip, new_trip = (inner_loop(code).instructions for code in (old, new))
    computed = values(old_trip), values(new_trip)
    for name in sorted({*computed[0], *computed[1]}):
        if computed[0].get(name) != computed[1].get(name):
            raise NotTheSame(f"{entry}: {name} is another after one trip")
    for use in hazards.under_way(new_trip):
        raise NotTheSame(f"{entry}: {use}")
    for at, lack in hazards.too_soon(new_trip, hazards.shortest(old_trip)):
        raise NotTheSame(f"{entry}: result of slot {at}, {new_trip[at]}, needs {lack} more cycles")
    others = (_others(code, trip) for code, trip in ((old, old_trip), (new, new_trip)))
    for ours, theirs in zip(*others, strict=True):
        if ours != theirs:
            raise NotTheSame(f"{entry}: outside of the loop {ours} became {theirs}")


def with_control(cubin: bytes, entry: str, slot: int, **fields) -> bytes:
    """The cubin with control bits changed, unchecked, of one issue slot of `entry`'s inner loop.

    `fields`: of Control. Raises ValueError for a slot or bits that there are not, and NoListing.
    """
    start, lines = _lines(cubin, entry)
    trip = inner_loop([line.parsed for line in lines]).instructions
    if not 0 <= slot < len(trip):
        raise ValueError(f"slot is {slot}; this trip has the issue slots 0 to {len(trip) - 1}")
    line = lines[trip[slot].address // INSTRUCTION_BYTES]
    line.set_control(replace(line.parsed.control, **fields))
    made = bytearray(cubin)
    struct.pack_into("<QQ", made, start + line.was * INSTRUCTION_BYTES, line.lower, line.upper)
    return bytes(made)


def _others(code: Sequence[Instruction], trip: Sequence[Instruction]) -> list[str]:
    """The instructions outside of a trip, without convergence barriers; and where branches go."""
    inside = {instruction.address for instruction in trip}
    at = {instruction.address: instruction for instruction in code}
    texts = []
    for instruction in code:
        if instruction.address in inside or instruction.operation in (*CONVERGENCE, "NOP"):
            continue
        if instruction.operation == "BRA" and not instruction.predicate:
            continue  # the branch back into the loop
        words = " ".join(instruction.operands)
        if instruction.target is not None and (goal := at.get(instruction.target)):
            words = "to" if goal.operation in (*CONVERGENCE, "NOP", "BRA") else f"to {_text(goal)}"
        texts.append(f"{_text(instruction, words)}")
    return texts


def _text(instruction: Instruction, words: str | None = None) -> str:
    """Without the names of labels, which count from the kernel's start."""
    operands = "" if instruction.target is not None else " ".join(instruction.operands)
    return f"{instruction.predicate} {instruction.opcode} {operands if words is None else words}"


# ---- the words of a kernel ----------------------------------------------------------------------


def _lines(cubin: bytes, entry: str) -> tuple[int, list[Line]]:
    """Where the code of a kernel begins in a cubin, and its instructions with their words."""
    code = parse(section(disassemble(cubin), entry))
    start, size = _section_of(cubin, f".text.{entry}")
    if size < len(code) * INSTRUCTION_BYTES:
        raise NoListing(f"{entry} has {size} bytes, and {len(code)} instructions")
    words = struct.iter_unpack("<QQ", cubin[start : start + len(code) * INSTRUCTION_BYTES])
    lines = [
        Line(instruction, *pair, at)
        for at, (instruction, pair) in enumerate(zip(code, words, strict=True))
    ]
    for line in lines:
        if line.parsed.address != line.was * INSTRUCTION_BYTES:
            raise NoListing(f"{entry} has a gap before {line.parsed}")
        if line.parsed.control != Control.of(line.upper):
            raise NoListing(f"{entry} has other bits at {line.parsed} than its listing")
        aims = _opcode(line) in (BRANCH, OPEN) and line.parsed.target is not None
        if aims and _target(line, line.was) * INSTRUCTION_BYTES != line.parsed.target:
            raise NoListing(f"{entry} has another target at {line.parsed} than its listing")
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


def _opcode(line: Line) -> int:
    return line.lower & 0xFFF


def _target(line: Line, at: int) -> int:
    """The place that a branch, or an opening of a meeting, at this place names."""
    high = line.lower >> 34 | (line.upper & 0x3FFFF) << 30  # 48 bits
    if _opcode(line) == OPEN:
        offset = _signed(high, 48)
    else:
        offset = _signed(high << 8 | line.lower >> 16 & 0xFF, 56)
    return at + 1 + offset * 4 // INSTRUCTION_BYTES


def _signed(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> bits - 1 else number


def _set_target(line: Line, at: int, target: int) -> None:
    """Let a branch, or an opening, at this place name another one."""
    high = offset = (target - at - 1) * INSTRUCTION_BYTES // 4
    if _opcode(line) != OPEN:
        line.lower = line.lower & ~(0xFF << 16) | (offset & 0xFF) << 16
        high = offset >> 8
    high &= (1 << 48) - 1
    line.lower = line.lower & (1 << 34) - 1 | (high & (1 << 30) - 1) << 34
    line.upper = line.upper & ~0x3FFFF | high >> 30


def _aim(lines: list[Line]) -> None:
    now = {line.was: at for at, line in enumerate(lines)}
    for at, line in enumerate(lines):
        if line.parsed.target is None or line.was < 0:
            continue
        old = line.parsed.target // INSTRUCTION_BYTES
        if now[old] - at == old - line.was:
            continue
        if _opcode(line) not in (BRANCH, OPEN):
            raise NoListing(f"{line.parsed} would have to go elsewhere")
        _set_target(line, at, now[old])


# ---- changes ------------------------------------------------------------------------------------


def _spread(part: list[Line], first: int, spacing: int) -> list[Line]:
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
            while at < len(part) and adds < first + n * spacing:
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


def _forget_before_loads(part: list[Line]) -> None:
    """Let no multiply-add keep a source for the next one where a load lies between."""
    for line, following in pairwise(part):
        if class_of(line.parsed) == MULTIPLY_ADD and class_of(following.parsed) == SHARED_LOAD:
            line.set_control(replace(line.parsed.control, reuse=()))


def _let_yield(part: list[Line], every: int) -> None:
    adds = [line for line in part if class_of(line.parsed) == MULTIPLY_ADD]
    for line in adds[every - 1 :: every]:
        line.set_control(replace(line.parsed.control, yields=True))


def _mend(part: list[Line], allowed: dict[tuple[str, str], int]) -> None:
    """Where a result would come too late, let its instruction stall longer."""
    while early := hazards.too_soon([line.parsed for line in part], allowed):
        at, lack = early[0]
        control = part[at].parsed.control
        part[at].set_control(replace(control, stall=control.stall + lack))


def _behind(lines: list[Line], runs: list[tuple[int, int]]) -> list[Line]:
    """Move what lies between the two stretches of a trip behind the second one."""
    if len(runs) != 2:
        raise NoListing(f"a trip of this loop has {len(runs)} stretches; 2 can be rewritten")
    (top, cut), (joined, end) = runs
    skip, rejoin = lines[cut - 1], lines[joined]
    if (
        skip.parsed.operation != "BRA"
        or not skip.parsed.predicate
        or rejoin.parsed.operation != "BSYNC"
    ):
        raise NoListing(f"this loop goes on by {skip.parsed}, at {rejoin.parsed}")
    barrier = rejoin.parsed.operands[0]
    stage = lines[cut:joined]
    for line in (*lines[top:cut], *stage):
        if line.parsed.operation in CONVERGENCE and line.parsed.operands[0] == barrier:
            _blank(line)
    # Not taken now where it was taken: the change of stage is what it goes to.
    skip.lower ^= 1 << 15
    back = _jump(rejoin, lines[end - 1])
    moved = [*lines[joined + 1 : end], *stage, back]
    made = [*lines[:cut], *moved, *lines[end:]]
    now = {id(line): at for at, line in enumerate(made)}
    _set_target(skip, cut - 1, now[id(stage[0])])
    _set_target(back, now[id(back)], cut)
    skip.parsed, back.parsed = (replace(line.parsed, target=None) for line in (skip, back))
    return made


def _blank(line: Line) -> None:
    """Do nothing, at the same pace."""
    line.lower, line.upper = NOTHING[0], line.parsed.control.put_into(NOTHING[1])
    line.parsed = replace(line.parsed, predicate="", opcode="NOP", operands=(), target=None)


def _jump(line: Line, like: Line) -> Line:
    if like.parsed.operation != "BRA" or like.parsed.predicate:
        raise NoListing(f"this loop ends with {like.parsed}")
    line.lower, line.upper, line.parsed = like.lower, like.upper, like.parsed
    line.set_control(Control(stall=like.parsed.control.stall))
    return line
