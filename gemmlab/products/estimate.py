"""Estimate the time of a batch without any record: its tiles, distributed over the SMs of a GPU.

Of rung 13, which multiplies batches in FP32 together. Block after block, the busiest SM does
multiply-adds at a rate that depends on the warps that it can switch between, and on how often a
thread uses what it has read. It is a rule of thumb to tell settings apart, no prediction: tests
compare it with records.
"""

from math import prod

from gemmlab.ladder import Problem, Rung, Settings, Target
from gemmlab.ladder.shapes import ceil_div
from ptxsim.architectures import LIMITS, base

START_S = 3e-6  # of a launch
COPIED = 4e12  # bytes per second of memory
PRODUCTS = 2.53e11  # multiply-adds per second of an SM that does nothing else
MOST_SUMS, MOST_THREADS = 32768, 768  # of an SM: half of its registers hold sums
FEWER = 0.3  # where there are fewer threads: the rate falls with this power of their share
STEP = 8  # as long as so many steps along K: the first tiles of a block, and the end of its work
CACHED = 3e12  # bytes per second of the tiles that blocks load
BY_ELEMENT = 1.25  # times as long where rows of B begin off 16 bytes
ROW_BYTES = 16  # at multiples of which rows begin where they are loaded fastest


def seconds(rung: Rung, settings: Settings, problem: Problem, target: Target) -> float:
    """How long the rung takes for all products of the problem together, in seconds."""
    rows, columns = rung.tile(settings)
    down, across = ceil_div(problem.m, rows), ceil_div(problem.n, columns)
    busiest = max(1, ceil_div(down * across * problem.batch, target.sm_count))
    block, sums = prod(rung.block(settings)), settings["TM"] * settings["TN"]
    limits = LIMITS.get(base(target.arch), LIMITS["sm_80"])
    by_memory = limits.shared_bytes // (rung.shared_bytes(settings) + limits.reserved_bytes)
    most_threads = min(MOST_SUMS // sums, MOST_THREADS)
    resident = max(1, min(most_threads // block, by_memory))
    filled = min(busiest, resident) * block / most_threads
    # Where a thread computes few elements, reads of shared memory take issue slots.
    reuse = max(0.2, 1 - 0.85 * (settings["TM"] + settings["TN"]) / sums)
    rate = PRODUCTS * reuse * min(1.0, filled / 0.85) ** FEWER
    time = START_S + busiest * rows * columns * (problem.k + STEP) / rate
    if problem.n * rung.precision.b.bytes % ROW_BYTES:
        time *= BY_ELEMENT
    size = rung.precision.a.bytes * problem.k * problem.batch
    loading_s = size * (across * problem.m + down * problem.n) / CACHED
    return max(time, START_S + loading_s, START_S + problem.least_bytes(rung.precision) / COPIED)
