"""How long a rung would take, without any record: its tiles, shared out to the SMs of a GPU.

The busiest SM does multiply-adds at a rate that depends on the warps that it can switch between,
and on how often a thread uses what it has read. It is a rule of thumb to tell settings apart, no
prediction: tests hold it against the records.
"""

from __future__ import annotations

from math import prod

from gemmlab.cuda.architectures import WARP
from gemmlab.ladder import Problem, Rung, Settings, Target
from gemmlab.ladder.rungs.shapes import ceil_div

PRODUCTS = 1.3e11  # multiply-adds per second of an SM that is kept busy
ENOUGH_WARPS = 8  # of an SM, to be kept busy
START_S = 3e-6  # of a launch
STEP = 48  # as long as so many steps along K: the first tiles of a block, and the end of its work
COPIED = 4e12  # bytes per second of memory
JOINED = 2.5e12  # bytes per second of sums of parts of K, written, read and added
JOIN_S = 2e-6  # until the last part knows that it is the last


def seconds(rung: Rung, settings: Settings, problem: Problem, target: Target) -> float:
    """How long the rung takes for all products of the problem, in seconds.

    Together where it takes batches, and else one after the other.
    """
    together = problem.batch if rung.batch > 1 else 1
    rows, columns = rung.tile(settings)
    parts = settings.get("SPLIT", 1)
    tiles = ceil_div(problem.m, rows) * ceil_div(problem.n, columns) * together
    busiest = max(1, ceil_div(tiles * parts, target.sm_count))
    warps = busiest * prod(rung.block(settings)) / WARP
    along = ceil_div(problem.k, parts) + STEP
    rate = PRODUCTS * min(1.0, warps / ENOUGH_WARPS) * _reuse(settings)
    time = START_S + busiest * rows * columns * along / rate
    if parts > 1:
        sums = 2 * rung.precision.accumulate.bytes * parts * problem.m * problem.n * together
        time += JOIN_S + sums / JOINED
    launches = 1 if rung.batch > 1 else problem.batch
    least = problem.least_bytes(rung.precision) / COPIED
    return max(time * launches, least)


def _reuse(settings: Settings) -> float:
    """What is left of the rate where a thread computes TM×TN elements: reads take issue slots."""
    rows, columns = settings.get("TM", 1), settings.get("TN", 1)
    return 1 / (1 + 0.5 * (rows + columns) / (rows * columns))
