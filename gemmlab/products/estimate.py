"""How long a rung would take, without any record: its tiles, shared out to the SMs of a GPU.

Block after block, the busiest SM does multiply-adds at a rate that depends on the warps that it can
switch between, and on how often what was read is used: in FP32 by a thread, on tensor cores in a
tile. It is a rule of thumb to tell settings apart, no prediction: tests compare it with records.
"""

from __future__ import annotations

from math import prod

from gemmlab.ladder import Problem, Rung, Settings, Target
from gemmlab.ladder.settings import LAST_ARRIVER, STREAM_K
from gemmlab.ladder.shapes import ceil_div
from ptxsim.architectures import LIMITS, base

START_S = 3e-6  # of a launch
COPIED = 4e12  # bytes per second of memory
JOIN_S = 1e-6  # until who adds parts of K knows that they are there


def seconds(rung: Rung, settings: Settings, problem: Problem, target: Target) -> float:
    """How long the rung takes for all products of the problem, in seconds. Together where it takes
    batches, and else one after the other."""
    estimate = _on_tensor_cores if rung.precision.on_tensor_cores else _in_fp32
    return estimate(rung, settings, problem, target)


def _blocks_by_memory(rung: Rung, settings: Settings, target: Target) -> int:
    """Blocks that an SM holds at a time, by shared memory."""
    limits = LIMITS.get(base(target.arch), LIMITS["sm_80"])
    return limits.shared_bytes // (rung.shared_bytes(settings) + limits.reserved_bytes)


# ---- FP32 ----------------------------------------------------------------------------------------

PRODUCTS = 2.53e11  # multiply-adds per second of an SM that does nothing else
MOST_SUMS, MOST_THREADS = 32768, 768  # of an SM: half of its registers hold sums
FEWER = 0.3  # where there are fewer threads: the rate falls with this power of their share
STEP = 8  # as long as so many steps along K: the first tiles of a block, and the end of its work
CACHED = 3e12  # bytes per second of the tiles that blocks load
JOINED = 6e12  # bytes per second of sums of parts of K, written, read and added
BY_ONE = 5e10  # the same, by the one block that adds the parts of others
BY_ELEMENT = 1.25  # times as long where rows of B begin off 16 bytes
ROW_BYTES = 16  # at multiples of which rows begin where they are loaded fastest


def _in_fp32(rung: Rung, settings: Settings, problem: Problem, target: Target) -> float:
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
    if problem.n * rung.precision.b.bytes % ROW_BYTES:
        time *= BY_ELEMENT
    tile_bytes = rung.precision.accumulate.bytes * rows * columns
    if parts > 1:
        time += JOIN_S + 2 * tile_bytes * blocks / JOINED
        if join == LAST_ARRIVER:
            time += tile_bytes * parts / BY_ONE
    if evenly:
        workers = target.sm_count * resident / max(1, tiles)  # of a tile
        time += JOIN_S + tile_bytes * max(1.0, workers) / BY_ONE
    size = rung.precision.a.bytes * problem.k * together
    loading_s = size * (across * problem.m + down * problem.n) / CACHED
    if rung.batch == 1:
        time, loading_s = time * problem.batch, loading_s * problem.batch
    return max(time, START_S + loading_s, START_S + problem.least_bytes(rung.precision) / COPIED)


def _cuts_its_last_tiles(rung: Rung, settings: Settings, problem: Problem, target: Target) -> bool:
    """Whether blocks that stay share what is left of the tiles, along K."""
    if not settings.get("STREAM_K"):
        return False
    alone = Problem(problem.m, problem.n, problem.k)
    (launch,) = rung.launches(alone, settings, target)
    return prod(launch.grid) != prod(map(ceil_div, (alone.m, alone.n), rung.tile(settings)))


def _resident(rung: Rung, settings: Settings, target: Target) -> int:
    """Blocks that an SM holds at a time, by the registers of their sums and by shared memory."""
    by_sums = _most_threads(settings) // prod(rung.block(settings))
    by_memory = _blocks_by_memory(rung, settings, target)
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


# ---- tensor cores --------------------------------------------------------------------------------

TENSOR_PRODUCTS = {  # multiply-adds per second of an SM, if tiles could be as large as you like
    "14_wmma": 2.0e12, "15_mma_sync": 2.1e12, "16_tma_wgmma": 3.1e12,
    "17_warp_specialized": 3.4e12, "18_persistent": 3.5e12,
}  # fmt: skip
SMALL = 32  # elements that each loaded one is used for: there the rate is half of what it could be
WARPS = 8  # that fill an SM: with fewer the rate falls
BEFORE = 192  # along K, as long as the first tiles of a block and the end of its work take
TENSOR_CACHED = 1e13  # bytes per second of the tiles that blocks load
ASIDE = 0.05  # of the work of an SM, which tells apart what memory limits alike
ARRIVES_S = 9e-7  # from the start of a copy until its bytes are there
TENSOR_JOINED = 1.5e12  # of sums of parts of K
UNSTAGED = 4  # times as long where warps share nothing
THROUGH_REGISTERS = {"14_wmma": 1e9, "15_mma_sync": 9e9}  # where not: elements per second, an SM


def _on_tensor_cores(rung: Rung, settings: Settings, problem: Problem, target: Target) -> float:
    """All products of the problem, one after the other."""
    rows, columns = rung.tile(settings)
    parts, size = settings.get("SPLIT", 1), rung.precision.a.bytes
    down, across = ceil_div(problem.m, rows), ceil_div(problem.n, columns)
    blocks = down * across * parts
    busiest = max(1, ceil_div(blocks, target.sm_count))
    resident = min(busiest, max(1, _blocks_by_memory(rung, settings, target)))
    warps = resident * prod(rung.block(settings)) / 32
    reuse = rows * columns / (rows + columns)
    rate = TENSOR_PRODUCTS[rung.name] * reuse / (reuse + SMALL) * min(1.0, warps / WARPS) ** 0.5
    if not settings["STAGES"]:
        rate /= UNSTAGED
    depth = busiest * problem.k / parts + BEFORE
    time = START_S + rows * columns * depth / rate
    off = problem.n * size % ROW_BYTES or problem.k * size % ROW_BYTES
    if off and rung.name in THROUGH_REGISTERS:
        time += (rows + columns) * depth / THROUGH_REGISTERS[rung.name]
    if stages := settings["STAGES"]:
        sm_bytes = busiest * (rows + columns) * problem.k / parts * size
        in_flight = resident * rung.shared_bytes(settings) * (stages - 1) / stages
        time = max(time, START_S + ARRIVES_S * sm_bytes / max(1, in_flight))
    if parts > 1:
        tile_bytes = rung.precision.accumulate.bytes * rows * columns
        time += JOIN_S + 2 * tile_bytes * blocks / TENSOR_JOINED
    loading_s = size * problem.k * (across * problem.m + down * problem.n) / TENSOR_CACHED
    least = problem.least_bytes(rung.precision) / problem.batch / COPIED if problem.batch else 0
    limited = max(time, START_S + loading_s, START_S + least)
    return problem.batch * (limited + ASIDE * time)
