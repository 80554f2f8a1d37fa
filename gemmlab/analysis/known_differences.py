"""Known differences of the H200's counts from the simulator's: rungs, numbers, reasons.

`make readme` writes them into docs/results.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from gemmlab.files import rows_beside
from gemmlab.kernel.trace import Trace
from gemmlab.ladder import find
from gemmlab.ladder.settings import EVERY_PART, LAST_ARRIVER
from ptxsim.architectures import WARP
from ptxsim.metrics import METRICS

LOOKS = 8  # at a flag until it is set, at most, on average: more are not known


@dataclass(frozen=True)
class Difference:
    """Of a rung the GPU counts `more(trace)` of `metric` than the simulator has in a trace. Where
    it depends on time how much, it is that much at least, and `most(trace)` at most."""

    rung: str
    metric: str
    why: str
    more: Callable[[Trace], int]
    most: Callable[[Trace], int] | None = None


def of(trace: Trace) -> list[Difference]:
    """Those that a trace of a rung meets, in which the simulator looked at all that it counts."""
    return [
        difference
        for difference in DIFFERENCES
        if trace.kernel_name == difference.rung
        and (difference.more(trace) or (difference.most and difference.most(trace)))
    ]


def is_known(trace: Trace, metric: str, more: float) -> bool:
    """Whether the GPU counts so many more: as is known of the metric, else as many as here."""
    known = [difference for difference in of(trace) if difference.metric == metric]
    explained = [each.more(trace) <= more <= (each.most or each.more)(trace) for each in known]
    return all(explained) if known else not more


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
    """`@!PT LDS RZ, [RZ]` stands four times before each count in the code of the one thread that
    counts: on arrival, and where all wait also as a block leaves."""
    counts = {LAST_ARRIVER: 1, EVERY_PART: 2}.get(trace.settings["JOIN"], 0)
    return 4 * counts * math.prod(trace.grid)


def _looks_at_arrivals(trace: Trace) -> int:
    waits = trace.settings["JOIN"] == EVERY_PART
    return LOOKS * math.prod(trace.grid) if waits else 0


def _looks_at_flags(trace: Trace, each: int) -> int:
    """More looks at flags than here, where there are so many at each that is waited for."""
    return each * _of_flags(trace, "store") - _of_flags(trace, "load")


def _of_flags(trace: Trace, operation: str) -> int:
    return int(trace.lines.query("array == 'flags' and op == @operation")["requests"].sum())


SHARED, GLOBAL = "loads of shared memory", "loads of global memory"
COUNTED = {
    SHARED: METRICS["shared", "load"][:1],
    GLOBAL: METRICS["global", "load"],
}
MORE: dict[tuple[str, str], tuple[Callable[[Trace], int], Callable[[Trace], int] | None]] = {
    ("14_wmma", SHARED): (_predicated, None),
    ("12_split_k", SHARED): (_before_counting, None),
    ("12_split_k", GLOBAL): (lambda trace: 0, _looks_at_arrivals),
    # Of each part a flag is set; as often one is cleared.
    ("22_fp32_summit", SHARED): (lambda trace: 4 * _of_flags(trace, "store"), None),
    ("22_fp32_summit", GLOBAL): (
        partial(_looks_at_flags, each=1), partial(_looks_at_flags, each=LOOKS),
    ),
}  # fmt: skip
DIFFERENCES = tuple(
    Difference(row["rung"], metric, row["why"], *MORE[row["rung"], row["what"]])
    for row in rows_beside(__file__, "known_differences.csv")
    for metric in COUNTED[row["what"]]
)
