"""Single accesses of a warp to shared memory, found by the line of source that makes them."""

from __future__ import annotations

from gemmlab.kernel.trace import Trace, TraceError
from ptxsim import WarpAccess


def shared_access(trace: Trace, start: str, op: str = "load", warp: int = 0) -> WarpAccess:
    """The first load or store (`op`) of shared memory by a warp of block (0, 0, 0) on such a line.

    start: how the line of source begins, without its indent. Raises TraceError where no line that
    begins so has one.
    """
    lines = [line.strip() for line in trace.text.splitlines()]
    for access in trace.run.accesses((0, 0, 0), warp):
        wanted = (access.space, access.operation) == ("shared", op)
        if wanted and lines[access.line - 1].startswith(start):
            return access
    raise TraceError(
        f"{trace.kernel_name}: warp {warp} has no {op} of shared memory on a line that begins "
        f"with {start!r}"
    )


def wavefronts(trace: Trace, start: str, op: str = "load") -> float:
    """How many wavefronts one access of such a line takes, the mean of all warps that were traced.

    start, op, and what it raises: as of shared_access.
    """
    shared_access(trace, start, op)
    lines = trace.lines
    there = lines["source"].str.startswith(start) & (lines["space"] == "shared")
    found = lines[there & (lines["op"] == op)]
    return float(found["wavefronts"].sum() / found["requests"].sum())
