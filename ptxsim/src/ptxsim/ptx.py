"""PTX text to instructions and basic blocks, with the registers that live between them.

PTX is the assembly language that NVRTC emits; its reference is NVIDIA's "PTX ISA". Only what a
compiler emits is read here: one module, its entry functions, and the functions that these call,
whose bodies stand in the kernel's instructions once for every call. A call through a pointer is a
call of each function that the pointer may lead to, by the threads that have its address.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from pathlib import PurePath

import numpy as np

from ptxsim.host_code import closing

# Bytes of one element of each PTX type.
TYPE_BYTES = {
    "b8": 1, "u8": 1, "s8": 1,
    "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "e4m3x2": 2, "e5m2x2": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "tf32": 4,
    "f16x2": 4, "bf16x2": 4, "u16x2": 4, "s16x2": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8,
    "b128": 16,
}  # fmt: skip

# A barrier ends a basic block: lanes meet at the top of the next one. So does a look at an
# mbarrier, which starts one too: lanes may have to look again.
LEAVES_BLOCK = {"bra", "ret", "exit"}
ENDS_BLOCK = LEAVES_BLOCK | {"bar", "barrier"}
# Instructions of a whole warp, whose lanes may come from different branches; of a whole warpgroup.
WHOLE_WARP = {
    "shfl", "vote", "match", "redux", "elect",
    "mma", "wmma", "ldmatrix", "stmatrix", "movmatrix",
}  # fmt: skip
WHOLE_GROUP = {"wgmma"}
WHOLE_WARP_FORMS = re.compile(r"tcgen05\.(alloc|dealloc|relinquish|ld|st|wait)|tensormap\.cp_")
NO_RESULT = {
    "bar", "barrier", "bra", "cp", "discard", "exit", "fence", "griddepcontrol", "membar",
    "nanosleep", "prefetch", "prefetchu", "red", "ret", "setmaxnreg", "st", "stmatrix", "sust",
    "tensormap", "trap",
}  # fmt: skip
NO_RESULT_FORMS = re.compile(
    r"mbarrier\.(init|inval|expect_tx|complete_tx)|wmma\.store|wgmma\.(fence|commit|wait)|"
    r"call\.__assertfail|tcgen05\.dealloc|clusterlaunchcontrol\.try"
)
SPECIAL_REGISTERS = re.compile(
    r"%(n?tid|n?ctaid|n?clusterid|cluster_n?ctaid)\.[xyz]$|"
    r"%(laneid|n?warpid|lanemask_\w+|cluster_n?ctarank|is_explicit_cluster)$|"
    r"%(clock|clock_hi|clock64|globaltimer|globaltimer_lo|globaltimer_hi)$|"
    r"%(envreg[12]|dynamic_smem_size|total_smem_size|reserved_smem_offset_1)$"
)
# A parameter that is a structure has the type "structure ALIGNMENT BYTES".
STRUCTURE = re.compile(r"structure (\d+) (\d+)")
ASSEMBLY = re.compile(r"// begin inline asm.*?// end inline asm", re.S)
RELEASE = re.compile(r"^// Cuda compilation tools, release ([\d.]+)", re.M)
FILE = re.compile(r'^\s*\.file\s+\d+\s+"([^"]*)"', re.M)
ITSELF = "the PTX"  # what has the lines of PTX without line numbers
# CUTLASS writes some without a space behind them.
OPCODE = re.compile(r"([^\s{\[]+)\s*(.*)", re.S)
GUARD = re.compile(r"@(!?)(%?\w+)\s+(.*)")
ADDRESS = re.compile(r"([%$\w]+)\s*(?:\+\s*(-?\w+))?")
FLOAT32, FLOAT64 = re.compile(r"0[fF][0-9a-fA-F]{8}"), re.compile(r"0[dD][0-9a-fA-F]{16}")
INTEGER = re.compile(r"(-?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|(0[0-7]+)|(\d+))U?")
NAMED_NUMBERS = {"WARP_SZ": 32}
BRACKET = re.compile(r"[\[{(]")
NO_REGISTERS: frozenset[str] = frozenset()

# Of kernels that were read, and of what was found out about them. A kernel is some ten thousand
# objects, and Python's garbage collector looks at all of them every so often: no more than a reader
# or a test goes through again and again, each with a few settings.
KEPT_KERNELS = 32

SHARED_VARIABLE = re.compile(
    r"\.(?P<space>shared|local)\s+(?:\.align\s+(?P<alignment>\d+)\s+)?\.(?P<type>\w+)\s+"
    r"(?P<name>[\w$]+)(?:\[(?P<count>\d*)\])?"
)
MODULE_VARIABLE = re.compile(
    r"\.(?:const|global)\s+(?:\.align\s+(?P<alignment>\d+)\s+)?\.(?P<type>\w+)\s+"
    r"(?P<name>[\w$]+)(?:\[(?P<count>\d*)\])?(?:\s*=\s*(?P<initial>[^;]*))?\s*;"
)
FUNCTION = re.compile(
    r"\.entry\s+(?P<entry>[\w$]+)\s*\((?P<parameters>[^)]*)\)(?P<directives>[^{;]*)\{|"
    r"\.func\s*(?:\.attribute\([^)]*\)\s*)*(?:\((?P<result>[^)]*)\)\s*)?"
    r"(?P<name>[\w$]+)\s*\((?P<given>[^)]*)\)[^{;]*(?P<opens>[{;])"
)
CALL = re.compile(
    r"call(?:\.uni)?\s*(?:\((?P<result>[^)]*)\)\s*,\s*)?(?P<name>[%\w$]+)\s*"
    r"(?:,\s*\((?P<given>[^)]*)\))?\s*(?P<prototype>,.*)?"
)
# The functions that a call through a pointer can reach: by the types of their parameters, or named.
PROTOTYPE = re.compile(
    r"\s*(?P<name>[\w$]+)\s*:\s*\.(?:calltargets(?P<targets>[^;]*)|"
    r"callprototype\s*(?:\((?P<result>[^)]*)\))?\s*_\s*(?:\((?P<given>[^)]*)\))?[^;]*);"
)
# A function whose address is taken, perhaps.
ADDRESS_MOVED = re.compile(r"\bmov\.[bu]64\s[^;]*,\s*([\w$]+)\s*;")
# Where functions begin, for pointers to them: addresses of no array, and of no shared memory.
CODE_BASE, CODE_STEP = 0x7C00_0000_0000, 128
# Upper and lower half of the address where cooperative groups keep the barrier of the grid.
GRID_REGISTERS = {"envreg1", "envreg2"}
GRID_WORKSPACE, GRID_WORKSPACE_BYTES = "%grid_workspace", 16
# What the driver keeps of a block's shared memory, zeros at first, for cooperative groups.
RESERVED, RESERVED_BYTES = "%reserved", 512
WIDEST_ACCESS = 16  # bytes
# Functions of CUDA's own that have no body: each is one instruction, "call.vprintf" for example.
SYSTEM_CALLS = {"vprintf", "__assertfail"}
MOST_INSTRUCTIONS = 1 << 18  # of a kernel with all that it calls


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
    """Registers or numbers in braces, or the two results of one instruction, "p|q"."""

    items: tuple


@dataclass(frozen=True)
class Coordinates:
    """A place in a tensor, "[map, {x, y}]"."""

    base: Register | Symbol
    items: tuple


def items(operand) -> tuple:
    return operand.items if isinstance(operand, Vector) else (operand,)


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
    header: str = ""  # "helper.h, line 3", where it stands in a header that the file includes
    parts: tuple[str, ...] = field(init=False, repr=False)
    name: str = field(init=False, repr=False)
    has_result: bool = field(init=False, repr=False)  # whether the first operand is one
    defines: frozenset[str] = field(init=False, repr=False)  # the registers that it writes
    uses: frozenset[str] = field(init=False, repr=False)  # the registers that it reads

    def __post_init__(self):
        self.parts = tuple(self.opcode.split("."))
        self.name = self.parts[0]
        self.has_result = self._has_result()
        self.defines = _registers(self.operands[0]) if self.has_result else NO_REGISTERS
        self.uses = self._uses()

    def _has_result(self) -> bool:
        if self.name in ("bar", "barrier"):
            return "red" in self.parts
        known = self.name not in NO_RESULT and not NO_RESULT_FORMS.match(self.opcode)
        return known and bool(self.operands) and not isinstance(self.operands[0], Address)

    def _uses(self) -> frozenset[str]:
        sources = self.operands[1:] if self.has_result else self.operands
        used = NO_REGISTERS.union(*map(_registers, sources))
        if self.opcode.startswith("wgmma.mma_async"):  # adds to its result
            used |= self.defines
        if self.predicate is not None:
            # A lane whose predicate is false keeps the old value, so the result is read too.
            used |= {self.predicate.name} | self.defines
        return used

    @property
    def where(self) -> str:
        return lines_of(self.line, self.header)

    @property
    def is_warp_barrier(self) -> bool:
        return self.opcode in ("bar.warp.sync", "barrier.warp.sync")

    @property
    def meets_warp(self) -> bool:
        """Whether all lanes of a warp execute it together: it starts a basic block."""
        of_warp = self.name in WHOLE_WARP | WHOLE_GROUP
        return of_warp or WHOLE_WARP_FORMS.match(self.opcode) is not None

    @property
    def waits_for_phase(self) -> bool:
        """Whether it asks an mbarrier if a phase is complete: it is a basic block of its own."""
        return self.opcode.startswith(("mbarrier.try_wait", "mbarrier.test_wait"))


@dataclass
class Block:
    """A basic block: instructions[start:end], entered only at the top, left only at the end."""

    start: int
    end: int
    successors: tuple[int, ...] = ()
    target: int | None = None  # of the branch that ends it
    whole_warp: bool = False  # whether it starts with an instruction of a whole warp
    whole_group: bool = False  # or of a whole warpgroup
    live_in: set[str] = field(default_factory=set)
    live_out: set[str] = field(default_factory=set)
    defined: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class ModuleVariable:
    """A variable in constant or global memory."""

    initial: bytes  # as declared; all behind them are 0
    size: int
    element_bytes: int

    def raw(self) -> np.ndarray:
        """uint8. What has no value is 0, and takes no memory yet."""
        raw = np.zeros(self.size, np.uint8)
        raw[: len(self.initial)] = np.frombuffer(self.initial, np.uint8)
        return raw


@dataclass(frozen=True)
class Variable:
    """A place in shared or local memory, in bytes from the start of the block's or thread's."""

    offset: int
    size: int


@dataclass(eq=False)
class Kernel:
    name: str
    parameters: list[tuple[str, str]]  # (name, PTX type)
    registers: dict[str, str] = field(default_factory=dict)  # name -> PTX type
    shared: dict[str, Variable] = field(default_factory=dict)
    local: dict[str, Variable] = field(default_factory=dict)
    variables: dict[str, ModuleVariable] = field(default_factory=dict)  # const and global
    declared: dict[str, int] = field(default_factory=dict)  # all such of the module: their bytes
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    blocks: dict[int, Block] = field(default_factory=dict)
    # Loads of what a call gave, whole structures, also what lies between their members.
    slot_loads: set[int] = field(default_factory=set)
    # Where the body of a function that is called begins, and where the instructions after it do.
    call_edges: set[int] = field(default_factory=set)
    release: str = ""  # of the CUDA tools that made the PTX, such as "13.0"
    cluster: tuple[int, ...] = (1, 1, 1)  # blocks of a cluster
    has_cluster: bool = False  # whether it says so: otherwise a launch may
    most_threads: int | None = None  # of a block: __launch_bounds__
    block: tuple[int, ...] | None = None  # the only one that it may be launched with

    def has(self, *begins: str) -> bool:
        """Whether the opcode of an instruction begins with one of these."""
        return any(instruction.opcode.startswith(begins) for instruction in self.instructions)

    @property
    def shared_bytes(self) -> int:
        return max((v.offset + v.size for v in self.shared.values()), default=0)

    @property
    def local_bytes(self) -> int:
        """Of each thread."""
        return max((v.offset + v.size for v in self.local.values()), default=0)


@dataclass(frozen=True)
class Function:
    """A function that kernels call. `result`, `given`: the names of its parameters."""

    name: str
    result: tuple[str, ...]
    given: tuple[str, ...]
    types: tuple[tuple[str, ...], ...]  # of `result` and `given`
    body: str


def with_its_own_lines(ptx: str) -> str:
    """With a .loc above each line that begins an instruction, which says where it stands."""
    lines, begins = [f'.file 1 "{ITSELF}"'], False
    for number, line in enumerate(ptx.split("\n"), 1):
        code = line.partition("//")[0].strip()
        if begins and re.match(r"@|[a-z]", code):
            lines.append(f".loc 1 {number} 0")
        begins = code.endswith((";", "{", "}", ":")) if code else begins
        lines.append(line)
    return "\n".join([*lines[1:], lines[0]])


def parse(ptx: str, filename: str, headers: frozenset[str] = frozenset()) -> Mapping[str, Kernel]:
    """Every entry function of `ptx` by name; lines are those of `filename`, and of its `headers`.

    `headers`: their paths, as the PTX has them.
    Each is read at its first look-up, which raises PtxError if something there cannot be read.
    """
    return _Module(ptx, filename, headers)


class _Module(Mapping):
    """The entry functions of one PTX text."""

    def __init__(self, ptx: str, filename: str, headers: frozenset[str]):
        release = RELEASE.search(ptx)
        self._release = release[1] if release else ""
        ptx = re.sub(r"//[^\n]*|/\*.*?\*/", "", ptx, flags=re.S)
        files = re.findall(r'\.file\s+(\d+)\s+"([^"]*)"', ptx)
        self.files = {
            number: name
            for number, path in files
            if (name := PurePath(path).name) == filename or path in headers
        }
        self.filename = filename
        self._entries: dict[str, tuple[str, str, str]] = {}  # parameters, directives and body
        self.functions: dict[str, Function] = {}
        self._kernels: dict[str, Kernel] = {}
        outside, position = [], 0
        while function := FUNCTION.search(ptx, position):
            outside.append(ptx[position : function.start()])
            position = function.end()
            name = function["entry"] or function["name"]
            if function["opens"] == ";":  # declared only
                continue
            end = closing(ptx, position, "{}")
            if end == len(ptx):
                raise PtxError(f"kernel '{name}' has no end")
            body, position = ptx[position:end], end + 1
            if function["entry"]:
                self._entries[name] = function["parameters"], function["directives"], body
            else:
                (result, given), types = _signature(function)
                self.functions[name] = Function(name, result, given, types, body)
        self._outside = "".join([*outside, ptx[position:]])
        self.addresses: dict[str, int] = {}  # of the functions that pointers may lead to
        if self.functions:
            used = {*ADDRESS_MOVED.findall(ptx), *re.findall(r"[\w$]+", self._outside)}
            for number, name in enumerate(sorted(self.functions.keys() & used)):
                self.addresses[name] = CODE_BASE + CODE_STEP * number

    def __iter__(self):
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, name: str) -> Kernel:
        if name not in self._kernels:
            self._kernels[name] = self._read(name, *self._entries[name])
        return self._kernels[name]

    def __contains__(self, name) -> bool:
        return name in self._entries

    def _read(self, name: str, parameters: str, directives: str, body: str) -> Kernel:
        kernel = Kernel(name, [_parameter(text) for text in split(parameters)])
        kernel.release = self._release
        if cluster := re.search(r"\.reqnctapercluster\s+([\d, ]+)", directives):
            kernel.cluster = tuple(int(n) for n in split(cluster[1]))
            kernel.has_cluster = True
        if most := re.search(r"\.maxntid\s+([\d, ]+)", directives):
            kernel.most_threads = prod(int(n) for n in split(most[1]))
        if block := re.search(r"\.reqntid\s+([\d, ]+)", directives):
            kernel.block = (*(int(n) for n in split(block[1])), 1, 1)[:3]
        _Body(kernel, self).read(body)
        _add_module_variables(kernel, self._outside, self.addresses)
        find_blocks(kernel)
        return kernel


# --- reading ----------------------------------------------------------------------------------


class _Body:
    """Reads one function's body. Braces open scopes, in which inline assembly declares anew."""

    BRACE = re.compile(r"\s*([{}])")
    LOCATION = re.compile(r"\s*\.loc\s+(\d+) (\d+)([^\n]*)")
    LABEL = re.compile(r"\s*(\$?[A-Za-z_]\w*)\s*:(?!:)")
    STATEMENT = re.compile(r"\s*([^;]*);")

    def __init__(self, kernel: Kernel, module: _Module):
        self.kernel, self.filename, self.files = kernel, module.filename, module.files
        self.functions, self.addresses = module.functions, module.addresses
        self.line, self.header = 0, ""
        self.scopes: list[dict[str, str]] = [{}]
        self.opened = 0
        self.operands: dict[str, object] = {}
        self.branches: list[tuple[Instruction, str, tuple[dict[str, str], ...]]] = []
        # The functions that are being read, from the kernel inwards, and where they return to.
        self.calls: list[str] = []
        self.returns: list[str] = []
        self.targets: dict[str, list[Function]] = {}  # by the name of the prototype
        self.parameter_in: dict = {}  # 32-bit registers with addresses of parameters
        self._parameter_types = dict(kernel.parameters)
        self.wide: set[str] = set()  # registers of 128 bits
        self.slots: set[str] = set()  # registers that arguments and results of calls are in

    def read(self, text: str) -> None:
        """`text` is what stands between the function's braces."""
        self._statements(text)
        self._resolve_branches()

    def _statements(self, text: str) -> None:
        position, end = 0, len(text.rstrip())
        while position < end:
            if match := self.BRACE.match(text, position):
                if match[1] == "{":
                    self.scopes.append({})
                    self.opened += 1
                else:
                    self.scopes.pop()
            elif match := self.LOCATION.match(text, position):
                self._locate(match)
            elif match := PROTOTYPE.match(text, position):
                self.targets[match["name"]] = self._targets(match)
            elif match := self.LABEL.match(text, position):
                self.kernel.labels[self._declare(match[1])] = len(self.kernel.instructions)
            elif match := self.STATEMENT.match(text, position):
                self._statement(" ".join(match[1].split()))
            else:
                raise self._error(" ".join(text[position:].split()))
            position = match.end()

    def _error(self, text: str) -> PtxError:
        where = lines_of(self.line, self.header)
        return PtxError(f"kernel '{self.kernel.name}', {where}: not understood: {text}")

    def _locate(self, location: re.Match) -> None:
        """`.loc file line column, …, inlined_at file line column`: the lines in file and header."""
        places = [location.groups()[:2], *re.findall(r"inlined_at (\d+) (\d+)", location[3])]
        known = [
            (self.files[number], line)
            for number, line in places
            if number in self.files and line != "0"  # 0: made by the compiler
        ]
        if known:
            name, line = known[0]
            self.header = "" if name == self.filename else f"{name}, line {line}"
        lines = [line for name, line in known if name == self.filename]
        if lines:
            self.line = int(lines[0])
        if lines[1:] and not self.header:
            self.header = f"called in line {lines[1]}"

    def _declare(self, name: str) -> str:
        """The name under which something declared in the current scope is known."""
        unique = name if self._is_outermost() else f"{name}@{self.opened}"
        self.scopes[-1][name] = unique
        return unique

    def _is_outermost(self) -> bool:
        return len(self.scopes) == 1 and not self.calls

    def _statement(self, text: str) -> None:
        if text[:1] not in (".", ""):
            self._instruction(text)
        elif match := re.match(r"\.reg\s*\.(\w+)\s+(.*)", text):
            ptx_type, names = match.groups()
            for name in split(names):
                numbered = re.fullmatch(r"(.+)<(\d+)>", name)
                each = (
                    [f"{numbered[1]}{i}" for i in range(int(numbered[2]))] if numbered else [name]
                )
                for register in each:
                    unique = self._declare(register)
                    if ptx_type == "b128":  # two of half the size
                        self.wide.add(unique)
                        self.kernel.registers |= dict.fromkeys(_halves(unique), "b64")
                    else:
                        self.kernel.registers[unique] = ptx_type
        elif match := SHARED_VARIABLE.fullmatch(text):
            _add_variable(self.kernel, self._declare(match["name"]), match)
        elif text.startswith(".pragma"):
            pass
        elif text.startswith(".param"):  # what a function gets or gives
            self._slot(text)
        elif text:
            raise self._error(text)

    def _instruction(self, text: str) -> None:
        guard = GUARD.match(text) if text[0] == "@" else None
        body = guard[3] if guard else text
        parts = OPCODE.fullmatch(body)
        if parts is None:
            raise self._error(text)
        opcode, operands = parts.groups()
        if opcode in ("call", "call.uni"):
            self._call(body, guard)
            return
        if opcode.split(".")[0] == "ret" and self.calls:
            opcode, operands = "bra", self.returns[-1]
        if opcode == "mov.b128":
            target, source = split(operands)
            self._move_wide(target, source, text[: -len(body)])
            return
        if opcode.endswith(".b128") and opcode.startswith(("ld.", "st.")):
            opcode = opcode.removesuffix("b128") + "v2.b64"
        if opcode.endswith(".f32x2"):
            self._pairs(opcode.removesuffix("x2"), split(operands), text[: -len(body)])
            return
        given = tuple(self._operand(part) for part in split(operands))
        # The address of a parameter in 32 bits, as LLVM widens it: here it has 64 from the start.
        if opcode == "mov.b32" and STRUCTURE.match(
            self._parameter_types.get(operands.split(", ")[-1], "")
        ):
            self.parameter_in[given[0]] = given[1]
            return
        if opcode == "cvt.u64.u32" and given[1] in self.parameter_in:
            opcode, given = "mov.b64", (given[0], self.parameter_in[given[1]])
        if opcode.startswith(("ld.param", "st.param")):
            opcode, given = self._slot_access(opcode, given, text)
        instruction = self._add(opcode, given, text, guard)
        if instruction.name == "bra":
            self.branches.append((instruction, operands, tuple(self.scopes)))
        if instruction.name == "trap":  # and the thread ends
            self._add("exit", (), text, guard)

    def _move_wide(self, target: str, source: str, guard: str) -> None:
        """mov.b128, of a register, or of a pair or four in braces, as two of half the size."""
        halves = []
        for operand in (target, source):
            if operand[0] == "{":
                parts = split(operand[1:-1])
                half = len(parts) // 2
                texts = [", ".join(parts[:half]), ", ".join(parts[half:])]
                halves.append([f"{{{each}}}" if half > 1 else each for each in texts])
            else:
                halves.append(_halves(self._name(operand)))
        for to, given in zip(*halves, strict=True):
            self._instruction(f"{guard}mov.b64 {to}, {given}")

    def _pairs(self, opcode: str, operands: list[str], guard: str) -> None:
        """An instruction on two float32 in each register, as one on either of them."""
        pairs = []
        for operand in operands:
            pairs.append([f"{self._name(operand)}@{half}" for half in ("low", "high")])
            self.kernel.registers.update(dict.fromkeys(pairs[-1], "f32"))
        for operand, pair in zip(operands[1:], pairs[1:], strict=True):
            self._instruction(f"mov.b64 {{{', '.join(pair)}}}, {operand}")
        for parts in zip(*pairs, strict=True):
            self._instruction(f"{opcode} {', '.join(parts)}")
        self._instruction(f"{guard}mov.b64 {operands[0]}, {{{', '.join(pairs[0])}}}")

    def _add(self, opcode: str, operands: tuple, text: str, guard) -> Instruction:
        instruction = Instruction(
            index=len(self.kernel.instructions),
            opcode=opcode,
            operands=operands,
            line=self.line,
            text=text,
            predicate=Register(self._name(guard[2])) if guard else None,
            negated=bool(guard and guard[1]),
            header=self.header,
        )
        self.kernel.instructions.append(instruction)
        if len(self.kernel.instructions) > MOST_INSTRUCTIONS:
            raise PtxError(
                f"kernel '{self.kernel.name}' has more than {MOST_INSTRUCTIONS:,} instructions, "
                "counting what it calls once for every call"
            )
        return instruction

    # --- calls --------------------------------------------------------------------------------

    def _slot(self, text: str) -> None:
        """`.param .b64 name`: a number is in a register, a structure in local memory."""
        name, ptx_type = _parameter(text)
        unique = self._declare(name)
        if structure := STRUCTURE.match(ptx_type):
            alignment, size = map(int, structure.groups())
            start = -(-self.kernel.local_bytes // alignment) * alignment
            self.kernel.local[unique] = Variable(start, size)
        else:
            self.kernel.registers[unique] = ptx_type
            self.slots.add(unique)

    def _slot_access(self, opcode: str, operands: tuple, text: str) -> tuple[str, tuple]:
        """`ld.param` and `st.param` of what a call gives or gets; of a kernel's own: as it was."""
        stores = opcode.startswith("st")
        address, value = operands if stores else operands[::-1]
        base = getattr(address.base, "name", None)
        if base in self.slots:
            ptx_type = opcode.rsplit(".", 1)[-1]
            size = TYPE_BYTES[self.kernel.registers[base]]
            is_narrow = ptx_type in ("s8", "u8", "s16", "u16") and TYPE_BYTES[ptx_type] < size
            if is_narrow and not stores and not address.offset:  # of a char, which has 32 bits here
                wide = f"{ptx_type[0]}{8 * TYPE_BYTES[self.kernel.registers[value.name]]}"
                return f"cvt.{wide}.{ptx_type}", (value, address.base)
            if address.offset or size != TYPE_BYTES[ptx_type]:
                raise self._error(text)
            pair = (address.base, value) if stores else (value, address.base)
            return f"mov.b{8 * TYPE_BYTES[ptx_type]}", pair
        if base in self.kernel.local or (self.calls and isinstance(address.base, Register)):
            if not stores:
                self.kernel.slot_loads.add(len(self.kernel.instructions))
            return opcode.replace(".param", ".local"), operands
        return opcode, operands

    def _call(self, text: str, guard) -> None:
        match = CALL.fullmatch(text)
        if not match:
            raise self._error(text)
        where = f"kernel '{self.kernel.name}', {lines_of(self.line, self.header)}: calls"
        name = match["name"]
        result, given = (split(match[group] or "") for group in ("result", "given"))
        if match["prototype"]:
            prototype = match["prototype"].strip(", ")
            if prototype not in self.targets:
                raise self._error(text)
            self._call_pointer(name, self.targets[prototype], result, given, guard)
            return
        if name in SYSTEM_CALLS:
            operands = tuple(self._operand(operand) for operand in (*result, *given))
            self._add(f"call.{name}", operands, text, guard)
            if name == "__assertfail":  # and the thread ends
                self._add("exit", (), text, guard)
            return
        if name in self.calls:
            raise PtxError(f"{where} {name}, which calls itself: the simulator knows no recursion")
        if name not in self.functions:
            raise PtxError(f"{where} {name}, a function that the simulator does not know")
        self._inline(self.functions[name], result, given, guard)

    def _targets(self, prototype: re.Match) -> list[Function]:
        """The functions that a pointer called with this prototype may lead to."""
        functions = [self.functions[name] for name in self.addresses]
        if prototype["targets"]:
            names = split(prototype["targets"])
            return [function for function in functions if function.name in names]
        _, types = _signature(prototype)
        return [function for function in functions if function.types == types]

    def _call_pointer(self, pointer: str, targets: list[Function], result, given, guard) -> None:
        """The bodies of all `targets`, each for the threads whose `pointer` is its address."""
        self.opened += 1
        end, predicate = f"$called@{self.opened}", "%is_target"
        self._statement(f".reg .pred {predicate}")
        for_target = (None, "", predicate)
        if guard:
            self._jump_past(guard, end)
        calls_itself = [function for function in targets if function.name in self.calls]
        operands = [self._operand(predicate), self._operand(pointer)]
        for functions in (targets, calls_itself):
            operands.append(Vector(tuple(self._operand(each.name) for each in functions)))
        self._add("call.pointer", tuple(operands), f"call {pointer}", None)
        self._add("exit", (), f"call {pointer}", (None, "!", predicate))
        for function in targets:
            if function not in calls_itself:
                self._instruction(f"setp.eq.s64 {predicate}, {pointer}, {function.name}")
                self._inline(function, result, given, for_target)
        self.kernel.labels[end] = len(self.kernel.instructions)

    def _jump_past(self, guard, end: str) -> None:
        """Threads for which `guard` does not hold go on at `end`."""
        self.scopes[-1][end] = end
        self._instruction(f"@{'' if guard[1] else '!'}{guard[2]} bra {end}")

    def _inline(self, function: Function, result, given, guard) -> None:
        """The body of `function` in place of a call of it."""
        self.opened += 1
        end, place = f"$return@{self.opened}", (self.line, self.header)
        names = zip((*function.result, *function.given), (*result, *given), strict=True)
        scope = {inner: self._name(outer) for inner, outer in names} | {end: end}
        if guard:
            self._jump_past(guard, end)
        self.kernel.call_edges.add(len(self.kernel.instructions))
        outer, self.scopes = self.scopes, [scope]
        self.calls.append(function.name)
        self.returns.append(end)
        self._statements(function.body)
        last = self.kernel.instructions[-1]
        if last.name == "bra" and last.predicate is None and self.branches[-1][1] == end:
            self.branches.pop()  # the last instruction returns: it is where it goes
            self.kernel.instructions.pop()
        self.kernel.labels[end] = len(self.kernel.instructions)
        self.kernel.call_edges.add(len(self.kernel.instructions))
        self.calls.pop()
        self.returns.pop()
        self.scopes, (self.line, self.header) = outer, place

    def _name(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def _operand(self, text: str):
        """The operand; outside inner scopes one object for each text."""
        if not self._is_outermost():
            return self._new_operand(text)
        if text not in self.operands:
            self.operands[text] = self._new_operand(text)
        return self.operands[text]

    def _new_operand(self, text: str):
        if not text:
            raise self._error("an operand is missing")
        if len(pair := split(text, "|")) == 2:
            return Vector(tuple(self._operand(part) for part in pair))
        if text[0] == "{":
            return Vector(tuple(self._operand(part) for part in split(text[1:-1])))
        if text[0] == "[":
            if "," in text:
                base, coordinates = split(text[1:-1])
                return Coordinates(self._operand(base), self._operand(coordinates).items)
            match = ADDRESS.fullmatch(text[1:-1].strip())
            if not match:
                raise self._error(text)
            return Address(self._operand(match[1]), _integer(match[2]) if match[2] else 0)
        if SPECIAL_REGISTERS.match(text):
            return Special(text[1:])
        if FLOAT32.fullmatch(text):
            return Immediate(struct.unpack(">f", bytes.fromhex(text[2:]))[0], True)
        if FLOAT64.fullmatch(text):
            return Immediate(struct.unpack(">d", bytes.fromhex(text[2:]))[0], True)
        if INTEGER.fullmatch(text):
            return Immediate(_integer(text), False)
        if text in NAMED_NUMBERS:
            return Immediate(NAMED_NUMBERS[text], False)
        if text in self.addresses:
            return Immediate(self.addresses[text], False)
        name = self._name(text)
        if name in self.wide:
            return Vector(tuple(map(Register, _halves(name))))
        return Register(name) if name in self.kernel.registers else Symbol(name)

    def _resolve_branches(self) -> None:
        """A label may stand after its branch: look it up once the body is read."""
        for instruction, name, scopes in self.branches:
            for scope in reversed(scopes):
                if scope.get(name) in self.kernel.labels:
                    instruction.operands = (Symbol(scope[name]),)
                    break
            else:
                raise PtxError(f"kernel '{self.kernel.name}': no label for: {instruction.text}")


def lines_of(line: int, header: str) -> str:
    """As in "line 12 (helper.h, line 3)"; what has no line in the main file is in the header."""
    return header if header and not line else f"line {line}" + (f" ({header})" if header else "")


def _halves(name: str) -> list[str]:
    return [f"{name}@low", f"{name}@high"]


def _integer(text: str) -> int:
    match = INTEGER.fullmatch(text)
    assert match is not None
    sign, *digits = match.groups()
    value = next(int(d, base) for d, base in zip(digits, (16, 2, 8, 10), strict=True) if d)
    return -value if sign else value


def _parameter(text: str) -> tuple[str, str]:
    """`.param .u64 .ptr .align 16 name` and the like: the name and the type."""
    match = re.match(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\b.*?(\w+)(?:\[(\d+)\])?$", text)
    if not match:
        raise PtxError(f"parameter not understood: {text}")
    alignment, ptx_type, name, size = match.groups()
    return name, f"structure {alignment or 1} {size}" if size else ptx_type


def _signature(function: re.Match) -> tuple[tuple, tuple]:
    """The names, and the types, of what a function or a prototype has as `result` and `given`."""
    groups = [
        [_parameter(text) for text in split(function[group] or "")] for group in ("result", "given")
    ]
    names, types = (tuple(tuple(each[i] for each in group) for group in groups) for i in (0, 1))
    return names, types


def _add_variable(kernel: Kernel, name: str, declaration: re.Match) -> None:
    """Give a variable of shared or local memory its place, after those that have one."""
    shared = declaration["space"] == "shared"
    alignment = int(declaration["alignment"] or TYPE_BYTES[declaration["type"]])
    used = kernel.shared_bytes if shared else kernel.local_bytes
    start = -(-used // alignment) * alignment
    (kernel.shared if shared else kernel.local)[name] = Variable(start, _size(declaration))


def _add_module_variables(kernel: Kernel, module: str, functions: dict[str, int]) -> None:
    """Variables declared outside all functions, as far as the kernel uses them.

    `functions`: the addresses of those that pointers may lead to.
    """
    operands = [operand for i in kernel.instructions for operand in i.operands]
    bases = [operand.base for operand in operands if isinstance(operand, (Address, Coordinates))]
    used = {operand.name for operand in (*operands, *bases) if isinstance(operand, Symbol)}
    specials = {operand.name for operand in operands if isinstance(operand, Special)}
    if "reserved_smem_offset_1" in specials:
        start = -(-kernel.shared_bytes // WIDEST_ACCESS) * WIDEST_ACCESS
        kernel.shared[RESERVED] = Variable(start, RESERVED_BYTES)
    variables = [match for match in SHARED_VARIABLE.finditer(module) if match["name"] in used]
    # The array of dynamic shared memory, "[]", comes after everything that has a size.
    for declaration in sorted(variables, key=lambda match: match["count"] == ""):
        _add_variable(kernel, declaration["name"], declaration)
    for declaration in MODULE_VARIABLE.finditer(module):
        if declaration["type"] not in TYPE_BYTES:  # a texture
            continue
        kernel.declared[declaration["name"]] = _size(declaration)
        if declaration["name"] in used:
            kernel.variables[declaration["name"]] = _module_variable(declaration, functions)
    if specials & GRID_REGISTERS:
        kernel.variables[GRID_WORKSPACE] = ModuleVariable(b"", GRID_WORKSPACE_BYTES, 4)


def _size(declaration: re.Match) -> int:
    count = declaration["count"]
    return TYPE_BYTES[declaration["type"]] * (1 if count is None else int(count or 0))


def _module_variable(declaration: re.Match, functions: dict[str, int]) -> ModuleVariable:
    ptx_type, size = declaration["type"], _size(declaration)
    width = TYPE_BYTES[ptx_type]
    given = split((declaration["initial"] or "").strip().strip("{}"))
    data = bytearray(width * len(given))
    for i, text in enumerate(given):
        if bits := re.fullmatch(r"0[fFdD]([0-9a-fA-F]+)", text):
            value = bytes.fromhex(bits[1])[::-1]
        elif INTEGER.fullmatch(text):
            value = (_integer(text) % 256**width).to_bytes(width, "little")
        elif text in functions:
            value = functions[text].to_bytes(width, "little")
        else:
            raise PtxError(f"initial value not understood: {declaration[0]}")
        data[width * i : width * (i + 1)] = value
    # An array of a wider type comes as bytes; its alignment tells the type's size.
    element = int(declaration["alignment"] or width) if ptx_type == "b8" else width
    return ModuleVariable(bytes(data), size, min(element, size) or width)


def split(text: str, separator: str = ",", more: str = "") -> list[str]:
    """Split at separators that stand in no bracket, nor between the two signs of `more`."""
    if separator not in text:
        return [stripped] if (stripped := text.strip()) else []
    if not more and not BRACKET.search(text):
        parts = [part.strip() for part in text.split(separator)]
        return parts if parts[-1] else parts[:-1]
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character in "[{(" + more[:1]) - (character in ")}]" + more[1:])
        if character == separator and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return [*parts, current.strip()] if current.strip() else parts


@lru_cache(maxsize=1 << 14)
def _registers(operand) -> frozenset[str]:
    if isinstance(operand, Register):
        return frozenset((operand.name,))
    if isinstance(operand, Address):
        return _registers(operand.base)
    if isinstance(operand, (Vector, Coordinates)):
        base = _registers(operand.base) if isinstance(operand, Coordinates) else NO_REGISTERS
        return base.union(*(_registers(item) for item in operand.items))
    return NO_REGISTERS


# --- basic blocks -----------------------------------------------------------------------------


def find_blocks(kernel: Kernel) -> None:
    """Fill in the basic blocks of its instructions."""
    kernel.blocks = _basic_blocks(kernel)
    _liveness(kernel.blocks, kernel.instructions)


def _basic_blocks(kernel: Kernel) -> dict[int, Block]:
    instructions, count = kernel.instructions, len(kernel.instructions)
    starts = {0, *kernel.labels.values()}
    starts |= {i.index + 1 for i in instructions if i.name in ENDS_BLOCK or i.waits_for_phase}
    starts |= {i.index for i in instructions if i.meets_warp or i.waits_for_phase}
    ordered = sorted(start for start in starts if start < count)
    blocks = {}
    for start, end in zip(ordered, [*ordered[1:], count], strict=True):
        last = instructions[end - 1]
        target = kernel.labels[last.operands[0].name] if last.name == "bra" else None
        falls_through = last.name not in LEAVES_BLOCK or last.predicate is not None
        follow = [target] if target is not None and target < count else []
        follow += [end] if falls_through and end < count else []
        first = instructions[start]
        of_group = first.name in WHOLE_GROUP
        blocks[start] = Block(start, end, tuple(follow), target, first.meets_warp, of_group)
    return blocks


def _liveness(blocks: dict[int, Block], instructions: list[Instruction]) -> None:
    """Which registers are read later: the classic backward data-flow iteration."""
    read_first: dict[int, set[str]] = {}
    for block in blocks.values():
        uses: set[str] = set()
        for instruction in instructions[block.start : block.end]:
            uses.update(instruction.uses - block.defined)
            block.defined.update(instruction.defines)
        read_first[block.start] = uses
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks.values()):
            out = set().union(*(blocks[s].live_in for s in block.successors), set())
            live = read_first[block.start] | (out - block.defined)
            changed |= live != block.live_in or out != block.live_out
            block.live_in, block.live_out = live, out


# --- types as NumPy dtypes ------------------------------------------------------------------------


BOOL = np.dtype(bool)
FLOATS: dict[str, np.dtype] = {"f32": np.dtype("f4"), "f64": np.dtype("f8")}
SIGNED: dict[int, np.dtype] = {size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}
UNSIGNED: dict[int, np.dtype] = {size: np.dtype(f"u{size}") for size in SIGNED}
BITWISE = {"and": "&", "or": "|", "xor": "^"}


class Unknown(Exception):
    """Raised by a translation that does not know a form of its instruction."""


def type_of(ptx_type: str) -> np.dtype:
    if ptx_type == "pred":
        return BOOL
    if ptx_type in FLOATS:
        return FLOATS[ptx_type]
    if ptx_type.startswith(("f", "bf", "tf", "e")):  # NumPy does not compute with these
        raise Unknown
    table = UNSIGNED if ptx_type[0] == "u" else SIGNED
    return table[TYPE_BYTES[ptx_type]]


def register_types(kernel: Kernel) -> dict[str, np.dtype]:
    """The dtype in which each register is kept between blocks; of .b32, as it is mostly used."""
    votes: dict[str, Counter] = {name: Counter() for name in kernel.registers}
    for instruction in kernel.instructions:
        kind = instruction.parts[-1]
        if kind in TYPE_BYTES and kind[0] in "fsu":
            for operand in instruction.operands:
                if isinstance(operand, Register):
                    votes[operand.name][kind[0] == "f"] += 1
    types = {}
    for name, declared in kernel.registers.items():
        if declared == "pred" or declared in FLOATS:
            types[name] = type_of(declared)
        else:
            size = TYPE_BYTES[declared]
            is_float = votes[name][True] > votes[name][False] and size >= 4
            types[name] = np.dtype(f"f{size}") if is_float else SIGNED[size]
    return types
