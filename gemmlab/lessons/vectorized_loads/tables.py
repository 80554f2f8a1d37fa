"""Variants of a kernel, counted and compiled; single accesses of a warp to shared memory."""

import math
import re
from collections.abc import Mapping

import pandas

from gemmlab import ladder
from gemmlab.analysis import counters
from gemmlab.kernel.kernel import Kernel, from_source
from gemmlab.kernel.trace import Trace
from gemmlab.records import ablations, tuning
from gemmlab.records.registry import NoRecord, StaleRecord
from ptxsim import WarpAccess
from ptxsim.architectures import WARP

TAKEN = ("registers per thread", "spilled bytes", "blocks per SM")
COUNTED = {name: counters.PER_WARP_FMA[name] for name in ("global loads", "global sectors")} | {
    re.sub("(loads|stores)", r"shared \1", what): metric for what, metric in counters.SHARED.items()
}
DIGITS = 3  # after the point, of counts per warp FMA
SPEED = f"TFLOP/s at {'×'.join(map(str, tuning.SHAPES[0]))}"
NOT_RECORDED = "not recorded"


def parts(name: str) -> dict[str, Kernel]:
    """{change: kernel} of each step of the path to rung `name`. Raises LadderError for no path."""
    return {step.title: step.kernel() for step in ablations.path_of(name).steps}


def edited(name: str, changes: Mapping[str, str], **settings: int) -> Kernel:
    """A rung with pieces of its text replaced: {old: new}. Raises ValueError for no such text."""
    text = ladder.find(name).path.read_text(encoding="utf-8")
    for old, new in changes.items():
        if old not in text:
            raise ValueError(f"{name}.cu has no {old!r}; changes are from what stands there.")
        text = text.replace(old, new)
    return from_source(text, name, **settings)


def side_by_side(kernels: Mapping[str, Kernel], m: int, n: int, k: int) -> pandas.DataFrame:
    """What kernels take of an SM and request of memory, a column for each under its name.

    Counts: of a product of this shape (M, N, K), simulated, per warp FMA. TFLOP/s: from the sweep
    of settings. Raises LadderError.
    """
    return pandas.DataFrame({name: _of(kernel, (m, n, k)) for name, kernel in kernels.items()})


def _of(kernel: Kernel, shape: tuple[int, int, int]) -> pandas.Series:
    (taken,) = kernel.resources().to_dict("records")
    counted, warp_fmas = counters.simulated(kernel, *shape), math.prod(shape) / WARP
    rows: dict[str, object] = {name: taken[name] for name in TAKEN}
    rows |= {
        f"{name} {counters.UNIT}": round(counted[metric] / warp_fmas, DIGITS)
        for name, metric in COUNTED.items()
    }
    try:
        speed: object = round(tuning.of(kernel)["gflops"] / 1e3, 1)
    except (NoRecord, StaleRecord):
        speed = NOT_RECORDED
    return pandas.Series(rows | {SPEED: speed}, dtype=object)


def shared_access(trace: Trace, start: str, op: str = "load", warp: int = 0) -> WarpAccess:
    """The first shared-memory access (`op`) by a warp of block (0, 0, 0) on a line that begins so.

    start: without the indent. Raises LookupError where there is none.
    """
    lines = [line.strip() for line in trace.text.splitlines()]
    for access in trace.run.accesses((0, 0, 0), warp):
        wanted = (access.space, access.operation) == ("shared", op)
        if wanted and lines[access.line - 1].startswith(start):
            return access
    raise LookupError(
        f"{trace.kernel_name}: warp {warp} has no {op} of shared memory on a line that begins "
        f"with {start!r}"
    )


def wavefronts(trace: Trace, start: str, op: str = "load") -> float:
    """The mean wavefronts of an access of such a line, see shared_access, over all traced warps."""
    shared_access(trace, start, op)
    lines = trace.lines
    there = lines["source"].str.startswith(start) & (lines["space"] == "shared")
    accesses = lines[there & (lines["op"] == op)]
    return float(accesses["wavefronts"].sum() / accesses["requests"].sum())
