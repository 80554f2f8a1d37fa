"""All blocks of a launch: cut into chunks, which run side by side on the cores of this machine.

NumPy lets go of Python's lock while it works on an array, so threads are enough. Chunks of a kernel
with atomics run one after the other, in the order of their blocks; so do checked ones. Where
threads poll, for what those of other blocks write, chunks take turns.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing
from itertools import chain, islice, product
from math import inf, prod
from threading import Thread, current_thread

from ptxsim.architectures import base
from ptxsim.checks.checker import checked_lanes
from ptxsim.counting import Recorded
from ptxsim.machine import Chunk, Deadline, PreparedLaunch, TooLong
from ptxsim.metrics import Counter
from ptxsim.occupancy import OccupancyError, occupancy
from ptxsim.system_calls import FirstLines
from ptxsim.threads import launch_control
from ptxsim.threads.layout import Triple
from ptxsim.threads.polling import polling_branches

CHUNK_LANES = 1 << 17
SMALL_CHUNK = 1 << 14  # lanes; fewer are not worth a thread
LOCAL_BYTES = 1 << 28  # of local memory of the lanes that run together
MOST_THREADS = 8
LOOK_S = 0.1  # until a waiting main thread sees Ctrl-C, wherever a lock would hide it
SEEN_S = 1.0  # a run is long enough by then to tell how long all of it will take
# Architecture -> a GPU of it, and its SMs.
GPUS = {
    "sm_75": ("T4", 40), "sm_80": ("A100", 108), "sm_86": ("RTX 3090", 82),
    "sm_89": ("RTX 4090", 128), "sm_90": ("H200", 132), "sm_100": ("B200", 148),
    "sm_120": ("RTX 5090", 170),
}  # fmt: skip
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
    record: Triple | None = None,
    deadline: Deadline | None = None,
):
    """(counter, findings, what `record` did) of all blocks, or of the clusters of those named.

    Raises TooLong once it is clear that the run will pass the deadline; then nothing runs on.
    """
    counter, recorded = Counter(), Recorded()
    findings: dict = {}
    threads = 1 if launch.check or _is_ordered(launch) else THREADS
    number, every = _ranges(launch, blocks, threads)
    launch.pending = None
    if launch.kernel.has("clusterlaunchcontrol.try_cancel") and blocks is None:
        room = GPUS.get(base(launch.arch), ("", prod(launch.grid)))[1]
        launch.pending = launch_control.Pending(launch.grid, launch.cluster, room)
        number, every = launch.pending.number, launch.pending.ranges()
    deadline = deadline or Deadline(inf)
    chunks = (
        Chunk(launch, ranges, record if _is_in(record, ranges) else None, deadline)
        for ranges in every
    )
    in_turns = bool(polling_branches(launch.kernel))
    if in_turns:
        finishing = _in_turns(chunks, launch)
    else:
        finishing = _finished(chunks, min(threads, number), deadline)
    with closing(FirstLines(sys.stdout)) as output, closing(finishing) as finished:
        for done, chunk in enumerate(finished, start=1):
            counter.merge(chunk.counter)
            if launch.prints:
                output.write(chunk.printed.stream.getvalue())
                if chunk.printed.is_cut:
                    output.leave_out(chunk.printed.left_out)
            recorded.extend(chunk.recorded)
            for key, finding in chunk.findings.items():
                findings.setdefault(key, finding)
            expected = deadline.elapsed / done * number
            late = deadline.elapsed > SEEN_S and expected > deadline.limit_s
            if late and not in_turns:  # those that wait for others may all finish at the end
                raise TooLong(f"about {expected / 60:,.1f} minutes")
    return counter, list(findings.values()), recorded


def _in_turns(chunks, launch: PreparedLaunch):
    """The chunks as they finish. As many run in turn as a GPU has room for."""
    following, room = next(chunks, None), most_blocks(launch)
    working: list[Chunk] = []
    while True:
        before, moved = [chunk.changes for chunk in working], False
        for chunk in list(working):
            if chunk.go_as_far_as_possible():
                working.remove(chunk)
                moved = True
                yield chunk
        moved = moved or before != [chunk.changes for chunk in working]
        if following is None and not working:
            return
        left = room - sum(chunk.blocks_left for chunk in working)
        if following is not None and (not working or following.blocks <= left):
            working.append(following)
            following = next(chunks, None)
        elif not moved and all(chunk.polling.surely_in_vain for chunk in working):
            begun = sum(chunk.blocks_left for chunk in working)
            to_come = chunks if following is None else chain([following], chunks)
            waiting = sum(chunk.blocks for chunk in to_come) + begun - room
            for chunk in working:
                if waiting > 0:
                    chunk.why_for_ever = why_not_all(launch, waiting)
                chunk.go_as_far_as_possible(last=True)
                yield chunk
            return


def _finished(chunks, threads: int, deadline: Deadline):
    """The chunks in their order, each once it has run. At most two for each thread are at work."""
    if threads == 1:
        for chunk in chunks:
            chunk.run()
            yield chunk
        return
    from concurrent.futures import ThreadPoolExecutor, wait  # here, for it takes time to load

    begun: list[Thread] = []  # the pool forgets a thread at whose start Ctrl-C arrives
    waiting: list = []
    try:
        pool = ThreadPoolExecutor(threads, initializer=lambda: begun.append(current_thread()))
        with pool:
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
        for thread in begun:
            thread.join()


def _is_ordered(launch: PreparedLaunch) -> bool:
    return bool(polling_branches(launch.kernel)) or any(
        i.name in ORDERED and "shared" not in i.parts for i in launch.kernel.instructions
    )


def _ranges(launch: PreparedLaunch, blocks: list[Triple] | None, threads: int):
    """How many boxes of block indices, and each of them, as ((x0, x1), (y0, y1), (z0, z1))."""
    if blocks is not None:
        chosen = {tuple(i // n for i, n in zip(block, launch.cluster, strict=True)): None
                  for block in blocks}  # fmt: skip
        return len(chosen), (
            tuple((i * n, (i + 1) * n) for i, n in zip(cluster, launch.cluster, strict=True))
            for cluster in chosen
        )
    lanes = CHUNK_LANES
    if launch.check:
        lanes = checked_lanes(launch)
    elif threads > 1:  # some for each thread
        share = -(-prod(launch.grid) * prod(launch.block) // threads)
        lanes = min(lanes, max(share, SMALL_CHUNK))
    if local := launch.kernel.local_bytes:
        lanes = min(lanes, LOCAL_BYTES // local)
    if polling_branches(launch.kernel):
        # So that all blocks that a GPU has room for are in chunks that can be at work together.
        room = most_blocks(launch) * prod(launch.block)
        lanes = room // -(-room // lanes)
    # In clusters, each of which is in one chunk.
    grid = [n // size for n, size in zip(launch.grid, launch.cluster, strict=True)]
    room = max(1, -(-lanes // (prod(launch.block) * prod(launch.cluster))))
    width_x = min(grid[0], room)
    width_y = max(1, min(grid[1], room // width_x))
    steps = [n * size for n, size in zip((width_x, width_y, 1), launch.cluster, strict=True)]
    starts = [range(0, n, step) for n, step in zip(launch.grid, steps, strict=True)]
    boxes = (
        tuple((s, min(s + step, n)) for s, step, n in zip(start, steps, launch.grid, strict=True))
        for start in product(*starts)
    )
    return prod(len(along) for along in starts), boxes


def _is_in(block: Triple | None, ranges) -> bool:
    return block is not None and all(
        first <= i < end for i, (first, end) in zip(block, ranges, strict=True)
    )


# --- how many blocks a GPU can hold at a time: others begin when some have returned --------------


def most_blocks(launch) -> int:
    """As far as threads and shared memory allow; all of the grid if the GPU is not known."""
    blocks = prod(launch.grid)
    if base(launch.arch) not in GPUS:
        return blocks
    threads, shared = prod(launch.block), launch.shared_bytes
    try:
        fit = occupancy(launch.arch, threads=threads, registers=0, shared_bytes=shared)
    except OccupancyError:
        return blocks
    return min(blocks, fit.blocks_per_sm * GPUS[base(launch.arch)][1])


def why_not_all(launch, waiting: int) -> str:
    gpu, _ = GPUS[base(launch.arch)]
    return (
        f": {waiting} of the grid's {prod(launch.grid)} blocks have not begun, for an NVIDIA {gpu} "
        f"has room for {most_blocks(launch)} at a time, at most"
    )
