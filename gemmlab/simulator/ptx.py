"""PTX text to instructions and basic blocks, with the registers that live between them.

PTX is the assembly language that NVRTC emits; its reference is NVIDIA's "PTX ISA". Only what a
compiler emits is read here: one module, entry functions, no calls.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from pathlib import PurePath

# Bytes of one element of each PTX type.
TYPE_BYTES = {
    "b8": 1, "u8": 1, "s8": 1,
    "b16": 2, "u16": 2, "s16": 2, "f16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8,
    "b128": 16,
}  # fmt: skip

ENDS_BLOCK = {"bra", "ret", "exit", "bar", "barrier"}
NO_RESULT = {"st", "bra", "ret", "exit", "bar", "barrier"}
SPECIAL_REGISTERS = re.compile(r"%(n?tid|n?ctaid)\.[xyz]$|%laneid$")


class PtxError(Exception):
    """PTX that this module cannot read. The message quotes it."""


# --- operands -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Register:
    name: str


@dataclass(frozen=True)
class Special:
    """A register that the hardware fills: %tid.x, %ctaid.y, …, without the percent sign."""

    name: str


@dataclass(frozen=True)
class Immediate:
    value: int | float
    is_float: bool


@dataclass(frozen=True)
class Symbol:
    """A parameter, a label or a variable in shared memory."""

    name: str


@dataclass(frozen=True)
class Address:
    base: Register | Symbol | Immediate
    offset: int


@dataclass(frozen=True)
class Vector:
    items: tuple


# --- a kernel -------------------------------------------------------------------------------


@dataclass
class Instruction:
    index: int
    opcode: str  # "ld.global.nc.f32"
    operands: tuple
    line: int  # in the reader's file; 0 where the compiler names none
    text: str
    predicate: Register | None = None
    negated: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.opcode.split("."))

    @property
    def name(self) -> str:
        return self.opcode.split(".", 1)[0]

    def defines(self) -> set[str]:
        if self.name in NO_RESULT or not self.operands:
            return set()
        return _registers(self.operands[0])

    def uses(self) -> set[str]:
        sources = self.operands if self.name in NO_RESULT else self.operands[1:]
        used = set().union(*(_registers(operand) for operand in sources), set())
        if self.predicate is not None:
            # A lane whose predicate is false keeps the old value, so the result is read too.
            used |= {self.predicate.name} | self.defines()
        return used


@dataclass
class Block:
    """A basic block: instructions[start:end], entered only at the top, left only at the end."""

    start: int
    end: int
    successors: tuple[int, ...] = ()
    target: int | None = None  # of the branch that ends it
    live_in: set[str] = field(default_factory=set)
    live_out: set[str] = field(default_factory=set)
    defined: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Variable:
    """A place in shared memory, in bytes from the block's start."""

    offset: int
    size: int


@dataclass(eq=False)
class Kernel:
    name: str
    parameters: list[tuple[str, str]]  # (name, PTX type)
    registers: dict[str, str] = field(default_factory=dict)  # name -> PTX type
    shared: dict[str, Variable] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    blocks: dict[int, Block] = field(default_factory=dict)

    @property
    def shared_bytes(self) -> int:
        return max((v.offset + v.size for v in self.shared.values()), default=0)


def parse(ptx: str, filename: str) -> dict[str, Kernel]:
    """Every entry function of `ptx` by name. Source lines are those of `filename`."""
    ptx = re.sub(r"//[^\n]*|/\*.*?\*/", "", ptx, flags=re.S)
    files = dict(re.findall(r'\.file\s+(\d+)\s+"([^"]*)"', ptx))
    own = {number for number, path in files.items() if PurePath(path).name == filename}
    kernels = {}
    for entry in re.finditer(r"\.entry\s+(\w+)\s*\(([^)]*)\)[^{;]*\{", ptx):
        name, parameters = entry.groups()
        kernel = Kernel(name, [_parameter(text) for text in _split(parameters)])
        _Body(kernel, own).read(ptx, entry.end())
        kernel.blocks = _basic_blocks(kernel)
        _liveness(kernel.blocks, kernel.instructions)
        kernels[name] = kernel
    return kernels


# --- reading ----------------------------------------------------------------------------------


class _Body:
    """Reads one function's body. Braces open scopes, in which inline assembly declares anew."""

    LOCATION = re.compile(r"\.loc\s+([^\n]*)")
    LABEL = re.compile(r"(\$?[A-Za-z_]\w*)\s*:(?!:)")

    def __init__(self, kernel: Kernel, own_files: set[str]):
        self.kernel, self.own_files = kernel, own_files
        self.line = 0
        self.scopes: list[dict[str, str]] = [{}]
        self.opened = 0
        self.branches: list[tuple[Instruction, tuple[dict[str, str], ...]]] = []

    def read(self, ptx: str, position: int) -> None:
        while self.scopes:
            position = re.compile(r"\s*").match(ptx, position).end()
            if ptx[position] == "{":
                self.scopes.append({})
                self.opened += 1
                position += 1
            elif ptx[position] == "}":
                self.scopes.pop()
                position += 1
            elif found := self.LOCATION.match(ptx, position):
                self._locate(found[1])
                position = found.end()
            elif found := self.LABEL.match(ptx, position):
                self.kernel.labels[self._declare(found[1])] = len(self.kernel.instructions)
                position = found.end()
            else:
                end = ptx.index(";", position)
                self._statement(" ".join(ptx[position:end].split()))
                position = end + 1
        self._resolve_branches()

    def _locate(self, text: str) -> None:
        """`.loc file line column, …, inlined_at file line column`: the line in the own file."""
        places = [re.match(r"(\d+) (\d+)", text).groups()]
        places += re.findall(r"inlined_at (\d+) (\d+)", text)
        for number, line in places:
            if number in self.own_files and line != "0":  # 0: made by the compiler
                self.line = int(line)
                return

    def _declare(self, name: str) -> str:
        """The name under which something declared in the current scope is known."""
        unique = name if len(self.scopes) == 1 else f"{name}@{self.opened}"
        self.scopes[-1][name] = unique
        return unique

    def _statement(self, text: str) -> None:
        if text.startswith(".reg"):
            ptx_type, names = re.match(r"\.reg\s*\.(\w+)\s+(.*)", text).groups()
            for name in _split(names):
                numbered = re.fullmatch(r"(.+)<(\d+)>", name)
                each = (
                    [f"{numbered[1]}{i}" for i in range(int(numbered[2]))] if numbered else [name]
                )
                for one in each:
                    self.kernel.registers[self._declare(one)] = ptx_type
        elif found := re.match(
            r"\.shared\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(\w+)(?:\[(\d*)\])?$", text
        ):
            alignment, ptx_type, name, count = found.groups()
            align = int(alignment or TYPE_BYTES[ptx_type])
            start = -(-self.kernel.shared_bytes // align) * align
            size = TYPE_BYTES[ptx_type] * int(count or 1)
            self.kernel.shared[self._declare(name)] = Variable(start, size)
        elif text.startswith(".pragma"):
            pass
        elif text.startswith("."):
            raise PtxError(f"not understood: {text}")
        elif text:
            self._instruction(text)

    def _instruction(self, text: str) -> None:
        guard = re.match(r"@(!?)(%?\w+)\s+(.*)", text)
        body = guard[3] if guard else text
        opcode, _, operands = body.partition(" ")
        instruction = Instruction(
            index=len(self.kernel.instructions),
            opcode=opcode,
            operands=tuple(self._operand(part) for part in _split(operands)),
            line=self.line,
            text=text,
            predicate=Register(self._name(guard[2])) if guard else None,
            negated=bool(guard and guard[1]),
        )
        if instruction.name == "bra":
            self.branches.append((instruction, tuple(self.scopes)))
        self.kernel.instructions.append(instruction)

    def _name(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def _operand(self, text: str):
        if text[0] == "{":
            return Vector(tuple(self._operand(part) for part in _split(text[1:-1])))
        if text[0] == "[":
            found = re.fullmatch(r"([%$\w]+)\s*(?:\+\s*(-?\w+))?", text[1:-1].strip())
            if not found:
                raise PtxError(f"address not understood: {text}")
            return Address(self._operand(found[1]), int(found[2], 0) if found[2] else 0)
        if SPECIAL_REGISTERS.match(text):
            return Special(text[1:])
        if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", text):
            return Immediate(struct.unpack(">f", bytes.fromhex(text[2:]))[0], True)
        if re.fullmatch(r"0[dD][0-9a-fA-F]{16}", text):
            return Immediate(struct.unpack(">d", bytes.fromhex(text[2:]))[0], True)
        if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)U?", text):
            return Immediate(int(text.rstrip("U"), 0), False)
        name = self._name(text)
        return Register(name) if name in self.kernel.registers else Symbol(name)

    def _resolve_branches(self) -> None:
        """A label may stand after its branch: look it up once the body is read."""
        for instruction, scopes in self.branches:
            name = instruction.operands[0].name
            for scope in reversed(scopes):
                if scope.get(name) in self.kernel.labels:
                    instruction.operands = (Symbol(scope[name]),)
                    break
            else:
                raise PtxError(f"no label for: {instruction.text}")


def _parameter(text: str) -> tuple[str, str]:
    found = re.match(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(?:\.\w+\s+)*(\w+)", text)
    if not found:
        raise PtxError(f"parameter not understood: {text}")
    return found[2], found[1]


def _split(text: str) -> list[str]:
    """Split at commas that stand in no bracket. `p|q` (two results) counts as two operands."""
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character in "[{(") - (character in ")}]")
        if character in ",|" and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return [*parts, current.strip()] if current.strip() else parts


def _registers(operand) -> set[str]:
    if isinstance(operand, Register):
        return {operand.name}
    if isinstance(operand, Address):
        return _registers(operand.base)
    if isinstance(operand, Vector):
        return set().union(*(_registers(item) for item in operand.items), set())
    return set()


# --- basic blocks -----------------------------------------------------------------------------


def _basic_blocks(kernel: Kernel) -> dict[int, Block]:
    instructions, count = kernel.instructions, len(kernel.instructions)
    starts = {0, *kernel.labels.values()}
    starts |= {i.index + 1 for i in instructions if i.name in ENDS_BLOCK}
    ordered = sorted(start for start in starts if start < count)
    blocks = {}
    for start, end in zip(ordered, [*ordered[1:], count], strict=True):
        last = instructions[end - 1]
        target = kernel.labels[last.operands[0].name] if last.name == "bra" else None
        falls_through = last.name not in {"bra", "ret", "exit"} or last.predicate is not None
        follow = [target] if target is not None and target < count else []
        follow += [end] if falls_through and end < count else []
        blocks[start] = Block(start, end, tuple(follow), target)
    return blocks


def _liveness(blocks: dict[int, Block], instructions: list[Instruction]) -> None:
    """Which registers are read later: the classic backward data-flow iteration."""
    read_first: dict[int, set[str]] = {}
    for block in blocks.values():
        uses: set[str] = set()
        for instruction in instructions[block.start : block.end]:
            uses |= instruction.uses() - block.defined
            block.defined |= instruction.defines()
        read_first[block.start] = uses
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks.values()):
            out = set().union(*(blocks[s].live_in for s in block.successors), set())
            live = read_first[block.start] | (out - block.defined)
            changed |= live != block.live_in or out != block.live_out
            block.live_in, block.live_out = live, out
