"""Products and sums of which the GPU's assembler makes one fused multiply-add.

PTX leaves it to ptxas whether to fuse a `mul` with an `add` or a `sub` if neither names a rounding.
The fused multiply-add rounds once, so its result has other bits. ptxas follows this rule, from
NVRTC 13.0 to 13.5, from sm_75 to sm_120, and for all types of floats:

- A product is a `mul` without a rounding, `.sat` or a guard, or the multiplication that ends a
  `div.approx` or `div.full`. Its result may be moved and negated. It can be fused if nothing uses
  it but sums in the same stretch, of the same type and `.ftz`.
- A stretch is a basic block, or several of which each can only follow the one before. A call, a
  guarded exit and the instructions of ENDS_STRETCH end it. Barriers do not.
- First, each sum takes a product that no other sum uses. Pairs ("x2") skip this step.
- Then, in the order of the program, each sum that has taken none takes one of its products. If both
  can be fused, it takes the one with fewer uses, or else its first operand.
- The product that a sum does not take is its addend and must be computed: from there on no sum
  takes it. A sum of a product and itself takes none.

ptxas does all this before it merges branches, moves code out of loops or unrolls them. The rule
does not cover the sum of two products with the same factors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache

from ptxsim.ptx import KEPT_KERNELS, Immediate, Instruction, Kernel, Register, find_blocks

KNOWN_RELEASES = {"13.0", "13.1", "13.2", "13.3", "13.4", "13.5"}  # of NVRTC
TYPE = r"\.(f32|f64|f16|bf16|f16x2|bf16x2)"
SUM = re.compile(rf"(add|sub)(\.ftz)?(\.sat)?{TYPE}")
PRODUCT = re.compile(rf"(?:mul|div\.(?:approx|full))(\.ftz)?{TYPE}")
HANDS_ON = re.compile(r"mov\.[bf]\d+|neg(\.ftz)?\.(f32|f64|f16|bf16|f16x2)|abs(\.ftz)?\.f(32|64)")
# The first line becomes a call or code with branches.
ENDS_STRETCH = re.compile(
    r"call\b|(div|rem)\.[us]\d|(div|rcp|sqrt)\.r[nzmp]\b|rsqrt\.approx\.f64|bfind\b.*64|"
    r"membar\b|fence\.(acq_rel|sc)\b|griddepcontrol\.launch|setmaxnreg\b|brkpt\b|pmevent\b"
)


MAY_FUSE = "the assembler may fuse a product and a sum, which changes the last bits of results"
# Options with which ptxas fuses nothing; -G does so without -dopt.
NEVER_FUSED = re.compile(r"(?<!\S)(-G|--device-debug)(?!\S)(?!.*-dopt)|ptxas.*(-O0|-fmad=false)")


@dataclass(frozen=True)
class Note:
    """In these source lines, or in all, results or counters may differ from a GPU's, and `why`."""

    kernel: str
    lines: tuple[int, ...]
    why: str

    def __str__(self):
        lines = ", ".join(map(str, self.lines))
        where = f", line{'s' * (len(self.lines) > 1)} {lines}" if lines else ""
        return f"kernel '{self.kernel}'{where}: {self.why}"


@dataclass(eq=False)
class _Product:
    """A product: its instruction's place in the stretch, and the sums that use it."""

    place: int
    instruction: Instruction
    part: int  # of the blocks that follow one another: what ends a stretch divides them
    uses: list[_Use] = field(default_factory=list)
    copies: list[Instruction] = field(default_factory=list)  # what hands it on
    is_open: bool = True  # whether it can still be fused

    @property
    def form(self) -> tuple:
        match = PRODUCT.fullmatch(self.instruction.opcode)
        assert match is not None
        return match.groups()

    @property
    def factors(self) -> tuple:
        return self.instruction.operands[1:]

    @property
    def goes_first(self) -> bool:
        return len(self.uses) == 1 and not self.form[1].endswith("x2")

    def is_like(self, other: _Product) -> bool:
        """Whether it has the same factors, in any order."""
        same = self.instruction.opcode == other.instruction.opcode
        return same and other.factors in (self.factors, self.factors[::-1])


@dataclass(eq=False)
class _Use:
    """A product as the operand number `operand` of a sum, with the sign that it has there."""

    product: _Product
    place: int
    sum: Instruction
    operand: int
    negative: bool


@lru_cache(maxsize=KEPT_KERNELS)
def contracted(kernel: Kernel) -> tuple[Kernel, tuple[Note, ...]]:
    """The kernel with the multiply-adds that ptxas makes, and what is not known about them."""
    fused: list = []
    unclear: list = []
    for stretch in _stretches(kernel):
        uses = _uses(kernel, stretch)
        fused += [(use, stretch) for use in _chosen(uses, unclear)]
    notes = []
    if unclear:
        why = f"{MAY_FUSE}: the sum of two equal products"
        notes.append(Note(kernel.name, lines_of(unclear), why))
    if fused and kernel.release not in KNOWN_RELEASES:
        known, sums = ", ".join(sorted(KNOWN_RELEASES)), [use.sum for use, _ in fused]
        why = f"its rule is known for NVRTC {known}, not for {kernel.release or 'this compiler'}"
        notes.append(Note(kernel.name, lines_of(sums), f"{MAY_FUSE}: {why}"))
    return _rewritten(kernel, fused) if fused else kernel, tuple(notes)


def are_fused(options: tuple[str, ...]) -> bool:
    """Whether ptxas fuses at all with these options of NVRTC."""
    return not NEVER_FUSED.search(" ".join(options))


def lines_of(instructions: list[Instruction]) -> tuple[int, ...]:
    return tuple(sorted({instruction.line for instruction in instructions}))


# --- products and their uses ----------------------------------------------------------------------


def _stretches(kernel: Kernel) -> Iterator[list[Instruction]]:
    """The instructions of blocks that follow one another, where there are products."""
    blocks = kernel.blocks
    launch = -1  # before the first block
    before = {start: set() if start else {launch} for start in blocks}
    for block in blocks.values():
        for start in block.successors:
            before[start].add(block.start)
    follower = {}
    for block in blocks.values():
        after, last = set(block.successors), kernel.instructions[block.end - 1]
        if len(after) == 1 and last.name not in ("ret", "exit"):
            (start,) = after
            if before[start] == {block.start}:
                follower[block.start] = start
    for first in blocks.keys() - set(follower.values()):
        stretch: list[Instruction] = []
        at: int | None = first
        while at is not None:
            stretch += kernel.instructions[blocks[at].start : blocks[at].end]
            at = follower.get(at)
        if any(map(_is_product, stretch)):
            yield stretch


def _is_product(instruction: Instruction) -> bool:
    if instruction.name not in ("mul", "div") or instruction.predicate is not None:
        return False
    return PRODUCT.fullmatch(instruction.opcode) is not None


def _uses(kernel: Kernel, stretch: list[Instruction]) -> list[_Use]:
    """The uses by sums, in order, of those products that nothing else uses."""
    held: dict[str, tuple[_Product, bool]] = {}  # register -> its product, and whether negated
    all_uses, part = [], 0
    for place, instruction in enumerate(stretch):
        part += instruction.index in kernel.call_edges
        handed_on = None
        if used := held.keys() & instruction.uses:
            handed_on = _handed_on(instruction, held)
            uses = [] if handed_on else _uses_by(instruction, place, part, held)
            if handed_on:
                handed_on[0].copies.append(instruction)
            else:
                for product in {held[name][0] for name in used} - {use.product for use in uses}:
                    product.is_open = False
            for use in uses:
                use.product.uses.append(use)
            all_uses += uses
        for name in instruction.defines:
            held.pop(name, None)
        if _is_product(instruction):
            handed_on = _Product(place, instruction, part), False
        if handed_on:
            held[instruction.operands[0].name] = handed_on
        part += ENDS_STRETCH.match(instruction.opcode) is not None
    last = next(b for b in kernel.blocks.values() if b.start <= stretch[-1].index < b.end)
    for name in held.keys() & last.live_out:
        held[name][0].is_open = False
    return [use for use in all_uses if use.product.is_open]


def _handed_on(instruction: Instruction, held) -> tuple[_Product, bool] | None:
    match, source = HANDS_ON.fullmatch(instruction.opcode), instruction.operands[-1]
    if not match or instruction.predicate is not None:
        return None
    if not all(isinstance(operand, Register) for operand in (instruction.operands[0], source)):
        return None
    product, negated = held[source.name]
    if instruction.name != "mov" and "ftz" in instruction.parts and not product.form[0]:
        return None
    if instruction.name == "abs":  # changes nothing about a square
        return (product, False) if product.factors[0] == product.factors[1] else None
    return product, negated != (instruction.name == "neg")


def _uses_by(instruction: Instruction, place: int, part: int, held) -> list[_Use]:
    match = SUM.fullmatch(instruction.opcode)
    if not match or (instruction.predicate is not None and instruction.defines & held.keys()):
        return []
    name, *form = match.group(1, 2, 4)
    uses = []
    for operand in (1, 2):
        name_of_factor = getattr(instruction.operands[operand], "name", None)
        product, negated = held.get(name_of_factor, (None, False))
        if product and product.form == tuple(form) and product.part == part:
            negative = negated != (name == "sub" and operand == 2)
            uses.append(_Use(product, place, instruction, operand, negative))
    return uses if len({use.product for use in uses}) == len(uses) else []


# --- the choice -----------------------------------------------------------------------------------


def _chosen(uses: list[_Use], unclear: list[Instruction]) -> list[_Use]:
    """The uses that are fused; sums of which that is not known go to `unclear`."""
    sums: dict[int, list[_Use]] = {}
    for use in uses:
        sums.setdefault(use.place, []).append(use)
    for pair in sums.values():
        if (
            len(pair) == 2
            and pair[0].sum.name == "add"
            and pair[0].product.is_like(pair[1].product)
        ):
            unclear.append(pair[0].sum)
            for use in pair:
                use.product.is_open = False
    chosen = {}
    for first in (True, False):
        for place, both in sums.items():
            fit = [
                use for use in both
                if use.product.is_open and (not first or use.product.goes_first)
            ]  # fmt: skip
            if place not in chosen and fit:
                chosen[place] = min(fit, key=lambda use: len(use.product.uses))
                for use in both:
                    if use is not chosen[place]:
                        use.product.is_open = False
    return list(chosen.values())


# --- the multiply-adds ----------------------------------------------------------------------------


REGISTER_TYPES = {
    "f32": "f32", "f64": "f64", "f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32",
}  # fmt: skip
SMALL, LARGE = Immediate(2.0**-126, True), Immediate(2.0**126, True)


class _Rewriting:
    """A kernel to be made of another, some of whose instructions are replaced or preceded by new
    ones.
    """

    def __init__(self, kernel: Kernel):
        self.old = kernel
        self.registers = dict(kernel.registers)
        self.before: dict[int, list[Instruction]] = {}
        self.instead: dict[int, list[Instruction]] = {}

    def fuse(self, product: _Product, uses: list[_Use], stretch: list[Instruction]) -> None:
        """Multiply-adds for the sums of `uses`; the product goes if these are all."""
        at, kind = product.instruction, REGISTER_TYPES[product.form[1]]
        a, b = self._division(at) if at.name == "div" else product.factors
        last = max(use.place for use in uses)
        overwritten = frozenset().union(*(i.defines for i in stretch[product.place : last]))
        a, b = (
            self._result(at, f"mov.{kind}", kind, x)
            if isinstance(x, Register) and x.name in overwritten else x
            for x in (a, b)
        )  # fmt: skip
        negative = None
        for use in uses:
            if use.negative and negative is None:
                negative = self._result(at, f"neg.{product.form[1]}", kind, a)
            target, *both = use.sum.operands
            c = both[2 - use.operand]
            if use.sum.name == "sub" and use.operand == 1:
                c = self._result(use.sum, f"neg.{product.form[1]}", kind, c)
            opcode = use.sum.opcode.replace(use.sum.name, "fma.rn", 1)
            operands = target, negative if use.negative else a, b, c
            self.instead[use.sum.index] = [replace(use.sum, opcode=opcode, operands=operands)]
        if len(uses) == len(product.uses):
            self.instead |= {instruction.index: [] for instruction in (at, *product.copies)}

    def _division(self, at: Instruction) -> tuple[Register, Register]:
        """The numerator and the reciprocal of the denominator that are multiplied."""
        _, a, b = at.operands
        ftz = ".ftz" if "ftz" in at.parts else ""
        ranges = [("gt", LARGE, 0.25)] if "full" in at.parts else []
        ranges += [] if ftz else [("lt", SMALL, 2.0**24)]
        for comparison, limit, scale in ranges:
            magnitude = self._result(at, "abs.f32", "f32", b)
            outside = self._result(at, f"setp.{comparison}.f32", "pred", magnitude, limit)
            factors = Immediate(scale, True), Immediate(1.0, True)
            factor = self._result(at, "selp.f32", "f32", *factors, outside)
            a, b = (self._result(at, f"mul.rn{ftz}.f32", "f32", x, factor) for x in (a, b))
        return a, self._result(at, "rcp.approx.ftz.f32", "f32", b)

    def _result(self, at: Instruction, opcode: str, kind: str, *operands) -> Register:
        target = Register(f"%contracted{len(self.registers)}")
        self.registers[target.name] = kind
        new = replace(
            at, opcode=opcode, operands=(target, *operands), predicate=None, negated=False
        )
        self.before.setdefault(at.index, []).append(new)
        return target

    def kernel(self) -> Kernel:
        new: list[Instruction] = []
        places: list[int] = []
        for instruction in self.old.instructions:
            places.append(len(new))
            new += self.before.get(instruction.index, ())
            new += self.instead.get(instruction.index, [instruction])
        places.append(len(new))
        new = [copy(instruction) for instruction in new]
        for index, instruction in enumerate(new):
            instruction.index = index
        made = replace(
            self.old,
            registers=self.registers,
            instructions=new,
            labels={name: places[index] for name, index in self.old.labels.items()},
            slot_loads={places[index] for index in self.old.slot_loads},
            call_edges={places[index] for index in self.old.call_edges},
        )
        find_blocks(made)
        return made


def _rewritten(kernel: Kernel, fused: list[tuple[_Use, list[Instruction]]]) -> Kernel:
    rewriting = _Rewriting(kernel)
    by_product: dict[_Product, list[_Use]] = {}
    stretches = {}
    for use, stretch in fused:
        by_product.setdefault(use.product, []).append(use)
        stretches[use.product] = stretch
    for product, uses in by_product.items():
        rewriting.fuse(product, uses, stretches[product])
    return rewriting.kernel()
