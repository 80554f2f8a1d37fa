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

import numpy as np

from . import arithmetic
from .ptx import (
    BLOCK_BARRIERS,
    ENDS_BLOCK,
    TYPE_BYTES,
    Address,
    Block,
    Immediate,
    Instruction,
    Kernel,
    Register,
    Special,
    Symbol,
    Vector,
)

BOOL = np.dtype(bool)
FLOATS = {"f32": np.dtype("f4"), "f64": np.dtype("f8")}
SIGNED = {1: np.dtype("i1"), 2: np.dtype("i2"), 4: np.dtype("i4"), 8: np.dtype("i8")}
UNSIGNED = {size: np.dtype(f"u{size}") for size in SIGNED}

COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
           "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}  # fmt: skip
# Float comparisons that are true when an operand is NaN: the negation of an ordered one.
UNORDERED = {"equ": "!=", "neu": "==", "ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<"}
BITWISE = {"and": "&", "or": "|", "xor": "^"}


class UnknownInstruction(Exception):
    """A PTX instruction that the simulator does not know. The message names it and its line."""


def type_of(ptx_type: str) -> np.dtype:
    """The dtype that arithmetic of this PTX type uses."""
    if ptx_type == "pred":
        return BOOL
    if ptx_type in FLOATS:
        return FLOATS[ptx_type]
    if ptx_type[0] == "f":
        raise _Unknown
    table = UNSIGNED if ptx_type[0] == "u" else SIGNED
    return table[TYPE_BYTES[ptx_type]]


def register_types(kernel: Kernel) -> dict[str, np.dtype]:
    """The dtype in which each register is kept between blocks.

    PTX declares some registers without a type (.b32). They are kept as what most instructions
    take them for; any other use looks at the same bits in another way, so this choice costs time
    at worst, never correctness.
    """
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


def translate(
    kernel: Kernel,
    block: Block,
    types: dict[str, np.dtype],
    degrees: dict[str, int],
    kept: frozenset,
    flush_operands: bool,
):
    """The Python function of one basic block; its text is in the attribute `text`.

    `types`: from `register_types`; `degrees`: from exactness.py. `kept`: registers whose values
    waiting lanes still need, so that only active lanes may change them. `flush_operands`: whether
    a float32 operand can be subnormal at all (see `flush` in arithmetic.py); if not, looking is
    left out.
    """
    writer = _Writer(kernel, block, types, degrees, flush_operands)
    condition = None
    for instruction in kernel.instructions[block.start : block.end]:
        if instruction.name in ENDS_BLOCK:
            condition = writer.ending(instruction)
        else:
            writer.instruction(instruction)
    text = writer.function(kept, condition)
    namespace = dict(writer.constants)
    exec(compile(text, f"<{kernel.name}, block {block.start}>", "exec"), namespace)
    function = namespace["block"]
    function.text = text
    return function


class _Writer:
    """Collects the lines of one function."""

    def __init__(self, kernel, block, types, degrees, flush_operands):
        self.kernel, self.block, self.types, self.degrees = kernel, block, types, degrees
        self.flush_operands = flush_operands
        self.lines: list[str] = []
        self.names: dict[str, str] = {}
        self.constants = {
            "np": np,
            "where": np.where,
            **{
                name: value
                for name, value in vars(arithmetic).items()
                if inspect.isfunction(value) and not name.startswith("_")
            },
        }
        self.fma_count = 0

    # --- names and values ---------------------------------------------------------------------

    def variable(self, register: str) -> str:
        return self.names.setdefault(register, "v" + re.sub(r"\W", "_", register))

    def dtype(self, dtype: np.dtype) -> str:
        name = f"D_{dtype.name}"
        self.constants[name] = dtype
        return name

    def constant(self, value) -> str:
        name = f"K{len(self.constants)}"
        self.constants[name] = value
        return name

    def value(self, operand, dtype: np.dtype) -> str:
        """An expression for `operand`, its bits seen as `dtype`."""
        if isinstance(operand, Register):
            return self._view(self.variable(operand.name), self.types[operand.name], dtype)
        if isinstance(operand, Immediate):
            return self.constant(_immediate(operand, dtype))
        if isinstance(operand, Special):
            return self._view(f"lanes.special[{operand.name!r}]", SIGNED[4], dtype)
        if isinstance(operand, Symbol) and operand.name in self.kernel.shared:
            return self.constant(dtype.type(self.kernel.shared[operand.name].offset))
        raise _Unknown

    def number(self, operand, dtype: np.dtype, ftz: bool) -> str:
        """As `value`, for a float operand of arithmetic that may flush subnormals to zero."""
        text = self.value(operand, dtype)
        bits_from_elsewhere = isinstance(operand, Register) and self.types[operand.name].kind != "f"
        return f"flush({text})" if ftz and (self.flush_operands or bits_from_elsewhere) else text

    def _view(self, text: str, have: np.dtype, want: np.dtype) -> str:
        if have == want:
            return text
        if have.itemsize == want.itemsize and BOOL not in (have, want):
            return f"{text}.view({self.dtype(want)})"
        if have.kind in "iu" and want.kind in "iu":  # a narrower part, or extended by its sign
            return f"{text}.astype({self.dtype(want)})"
        raise _Unknown

    def address(self, operand: Address, dtype: np.dtype) -> str:
        base = self.value(operand.base, dtype)
        return f"{base} + {self.constant(dtype.type(operand.offset))}" if operand.offset else base

    def condition(self, instruction: Instruction) -> str:
        name = self.variable(instruction.predicate.name)
        return f"~{name}" if instruction.negated else name

    def mask(self, instruction: Instruction) -> str:
        if instruction.predicate is None:
            return "mask"
        return f"lanes.both(mask, {self.condition(instruction)})"

    def assign(self, operand, expression: str, dtype: np.dtype, instruction: Instruction) -> None:
        if not isinstance(operand, Register):
            raise _Unknown
        own, name = self.types[operand.name], self.variable(operand.name)
        text = expression if own == dtype else self._view(f"({expression})", dtype, own)
        if instruction.predicate is not None:
            text = f"where({self.condition(instruction)}, {text}, {name})"
        self.lines.append(f"{name} = {text}")

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
        body = [*before, *self.lines, *after, f"return {condition}"]
        return "def block(R, lanes, mask):\n" + "".join(f"    {line}\n" for line in body)

    # --- instructions -------------------------------------------------------------------------

    def instruction(self, instruction: Instruction) -> None:
        method = getattr(self, "op_" + instruction.name, None)
        if method is None:
            raise self._unknown(instruction)
        try:
            method(instruction, *instruction.operands)
        except (_Unknown, KeyError, TypeError, ValueError) as error:
            raise self._unknown(instruction) from error

    def ending(self, instruction: Instruction) -> str | None:
        """The condition of the instruction that ends the block: see machine.py for the rest."""
        if instruction.name in ("bar", "barrier"):
            whole_block = instruction.opcode in BLOCK_BARRIERS
            if whole_block and instruction.operands != (Immediate(0, False),):
                raise self._unknown(instruction)
            if not whole_block and instruction.opcode != "bar.warp.sync":
                raise self._unknown(instruction)
            if instruction.predicate is not None:
                raise self._unknown(instruction)
        return None if instruction.predicate is None else self.condition(instruction)

    def _unknown(self, instruction: Instruction) -> UnknownInstruction:
        return UnknownInstruction(
            f"kernel '{self.kernel.name}', line {instruction.line}: the simulator does not know "
            f"the instruction: {instruction.text}"
        )

    # Memory.

    def op_ld(self, instruction, target, address):
        parts, dtype = instruction.parts, type_of(instruction.parts[-1])
        if parts[1] == "param":
            if address.offset:
                raise _Unknown
            text = f"lanes.parameters[{address.base.name!r}]"
            self.assign(target, f"{text}.view({self.dtype(dtype)})", dtype, instruction)
            return
        if instruction.parts[-1][0] == "b":  # extended with zeros
            dtype = UNSIGNED[dtype.itemsize]
        space = self._space(parts)
        targets = target.items if isinstance(target, Vector) else (target,)
        names = [f"t{i}" for i in range(len(targets))]
        place = self.address(address, SIGNED[4] if space == "shared" else SIGNED[8])
        self.lines.append(
            f"{', '.join(names)}, = lanes.load({instruction.index}, {space!r}, {place}, "
            f"{self.dtype(dtype)}, {len(targets)}, {self.mask(instruction)})"
        )
        for name, one in zip(names, targets, strict=True):
            self.assign(one, name, dtype, instruction)

    def op_st(self, instruction, address, source):
        dtype, space = type_of(instruction.parts[-1]), self._space(instruction.parts)
        sources = source.items if isinstance(source, Vector) else (source,)
        values = ", ".join(self.value(one, dtype) for one in sources)
        place = self.address(address, SIGNED[4] if space == "shared" else SIGNED[8])
        self.lines.append(
            f"lanes.store({instruction.index}, {space!r}, {place}, [{values}], "
            f"{self.dtype(dtype)}, {self.mask(instruction)})"
        )

    def _space(self, parts) -> str:
        known = [part for part in parts if part in ("global", "shared")]
        if len(known) != 1 or "volatile" in parts:
            raise _Unknown
        return known[0]

    # Moving bits.

    def op_mov(self, instruction, target, source):
        size = TYPE_BYTES.get(instruction.parts[-1])
        if isinstance(target, Vector):  # one register to its parts, lowest first
            width = size // len(target.items)
            text = self.value(source, UNSIGNED[size])
            for i, part in enumerate(target.items):
                shift = self.constant(UNSIGNED[size].type(8 * width * i))
                piece = f"({text} >> {shift}).astype({self.dtype(UNSIGNED[width])})"
                self.assign(part, piece, UNSIGNED[width], instruction)
        elif isinstance(source, Vector):
            width, whole = size // len(source.items), self.dtype(UNSIGNED[size])
            pieces = [
                f"({self.value(part, UNSIGNED[width])}.astype({whole})"
                f" << {self.constant(UNSIGNED[size].type(8 * width * i))})"
                for i, part in enumerate(source.items)
            ]
            self.assign(target, " | ".join(pieces), UNSIGNED[size], instruction)
        else:
            dtype = self.types[target.name]
            self.assign(target, self.value(source, dtype), dtype, instruction)

    def op_cvta(self, instruction, target, source):
        if "global" not in instruction.parts:
            raise _Unknown
        self.assign(target, self.value(source, SIGNED[8]), SIGNED[8], instruction)

    def op_selp(self, instruction, target, yes, no, condition):
        dtype = self.types[target.name]
        choose, yes, no = self.value(condition, BOOL), self.value(yes, dtype), self.value(no, dtype)
        self.assign(target, f"where({choose}, {yes}, {no})", dtype, instruction)

    # Arithmetic.

    def _arithmetic(self, instruction, target, *sources):
        """Operator text for integers and floats of the operations that NumPy has."""
        *flags, ptx_type = instruction.parts[1:]
        dtype = type_of(ptx_type)
        if dtype.kind == "f":
            if set(flags) - {"rn", "ftz"}:
                raise _Unknown
            ftz = "ftz" in flags
            return dtype, [self.number(source, dtype, ftz) for source in sources], ftz
        if set(flags) - {"lo"}:
            raise _Unknown
        return dtype, [self.value(source, dtype) for source in sources], False

    def _operator(self, instruction, target, a, b, sign):
        dtype, (x, y), ftz = self._arithmetic(instruction, target, a, b)
        text = f"{x} {sign} {y}"
        self.assign(target, f"flush({text})" if ftz else text, dtype, instruction)

    def op_add(self, instruction, target, a, b):
        self._operator(instruction, target, a, b, "+")

    def op_sub(self, instruction, target, a, b):
        self._operator(instruction, target, a, b, "-")

    def op_mul(self, instruction, target, a, b):
        if "wide" in instruction.parts:
            text, dtype = self._wide(instruction, a, b)
            self.assign(target, text, dtype, instruction)
        elif "hi" in instruction.parts:
            dtype = type_of(instruction.parts[-1])
            text = f"multiply_high({self.value(a, dtype)}, {self.value(b, dtype)})"
            self.assign(target, text, dtype, instruction)
        else:
            dtype, (x, y), ftz = self._arithmetic(instruction, target, a, b)
            text = f"multiply_ftz({x}, {y})" if ftz else f"{x} * {y}"
            self.assign(target, text, dtype, instruction)

    def op_mad(self, instruction, target, a, b, c):
        if "wide" in instruction.parts:
            text, dtype = self._wide(instruction, a, b)
            self.assign(target, f"{text} + {self.value(c, dtype)}", dtype, instruction)
        else:
            dtype, (x, y, z), _ = self._arithmetic(instruction, target, a, b, c)
            if dtype.kind == "f":
                raise _Unknown
            self.assign(target, f"{x} * {y} + {z}", dtype, instruction)

    def _wide(self, instruction, a, b):
        narrow = type_of(instruction.parts[-1])
        wide = np.dtype(f"{narrow.kind}{2 * narrow.itemsize}")
        x, y = (f"{self.value(one, narrow)}.astype({self.dtype(wide)})" for one in (a, b))
        return f"{x} * {y}", wide

    def op_fma(self, instruction, target, a, b, c):
        dtype, sources, ftz = self._arithmetic(instruction, target, a, b, c)
        if dtype != FLOATS["f32"]:
            raise _Unknown
        if instruction.predicate is None:
            self.fma_count += 1
        else:
            self.lines.append(f"lanes.count_fma(1, {self.mask(instruction)})")
        if ftz:
            sources.append(f"lanes.known_sums[{self.degrees[target.name]}]")
        self.assign(target, f"fma{'_ftz' * ftz}({', '.join(sources)})", dtype, instruction)

    def op_div(self, instruction, target, a, b):
        dtype, (x, y), ftz = self._arithmetic(instruction, target, a, b)
        if dtype.kind == "f":
            text = f"divide_ftz({x}, {y})" if ftz else f"{x} / {y}"
        else:
            text = f"divide_integers({x}, {y})"
        self.assign(target, text, dtype, instruction)

    def op_rem(self, instruction, target, a, b):
        dtype, (x, y), _ = self._arithmetic(instruction, target, a, b)
        self.assign(target, f"{x} - divide_integers({x}, {y}) * {y}", dtype, instruction)

    def op_neg(self, instruction, target, a):
        dtype, (x,), _ = self._arithmetic(instruction, target, a)
        self.assign(target, f"-{x}", dtype, instruction)

    def op_abs(self, instruction, target, a):
        dtype, (x,), _ = self._arithmetic(instruction, target, a)
        self.assign(target, f"np.abs({x})", dtype, instruction)

    def _extreme(self, instruction, target, a, b, name):
        dtype, (x, y), _ = self._arithmetic(instruction, target, a, b)
        function = name if dtype == FLOATS["f32"] else f"np.{name}"
        if dtype == FLOATS["f64"]:
            raise _Unknown
        self.assign(target, f"{function}({x}, {y})", dtype, instruction)

    def op_min(self, instruction, target, a, b):
        self._extreme(instruction, target, a, b, "minimum")

    def op_max(self, instruction, target, a, b):
        self._extreme(instruction, target, a, b, "maximum")

    # Bits.

    def _bitwise(self, instruction, target, a, b):
        dtype = type_of(instruction.parts[-1])
        sign = BITWISE[instruction.name]
        self.assign(
            target, f"{self.value(a, dtype)} {sign} {self.value(b, dtype)}", dtype, instruction
        )

    op_and = op_or = op_xor = _bitwise

    def op_not(self, instruction, target, a):
        dtype = type_of(instruction.parts[-1])
        self.assign(target, f"~{self.value(a, dtype)}", dtype, instruction)

    def op_shl(self, instruction, target, a, amount):
        dtype = UNSIGNED[TYPE_BYTES[instruction.parts[-1]]]
        self._shift(instruction, target, a, amount, "<<", dtype)

    def op_shr(self, instruction, target, a, amount):
        kind = instruction.parts[-1]
        dtype = (SIGNED if kind[0] == "s" else UNSIGNED)[TYPE_BYTES[kind]]
        self._shift(instruction, target, a, amount, ">>", dtype)

    def _shift(self, instruction, target, a, amount, sign, dtype):
        # Amounts past the width give 0, or copies of the sign: NumPy and PTX agree.
        by = self.value(amount, UNSIGNED[4])
        text = f"{self.value(a, dtype)} {sign} {by}.astype({self.dtype(dtype)})"
        self.assign(target, text, dtype, instruction)

    # Conditions and conversions.

    def op_setp(self, instruction, target, a, b, *combined):
        flags, dtype = instruction.parts[1:-1], type_of(instruction.parts[-1])
        comparison, *rest = flags
        ftz = "ftz" in rest
        x, y = (
            self.number(one, dtype, ftz) if dtype.kind == "f" else self.value(one, dtype)
            for one in (a, b)
        )
        if dtype.kind == "f" and comparison == "ne":  # false when an operand is NaN
            text = f"(({x} < {y}) | ({x} > {y}))"
        elif comparison == "equ":
            text = f"~(({x} < {y}) | ({x} > {y}))"
        elif comparison in UNORDERED:
            text = f"~({x} {UNORDERED[comparison]} {y})"
        else:
            text = f"({x} {COMPARE[comparison]} {y})"
        if combined:
            sign = BITWISE[next(flag for flag in rest if flag in BITWISE)]
            text = f"{text} {sign} {self.value(combined[0], BOOL)}"
        self.assign(target, text, BOOL, instruction)

    def op_cvt(self, instruction, target, source):
        *flags, to, come_from = instruction.parts[1:]
        have, want = type_of(come_from), type_of(to)
        rounding = [flag for flag in flags if flag != "ftz"]
        if have.kind == "f":
            text = self.number(source, have, "ftz" in flags)
        else:
            text = self._low_bits(source, have)
        if have.kind == "f" and want.kind in "iu":
            (mode,) = rounding
            text = f"float_to_integer({text}, {mode!r}, {self.dtype(want)}.type)"
        elif rounding not in ([], ["rn"]):
            raise _Unknown
        else:
            narrows = "ftz" in flags and have == FLOATS["f64"]
            text = f"to_float32_ftz({text})" if narrows else f"{text}.astype({self.dtype(want)})"
        self.assign(target, text, want, instruction)

    def _low_bits(self, source, dtype: np.dtype) -> str:
        """cvt.s64.s16 may read a 32-bit register: only its low bits count."""
        if isinstance(source, Register) and self.types[source.name].kind in "iu":
            return f"{self.variable(source.name)}.astype({self.dtype(dtype)})"
        return self.value(source, dtype)


class _Unknown(Exception):
    """Raised inside a translation that does not know a form of its instruction."""


def _immediate(operand: Immediate, dtype: np.dtype):
    if operand.is_float:
        return np.frombuffer(np.array(operand.value, f"f{dtype.itemsize}").tobytes(), dtype)[0]
    if dtype == BOOL:
        return np.bool_(operand.value)
    mask = (1 << (8 * dtype.itemsize)) - 1
    return np.frombuffer((int(operand.value) & mask).to_bytes(dtype.itemsize, "little"), dtype)[0]
