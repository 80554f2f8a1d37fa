"""A schedule run on the GPUs of this host: a process and a GPU for each rank.

Steps are enqueued at once, on streams that wait for events; events around them are the timeline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gemmlab.cuda.device import NoGpu, require_gpu
from gemmlab.lessons.multi_gpu.gpus import rank_sum
from gemmlab.lessons.multi_gpu.gpus.dma_engines import DmaEngines
from gemmlab.lessons.multi_gpu.gpus.team import RankFailed, run_ranks
from gemmlab.lessons.multi_gpu.in_turn import Buffers, ByKernel, gathered, placed, rows_of, to_host
from gemmlab.lessons.multi_gpu.order import in_order, require_sound
from gemmlab.lessons.multi_gpu.schedules import (
    ALL_GATHER,
    COPIES,
    Collective,
    Part,
    Product,
    Schedule,
    Step,
)
from gemmlab.lessons.multi_gpu.timeline import Ran, Timeline, kind_of

LIMIT_S = 30.0  # for each step, and in the mean for each run
START_S = 120.0  # until all ranks are connected
POLL_S = 0.0005
NCCL, DMA_ENGINES = "NCCL", "DMA engines"  # what moves parts from one GPU to another
PRIORITY = {COPIES: -1}  # an SM that gets free goes to NCCL's blocks before those of a product


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


def run(jobs: Sequence[Job], arithmetic: Callable[[], ByKernel]) -> list[Measured]:
    """One after the other, all with as many ranks, by the same processes.

    `arithmetic`: makes the arithmetic in the process of a rank. Raises ScheduleError, NoGpu and
    NotEnoughGpus before anything is done, and RankFailed.
    """
    count = jobs[0].schedule.ranks
    for job in jobs:
        require_sound(job.schedule)
    require_gpus(count)
    from cupy.cuda import nccl

    unique = nccl.get_unique_id()
    arguments = [(rank, jobs, arithmetic, unique) for rank in range(count)]
    runs = sum(job.repeats + 1 for job in jobs)
    by_rank = run_ranks(_rank, arguments, START_S + runs * LIMIT_S)
    names = sorted({name for _, name in by_rank})
    source = f"Measured on {count} × {' and '.join(names)}, by events"
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


# ---- in the process of a rank --------------------------------------------------------------------


def _rank(rank: int, jobs: Sequence[Job], arithmetic, unique):
    """Of each job its outputs and the steps of each repeat; and the name of its GPU."""
    import cupy
    from cupy.cuda import nccl

    cupy.cuda.Device(rank).use()
    by = arithmetic()
    by.kernel.prepare()
    communicator = nccl.NcclCommunicator(jobs[0].schedule.ranks, unique, rank)
    results = [_run_job(rank, job, by, communicator) for job in jobs]
    communicator.destroy()
    return results, cupy.cuda.runtime.getDeviceProperties(rank)["name"].decode()


def _run_job(rank: int, job: Job, by: ByKernel, communicator):
    import cupy

    if job.A is None:
        buffers = _random(job.schedule, rank, by)
    else:
        buffers = placed(job.schedule, rank, by, job.A, job.B)
    cupy.cuda.Device().synchronize()
    if job.moved_by == NCCL:
        moves = Collectives(rank, communicator)
    else:
        moves = DmaEngines.among(rank, job.schedule, buffers, communicator)
    streams = OnStreams(rank, job.schedule, by, buffers, moves, communicator)
    runs = []
    for _ in range(job.repeats + 1):
        streams.enqueue()
        runs.append(streams.finish())
    moves.close()
    streams.barrier()  # then nobody has mapped what is freed here
    outputs = {held.part.buffer for held in job.schedule.outputs if held.rank == rank}
    kept = {} if job.A is None else {name: to_host(buffers[name]) for name in outputs}
    del buffers, streams, moves
    cupy.get_default_memory_pool().free_all_blocks()
    return kept, runs[1:]


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

    def __init__(
        self, rank: int, schedule: Schedule, by: ByKernel, buffers: Buffers,
        moves: Collectives | DmaEngines, communicator,
    ):  # fmt: skip
        import cupy

        self._cupy, self.rank, self._moves = cupy, rank, moves
        self.steps = [step for unit in in_order(schedule) for at, step in unit if at == rank]
        self._streams = {
            name: cupy.cuda.Stream(non_blocking=True, priority=PRIORITY.get(name, 0))
            for name in dict.fromkeys([*schedule.streams, COPIES])
        }
        self._communicator = communicator
        self._do = {step.name: self._prepared(step, by, buffers) for step in self.steps}
        self._barrier_data = cupy.zeros(1, np.float32)
        self._begun, self._ran = None, []

    def enqueue(self) -> None:
        """All steps, behind a point that all ranks reach at about the same time."""
        events, self._ran = {}, []
        copies = self._streams[COPIES]
        self._enqueue_barrier(copies)
        self._begun = copies.record()
        for stream in self._streams.values():
            stream.wait_event(self._begun)
        for step in self.steps:
            stream = self._streams[step.stream]
            for name in step.after:
                stream.wait_event(events[name])
            begin = stream.record()
            with stream:
                self._do[step.name](stream)
            events[step.name] = stream.record()
            self._ran.append((step, begin, events[step.name]))

    def finish(self) -> list[Ran]:
        """When each step ran. Raises RankFailed for one that does not end in time."""
        ran, between = [], self._cupy.cuda.get_elapsed_time
        for step, begin, end in self._ran:
            if not ended(end):
                self._moves.give_up()
                raise RankFailed(_no_end(step, self.rank))
            times = between(self._begun, begin), between(self._begun, end)
            ran.append(Ran(self.rank, step.stream, step.name, kind_of(step.work), *times))
        return ran

    def barrier(self) -> None:
        """Wait until all ranks have come here. Raises RankFailed where they do not in time."""
        stream = self._streams[COPIES]
        self._enqueue_barrier(stream)
        if not ended(stream.record()):
            self._moves.give_up()
            raise RankFailed(f"rank {self.rank}: not all ranks came to the end in {LIMIT_S:g} s")

    def _enqueue_barrier(self, stream) -> None:
        """A sum over all ranks: it ends nowhere before it has begun everywhere."""
        from cupy.cuda import nccl

        at = self._barrier_data.data.ptr
        self._communicator.allReduce(at, at, 1, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, stream.ptr)

    def _prepared(self, step: Step, by: ByKernel, buffers: Buffers) -> Callable[[Any], None]:
        """What enqueues it on a stream, made once."""
        work = step.work
        if isinstance(work, Collective):
            return self._moves.prepared(step, buffers)
        if isinstance(work, Product):
            a, b, c = (rows_of(buffers, part) for part in (work.a, work.b, work.c))
            with self._streams[step.stream]:  # whose workspaces it takes
                multiply = by.prepared(a, b, c)
            return lambda stream: multiply()
        terms, into = [rows_of(buffers, term) for term in work.terms], rows_of(buffers, work.into)
        add = rank_sum.prepared(terms, into, by.element("C"), by.kernel.target.sm_count)
        return lambda stream: add()


def _no_end(step: Step, rank: int) -> str:
    why = "A kernel loops, or others use the GPU"
    if isinstance(step.work, Collective):
        members = ", ".join(map(str, step.work.members))
        why = f"One of ranks {members} has not come to it; NCCL_DEBUG=INFO shows what NCCL tries"
    return f"rank {rank}: {step.name!r} did not end in {LIMIT_S:g} s and was given up. {why}"


def ended(event) -> bool:
    """Whether it is done within LIMIT_S."""
    deadline = time.monotonic() + LIMIT_S
    while not event.done:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


# ---- NCCL ----------------------------------------------------------------------------------------


class Collectives:
    """By NCCL, whose kernels take SMs from the products, or wait for some."""

    def __init__(self, rank: int, communicator):
        self._rank, self._communicator = rank, communicator

    def prepared(self, step: Step, buffers: Buffers) -> Callable[[Any], None]:
        """What enqueues the collective of a step on a stream."""
        return partial(_communicate, step.work, self._rank, buffers, self._communicator)

    def give_up(self) -> None:
        """End what still waits for others."""
        self._communicator.abort()

    def close(self) -> None:
        """Nothing is held."""


def _communicate(work: Collective, rank: int, buffers: Buffers, communicator, stream) -> None:
    """Enqueue a collective, of bytes.

    Parts of one size go by ncclAllGather, others by a broadcast of each; messages in one group.
    """
    from cupy.cuda import nccl

    kind, sent = nccl.NCCL_UINT8, work.sent_by(rank)
    kept = {message.source: message.kept for message in work.kept_by(rank)}

    def rows(part):
        array = rows_of(buffers, part)
        return array.data.ptr, array.nbytes

    if work.kind == ALL_GATHER and _lie_in_order([part for _, part in sorted(kept.items())]):
        source, size = rows(sent[0].sent)
        communicator.allGather(source, rows(kept[0])[0], size, kind, stream.ptr)
        return
    nccl.groupStart()
    if work.kind == ALL_GATHER:
        for root, part in sorted(kept.items()):
            target, size = rows(part)
            source = rows(sent[0].sent)[0] if root == rank else target
            communicator.broadcast(source, target, size, kind, root, stream.ptr)
    else:
        for message in sent:
            communicator.send(*rows(message.sent), kind, message.target, stream.ptr)
        for source, part in kept.items():
            communicator.recv(*rows(part), kind, source, stream.ptr)
    nccl.groupEnd()


def _lie_in_order(parts: list[Part]) -> bool:
    """Whether they are of one size, and lie as ncclAllGather puts them."""
    first = parts[0]
    return all(
        (part.buffer, part.rows, part.start)
        == (first.buffer, first.rows, first.start + at * first.rows)
        for at, part in enumerate(parts)
    )
