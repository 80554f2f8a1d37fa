"""How long a rung on tensor cores would take, without any record: its tiles, shared out to the SMs.

Block after block, the busiest SM multiplies at the rate of the rung's large tiles, less where a
tile is small, since it reads more for each product. It is a rule of thumb to tell settings apart,
no prediction: tests hold it against the records.
"""

from __future__ import annotations

from math import prod

from gemmlab.ladder import Problem, Rung, Settings, Target
from gemmlab.ladder.shapes import ceil_div
from ptxsim.architectures import LIMITS, base

PRODUCTS = {  # multiply-adds per second of an SM, if tiles could be as large as you like
    "14_wmma": 2.0e12, "15_mma_sync": 2.1e12, "16_tma_wgmma": 3.1e12,
    "17_warp_specialized": 3.4e12, "18_persistent": 3.5e12,
}  # fmt: skip
SMALL = 32  # elements that each brought one is used for: there the rate is half of what it could be
WARPS = 8  # that fill an SM: with fewer the rate falls
START_S = 3e-6  # of a launch
BEFORE = 192  # along K, as long as the first tiles of a block and the end of its work take
COPIED, CACHED = 4e12, 1e13  # bytes per second of memory, and of the tiles that blocks bring
ASIDE = 0.05  # of the work of an SM, which tells apart what memory holds up alike
ARRIVES_S = 9e-7  # from the start of a copy until its bytes are there
JOINED, JOIN_S = 1.5e12, 1e-6  # of sums of parts of K, and until they are known to be there
UNSTAGED = 4  # times as long where warps share nothing
ROW_BYTES = 16  # at multiples of which rows begin where they are copied asynchronously
THROUGH_REGISTERS = {"14_wmma": 1e9, "15_mma_sync": 9e9}  # where not: elements per second, an SM


def seconds(rung: Rung, settings: Settings, problem: Problem, target: Target) -> float:
    """How long the rung takes for all products of the problem, one after the other, in seconds."""
    rows, columns = rung.tile(settings)
    parts, size = settings.get("SPLIT", 1), rung.precision.a.bytes
    down, across = ceil_div(problem.m, rows), ceil_div(problem.n, columns)
    blocks = down * across * parts
    busiest = max(1, ceil_div(blocks, target.sm_count))
    resident = min(busiest, _resident(rung, settings, target))
    warps = resident * prod(rung.block(settings)) / 32
    reuse = rows * columns / (rows + columns)
    rate = PRODUCTS[rung.name] * reuse / (reuse + SMALL) * min(1.0, warps / WARPS) ** 0.5
    if not settings["STAGES"]:
        rate /= UNSTAGED
    depth = busiest * problem.k / parts + BEFORE
    time = START_S + rows * columns * depth / rate
    off = problem.n * size % ROW_BYTES or problem.k * size % ROW_BYTES
    if off and rung.name in THROUGH_REGISTERS:
        time += (rows + columns) * depth / THROUGH_REGISTERS[rung.name]
    if stages := settings["STAGES"]:
        of_an_sm = busiest * (rows + columns) * problem.k / parts * size
        in_flight = resident * rung.shared_bytes(settings) * (stages - 1) / stages
        time = max(time, START_S + ARRIVES_S * of_an_sm / max(1, in_flight))
    if parts > 1:
        of_a_tile = rung.precision.accumulate.bytes * rows * columns
        time += JOIN_S + 2 * of_a_tile * blocks / JOINED
    brought = size * problem.k * (across * problem.m + down * problem.n) / CACHED
    least = problem.least_bytes(rung.precision) / problem.batch / COPIED if problem.batch else 0
    held_up = max(time, START_S + brought, START_S + least)
    return problem.batch * (held_up + ASIDE * time)


def _resident(rung: Rung, settings: Settings, target: Target) -> int:
    """Blocks that an SM holds at a time, by shared memory."""
    limits = LIMITS.get(base(target.arch), LIMITS["sm_80"])
    return max(1, limits.shared_bytes // (rung.shared_bytes(settings) + limits.reserved_bytes))
