"""The loads from shared memory that the GPU executes, where they differ from those of the PTX.

The GPU's assembler, ptxas, makes its own instructions of the PTX. Two things that it does change
the number of loads from shared memory:

- It merges loads of one thread. Where three or four of the words of 16 aligned bytes are loaded,
  one load brings all 16; else, where both words of 8 aligned bytes are, one load brings the 8.
  Merged are loads of words or double words in one stretch without branches, with offsets from one
  register or array, with nothing between them that could write shared memory or that orders
  memory. ptxas must see that the bytes are aligned: it knows where each array lies, and how sums,
  products, shifts and masks carry alignment on.
- It puts three loads that no lane executes before an asynchronous copy (cp.async) that comes first
  in its stretch, or after another access to shared memory. They count as instructions, and move
  nothing.

Both are what NVRTC 13.0 does for sm_90a. Loops that ptxas unrolls further than the PTX has them
could merge more, and so could branches that it does away with; neither is looked for. Where it
makes of a branch around a load a predicate of the load, the GPU counts the load in every warp, also
where no lane takes part; here it is counted as the PTX has it.
"""

from __future__ import annotations

from functools import lru_cache

from ptxsim import ptx
from ptxsim.ptx import LEAVES_BLOCK, TYPE_BYTES, Immediate, Instruction, Kernel, Register, Symbol

WORD = 4
WIDEST = 16  # bytes, of one load
IDLE_LOADS = 3
WideLoad = tuple[int, int]


@lru_cache(maxsize=ptx.KEPT_KERNELS)
def merged_loads(kernel: Kernel) -> dict[int, WideLoad | None]:
    """{index of a load that is merged: the wide load, at the first of them; None at the others}.

    A wide load: how many bytes from the first it begins, and how many it loads.
    """
    known, labels = _alignments(kernel), set(kernel.labels.values())
    merged: dict[int, WideLoad | None] = {}
    loads: dict[str, list[Instruction]] = {}  # by what their offsets count from
    for instruction in kernel.instructions:
        if instruction.index in labels:
            _merge_all(kernel, known, loads, merged)
        if _can_merge(instruction):
            loads.setdefault(instruction.operands[1].base.name, []).append(instruction)
        if instruction.name in LEAVES_BLOCK or _keeps_order(instruction):
            _merge_all(kernel, known, loads, merged)
        for name in instruction.defines & loads.keys():
            _merge_all(kernel, known, {name: loads.pop(name)}, merged)
    _merge_all(kernel, known, loads, merged)
    return merged


@lru_cache(maxsize=ptx.KEPT_KERNELS)
def copies_after_idle_loads(kernel: Kernel) -> frozenset[int]:
    """The cp.async instructions before which ptxas puts IDLE_LOADS loads."""
    labels = set(kernel.labels.values())
    copies, last_was_copy = set(), False
    for instruction in kernel.instructions:
        if instruction.index in labels:
            last_was_copy = False
        if instruction.opcode.startswith(("cp.async.ca", "cp.async.cg")):
            if not last_was_copy:
                copies.add(instruction.index)
            last_was_copy = True
        elif instruction.name in LEAVES_BLOCK or "shared" in instruction.parts:
            last_was_copy = False
    return frozenset(copies)


# --- loads ----------------------------------------------------------------------------------------


def _bytes(load: Instruction) -> int:
    target = load.operands[0]
    count = len(target.items) if isinstance(target, ptx.Vector) else 1
    return count * TYPE_BYTES[load.parts[-1]]


def _can_merge(instruction: Instruction) -> bool:
    parts = instruction.parts
    if parts[:2] != ("ld", "shared") or instruction.predicate is not None:
        return False
    if set(parts[2:-1]) - {"v2", "v4"} or TYPE_BYTES[parts[-1]] < WORD:
        return False
    base = instruction.operands[1].base
    return _bytes(instruction) < WIDEST and isinstance(base, (Register, Symbol))


def _keeps_order(instruction: Instruction) -> bool:
    if instruction.name in ("st", "atom", "red"):
        return not {"global", "local", "param"}.intersection(instruction.parts)
    if instruction.name == "cp":
        return "commit_group" not in instruction.parts
    return instruction.name in ("bar", "barrier", "fence", "membar", "mbarrier", "stmatrix")


def _merge_all(kernel, known, loads: dict[str, list[Instruction]], merged) -> None:
    """Find wide loads among `loads`, each list with its own base; empties `loads`."""
    for group in loads.values():
        alignment = _alignment_of(group[0].operands[1].base, kernel, known)
        for size, least in ((16, 3), (8, 2)):
            if alignment < size:
                continue
            parts: dict[int, list[Instruction]] = {}
            for load in group:
                if load.index not in merged:
                    parts.setdefault(load.operands[1].offset // size, []).append(load)
            for number, part in parts.items():
                words = {
                    load.operands[1].offset + i for load in part for i in range(0, _bytes(load), 4)
                }
                if len(part) > 1 and len(words) >= least:
                    shift = number * size - part[0].operands[1].offset
                    merged |= {load.index: None for load in part}
                    merged[part[0].index] = shift, size
    loads.clear()


# --- alignment ------------------------------------------------------------------------------------


def _alignments(kernel: Kernel) -> dict[str, int]:
    """For each register what its values are multiples of, as far as ptxas knows: 1, 2, … or 16."""
    known = dict.fromkeys(kernel.registers, WIDEST)
    changed = True
    while changed:  # from what would be best downwards, for registers that a loop changes
        changed = False
        for instruction in kernel.instructions:
            for name in instruction.defines:
                new = min(known[name], _alignment_of_result(instruction, kernel, known))
                changed |= new != known[name]
                known[name] = new
    return known


def _alignment_of_result(instruction: Instruction, kernel: Kernel, known: dict[str, int]) -> int:
    def of(i: int) -> int:
        return _alignment_of(instruction.operands[i], kernel, known)

    name, parts = instruction.name, instruction.parts
    if name in ("mov", "cvta", "neg") or (
        name == "cvt" and {p[0] for p in parts[-2:]} <= set("su")
    ):
        return of(1)
    if name in ("add", "sub", "or", "xor", "selp"):
        return min(of(1), of(2))
    if name == "and":
        return max(of(1), of(2))
    if name in ("mul", "mad") and "hi" not in parts:
        product = min(WIDEST, of(1) * of(2))
        return product if name == "mul" else min(product, of(3))
    if name == "shl":
        by = instruction.operands[2]
        return min(WIDEST, of(1) << int(by.value)) if isinstance(by, Immediate) else of(1)
    return 1


def _alignment_of(operand, kernel: Kernel, known: dict[str, int]) -> int:
    if isinstance(operand, Register):
        return known.get(operand.name, 1)
    value = 1
    if isinstance(operand, Immediate) and not operand.is_float:
        value = int(operand.value)
    elif isinstance(operand, Symbol) and operand.name in kernel.shared:
        value = kernel.shared[operand.name].offset
    return min(WIDEST, value & -value) if value else WIDEST
