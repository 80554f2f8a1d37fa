"""All blocks of a launch: cut into chunks, which run side by side on the cores of this machine.

NumPy lets go of Python's lock while it works on an array, so threads are enough. Chunks of a kernel
with atomics, whose blocks may wait for one another, run one after the other, in the order of their
blocks; so do checked ones.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from itertools import islice, product
from math import inf, prod
from threading import Thread, current_thread

from gemmlab.simulator.checks.checker import checked_lanes
from gemmlab.simulator.counters import Counter
from gemmlab.simulator.machine import Chunk, Deadline, PreparedLaunch, TooLong
from gemmlab.simulator.threads.layout import Triple

CHUNK_LANES = 1 << 17
SMALL_CHUNK = 1 << 14  # lanes; fewer are not worth a thread
LOCAL_BYTES = 1 << 28  # of local memory of the lanes that run together
MOST_THREADS = 8
LOOK_S = 0.1  # until a waiting main thread sees Ctrl-C, wherever a lock would hide it
SEEN_S = 1.0  # a run is long enough by then to tell how long all of it will take
ORDERED = {"atom", "red", "membar", "fence"}  # instructions by which blocks tell one another


def _threads() -> int:
    """As many as OMP_NUM_THREADS grants, as it does NumPy's own; by default one for each core."""
    granted = os.environ.get("OMP_NUM_THREADS", "")
    cores = int(granted) if granted.isdecimal() else os.cpu_count() or 1
    return max(1, min(MOST_THREADS, cores))


THREADS = _threads()


def run(
    launch: PreparedLaunch,
    blocks: list[Triple] | None = None,
    record: bool = False,
    limit_s: float | None = None,
):
    """Run all blocks, or only those named, each of them in a chunk of its own.

    Returns (counter, findings, accesses, stretches); the last two only if `record` is set, for one
    block. Raises TooLong as soon as it is clear that the run will take more than `limit_s` seconds.
    Whatever ends it, nothing runs on and writes to memory afterwards.
    """
    counter, findings, accesses, stretches = Counter(), {}, [], []
    threads = 1 if launch.check or _is_ordered(launch) else THREADS
    number, every = _ranges(launch, blocks, threads)
    deadline = Deadline(inf if limit_s is None else limit_s)
    chunks = (Chunk(launch, ranges, record, deadline) for ranges in every)
    with closing(_finished(chunks, min(threads, number), deadline)) as finished:
        for done, chunk in enumerate(finished, start=1):
            counter.merge(chunk.counter)
            if launch.prints:
                sys.stdout.write("".join(chunk.printed))
            accesses += chunk.accesses
            stretches += chunk.stretches
            for key, finding in chunk.findings.items():
                findings.setdefault(key, finding)
            expected = deadline.elapsed / done * number
            if deadline.elapsed > SEEN_S and expected > deadline.limit_s:
                raise TooLong(f"about {expected / 60:,.1f} minutes")
    return counter, list(findings.values()), accesses, stretches


def _finished(chunks, threads: int, deadline: Deadline):
    """The chunks in their order, each once it has run. At most two for each thread are at work."""
    if threads == 1:
        for chunk in chunks:
            chunk.run()
            yield chunk
        return
    own: list[Thread] = []  # the pool forgets one at whose start Ctrl-C arrives
    waiting = []
    try:
        with ThreadPoolExecutor(threads, initializer=lambda: own.append(current_thread())) as pool:
            try:
                while True:
                    for chunk in islice(chunks, 2 * threads - len(waiting)):
                        waiting.append((chunk, pool.submit(chunk.run)))
                    if not waiting:
                        return
                    chunk, running = waiting[0]
                    while not running.done():
                        wait([running], LOOK_S)
                    running.result()
                    waiting.pop(0)
                    yield chunk
            finally:  # on an error, on Ctrl-C, and when nobody wants the rest: stop what still runs
                deadline.stop()
                for _, running in waiting:
                    running.cancel()
    finally:
        for thread in own:
            thread.join()


def _is_ordered(launch: PreparedLaunch) -> bool:
    instructions = launch.kernel.instructions
    return any(one.name in ORDERED and "shared" not in one.parts for one in instructions)


def _ranges(launch: PreparedLaunch, blocks: list[Triple] | None, threads: int):
    """How many boxes of block indices, and each of them, as ((x0, x1), (y0, y1), (z0, z1))."""
    if blocks is not None:
        return len(blocks), (tuple((i, i + 1) for i in block) for block in blocks)
    lanes = CHUNK_LANES
    if launch.check:
        lanes = checked_lanes(launch.kernel, prod(launch.block), launch.shared_bytes)
    elif threads > 1:  # some for each thread
        share = -(-prod(launch.grid) * prod(launch.block) // threads)
        lanes = min(lanes, max(share, SMALL_CHUNK))
    if local := launch.kernel.local_bytes:
        lanes = min(lanes, LOCAL_BYTES // local)
    room = max(1, -(-lanes // prod(launch.block)))
    width_x = min(launch.grid[0], room)
    width_y = _even(launch.grid[1], room // width_x, threads)
    steps = (width_x, width_y, 1)
    starts = [range(0, n, step) for n, step in zip(launch.grid, steps, strict=True)]
    boxes = (
        tuple((s, min(s + step, n)) for s, step, n in zip(start, steps, launch.grid, strict=True))
        for start in product(*starts)
    )
    return prod(len(along) for along in starts), boxes


def _even(count: int, most: int, threads: int) -> int:
    """How many of `count` rows to take at a time, at most `most`, so that all threads have work."""
    if count <= most or most <= 1:
        return max(1, min(count, most))
    chunks = -(-count // most)
    chunks += -chunks % threads
    return -(-count // chunks)
