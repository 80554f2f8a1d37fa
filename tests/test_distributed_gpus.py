"""The runner on GPUs, with a stand-in for CuPy: what is enqueued where, and behind which events.

Nothing runs when it is enqueued. Then the stand-in runs what lies on the streams in a random order
that streams, events and flags allow: a wait that was forgotten would give wrong numbers.
"""

import ctypes
import itertools
import multiprocessing
import os
import signal
import time
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from test_cublas import Placed

from gemmlab.cuda.device import NoGpu
from gemmlab.ladder import Problem
from gemmlab.ladder.precision import FLOAT32
from gemmlab.lessons.multi_gpu import in_turn
from gemmlab.lessons.multi_gpu import schedules as make
from gemmlab.lessons.multi_gpu.gpus import dma_engines, rank_sum, runner
from gemmlab.lessons.multi_gpu.gpus.dma_engines import DmaEngines
from gemmlab.lessons.multi_gpu.gpus.runner import DMA_ENGINES, NCCL, Collectives
from gemmlab.lessons.multi_gpu.gpus.team import RankFailed, run_ranks

UNEVEN, EVEN = Problem(37, 29, 41), Problem(24, 16, 32)


class Event:
    def __init__(self, host):
        self.host, self.at = host, None

    def synchronize(self):
        if self.host.runs_by_itself:
            self.host.run()
        assert self.at is not None


class Stream:
    def __init__(self, host):
        self.host, self.queue = host, []
        self.ptr = id(self)
        host.streams[self.ptr] = self

    def record(self):
        event = Event(self.host)
        self.queue.append(("record", event))
        return event

    def wait_event(self, event):
        self.queue.append(("wait", event))

    def synchronize(self):
        self.record().synchronize()

    def __enter__(self):
        self.host.current = self

    def __exit__(self, *_):
        self.host.current = None


class Communicator:
    """Calls of one member; they meet those of the others by their number."""

    def __init__(self, host, members, me):
        self.host, self.members, self.me = host, members, me
        self.calls = itertools.count()

    def _call(self, stream, *what):
        if self.host.group is not None:
            self.host.group.append((self, stream, what))
        else:
            self._enqueue(stream, [what])

    def _enqueue(self, stream, calls):
        key = self.members, next(self.calls)
        self.host.streams[stream].queue.append(("meet", key, self.me, calls))

    def allReduce(self, source, target, count, kind, op, stream):
        self._call(stream, "meeting")

    def allGather(self, source, target, count, kind, stream):
        self.host.used.add("allGather")
        self._call(stream, "gather", source, target, count)

    def send(self, source, count, kind, peer, stream):
        self.host.used.add("send")
        self._call(stream, "send", source, count, peer)

    def recv(self, target, count, kind, peer, stream):
        self._call(stream, "recv", target, count, peer)

    def destroy(self):
        pass


def move(source, target, count):
    ctypes.memmove(target, source, count)


def flag(address):
    return ctypes.c_uint32.from_address(address)


class Host:
    """Streams, events, collectives."""

    def __init__(self, seed, runs_by_itself=False):
        self.streams, self.group, self.current, self.used = {}, None, None, set()
        self.random, self.clock, self.runs_by_itself = np.random.default_rng(seed), 0.0, runs_by_itself  # fmt: skip # noqa: E501

    def enqueue(self, work):
        self.current.queue.append(("do", work))

    def copy(self, target, source, size, kind, stream):
        self.used.add("copy")
        self.streams[stream].queue.append(("do", partial(move, source, target, size)))

    def write(self, stream, address, value):
        def work():
            flag(address).value = value

        self.streams[stream].queue.append(("do", work))

    def wait(self, stream, address, value):
        self.streams[stream].queue.append(("until", address, value))

    def start_group(self):
        self.group = []

    def end_group(self):
        calls, self.group = self.group, None
        if calls:
            communicator, stream = calls[0][0], calls[0][1]
            communicator._enqueue(stream, [call[2] for call in calls])

    def run(self):
        """Everything, in a random order that is allowed. What cannot go on stays."""
        while True:
            ready = [
                stream for stream in self.streams.values() if stream.queue and self._ready(stream)
            ]
            if not ready:
                return
            stream = ready[self.random.integers(len(ready))]
            self.clock += 1.0
            what, *rest = stream.queue[0]
            if what == "meet":
                self._meet(rest[0])
                continue
            stream.queue.pop(0)
            if what == "record":
                rest[0].at = self.clock
            elif what == "do":
                rest[0]()

    def _ready(self, stream):
        what, *rest = stream.queue[0]
        if what == "wait":
            return rest[0].at is not None
        if what == "until":
            return flag(rest[0]).value >= rest[1]
        if what == "meet":
            return len(self._members(rest[0])) == len(rest[0][0])
        return True

    def _members(self, key):
        heads = [stream for stream in self.streams.values() if stream.queue]
        return [
            stream for stream in heads if stream.queue[0][0] == "meet" and stream.queue[0][1] == key
        ]

    def _meet(self, key):
        streams = self._members(key)
        calls = {}
        for stream in streams:
            _, _, me, rank_calls = stream.queue.pop(0)
            calls[me] = rank_calls
        for me, rank_calls in calls.items():
            for at, call in enumerate(rank_calls):
                if call[0] == "gather":
                    for root, other in calls.items():
                        move(other[at][1], call[2] + root * call[3], call[3])
                elif call[0] == "recv":
                    _, target, count, peer = call
                    (sent,) = [c for c in calls[peer] if c[0] == "send" and c[3] == me]
                    assert sent[2] == count, "what is sent is what is received"
                    move(sent[1], target, count)


@pytest.fixture
def host(monkeypatch):
    """Replaces parts of CuPy by the stand-in of a seed."""
    import cupy
    from cupy.cuda import nccl

    def install(seed, **how):
        made = Host(seed, **how)
        monkeypatch.setattr(cupy.cuda, "Stream", lambda non_blocking, priority: Stream(made))
        monkeypatch.setattr(cupy.cuda, "get_elapsed_time", lambda begin, end: end.at - begin.at)
        monkeypatch.setattr(cupy, "zeros", lambda n, t: np.zeros(n, t).view(Placed))
        for name, value in {
            "groupStart": made.start_group, "groupEnd": made.end_group, "NCCL_UINT8": 1,
            "NCCL_FLOAT32": 7, "NCCL_SUM": 0, "available": True,
        }.items():  # fmt: skip
            monkeypatch.setattr(nccl, name, value, raising=False)
        monkeypatch.setattr(cupy.cuda.runtime, "memcpyAsync", made.copy)
        monkeypatch.setattr(dma_engines, "write_value", made.write)
        monkeypatch.setattr(dma_engines, "wait_for_value", made.wait)
        monkeypatch.setattr(rank_sum, "prepared", lambda *given: prepared_sum(made, *given))
        return made

    return install


def prepared_sum(host, terms, into, element, sm_count):
    def add():
        into[...] = sum(terms)

    return lambda: host.enqueue(add)


class Whole:
    """float64, exact for small whole numbers, enqueued on the current stream."""

    kernel = SimpleNamespace(target=SimpleNamespace(sm_count=1), prepare=lambda: None)

    def __init__(self, host):
        self.host = host

    def element(self, matrix):
        return FLOAT32

    def encoded(self, values, matrix):
        return values

    def empty(self, rows, columns, matrix):
        return np.full((rows, columns), np.nan).view(Placed)

    def prepared(self, a, b, c):
        def work():
            c[...] = np.asarray(a) @ np.asarray(b)

        assert self.host.current is not None, "workspaces are those of a stream"
        return lambda: self.host.enqueue(work)


def on_streams(host, schedule, A, B, moved_by=NCCL):
    """Each rank's streams and buffers, all in this process."""
    made, by, ranks = [], Whole(host), range(schedule.ranks)
    placed = [in_turn.placed(schedule, rank, by, A, B) for rank in ranks]
    placed = [{name: array.view(Placed) for name, array in buffers.items()} for buffers in placed]
    shape = dma_engines.flags_shape(schedule)
    flags = [np.zeros(shape, np.uint32).view(Placed) for _ in ranks]
    shown = [{"flags": flags[rank], **placed[rank]} for rank in ranks]
    there = {r: {name: array.data.ptr for name, array in shown[r].items()} for r in ranks}
    for rank in ranks:
        communicator = Communicator(host, tuple(ranks), rank)
        others = {other: pointers for other, pointers in there.items() if other != rank}
        moves = Collectives(rank, communicator)
        if moved_by == DMA_ENGINES:
            moves = DmaEngines(rank, schedule, flags[rank], others)
        streams = runner.OnStreams(rank, schedule, by, placed[rank], moves, communicator)
        made.append((streams, placed[rank]))
    return made


def matrices(problem):
    random = np.random.default_rng(3)
    return (
        random.integers(-9, 9, shape).astype(float)
        for shape in (problem.shape_of_a, problem.shape_of_b)
    )


def schedules(problem):
    return (
        make.column_parallel(problem, 2, 3), make.column_parallel(problem, 3, 2),
        make.row_parallel(problem, 2, 3), make.row_parallel(problem, 3, 2),
    )  # fmt: skip


both_ways = pytest.mark.parametrize("moved_by", [NCCL, DMA_ENGINES])


@both_ways
@pytest.mark.parametrize("problem", [UNEVEN, EVEN], ids=str)
def test_in_any_order_that_streams_and_events_allow_the_product_is_right(host, problem, moved_by):
    A, B = matrices(problem)
    for seed, schedule in itertools.product(range(3), schedules(problem)):
        machine = host(seed)
        ranks = on_streams(machine, schedule, A, B, moved_by)
        for _ in range(2):  # a second run finds the slots of the first
            for streams, _ in ranks:
                streams.enqueue()
            machine.run()
            ran = [step for streams, _ in ranks for step in streams.finish()]
            C = in_turn.gathered(schedule, [buffers for _, buffers in ranks], Whole(machine))
            assert (C == A @ B).all(), schedule
        assert {(step.rank, step.name) for step in ran} == {(r, s.name) for r, s in schedule}
        assert all(0 < step.start_ms < step.end_ms for step in ran)
        assert (machine.used == {"copy"}) == (moved_by == DMA_ENGINES)


def wrong_orders(host, schedule, moved_by, change=lambda machine: None):
    """In how many of 40 random orders the product is wrong."""
    A, B = matrices(EVEN)
    wrong = 0
    for seed in range(40):
        machine = host(seed)
        change(machine)
        ranks = on_streams(machine, schedule, A, B, moved_by)
        for streams, _ in ranks:
            streams.enqueue()
        machine.run()
        C = in_turn.gathered(schedule, [buffers for _, buffers in ranks], Whole(machine))
        wrong += not (C == A @ B).all()
    return wrong


@both_ways
def test_a_wait_that_is_left_out_shows_in_some_order(host, moved_by):
    whole = make.column_parallel(EVEN, 2, 3)
    assert wrong_orders(host, whole.without(0, "product 1", "gather 1"), moved_by)


@pytest.mark.parametrize("kind", [dma_engines.READY, dma_engines.DONE])
def test_both_flags_of_a_copy_are_needed(host, monkeypatch, kind):
    schedule = make.row_parallel(EVEN, 2, 4)
    assert wrong_orders(host, schedule, DMA_ENGINES) == 0
    kept = DmaEngines._flag

    def changed(moves, at_kind, *where):
        """A flag that is set from the beginning, instead of those of this kind."""
        return always.data.ptr if at_kind == kind else kept(moves, at_kind, *where)

    always = np.full(1, 99, np.uint32).view(Placed)
    monkeypatch.setattr(DmaEngines, "_flag", changed)
    assert wrong_orders(host, schedule, DMA_ENGINES)


def test_parts_of_one_size_go_by_all_gather_others_by_messages(host):
    for problem, used in ((EVEN, {"allGather"}), (UNEVEN, {"send"})):
        machine, schedule = host(0), make.column_parallel(problem, 2, 1)
        for streams, _ in on_streams(machine, schedule, *matrices(problem)):
            streams.enqueue()
        assert machine.used == used


def test_a_rank_runs_job_after_job_and_gives_back_its_part_of_c(host, monkeypatch):
    import cupy
    from cupy.cuda import nccl

    machine = host(0, runs_by_itself=True)
    nothing = SimpleNamespace(use=lambda: None, synchronize=lambda: None)
    pool = SimpleNamespace(free_all_blocks=lambda: None)
    for where, name, value in (
        (cupy.cuda, "Device", lambda rank=0: nothing),
        (cupy, "get_default_memory_pool", lambda: pool),
        (nccl, "NcclCommunicator", lambda n, _, me: Communicator(machine, tuple(range(n)), me)),
    ):  # fmt: skip
        monkeypatch.setattr(where, name, value, raising=False)
    A, B = matrices(EVEN)
    jobs = [
        runner.Job(make.one_rank(EVEN), A, B, repeats=2),
        runner.Job(make.row_parallel(EVEN, 1, 3), A, B),
    ]
    results = runner._rank(0, jobs, partial(Whole, machine), None)
    for (kept, runs), job in zip(results, jobs, strict=True):
        C = in_turn.gathered(job.schedule, [kept], Whole(machine))
        assert (C == A @ B).all()
        assert len(runs) == job.repeats
        for stream in job.schedule.streams:
            names = [step.name for step in job.schedule.steps[0] if step.stream == stream]
            assert [step.name for step in runs[0] if step.stream == stream] == names


def test_missing_gpus_and_nccl_are_reported_before_anything_starts(monkeypatch):
    from cupy.cuda import nccl, runtime

    schedule = make.column_parallel(EVEN, 2)
    with pytest.raises(NoGpu, match="Running on several GPUs needs a GPU"):
        runner.run([runner.Job(schedule)], None)
    monkeypatch.setattr(runner, "require_gpu", lambda purpose: None)
    monkeypatch.setattr(nccl, "available", False)
    with pytest.raises(NoGpu, match="CuPy finds no NCCL: pip install"):
        runner.run([runner.Job(schedule)], None)
    monkeypatch.setattr(nccl, "available", True)
    monkeypatch.setattr(runtime, "getDeviceCount", lambda: 1)
    with pytest.raises(NoGpu, match="2 ranks need a GPU each, and CUDA sees 1"):
        runner.run([runner.Job(schedule)], None)


def work(how, rank):
    if rank == 1 and how == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 1 and how == "fails":
        raise ValueError("no such rung")
    if how != "ends":
        time.sleep(60)
    return 10 * rank


@pytest.mark.parametrize(
    ("how", "limit_s", "message"),
    [
        ("dies", 50, "rank 1 of 2 died"),
        ("fails", 50, "rank 1 of 2 failed: ValueError: no such rung"),
        ("stands still", 1, "of 2 ranks these did not end in 1 s: 0, 1"),
    ],
)
def test_a_rank_that_fails_ends_all_ranks(how, limit_s, message):
    before = set(multiprocessing.active_children())
    with pytest.raises(RankFailed, match=message):
        run_ranks(work, [(how, 0), (how, 1)], limit_s)
    assert set(multiprocessing.active_children()) <= before


def test_results_of_ranks_come_in_their_order():
    assert run_ranks(work, [("ends", 0), ("ends", 1)], 50) == [0, 10]
