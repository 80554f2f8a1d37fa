"""Information from a kernel's text for the checks: flags, and loads that the compiler moves up.

By flags and locks in shared memory threads tell one another without a barrier. What counts as
reading the flag: a load or atomic with `.acquire`, and one that a compiler may not move (volatile,
relaxed) in a loop that polls, if it depends on what it reads whether the loop goes on. What counts
as writing it, where a kernel has such reads: a store or atomic with `.release`, `.relaxed` or
volatile. Whoever reads a flag knows what its writers did before. A fence that is missing is not
found.

`x = t == 0 ? total : 0` may become a load of `total` by every lane, and a choice afterwards:

    ld.shared.u32 %r1, [total];
    setp.eq.s32   %p1, %r2, 0;
    selp.b32      %r3, %r1, 0, %p1;

For the checks such a load counts for the lanes that choose it, when they choose it. The compiler
moves up loads that cannot fail: from a fixed place of shared memory, and from local memory.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from math import prod

from ptxsim import ptx
from ptxsim.ptx import KEPT_KERNELS, RESERVED, Address, Instruction, Kernel, Register, Symbol
from ptxsim.threads.polling import polling_branches

OTHER_SPACES = {"global", "local", "const", "param"}
WRITES = {"volatile", "relaxed", "release", "acq_rel", "mmio"}
READS = {"volatile", "relaxed", "acquire", "acq_rel", "mmio"}
ORDERED = READS | WRITES
BLOCK_ONLY = {"cta", "proxy"}  # parts of fences that tell other blocks nothing


@lru_cache(maxsize=KEPT_KERNELS)
def flags_of(kernel: Kernel) -> tuple[frozenset[int], frozenset[int]]:
    """The instructions that read flags, and those that write them, by index."""
    polled = {index for start in polling_branches(kernel) for index in _deciding(kernel, start)}
    reads, writes = set(), set()
    for instruction in kernel.instructions:
        index, name, parts = instruction.index, instruction.name, set(instruction.parts)
        if name not in ("ld", "st", "atom", "red") or parts & OTHER_SPACES or "async" in parts:
            continue
        atomic = name in ("atom", "red")
        acquires = parts & {"acquire", "acq_rel"} or (index in polled and (atomic or parts & READS))
        if name in ("ld", "atom") and acquires:
            reads.add(index)
        if atomic or (name == "st" and parts & WRITES):
            writes.add(index)
    return frozenset(reads), frozenset(writes) if reads else frozenset()


def _deciding(kernel: Kernel, start: int) -> set[int]:
    """The branches that repeat or leave a loop, what these read, and branches round any of them."""
    first, end = kernel.blocks[start].target, kernel.blocks[start].end
    assert first is not None  # a loop's last block leads back
    loop = kernel.instructions[first:end]
    leads = {i.index: kernel.labels[i.operands[0].name] if i.name == "bra" else end
             for i in loop if i.name in ptx.LEAVES_BLOCK}  # fmt: skip
    deciding = {index for index, to in leads.items() if not first < to < end}
    read = frozenset().union(*(kernel.instructions[index].uses for index in deciding))
    more = True
    while more:
        more = False
        for instruction in reversed(loop):
            passes = range(instruction.index + 1, leads.get(instruction.index, 0))
            decides = instruction.defines & read or not deciding.isdisjoint(passes)
            if decides and instruction.index not in deciding:
                deciding.add(instruction.index)
                read |= instruction.uses
                more = True
    return deciding


def needs_thread_clocks(launch) -> bool:
    """Whether any barrier is for less than the whole block, or more; or a wait, as for wgmma."""
    if prod(launch.cluster) > 1 or flags_of(launch.kernel)[0]:
        return True
    if RESERVED in launch.kernel.shared:
        return True
    return any(
        i.is_warp_barrier
        or "cluster" in i.parts[:2]
        or i.name in ("wgmma", "tcgen05")
        or "mbarrier" in i.opcode
        or (
            i.name in ("bar", "barrier")
            and ("arrive" in i.parts or len(i.operands) > (3 if "red" in i.parts else 1))
        )
        for i in launch.kernel.instructions
    )


# --- loads that are done early --------------------------------------------------------------------


@lru_cache(maxsize=KEPT_KERNELS)
def chosen_later(kernel: Kernel) -> dict[int, int]:
    """{load that cannot fail: the selp of the same block that alone uses it}, by index."""
    users = Counter(name for each in kernel.instructions for name in each.uses)
    makers = Counter(name for each in kernel.instructions for name in each.defines)
    choices = {}
    for block in kernel.blocks.values():
        loads: dict[str, int] = {}
        for instruction in kernel.instructions[block.start : block.end]:
            if _cannot_fail(instruction):
                loads[instruction.operands[0].name] = instruction.index
            elif _is_choice(instruction):
                for name in sorted(instruction.uses & loads.keys()):
                    if users[name] == makers[name] == 1:
                        choices[loads[name]] = instruction.index
    return choices


def loads_chosen_by(kernel: Kernel, choice: Instruction) -> list[tuple[int, bool]]:
    """The loads that the selp `choice` chooses, and whether where its condition is true."""
    return [
        (load, choice.operands[1] == kernel.instructions[load].operands[0])
        for load, index in chosen_later(kernel).items()
        if index == choice.index
    ]


def _cannot_fail(load: Instruction) -> bool:
    if not load.opcode.startswith(("ld.shared", "ld.local")) or load.predicate is not None:
        return False
    target, address = load.operands
    if not (isinstance(target, Register) and isinstance(address, Address)):
        return False
    return isinstance(address.base, Symbol) or "local" in load.parts


def _is_choice(user: Instruction) -> bool:
    return user.name == "selp" and user.predicate is None and user.operands[1] != user.operands[2]


@lru_cache(maxsize=KEPT_KERNELS)
def mere_writes(kernel: Kernel) -> frozenset[int]:
    """The exchanges whose result is not used, by index."""
    used = frozenset().union(*(instruction.uses for instruction in kernel.instructions))
    exchanges = [i for i in kernel.instructions if i.name == "atom" and "exch" in i.parts]
    return frozenset(i.index for i in exchanges if not i.defines & used)


# --- how blocks tell one another -----------------------------------------------------------------


@lru_cache(maxsize=KEPT_KERNELS)
def synchronizing(kernel: Kernel) -> tuple[frozenset[int], frozenset[int]]:
    """The instructions that release what was done before to other blocks, and that acquire it."""
    releases, acquires = set(), set()
    for instruction in kernel.instructions:
        parts = set(instruction.parts)
        if is_fence(instruction):
            releases.add(instruction.index)
            acquires.add(instruction.index)
        elif parts & {"shared", "local", "param", "const"} or "cta" in parts:
            continue
        elif instruction.name in ("st", "atom", "red") and parts & {"release", "acq_rel"}:
            releases.add(instruction.index)
        if instruction.name in ("atom", "red") or (instruction.name == "ld" and parts & ORDERED):
            acquires.add(instruction.index)
    return frozenset(releases), frozenset(acquires)


def is_fence(instruction: Instruction) -> bool:
    """Whether it tells other blocks what was done before."""
    parts = set(instruction.parts[1:])
    if instruction.name == "membar":
        return not parts & BLOCK_ONLY
    return instruction.name == "fence" and not parts & BLOCK_ONLY and "mbarrier_init" not in parts
