"""How long a rung would take, without any record: its tiles, shared out to the SMs of a GPU.

The busiest SM does multiply-adds at a rate that depends on the warps that it can switch between,
and on how often a thread uses what it has read. It is a rule of thumb to tell settings apart, no
prediction: tests hold it against the records.
"""

from __future__ import annotations

from math import prod

from gemmlab.ladder import Problem, Rung, Settings, Target
from gemmlab.ladder.joins import LAST_ARRIVER, STREAM_K
from gemmlab.ladder.shapes import ceil_div
from ptxsim.architectures import LIMITS, base

PRODUCTS = 2.53e11  # multiply-adds per second of an SM that does nothing else
MOST_SUMS, MOST_THREADS = 32768, 768  # of an SM: half of its registers hold sums
FEWER = 0.3  # where there are fewer threads: the rate falls with this power of their share
START_S = 3e-6  # of a launch
STEP = 8  # as long as so many steps along K: the first tiles of a block, and the end of its work
COPIED, CACHED = 4e12, 3e12  # bytes per second of memory, and of the tiles that blocks bring
JOINED = 6e12  # bytes per second of sums of parts of K, written, read and added
BY_ONE = 5e10  # the same, by the one block that adds the parts of others
JOIN_S = 1e-6  # until who adds the parts knows that they are there


def seconds(rung: Rung, settings: Settings, problem: Problem, target: Target) -> float:
    """How long the rung takes for all products of the problem, in seconds.

    Together where it takes batches, and else one after the other.
    """
    together = problem.batch if rung.batch > 1 else 1
    rows, columns = rung.tile(settings)
    parts, join = settings.get("SPLIT", 1), settings.get("JOIN")
    down, across = ceil_div(problem.m, rows), ceil_div(problem.n, columns)
    tiles = down * across * together
    blocks = tiles * parts
    busiest = max(1, ceil_div(blocks, target.sm_count))
    resident = _resident(rung, settings, target)
    rate = PRODUCTS * _reuse(settings) * _fill(rung, settings, min(busiest, resident))
    evenly = join == STREAM_K or _cuts_its_last_tiles(rung, settings, problem, target)
    share = blocks / target.sm_count if evenly else busiest
    launches = len(rung.one_tile(settings))
    time = START_S * launches + share * rows * columns * (problem.k / parts + STEP) / rate
    of_a_tile = rung.precision.accumulate.bytes * rows * columns
    if parts > 1:
        time += JOIN_S + 2 * of_a_tile * blocks / JOINED
        if join == LAST_ARRIVER:
            time += of_a_tile * parts / BY_ONE
    if evenly:
        workers = target.sm_count * resident / max(1, tiles)  # of a tile
        time += JOIN_S + of_a_tile * max(1.0, workers) / BY_ONE
    size = rung.precision.a.bytes * problem.k * together
    brought = size * (across * problem.m + down * problem.n) / CACHED
    if rung.batch == 1:
        time, brought = time * problem.batch, brought * problem.batch
    return max(time, START_S + brought, START_S + problem.least_bytes(rung.precision) / COPIED)


def _cuts_its_last_tiles(rung: Rung, settings: Settings, problem: Problem, target: Target) -> bool:
    """Whether blocks that stay share what is left of the tiles, along K."""
    if not settings.get("STREAM_K"):
        return False
    one = Problem(problem.m, problem.n, problem.k)
    (launch,) = rung.launches(one, settings, target)
    return prod(launch.grid) != prod(map(ceil_div, (one.m, one.n), rung.tile(settings)))


def _resident(rung: Rung, settings: Settings, target: Target) -> int:
    """Blocks that an SM holds at a time, by the registers of their sums and by shared memory."""
    by_sums = _most_threads(settings) // prod(rung.block(settings))
    limits = LIMITS.get(base(target.arch), LIMITS["sm_80"])
    by_memory = limits.shared_bytes // (rung.shared_bytes(settings) + limits.reserved_bytes)
    return max(1, min(settings.get("RESIDENT", by_sums), by_memory))


def _most_threads(settings: Settings) -> int:
    return min(MOST_SUMS // (settings.get("TM", 1) * settings.get("TN", 1)), MOST_THREADS)


def _fill(rung: Rung, settings: Settings, blocks: int) -> float:
    """What is left of the rate where so many blocks run on an SM at a time."""
    share = blocks * prod(rung.block(settings)) / _most_threads(settings)
    return min(1.0, share / 0.85) ** FEWER


def _reuse(settings: Settings) -> float:
    """What is left of it where a thread computes TM×TN elements: reads take issue slots."""
    rows, columns = settings.get("TM", 1), settings.get("TN", 1)
    return max(0.2, 1 - 0.85 * (rows + columns) / (rows * columns))
