"""Loads that the compiler does for all lanes though the source does them for some.

`x = t == 0 ? total : 0` may become a load of `total` by every lane, and a choice afterwards:

    ld.shared.u32 %r1, [total];
    setp.eq.s32   %p1, %r2, 0;
    selp.b32      %r3, %r1, 0, %p1;

For the checks such a load counts for the lanes that choose it, when they choose it.
"""

from __future__ import annotations

from bisect import bisect
from functools import lru_cache

from ptxsim.ptx import KEPT_KERNELS, Address, Instruction, Kernel, Register, Symbol


@lru_cache(maxsize=KEPT_KERNELS)
def chosen_later(kernel: Kernel) -> dict[int, int]:
    """{index of a load from a fixed place in shared memory: index of the selp that may choose it}.

    Only loads whose result nothing else uses, and that stand in one basic block with the selp.
    """
    loads = [load for load in kernel.instructions if _is_fixed(load)]
    results = {load.operands[0].name for load in loads}
    users: dict[str, list[Instruction]] = {name: [] for name in results}
    makers: dict[str, list[Instruction]] = {name: [] for name in results}
    for one in kernel.instructions:
        for name in results.intersection(one.uses):
            users[name].append(one)
        for name in results.intersection(one.defines):
            makers[name].append(one)
    found = {}
    starts = sorted(kernel.blocks)
    for load in loads:
        name = load.operands[0].name
        if len(users[name]) == len(makers[name]) == 1 and _is_choice(users[name][0]):
            choice = users[name][0].index
            if load.index < choice and bisect(starts, load.index) == bisect(starts, choice):
                found[load.index] = choice
    return found


@lru_cache(maxsize=KEPT_KERNELS)
def _by_choice(kernel: Kernel) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for load, choice in chosen_later(kernel).items():
        found.setdefault(choice, []).append(load)
    return found


def loads_chosen_by(kernel: Kernel, choice: Instruction) -> list[tuple[int, bool]]:
    """The loads that the selp `choice` chooses, and whether where its condition is true."""
    return [
        (load, choice.operands[1] == kernel.instructions[load].operands[0])
        for load in _by_choice(kernel).get(choice.index, [])
    ]


def _is_fixed(load: Instruction) -> bool:
    if not load.opcode.startswith("ld.shared") or load.predicate is not None:
        return False
    target, address = load.operands
    return (
        isinstance(target, Register)
        and isinstance(address, Address)
        and isinstance(address.base, Symbol)
    )


def _is_choice(user: Instruction) -> bool:
    return user.name == "selp" and user.predicate is None and user.operands[1] != user.operands[2]
