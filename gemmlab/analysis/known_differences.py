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


def _single_copies(trace: Trace) -> int:
    """Where rows of A begin at whole sectors: half as many again for its asynchronous copies of
    single floats, eight neighbours of four rows by a warp."""
    if trace.k % 8:
        return 0
    lines = trace.lines
    return int(lines[(lines["space"] == "global") & (lines["array"] == "A")]["sectors"].sum()) // 2


def _past_l1(trace: Trace) -> int:
    """Two sectors for each copy of eight halves by a warp, which is told whether to bring zeros."""
    if trace.settings["STAGES"] == 0 or trace.n % 8 or trace.k % 8:
        return 0
    copies = trace.lines.query("space == 'global' and op == 'load' and array in ('A', 'B')")
    return 2 * int(copies["requests"].sum())


def _predicated(trace: Trace) -> int:
    """Where rows of C are odd, each lane loads one sum from shared memory, if its element lies in
    C. The code branches, and the simulator with it; the assembler predicates the load, and the GPU
    counts it also where no lane of a warp takes part: for every element of whole tiles."""
    if trace.n % 4 == 0:
        return 0
    rows, columns = find(trace.kernel_name).tile(trace.settings)
    within = trace.lines.query("op == 'store' and array == 'C'")["requests"].sum()
    return math.prod(trace.grid) * rows * columns // WARP - int(within)


DIFFERENCES = (
    Difference(
        rungs=("10_register_banks", "11_fused_epilogue"),
        metric="l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        more=_single_copies,
        why="Unexplained: sectors that 10_register_banks and 11_fused_epilogue load at round K, "
        "of which the H200 counts a sixth more; at K = 513 they are equal.",
    ),
    Difference(
        rungs=("14_wmma",),
        metric="smsp__inst_executed_op_shared_ld.sum",
        more=_predicated,
        why="Explained: where N is no multiple of 4, the H200 also counts loads of shared memory "
        "by 14_wmma in which no lane takes part, for the assembler predicates what the code "
        "branches around.",
    ),
    Difference(
        rungs=("14_wmma",),
        metric="l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        more=_past_l1,
        why="Unexplained: sectors that 14_wmma loads by asynchronous copies, of which the H200 "
        "counts an eighth more.",
    ),
)
