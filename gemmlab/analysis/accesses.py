"""Single accesses to shared memory, found by the line of source that makes them."""

from __future__ import annotations

from gemmlab.kernel.trace import Trace
from gemmlab.simulator import WarpAccess


def shared(
    trace: Trace,
    operation: str,
    begins: str,
    *,
    block: tuple[int, int, int] = (0, 0, 0),
    warp: int = 0,
) -> WarpAccess:
    """The first "load" or "store" of a warp to shared memory on a line that begins so.

    Raises ValueError where there is none.
    """
    source = trace.text.splitlines()
    for access in trace.run.accesses(block, warp):
        line = source[access.line - 1] if 0 < access.line <= len(source) else ""
        here = (access.space, access.operation) == ("shared", operation)
        if here and line.strip().startswith(begins):
            return access
    raise ValueError(
        f"warp {warp} of block {block} makes no {operation} of shared memory on a line that "
        f"begins with {begins!r}."
    )


def wavefronts(trace: Trace, operation: str, begins: str) -> float:
    """How many wavefronts one such access takes, the mean of all warps. Raises ValueError."""
    shared(trace, operation, begins)
    lines = trace.lines
    there = lines["source"].str.startswith(begins) & (lines["space"] == "shared")
    found = lines[there & (lines["op"] == operation)]
    return float(found["wavefronts"].sum() / found["requests"].sum())
