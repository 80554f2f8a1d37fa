"""A basic block of PTX to one Python function on NumPy arrays.

A register is an array over all lanes that run together, or a smaller array that broadcasts against
them: a value that is the same for all lanes is a scalar, one that depends on the column alone is a
row. NumPy's broadcasting then does the work once for all lanes that share it.

The function made from a block looks like this (the loop of a naive kernel, shortened):

    def block(R, lanes, mask):
        v_rd44 = R['%rd44']; v_f35 = R['%f35']
        v_f17, = lanes.load(36, 'global', v_rd44, D_float32, 1, mask)
        v_f35 = fma_ftz(v_f18, v_f17, v_f35)
        v_p6 = v_r25 != K0
        R['%f35'] = v_f35
        return v_p6

`R` holds the registers that live between blocks, `mask` the active lanes or True. The result is
the condition of the branch that ends the block, or None. An instruction that has no translation
raises UnknownInstruction: nothing is guessed.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from functools import partial

import numpy as np

from ptxsim import ptx
from ptxsim.arithmetic import float32, halves, multiply_add
from ptxsim.arithmetic.exactness import are_given
from ptxsim.instructions import TABLE
from ptxsim.instructions.numbers import OF_HALVES, is_half, of_halves
from ptxsim.ptx import BOOL, FLOATS, SIGNED, Instruction, Register, Special, Symbol, Unknown, items

# What counts instructions here is the GPU's clock, or its time in nanoseconds.
CLOCKS = {
    "clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi",
}  # fmt: skip
UNUSED = Symbol("_")
LAUNCH_SIZES = {"dynamic_smem_size": "dynamic_bytes", "total_smem_size": "shared_bytes"}
# What is not known, in words, by how its instruction begins, or by a register that it reads.
REASONS = (
    (r"tex\b", "a texture with a name of its own, samples, mipmaps, 16-bit results or an offset"),
    (r"(tld4|txq)\b", "a gather with an offset, or a property of a texture other than its size"),
    (r"(suld|sust|sured|suq)\b", "a surface that has a name of its own, converts or adds"),
    (r"cp\..*im2col", "a copy by a tensor map of im2col"),
    (r"mma\.sp|.*\.sp\b", "a product of sparse matrices"),
    (r".*%(smid|nsmid|gridid|pm\d|envreg|reserved_smem)",
     "a register that says where on the GPU it runs, or that the driver fills"),
    (r"alloca|stackrestore|stacksave", "memory taken from the stack as it runs"),
    (r"brx", "a jump through a table"),
)  # fmt: skip

FUSED = "fma.rn.ftz.f32"  # done together where they share a factor: see multiply_add.py
# In machine code also those that add to each other's results, of these numbers.
JOINED = {FUSED: "f32", "fma.rn.f32": "f32", "fma.rn.f16x2": "f16", "fma.rn.bf16x2": "bf16"}
LINES_AT_ONCE = 4  # of a block, until it looks whether it shall go on; looking takes 0.1 µs


class UnknownInstruction(Exception):
    """A PTX instruction that the simulator does not know. The message names it and its line."""


def translate(
    kernel: ptx.Kernel, block: ptx.Block, types: dict[str, np.dtype], degrees: dict[str, int],
    kept: frozenset, flush_operands: bool, at_once: bool,
):  # fmt: skip
    """The Python function of one basic block; its text is in the attribute `text`.

    `kept`: registers that only active lanes may change, for waiting ones still need them.
    `flush_operands`: whether a float32 operand can be subnormal at all; if not, none is flushed.
    `at_once`: whether machine code does multiply-adds that add to each other's results.
    """
    writer = Writer(kernel, block, types, degrees, flush_operands)
    condition = None
    needed = block.live_out | kept if at_once else None
    for step in steps(kernel.instructions[block.start : block.end], needed):
        if isinstance(step, list) and at_once:
            writer.multiply_adds_at_once(step)
        elif isinstance(step, list):
            writer.multiply_adds(step)
        elif step.name in ptx.LEAVES_BLOCK:  # see machine.py for the rest of it
            condition = None if step.predicate is None else writer.condition(step)
        else:
            writer.instruction(step)
            condition = writer.tried
    text = writer.function(kept, condition)
    namespace = dict(writer.constants)
    exec(compile(text, f"<{kernel.name}, block {block.start}>", "exec"), namespace)
    function = namespace["block"]
    function.text = text
    return function


def steps(instructions: list[Instruction], needed: set[str] | None = None):
    """The instructions of a block in order, but lists of multiply-adds that depend on no other.

    With `needed`, the registers that are read after the block, multiply-adds of one list may add to
    each other's results, where nobody else reads these.
    """
    reads = Counter(name for instruction in instructions for name in instruction.uses)
    joined = {FUSED} if needed is None else JOINED.keys()
    waiting: list[Instruction] = []
    written: set[str] = set()
    read: set[str] = set()
    for instruction in instructions:
        target, sources = instruction.defines, instruction.uses
        fused = instruction.opcode in joined and instruction.predicate is None
        depends = bool(target & (written | read) or sources & written)
        if fused and depends and needed is not None:
            depends = not _continues(instruction, written, reads, needed)
        if fused and waiting:
            depends |= instruction.opcode != waiting[0].opcode
        if depends or instruction.name in ptx.LEAVES_BLOCK:
            yield from [waiting] if waiting else []
            waiting, written, read = [], set(), set()
        if fused:
            waiting.append(instruction)
            written |= target
            read |= sources
        else:
            yield instruction
    yield from [waiting] if waiting else []


def _continues(instruction, written, reads, needed) -> bool:
    """Whether a multiply-add can wait with the others: it reads their results as a sum at most."""
    target, *factors, addend = (_name(operand) for operand in instruction.operands)
    if written.intersection(factors) or (target in written and target != addend):
        return False
    if addend not in written or target == addend:
        return True
    return reads[addend] == 1 and addend not in needed


def _name(operand) -> str | None:
    return operand.name if isinstance(operand, Register) else None


class Writer:
    """Collects the lines of one function."""

    def __init__(self, kernel, block, types, degrees, flush_operands):
        self.kernel, self.block, self.types, self.degrees = kernel, block, types, degrees
        self.flush_operands = flush_operands
        self.lines: list[str] = []
        self.names: dict[str, str] = {}
        self.constants = {"np": np, "where": np.where}
        # Expression -> the variable that holds its value; name -> the expressions that it is in.
        self.made: dict[str, str] = {}
        self.made_of: dict[str, set[str]] = {}
        self.fma_count = 0
        self.at = block.start
        self.tried: str | None = None  # the result of a look at an mbarrier

    # --- names and values ---------------------------------------------------------------------

    def variable(self, register: str) -> str:
        return self.names.setdefault(register, "v" + re.sub(r"\W", "_", register))

    def dtype(self, dtype: np.dtype) -> str:
        name = f"D_{dtype.name}"
        self.constants[name] = dtype
        return name

    def use(self, function) -> str:
        """The name by which the text can call `function`."""
        if not inspect.isfunction(function):
            return self.constant(function)
        self.constants[function.__name__] = function
        return function.__name__

    def call(self, function, instruction: Instruction, *given) -> str:
        rest = ", ".join(map(str, [*given, self.mask(instruction)]))
        return f"{self.use(function)}(lanes, {instruction.index}, {rest})"

    def tell(self, instruction: Instruction, method: str, *given) -> None:
        """A line with a call of the lanes' method, for those that execute the instruction."""
        rest = ", ".join(map(str, [instruction.index, *given, self.mask(instruction)]))
        self.lines.append(f"lanes.{method}({rest})")

    def constant(self, value) -> str:
        name = f"K{len(self.constants)}"
        self.constants[name] = value
        return name

    def value(self, operand, dtype: np.dtype) -> str:
        """An expression for `operand`, its bits seen as `dtype`."""
        if isinstance(operand, Register):
            return self._view(self.variable(operand.name), self.types[operand.name], dtype)
        if isinstance(operand, ptx.Immediate):
            return self.constant(_immediate(operand, dtype))
        if isinstance(operand, Special):
            return self._special(operand.name, dtype)
        if isinstance(operand, Symbol):
            for variables in (self.kernel.shared, self.kernel.local):
                if operand.name in variables:
                    return self.constant(dtype.type(variables[operand.name].offset))
            if operand.name in self.kernel.variables:
                text = f"lanes.launch.memory.address({operand.name!r})"
                return self._view(text, SIGNED[8], dtype)
            if ptx.STRUCTURE.match(dict(self.kernel.parameters).get(operand.name, "")):
                return self._view(f"lanes.parameters[{operand.name!r}]", SIGNED[8], dtype)
        raise Unknown

    def values(self, operands, dtype: np.dtype) -> list[str]:
        return [self.value(operand, dtype) for operand in operands]

    def tuple(self, operands, dtype: np.dtype) -> str:
        return "(" + "".join(f"{value}, " for value in self.values(operands, dtype)) + ")"

    def _special(self, name: str, dtype: np.dtype) -> str:
        if name in CLOCKS:
            # Instructions executed so far: no time, but it only goes forward.
            text = f"np.int64(lanes.executed + {self.at - self.block.start})"
            text += " >> np.int64(32)" if name.endswith("_hi") else ""
            return self._view(f"({text})", SIGNED[8], dtype)
        if name in ptx.GRID_REGISTERS:
            text = f"lanes.launch.memory.address({ptx.GRID_WORKSPACE!r})"
            text += " >> np.int64(32)" if name == "envreg1" else ""
            return self._view(f"({text})", SIGNED[8], dtype)
        if name == "reserved_smem_offset_1":
            offset = self.kernel.shared[ptx.RESERVED].offset
            return self._view(self.constant(np.int32(offset)), SIGNED[4], dtype)
        if name in LAUNCH_SIZES:
            return self._view(f"np.int32(lanes.launch.{LAUNCH_SIZES[name]})", SIGNED[4], dtype)
        have = BOOL if name == "is_explicit_cluster" else SIGNED[4]
        return self._view(f"lanes.special[{name!r}]", have, dtype)

    def number(self, operand, dtype: np.dtype, ftz: bool) -> str:
        """As `value`, for a float operand of arithmetic that may flush subnormals to zero."""
        text = self.value(operand, dtype)
        bits_from_elsewhere = isinstance(operand, Register) and self.types[operand.name].kind != "f"
        flushes = ftz and (self.flush_operands or bits_from_elsewhere)
        return f"{self.use(float32.flush)}({text})" if flushes else text

    def wide(self, operand, ftz: bool) -> str:
        text = self.number(operand, FLOATS["f32"], ftz)
        return self.once(f"{text}.astype({self.dtype(FLOATS['f64'])})")

    def once(self, text: str) -> str:
        """A variable with the value of an expression, for all its uses in the block."""
        if text.isidentifier():
            return text
        if text not in self.made:
            name = f"o{len(self.lines)}"
            self.made[text] = name
            for part in re.findall(r"\w+", text):
                self.made_of.setdefault(part, set()).add(text)
            self.lines.append(f"{name} = {text}")
        return self.made[text]

    def _view(self, text: str, have: np.dtype, want: np.dtype) -> str:
        if have == want:
            return text
        if have.itemsize == want.itemsize and BOOL not in (have, want):
            return f"{text}.view({self.dtype(want)})"
        if have.kind in "iu" and want.kind in "iu":  # a narrower part, or extended by its sign
            return f"{text}.astype({self.dtype(want)})"
        raise Unknown

    def address(self, operand: ptx.Address, dtype: np.dtype) -> str:
        base = self.value(operand.base, dtype)
        return f"{base} + {self.constant(dtype.type(operand.offset))}" if operand.offset else base

    def condition(self, instruction: Instruction) -> str:
        assert instruction.predicate is not None
        name = self.variable(instruction.predicate.name)
        return f"~{name}" if instruction.negated else name

    def mask(self, instruction: Instruction) -> str:
        if instruction.predicate is None:
            return "mask"
        return f"lanes.both(mask, {self.condition(instruction)})"

    def assign(self, operand, expression: str, dtype: np.dtype, instruction: Instruction) -> None:
        if operand == UNUSED:
            return
        if not isinstance(operand, Register):
            raise Unknown
        declared, name = self.types[operand.name], self.variable(operand.name)
        text = expression if declared == dtype else self._view(f"({expression})", dtype, declared)
        if instruction.predicate is not None:
            text = f"where({self.condition(instruction)}, {text}, {name})"
        self.lines.append(f"{name} = {text}")
        # What was made of the old value no longer holds.
        for text in self.made_of.pop(name, ()):
            self.made.pop(text, None)

    def assign_all(
        self, target, expression: str, dtype: np.dtype, instruction: Instruction
    ) -> None:
        names = [f"t{i}" for i in range(len(items(target)))]
        self.lines.append(f"{', '.join(names)}, = {expression}")
        for name, register in zip(names, items(target), strict=True):
            self.assign(register, name, dtype, instruction)

    def apply(self, instruction: Instruction, target, dtype: np.dtype, function, *given) -> None:
        """target = function(*given), of `dtype`; `given`: texts, or numbers."""
        text = f"{self.use(function)}({', '.join(map(str, given))})"
        self.assign(target, text, dtype, instruction)

    def function(self, kept: frozenset, condition: str | None) -> str:
        before = [
            f"{name} = R[{register!r}]"
            for register, name in self.names.items()
            if register in self.block.live_in
        ]
        after = []
        for register in sorted(self.block.defined & (self.block.live_out | kept)):
            name = self.variable(register)
            keep = f"where(mask, {name}, R[{register!r}])" if register in kept else name
            after.append(f"R[{register!r}] = {keep}")
        if self.fma_count:
            after.append(f"lanes.count_fma({self.fma_count}, mask)")
        lines = []
        for at, line in enumerate(self.lines, start=1):
            lines += [line] if at % LINES_AT_ONCE else [line, "lanes.go_on()"]
        body = [*before, *lines, *after, f"return {condition}"]
        return "def block(R, lanes, mask):\n" + "".join(f"    {line}\n" for line in body)

    # --- instructions -------------------------------------------------------------------------

    def instruction(self, instruction: Instruction) -> None:
        self.at = instruction.index
        by_halves = is_half(instruction) and instruction.name in OF_HALVES
        method = of_halves if by_halves else TABLE.get(instruction.name)
        if method is None:
            raise self._unknown(instruction)
        try:
            method(self, instruction, *instruction.operands)
        except (Unknown, KeyError, TypeError, ValueError) as error:
            raise self._unknown(instruction) from error

    def each_instruction(self) -> None:
        """All of the block, one by one. Raises UnknownInstruction."""
        for instruction in self.kernel.instructions[self.block.start : self.block.end]:
            if instruction.name not in ptx.LEAVES_BLOCK:
                self.instruction(instruction)

    def multiply_adds(self, instructions: list[Instruction]) -> None:
        """The lines for multiply-adds in any order: those that share a factor together."""
        both = []
        for first in (1, 2):
            groups: dict = {}
            for instruction in instructions:
                shared, other = instruction.operands[first], instruction.operands[3 - first]
                groups.setdefault(shared, []).append((instruction, shared, other))
            both.append(list(groups.values()))
        for group in min(both, key=len):
            if len(group) == 1:
                self.instruction(group[0][0])
            else:
                self._multiply_adds(group)

    def multiply_adds_at_once(self, instructions: list[Instruction]) -> None:
        """The line for multiply-adds, some of which add to the results of others."""
        factors: dict = {}  # operand -> its number
        pairs: dict = {}  # register of a sum -> pairs of factors whose products it is the sum of
        addends: dict = {}  # register of a sum -> what the first product is added to
        for instruction in instructions:
            target, *both, addend = instruction.operands
            name = _name(addend)
            pair = tuple(factors.setdefault(factor, len(factors)) for factor in both)
            pairs[target.name] = [*pairs.pop(name, ()), pair]
            addends[target.name] = addends.pop(name, addend)
        name, dtype = JOINED[instructions[0].opcode], SIGNED[4]
        text, values = partial(self.value, dtype=dtype), (list(factors), list(addends.values()))
        step = f"{self.use(halves.of_pairs)}({name!r}, a, b, c)"
        if name == "f32":
            dtype = FLOATS["f32"]
            ftz = instructions[0].opcode == FUSED
            text = partial(self.number, dtype=dtype, ftz=ftz)
            self.fma_count += len(instructions)
            degree = max(self.degrees[i.operands[0].name] for i in instructions)
            known = f"lanes.known_sums[{degree, are_given(self.degrees, *factors)}]"
            step = (
                f"{self.use(multiply_add.fma_ftz if ftz else multiply_add.fma)}"
                "(a.astype(np.float64), b.astype(np.float64), c"
                f"{f', {known}, lanes.magnitudes' if ftz else ''})"
            )
        given = ", ".join("(" + "".join(f"{text(x)}, " for x in of) + ")" for of in values)
        batch = self.constant(multiply_add.Batch(name, pairs.values()))
        call = f"{self.use(multiply_add.fma_batch)}({batch}, {given}, lanes.stacks, "
        targets = ptx.Vector(tuple(map(Register, pairs)))
        self.assign_all(targets, f"{call}lambda a, b, c: {step})", dtype, instructions[0])

    def _multiply_adds(self, group) -> None:
        """`group`: (instruction, the shared factor, the other one) of each."""
        self.fma_count += len(group)
        dimensions = "len(lanes.shape)"
        shared = self.wide(group[0][1], ftz=True)
        others = ", ".join(self.wide(other, ftz=True) for _, _, other in group)
        factors = self.once(f"{self.use(multiply_add.stack)}({dimensions}, {others})")
        sums = (self.number(i.operands[3], FLOATS["f32"], ftz=True) for i, _, _ in group)
        degree = max(self.degrees[i.operands[0].name] for i, _, _ in group)
        given = all(are_given(self.degrees, factor, other) for _, factor, other in group)
        rows = f"g{len(self.lines)}"
        self.lines.append(
            f"{rows} = {self.use(multiply_add.fma_rows)}({shared}, {factors}, ({', '.join(sums)}), "
            f"lanes.known_sums[{degree, given}], lanes.stacks, {dimensions})"
        )
        for row, (instruction, _, _) in enumerate(group):
            self.assign(instruction.operands[0], f"{rows}[{row}]", FLOATS["f32"], instruction)

    def _unknown(self, instruction: Instruction) -> UnknownInstruction:
        reasons = (reason for begins, reason in REASONS if re.match(begins, instruction.text))
        why = next((f" ({reason})" for reason in reasons), "")
        return UnknownInstruction(
            f"kernel '{self.kernel.name}', {instruction.where}: the simulator does not know "
            f"the instruction: {instruction.text}{why}"
        )


def _immediate(operand: ptx.Immediate, dtype: np.dtype):
    if operand.is_float:
        return np.frombuffer(np.array(operand.value, f"f{dtype.itemsize}").tobytes(), dtype)[0]
    if dtype == BOOL:
        return np.bool_(operand.value)
    mask = (1 << (8 * dtype.itemsize)) - 1
    return np.frombuffer((int(operand.value) & mask).to_bytes(dtype.itemsize, "little"), dtype)[0]
