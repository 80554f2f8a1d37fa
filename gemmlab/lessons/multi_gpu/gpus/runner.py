"""A schedule run on the GPUs of this host: a process and a GPU for each rank.

Steps are enqueued at once, on streams that wait for events; then their ends are awaited, each with
a time limit. A step's begin and end are events too: they are the timeline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmlab.cuda.device import NoGpu, require_gpu
from gemmlab.lessons.multi_gpu.gpus import rank_sum
from gemmlab.lessons.multi_gpu.gpus.dma_engines import DmaEngines
from gemmlab.lessons.multi_gpu.gpus.nccl import Collectives
from gemmlab.lessons.multi_gpu.gpus.team import RankFailed, Reporter, run_ranks
from gemmlab.lessons.multi_gpu.in_turn import Buffers, ByKernel, gathered, placed, rows_of, to_host
from gemmlab.lessons.multi_gpu.order import require_sound
from gemmlab.lessons.multi_gpu.schedule import (
    COPIES,
    Collective,
    Product,
    Schedule,
    ScheduleError,
    Step,
)
from gemmlab.lessons.multi_gpu.timeline import Ran, Timeline, kind_of

LIMIT_S = 30.0  # for each step
POLL_S = 0.0005
CONNECTING = "connecting to the others"
NCCL, DMA_ENGINES = "NCCL", "DMA engines"  # what moves parts from one GPU to another
PRIORITY = {COPIES: -1}  # an SM that gets free goes to NCCL's blocks before those of a product
SPARE_BYTES = 2 * 2**30  # of a GPU's memory: its context, NCCL's buffers, workspaces


class NotEnoughGpus(NoGpu):
    """There are fewer GPUs than ranks, or no NCCL; the message says what to do."""


@dataclass(frozen=True)
class Job:
    """A schedule to run once to warm up, and `repeats` times.

    `A`, `B`: NumPy, of the types of the precision; without them each GPU makes its own random
    numbers, and C stays there. `moved_by`: NCCL or DMA_ENGINES.
    """

    schedule: Schedule
    A: Any = None
    B: Any = None
    repeats: int = 1
    moved_by: str = NCCL


@dataclass(frozen=True)
class Measured:
    """`C`: gathered to the host, where A and B were given; `runs`: a timeline of each repeat."""

    C: Any
    runs: tuple[Timeline, ...]


def require_gpus(ranks: int) -> None:
    """Raises NoGpu, NotEnoughGpus."""
    require_gpu("Running on several GPUs")
    from cupy.cuda import nccl, runtime

    if not nccl.available:
        raise NotEnoughGpus(
            "CuPy finds no NCCL: pip install nvidia-nccl-cu13, or nvidia-nccl-cu12 for a CuPy of "
            "CUDA 12, then again"
        )
    there = runtime.getDeviceCount()
    if there < ranks:
        raise NotEnoughGpus(
            f"{ranks} ranks need a GPU each, and CUDA sees {there} here: take {there} ranks, look "
            "whether CUDA_VISIBLE_DEVICES hides some, or run the schedule without GPUs by "
            "gemmlab.lessons.multi_gpu.in_turn"
        )


def run(
    jobs: Sequence[Job], arithmetic: Callable[[], ByKernel], limit_s: float = LIMIT_S
) -> list[Measured]:
    """One after the other, all with as many ranks, by the same processes.

    `arithmetic`: as by_processes.run takes it. `limit_s`: for each step. Raises
    ScheduleError, DataRace, Stuck, NoGpu and NotEnoughGpus before anything is done, and RankFailed.
    """
    ranks = {job.schedule.ranks for job in jobs}
    if len(ranks) != 1:
        raise ScheduleError(f"jobs of {sorted(ranks)} ranks; take those of one number at a time")
    if others := {job.moved_by for job in jobs} - {NCCL, DMA_ENGINES}:
        raise ScheduleError(
            f"nothing is moved by {', '.join(map(repr, sorted(others)))}: take {NCCL!r} or "
            f"{DMA_ENGINES!r}"
        )
    count = ranks.pop()
    units = [require_sound(job.schedule) for job in jobs]
    require_gpus(count)
    from cupy.cuda import nccl

    ids = {members: nccl.get_unique_id() for members in _groups(jobs)}
    arguments = []
    for rank in range(count):
        steps = [
            [step for unit in units_of_job for at, step in unit if at == rank]
            for units_of_job in units
        ]
        arguments.append((rank, jobs, steps, arithmetic, ids, limit_s))
    by_rank = run_ranks(_rank, arguments, limit_s)
    names = {name for _, name in by_rank}
    if len(names) > 1:
        raise RankFailed(
            f"the ranks have GPUs of {len(names)} kinds: {', '.join(sorted(names))}. All have "
            "parts of one size, so the slowest counts: choose some of one kind, by "
            "CUDA_VISIBLE_DEVICES"
        )
    source = f"Measured on {count} × {names.pop()}, by events"
    return [
        _measured(job, [results[at] for results, _ in by_rank], arithmetic, source)
        for at, job in enumerate(jobs)
    ]


def _measured(job: Job, of_ranks: list, arithmetic, source: str) -> Measured:
    buffers, runs = zip(*of_ranks, strict=True)
    C = None
    if job.A is not None:
        C = gathered(job.schedule, list(buffers), arithmetic())
    timelines = (
        Timeline(job.schedule, tuple(ran for of_rank in each for ran in of_rank), source)
        for each in zip(*runs, strict=True)
    )
    return Measured(C, tuple(timelines))


def _groups(jobs: Sequence[Job]) -> list[tuple[int, ...]]:
    """All ranks, and the groups of their collectives: in an order in which all make them."""
    groups = {group for job in jobs for group in job.schedule.groups}
    return sorted({_everyone(jobs[0].schedule), *groups})


# ---- in the process of a rank --------------------------------------------------------------------


def _rank(reporter: Reporter, rank: int, jobs: Sequence[Job], steps: list[list[Step]], arithmetic,
          ids, limit_s: float):  # fmt: skip
    """Of each job its outputs and the steps of each repeat; and the name of its GPU."""
    import cupy
    from cupy.cuda import nccl

    cupy.cuda.Device(rank).use()
    by = arithmetic()
    by.kernel.prepare()
    for job in jobs:
        require_memory(job.schedule, rank, by)
    reporter.step(CONNECTING)
    connected = {
        members: nccl.NcclCommunicator(len(members), unique, members.index(rank))
        for members, unique in ids.items()
        if rank in members
    }
    results = [
        _run_job(reporter, rank, job, rank_steps, by, connected, limit_s)
        for job, rank_steps in zip(jobs, steps, strict=True)
    ]
    for unique in connected.values():
        unique.destroy()
    return results, cupy.cuda.runtime.getDeviceProperties(rank)["name"].decode()


def _run_job(reporter: Reporter, rank: int, job: Job, rank_steps: list[Step], by: ByKernel,
             connected: dict, limit_s: float):  # fmt: skip
    import cupy

    reporter.step(f"the inputs of {job.schedule}")
    if job.A is None:
        buffers = _random(job.schedule, rank, by)
    else:
        buffers = placed(job.schedule, rank, by, job.A, job.B)
    cupy.cuda.Device().synchronize()
    moves = _moves(rank, job, buffers, connected)
    streams = OnStreams(rank, job.schedule, rank_steps, by, buffers, moves, connected)
    runs = []
    for _ in range(job.repeats + 1):
        streams.enqueue()
        runs.append(streams.finish(reporter, limit_s))
    moves.close()
    streams.meet(limit_s)  # then nobody has mapped what is freed here
    outputs = {held.part.buffer for held in job.schedule.outputs if held.rank == rank}
    kept = {} if job.A is None else {name: to_host(buffers[name]) for name in outputs}
    del buffers, streams, moves
    cupy.get_default_memory_pool().free_all_blocks()
    return kept, runs[1:]


def _moves(rank: int, job: Job, buffers: Buffers, connected: dict) -> Collectives | DmaEngines:
    if job.moved_by == NCCL:
        return Collectives(rank, connected)
    return DmaEngines.among(rank, job.schedule, buffers, connected[_everyone(job.schedule)])


def _everyone(schedule: Schedule) -> tuple[int, ...]:
    return tuple(range(schedule.ranks))


def require_memory(schedule: Schedule, rank: int, by: ByKernel) -> None:
    """Raises RankFailed where the buffers of this rank do not fit on its GPU, now."""
    from cupy.cuda import runtime

    free, total = runtime.memGetInfo()
    needed = sum(
        buffer.rows * buffer.columns * by.element(buffer.matrix).bytes
        for buffer in schedule.buffers[rank].values()
    )
    if needed + SPARE_BYTES > free:
        raise RankFailed(
            f"GPU {rank} has {free / 1e9:.1f} of {total / 1e9:.1f} GB free, and this rank needs "
            f"{needed / 1e9:.1f} GB and {SPARE_BYTES / 1e9:.1f} GB to spare. End what else runs "
            "there, or take a smaller product or more ranks: all ranks hold parts of one size, so "
            "the GPU with the least memory counts"
        )


def _random(schedule: Schedule, rank: int, by: ByKernel) -> Buffers:
    """Numbers of its own in what it holds of A and B, uniform from -1 to 1."""
    import cupy

    buffers = {
        name: by.empty(buffer.rows, buffer.columns, buffer.matrix)
        for name, buffer in schedule.buffers[rank].items()
    }
    random = cupy.random.RandomState(1 + rank)
    for held in schedule.inputs:
        if held.rank == rank:
            into, element = rows_of(buffers, held.part), by.element(held.matrix)
            for at in range(0, into.shape[0], 1024):  # float32 of the whole may not fit
                rows = into[at : at + 1024]
                values = random.uniform(-1, 1, rows.shape, dtype=cupy.float32)
                rows[...] = element.encode(values, element.storage)
    return buffers


class OnStreams:
    """The steps of a rank on its GPU's streams."""

    def __init__(self, rank: int, schedule: Schedule, rank_steps: list[Step], by: ByKernel,
                 buffers: Buffers, moves: Collectives | DmaEngines, connected: dict):  # fmt: skip
        import cupy

        self._cupy, self.rank, self.own, self._moves = cupy, rank, rank_steps, moves
        self._streams = {
            name: cupy.cuda.Stream(non_blocking=True, priority=PRIORITY.get(name, 0))
            for name in dict.fromkeys([*schedule.streams, COPIES])
        }
        self._connected, self._everyone = connected, _everyone(schedule)
        self._do = {step.name: self._prepared(step, by, buffers) for step in rank_steps}
        self._meeting = cupy.zeros(1, np.float32)
        self._begun, self._ran = None, []

    def enqueue(self) -> None:
        """All steps, behind a point that all ranks reach at about the same time."""
        events, self._ran = {}, []
        copies = self._streams[COPIES]
        self._meet(copies)
        self._begun = copies.record()
        for stream in self._streams.values():
            stream.wait_event(self._begun)
        for step in self.own:
            stream = self._streams[step.stream]
            for name in step.after:
                stream.wait_event(events[name])
            begin = stream.record()
            with stream:
                self._do[step.name](stream)
            events[step.name] = stream.record()
            self._ran.append((step, begin, events[step.name]))

    def finish(self, reporter: Reporter, limit_s: float) -> list[Ran]:
        """When each step ran. Raises RankFailed for one that does not end in time."""
        ran, between = [], self._cupy.cuda.get_elapsed_time
        for step, begin, end in self._ran:
            reporter.step(step.name)
            if not ended(end, 2 * limit_s):  # else the process that watches is gone too
                self._moves.give_up()
                raise RankFailed(_no_end(step, self.rank, 2 * limit_s))
            times = between(self._begun, begin), between(self._begun, end)
            ran.append(Ran(self.rank, step.stream, step.name, kind_of(step.work), *times))
        return ran

    def meet(self, limit_s: float) -> None:
        """Wait until all ranks have come here. Raises RankFailed where they do not in time."""
        stream = self._streams[COPIES]
        self._meet(stream)
        if not ended(stream.record(), 2 * limit_s):
            self._moves.give_up()
            raise RankFailed(f"rank {self.rank}: not all ranks came to the end in {limit_s:g} s")

    def _meet(self, stream) -> None:
        """A sum over all ranks: it ends nowhere before it has begun everywhere."""
        from cupy.cuda import nccl

        at = self._meeting.data.ptr
        self._connected[self._everyone].allReduce(
            at, at, 1, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, stream.ptr
        )

    def _prepared(self, step: Step, by: ByKernel, buffers: Buffers) -> Callable[[Any], None]:
        """What enqueues it on a stream, made once."""
        work = step.work
        if isinstance(work, Collective):
            return self._moves.prepared(step, buffers)
        if isinstance(work, Product):
            a, b, c = (rows_of(buffers, part) for part in (work.a, work.b, work.c))
            with self._streams[step.stream]:  # whose workspaces it takes
                multiply = by.prepared(a, b, c, work.add)
            return lambda stream: multiply()
        terms, into = [rows_of(buffers, term) for term in work.terms], rows_of(buffers, work.into)
        add = rank_sum.prepared(terms, into, by.element("C"), by.kernel.target.sm_count)
        return lambda stream: add()


def _no_end(step: Step, rank: int, limit_s: float) -> str:
    what = "the collective" if isinstance(step.work, Collective) else "it"
    others = (
        f"One of ranks {', '.join(map(str, step.work.members))} has not come to it: the report of "
        "that rank says where it is. NCCL_DEBUG=INFO shows what NCCL tries"
        if isinstance(step.work, Collective)
        else "A kernel that loops, or a GPU that is taken by others"
    )
    return f"rank {rank}: {step.name!r} did not end in {limit_s:g} s; {what} was given up. {others}"


def ended(event, limit_s: float) -> bool:
    """Whether it is done within so many seconds."""
    deadline = time.monotonic() + limit_s
    while not event.done:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def link_rates(ranks: int, size: int = 2**29, repeats: int = 9, limit_s: float = LIMIT_S):
    """Bytes a second of the link, from a sum over all ranks and from a copy between two GPUs.

    Of a sum of n bytes over p ranks each must send and receive 2 (p - 1)/p · n. A pair of lists,
    a number for each repeat. Raises NoGpu, NotEnoughGpus, RankFailed.
    """
    require_gpus(ranks)
    from cupy.cuda import nccl

    unique = nccl.get_unique_id()
    arguments = [(rank, ranks, unique, size, repeats, limit_s) for rank in range(ranks)]
    return run_ranks(_link_of_rank, arguments, limit_s)[0]


def _link_of_rank(reporter: Reporter, rank: int, ranks: int, unique, size: int, repeats: int,
                  limit_s: float):  # fmt: skip
    import cupy
    from cupy.cuda import nccl, runtime

    cupy.cuda.Device(rank).use()
    reporter.step(CONNECTING)
    communicator = nccl.NcclCommunicator(ranks, unique, rank)
    stream = cupy.cuda.Stream(non_blocking=True)
    numbers = cupy.ones(size // 4, np.float32)

    def add() -> None:
        at = numbers.data.ptr
        communicator.allReduce(at, at, numbers.size, nccl.NCCL_FLOAT32, nccl.NCCL_MAX, stream.ptr)

    reporter.step("all-reduce")
    moved = 2 * (ranks - 1) / ranks * numbers.nbytes
    summed = [moved / ms * 1e3 for ms in _times_ms(add, stream, repeats, limit_s)]
    copied = []
    if rank == 0 and ranks > 1:
        with cupy.cuda.Device(1):
            there = cupy.empty_like(numbers)
        if runtime.deviceCanAccessPeer(0, 1):  # else the copy goes by way of the host
            runtime.deviceEnablePeerAccess(1)
        reporter.step("peer copy")

        def copy() -> None:
            runtime.memcpyPeerAsync(
                there.data.ptr, 1, numbers.data.ptr, 0, numbers.nbytes, stream.ptr
            )

        copied = [numbers.nbytes / ms * 1e3 for ms in _times_ms(copy, stream, repeats, limit_s)]
    communicator.destroy()
    return summed, copied


def _times_ms(start: Callable[[], None], stream, repeats: int, limit_s: float) -> list[float]:
    """Of each of `repeats`, after one to warm up. Raises RankFailed for one that does not end."""
    import cupy

    times = []
    for _ in range(repeats + 1):
        begin = stream.record()
        start()
        end = stream.record()
        if not ended(end, limit_s):
            raise RankFailed(f"it did not end in {limit_s:g} s")
        times.append(cupy.cuda.get_elapsed_time(begin, end))
    return times[1:]
