"""Flags and locks in shared memory, by which threads tell one another without a barrier.

A thread writes data, and then a flag; another reads the flag in a loop until it has changed, and
then the data. What counts as reading the flag: a load or atomic with `.acquire`, and one that a
compiler may not move (volatile, relaxed) in a loop that polls, if it depends on what it reads
whether the loop goes on: loops over data have atomics and volatile loads too. What counts as
writing it, where a kernel has such reads: a store or atomic with `.release`, `.relaxed` or
volatile. Whoever reads a flag knows what its writers did before. A fence that is missing is not
found.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ptxsim.ptx import KEPT_KERNELS, LEAVES_BLOCK, Kernel
from ptxsim.threads.polling import polling_branches

SHARED = {"shared", "shared::cta", "shared::cluster"}
OTHER_SPACES = {"global", "local", "const", "param"}
WRITES = {"volatile", "relaxed", "release", "acq_rel", "mmio"}
READS = {"volatile", "relaxed", "acquire", "acq_rel", "mmio"}


@dataclass(frozen=True)
class Flags:
    """The instructions that read flags, and those that write them, by index."""

    reads: frozenset[int]
    writes: frozenset[int]


@lru_cache(maxsize=KEPT_KERNELS)
def flags_of(kernel: Kernel) -> Flags:
    polled = {index for start in polling_branches(kernel) for index in _deciding(kernel, start)}
    reads, writes = set(), set()
    for one in kernel.instructions:
        parts = set(one.parts)
        if one.name not in ("ld", "st", "atom", "red") or parts & OTHER_SPACES or "async" in parts:
            continue
        atomic = one.name in ("atom", "red")
        if one.name in ("ld", "atom") and (
            parts & {"acquire", "acq_rel"} or (one.index in polled and (atomic or parts & READS))
        ):
            reads.add(one.index)
        if atomic or (one.name == "st" and parts & WRITES):
            writes.add(one.index)
    return Flags(frozenset(reads), frozenset(writes) if reads else frozenset())


def _deciding(kernel: Kernel, start: int) -> set[int]:
    """The instructions of a loop by which it goes on or ends; `start`: of its last basic block.

    Branches that repeat or leave the loop, what these read, and branches round any of them.
    """
    first, end = kernel.blocks[start].target, kernel.blocks[start].end
    assert first is not None  # a loop's last block leads back
    loop = kernel.instructions[first:end]
    leads = {one.index: kernel.labels[one.operands[0].name] if one.name == "bra" else end
             for one in loop if one.name in LEAVES_BLOCK}  # fmt: skip
    deciding = {index for index, to in leads.items() if not first < to < end}
    read = frozenset().union(*(kernel.instructions[index].uses for index in deciding))
    more = True
    while more:
        more = False
        for one in reversed(loop):
            passes = range(one.index + 1, leads.get(one.index, 0))
            decides = one.defines & read or not deciding.isdisjoint(passes)
            if decides and one.index not in deciding:
                deciding.add(one.index)
                read |= one.uses
                more = True
    return deciding
