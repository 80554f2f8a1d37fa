"""A cubin to SASS, the GPU's own instructions, with NVIDIA's nvdisasm. It needs no GPU.

nvdisasm comes with the package nvidia-cuda-nvdisasm, and with the CUDA toolkit.

From Volta on an instruction has 128 bits. 21 of its upper word, the control bits, say when the next
one may be issued, and what this one waits for; hardware does not find that out by itself. The
layout is that of Jia et al., Dissecting the NVIDIA Volta GPU architecture via microbenchmarking,
2018, section 2.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

TOOL = "nvdisasm"
PACKAGE = "nvidia-cuda-nvdisasm"
LIMIT_S = 60
INSTRUCTION_BYTES = 16  # from Volta on

SHIFT, WIDTH = 41, 21  # of the control bits, in the upper word of 64 bits
BARRIERS = 6  # of a warp, 0 to 5: counters of what is under way
NO_BARRIER = 7
OPERANDS = 3  # that can be kept for reuse: the first, second and third source

_SECTION = re.compile(r"^\s*\.section\s+\.text\.(\w+),")
_LABEL = re.compile(r"^(\.L\w+):")
_INSTRUCTION = re.compile(
    r"^\s*/\*(?P<address>[0-9a-f]{4,})\*/\s+"
    r"(?:@(?P<predicate>!?U?P\w+)\s+)?"
    r"(?P<opcode>[A-Z][\w.]*)\s*(?P<operands>[^;]*);"
    r"(?:\s*/\* control (?P<control>[0-9a-f]+) \*/)?"
)
_UPPER_WORD = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/")  # on the line below the instruction
_REGISTER = re.compile(r"[-|~!]*R(\d+)(?:\.\w+)*\|?")
_TARGET = re.compile(r"`\((\.L\w+)\)")


class NoDisassembler(Exception):
    """There is no nvdisasm here. The message says what to install."""


class NoListing(Exception):
    """nvdisasm refused a cubin, or there is no such kernel or loop in a listing."""


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

    @classmethod
    def of(cls, upper: int) -> Control:
        """Of an instruction's upper 64 bits."""
        bits = upper >> SHIFT
        write_barrier, read_barrier = bits >> 5 & 7, bits >> 8 & 7
        return cls(
            stall=bits & 15,
            yields=not bits >> 4 & 1,
            write_barrier=write_barrier if write_barrier < BARRIERS else None,
            read_barrier=read_barrier if read_barrier < BARRIERS else None,
            waits_for=tuple(n for n in range(BARRIERS) if bits >> 11 + n & 1),
            reuse=tuple(n for n in range(OPERANDS) if bits >> 17 + n & 1),
        )

    @property
    def bits(self) -> int:
        """The 21 control bits."""
        write_barrier, read_barrier = (
            NO_BARRIER if number is None else number
            for number in (self.write_barrier, self.read_barrier)
        )
        return (
            self.stall | (not self.yields) << 4 | write_barrier << 5 | read_barrier << 8
            | sum(1 << n for n in self.waits_for) << 11 | sum(1 << n for n in self.reuse) << 17
        )  # fmt: skip

    def put_into(self, upper: int) -> int:
        """An instruction's upper 64 bits, with these control bits instead of its own."""
        return upper & ~(((1 << WIDTH) - 1) << SHIFT) | self.bits << SHIFT

    @property
    def sets(self) -> str:
        """The barriers that count it: "W0 R1", W until its result is there, R its sources read."""
        named = (("W", self.write_barrier), ("R", self.read_barrier))
        return " ".join(f"{letter}{number}" for letter, number in named if number is not None)


@dataclass(frozen=True)
class Read:
    """A general register that an instruction reads: its number, and whether it is to be kept.

    `place` is the operand's place, from 0 for the destination on; `reuse`: the operand stays at
    that place for the warp's next instruction.
    """

    place: int
    register: int
    reuse: bool


@dataclass(frozen=True)
class Instruction:
    """One line of SASS. `target` is the address that it may go to, None if it goes nowhere.
    `control`: its control bits, None where the listing has none."""

    address: int
    predicate: str  # such as "!P0"; empty if it is always executed
    opcode: str  # with its modifiers, such as "FFMA.FTZ"
    operands: tuple[str, ...]
    target: int | None = None
    control: Control | None = None

    def __str__(self) -> str:
        guard = f"@{self.predicate} " if self.predicate else ""
        return f"{guard}{self.opcode} {', '.join(self.operands)}".rstrip()

    @cached_property
    def operation(self) -> str:
        """The opcode without modifiers: "FFMA" of "FFMA.FTZ"."""
        return self.opcode.partition(".")[0]

    @cached_property
    def reads(self) -> tuple[Read, ...]:
        """The registers among the operands after the first. RZ, always 0, does not count."""
        matches = ((place, _REGISTER.fullmatch(text)) for place, text in enumerate(self.operands))
        return tuple(
            Read(place, int(match[1]), ".reuse" in match[0]) for place, match in matches
            if match and place > 0
        )  # fmt: skip


@lru_cache(maxsize=64)
def disassemble(cubin: bytes) -> str:
    """The listing of all kernels in a cubin. Raises NoDisassembler, NoListing."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        # CuPy hands over a cubin without its last byte, which is 0: one more does no harm.
        path.write_bytes(cubin + b"\0")
        command = [nvdisasm(), "--print-code", "--print-instruction-encoding", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode:
        message = done.stderr.strip().replace(str(path), "the cubin")
        raise NoListing(f"nvdisasm cannot read {len(cubin)} bytes as a cubin: {message}")
    return done.stdout


@lru_cache
def nvdisasm() -> str:
    """The path of nvdisasm: that of the package, else the one on PATH. Raises NoDisassembler."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec else ():
        for path in sorted(Path(folder).glob(f"*/bin/{TOOL}*")):
            return str(path)
    if on_path := shutil.which(TOOL):
        return on_path
    raise NoDisassembler(
        f"{TOOL}, which reads compiled kernels, is not here: install {PACKAGE} (`make lab` does) "
        "or the CUDA toolkit, on Linux or Windows"
    )


def section(listing: str, entry: str) -> str:
    """The lines of kernel `entry` in a listing: labels and instructions.

    Of an instruction's 128 bits, the control bits alone stay, which its text does not say. Raises
    NoListing, naming the kernels that there are.
    """
    kernels: dict[str, list[str]] = {}
    lines: list[str] = []  # first, what stands before the first kernel
    for line in listing.splitlines():
        if start := _SECTION.match(line):
            lines = kernels.setdefault(start[1], [])
        elif instruction := _INSTRUCTION.match(line):
            lines.append(instruction[0].strip())
        elif (upper := _UPPER_WORD.match(line)) and lines:
            lines[-1] += f" /* control {Control.of(int(upper[1], 16)).bits:06x} */"
        elif _LABEL.match(line):
            lines.append(line.strip())
    there = ", ".join(kernels) or "none"
    if entry not in kernels:
        raise NoListing(f"there is no kernel {entry!r} in this listing; there are: {there}")
    return "\n".join(kernels[entry])


def parse(lines: str) -> list[Instruction]:
    """The instructions among the lines of one kernel, as section() gives them."""
    matches, waiting = [], []
    labels: dict[str, int] = {}
    for line in lines.splitlines():
        if label := _LABEL.match(line):
            waiting.append(label[1])
        elif match := _INSTRUCTION.match(line):
            labels |= dict.fromkeys(waiting, int(match["address"], 16))
            waiting = []
            matches.append(match)
    return [
        Instruction(
            address=int(match["address"], 16),
            predicate=match["predicate"] or "",
            opcode=match["opcode"],
            operands=tuple(part.strip() for part in match["operands"].split(",") if part.strip()),
            target=labels.get(goes[1]) if (goes := _TARGET.search(match["operands"])) else None,
            control=Control.of(int(bits, 16) << SHIFT) if (bits := match["control"]) else None,
        )
        for match in matches
    ]
