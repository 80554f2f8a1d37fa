"""Where the H200 is known to count otherwise than the simulator: of which rungs, how much, and why.

README.md says the same in the same words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from gemmlab.cuda.architectures import WARP
from gemmlab.kernel.trace import Trace
from gemmlab.ladder import find
from gemmlab.ladder.rungs.irregular import LAST_ARRIVER


@dataclass(frozen=True)
class Difference:
    """Of these rungs the GPU counts `more(trace)` of `metric` than the simulator has in a trace."""

    rungs: tuple[str, ...]
    metric: str
    more: Callable[[Trace], int]
    why: str


def of(trace: Trace) -> list[Difference]:
    """Those that a trace of a rung meets, in which the simulator looked at all that it counts."""
    return [one for one in DIFFERENCES if trace.kernel_name in one.rungs and one.more(trace)]


def _predicated(trace: Trace) -> int:
    """Where rows of C are odd, each lane loads one sum from shared memory, if its element lies in
    C. The code branches, and the simulator with it; the assembler predicates the load, and the GPU
    counts it also where no lane of a warp takes part: for every element of whole tiles."""
    if trace.n % 4 == 0:
        return 0
    rows, columns = find(trace.kernel_name).tile(trace.settings)
    within = trace.lines.query("op == 'store' and array == 'C'")["requests"].sum()
    return math.prod(trace.grid) * rows * columns // WARP - int(within)


def _before_counting(trace: Trace) -> int:
    """`@!PT LDS RZ, [RZ]` stands four times in the machine code of the one thread that counts."""
    return 4 * math.prod(trace.grid) if trace.settings["JOIN"] == LAST_ARRIVER else 0


DIFFERENCES = (
    Difference(
        rungs=("14_wmma",),
        metric="smsp__inst_executed_op_shared_ld.sum",
        more=_predicated,
        why="Explained: where N is no multiple of 4, the H200 also counts loads of shared memory "
        "by 14_wmma in which no lane takes part, for the assembler predicates what the code "
        "branches around.",
    ),
    Difference(
        rungs=("12_split_k",),
        metric="smsp__inst_executed_op_shared_ld.sum",
        more=_before_counting,
        why="Explained: where the last arriver of 12_split_k adds, the H200 counts four loads of "
        "shared memory more for each block, which no lane executes: the assembler puts them before "
        "the addition by which a block counts itself.",
    ),
)
