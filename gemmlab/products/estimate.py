"""How long a rung would take, without any record: its tiles, shared out to the SMs of a GPU.

The busiest SM does multiply-adds at a rate that depends on the warps that it can switch between,
and on how often a thread uses what it has read. It is a rule of thumb to tell settings apart, no
prediction: tests hold it against the records.
"""

from __future__ import annotations

from math import prod

from gemmlab.cuda.architectures import LIMITS, WARP, base
from gemmlab.ladder import Problem, Rung, Settings, Target
from gemmlab.ladder.rungs.irregular import LAST_ARRIVER, STREAM_K
from gemmlab.ladder.rungs.shapes import ceil_div

PRODUCTS = 2.2e11  # multiply-adds per second of an SM that is kept busy
ENOUGH_WARPS = 12  # of an SM, to be kept busy
MOST_SUMS, MOST_THREADS = 32768, 768  # of an SM: half of its registers hold sums
START_S = 3e-6  # of a launch
STEP = 32  # as long as so many steps along K: the first tiles of a block, and the end of its work
COPIED, CACHED = 4e12, 6e12  # bytes per second of memory, and of the L2 cache
JOINED = 2e12  # bytes per second of sums of parts of K, written, read and added
ONE_BY_ONE = 1e11  # the same, by a single block
JOIN_S = 2e-6  # until who adds the parts knows that they are there


def seconds(rung: Rung, settings: Settings, problem: Problem, target: Target) -> float:
    """How long the rung takes for all products of the problem, in seconds.

    Together where it takes batches, and else one after the other.
    """
    together = problem.batch if rung.batch > 1 else 1
    rows, columns = rung.tile(settings)
    parts, join = settings.get("SPLIT", 1), settings.get("JOIN")
    down, across = ceil_div(problem.m, rows), ceil_div(problem.n, columns)
    blocks = down * across * together * parts
    busiest = max(1, ceil_div(blocks, target.sm_count))
    at_once = min(busiest, _resident(rung, settings, target))
    warps = at_once * prod(rung.block(settings)) / WARP
    rate = PRODUCTS * min(1.0, warps / ENOUGH_WARPS) * _reuse(settings)
    share = blocks / target.sm_count if join == STREAM_K else busiest
    launches = len(rung.one_tile(settings))
    time = START_S * launches + share * rows * columns * (problem.k / parts + STEP) / rate
    sums = rung.precision.accumulate.bytes * parts * together
    if parts > 1:
        time += JOIN_S + 2 * sums * problem.m * problem.n / JOINED
    if parts > 1 and join == LAST_ARRIVER:
        time += sums / together * rows * columns / ONE_BY_ONE
    if join == STREAM_K:
        time += JOIN_S
    size = rung.precision.a.bytes * problem.k * together
    tiles = size * (across * problem.m + down * problem.n) / CACHED
    if rung.batch == 1:
        time, tiles = time * problem.batch, tiles * problem.batch
    return max(time, START_S + tiles, START_S + problem.least_bytes(rung.precision) / COPIED)


def _resident(rung: Rung, settings: Settings, target: Target) -> int:
    """Blocks that an SM holds at a time, by the registers of their sums and by shared memory."""
    sums = settings.get("TM", 1) * settings.get("TN", 1)
    by_sums = min(MOST_SUMS // sums, MOST_THREADS) // prod(rung.block(settings))
    limits = LIMITS.get(base(target.arch), LIMITS["sm_80"])
    by_memory = limits.shared_bytes // (rung.shared_bytes(settings) + limits.reserved_bytes)
    return max(1, min(settings.get("RESIDENT", by_sums), by_memory))


def _reuse(settings: Settings) -> float:
    """What is left of the rate where a thread computes TM×TN elements: reads take issue slots."""
    rows, columns = settings.get("TM", 1), settings.get("TN", 1)
    return 1 / (1 + 0.3 * (rows + columns) / (rows * columns))
