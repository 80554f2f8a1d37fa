"""A schedule run on the GPUs of this host: a process and a GPU for each rank.

Steps are enqueued at once, on streams that wait for events; events around them are the timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gemmlab.cuda.device import NoGpu, require_gpu
from gemmlab.lessons.multi_gpu.gpus import rank_sum
from gemmlab.lessons.multi_gpu.gpus.dma_engines import DmaEngines
from gemmlab.lessons.multi_gpu.gpus.team import run_ranks
from gemmlab.lessons.multi_gpu.in_turn import (
    Buffers,
    ByKernel,
    empty_buffers,
    gathered,
    placed,
    rows_of,
    to_host,
)
from gemmlab.lessons.multi_gpu.order import in_order
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

LIMIT_S = 30.0  # for each run, in the mean
START_S = 120.0  # until all ranks are connected
NCCL, DMA_ENGINES = "NCCL", "DMA engines"  # what moves parts from one GPU to another
PRIORITY = {COPIES: -1}  # an SM that gets free goes to NCCL's blocks before those of a product


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
    """Raises NoGpu, also where there are fewer than ranks, or no NCCL."""
    require_gpu("Running on several GPUs")
    from cupy.cuda import nccl, runtime

    if not nccl.available:
        raise NoGpu(
            "CuPy finds no NCCL: pip install nvidia-nccl-cu13, or nvidia-nccl-cu12 for a CuPy of "
            "CUDA 12, then again"
        )
    if (there := runtime.getDeviceCount()) < ranks:
        raise NoGpu(f"{ranks} ranks need a GPU each, and CUDA sees {there} here")


def run(jobs: Sequence[Job], arithmetic: Callable[[], ByKernel]) -> list[Measured]:
    """One after the other, all with as many ranks, by the same processes.

    `arithmetic`: makes the arithmetic in the process of a rank. Raises NoGpu before anything is
    done, and RankFailed.
    """
    count = jobs[0].schedule.ranks
    require_gpus(count)
    from cupy.cuda import nccl

    unique = nccl.get_unique_id()
    arguments = [(rank, jobs, arithmetic, unique) for rank in range(count)]
    runs = sum(job.repeats + 1 for job in jobs)
    by_rank = run_ranks(_rank, arguments, START_S + runs * LIMIT_S)
    of_jobs = zip(*by_rank, strict=True)
    return [_measured(job, ran, arithmetic) for job, ran in zip(jobs, of_jobs, strict=True)]


def _measured(job: Job, of_ranks: tuple, arithmetic) -> Measured:
    buffers, runs = zip(*of_ranks, strict=True)
    C = None
    if job.A is not None:
        C = gathered(job.schedule, list(buffers), arithmetic())
    timelines = (
        Timeline(job.schedule, tuple(ran for of_rank in each for ran in of_rank), "by events")
        for each in zip(*runs, strict=True)
    )
    return Measured(C, tuple(timelines))


# ---- in the process of a rank --------------------------------------------------------------------


def _rank(rank: int, jobs: Sequence[Job], arithmetic, unique) -> list:
    """Of each job its outputs and the steps of each repeat."""
    import cupy
    from cupy.cuda import nccl

    cupy.cuda.Device(rank).use()
    by = arithmetic()
    by.kernel.prepare()
    communicator = nccl.NcclCommunicator(jobs[0].schedule.ranks, unique, rank)
    results = [_run_job(rank, job, by, communicator) for job in jobs]
    communicator.destroy()
    return results


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

    buffers = empty_buffers(schedule, rank, by)
    random = cupy.random.RandomState(1 + rank)
    for held in schedule.inputs:
        if held.rank == rank:
            into, element = rows_of(buffers, held.part), by.element(held.matrix)
            values = random.uniform(-1, 1, into.shape, dtype=cupy.float32)
            into[...] = element.encode(values, element.storage)
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
        """When each step ran."""
        ran, between = [], self._cupy.cuda.get_elapsed_time
        for step, begin, end in self._ran:
            end.synchronize()
            times = between(self._begun, begin), between(self._begun, end)
            ran.append(Ran(self.rank, step.stream, step.name, kind_of(step.work), *times))
        return ran

    def barrier(self) -> None:
        """Wait until all ranks have come here."""
        stream = self._streams[COPIES]
        self._enqueue_barrier(stream)
        stream.synchronize()

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


# ---- NCCL ----------------------------------------------------------------------------------------


class Collectives:
    """By NCCL, whose kernels take SMs from the products, or wait for some."""

    def __init__(self, rank: int, communicator):
        self._rank, self._communicator = rank, communicator

    def prepared(self, step: Step, buffers: Buffers) -> Callable[[Any], None]:
        """What enqueues the collective of a step on a stream."""
        return partial(self._enqueue, step.work, buffers)

    def close(self) -> None:
        """Nothing is held."""

    def _enqueue(self, work: Collective, buffers: Buffers, stream) -> None:
        """Bytes. Parts of one size that are for all go by ncclAllGather, others in one group."""
        from cupy.cuda import nccl

        def rows(part: Part) -> tuple[int, int]:
            array = rows_of(buffers, part)
            return array.data.ptr, array.nbytes

        kind, sent = nccl.NCCL_UINT8, work.sent_by(self._rank)
        kept = sorted(work.kept_by(self._rank), key=lambda message: message.source)
        sizes = {message.kept.rows for message in kept}
        if work.kind == ALL_GATHER and len(sizes) == 1:  # one behind the other, in order of ranks
            source, size = rows(sent[0].sent)
            target, _ = rows(kept[0].kept)
            self._communicator.allGather(source, target, size, kind, stream.ptr)
            return
        nccl.groupStart()
        for message in sent:
            self._communicator.send(*rows(message.sent), kind, message.target, stream.ptr)
        for message in kept:
            self._communicator.recv(*rows(message.kept), kind, message.source, stream.ptr)
        nccl.groupEnd()
