"""The runner on GPUs, with a stand-in for CuPy: what is enqueued where, and behind which events.

Nothing runs when it is enqueued. Then the stand-in runs what lies on the streams in a random order
that streams and events allow: a wait that was forgotten would give wrong numbers.
"""

import itertools
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from gemmlab.cuda.device import NoGpu
from gemmlab.distributed import by_nccl, in_turn, rank_sum
from gemmlab.distributed import schedules as make
from gemmlab.distributed.order import in_order
from gemmlab.distributed.ranks import Grid, ScheduleError
from gemmlab.distributed.steps import Collective
from gemmlab.distributed.team import RankFailed
from gemmlab.ladder import Problem
from gemmlab.ladder.element_types import FLOAT32

UNEVEN, EVEN = Problem(37, 29, 41), Problem(24, 16, 32)


class Array(np.ndarray):
    """NumPy's, with the address where CuPy has it."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.__array_interface__["data"][0])


class Event:
    def __init__(self, host):
        self.host, self.at = host, None

    @property
    def done(self):
        if self.host.runs_by_itself:
            self.host.run()
        return self.at is not None


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

    def __enter__(self):
        self.host.current = self

    def __exit__(self, *_):
        self.host.current = None


class Communicator:
    """Calls of one member; they meet those of the others by their number."""

    def __init__(self, host, members, me):
        self.host, self.members, self.me = host, members, me
        self.calls, self.aborted = itertools.count(), False

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
        for root in range(len(self.members)):
            self._gather = (source, target + root * count, count, root)
        self._call(stream, "gather", source, target, count)

    def broadcast(self, source, target, count, kind, root, stream):
        self.host.used.add("broadcast")
        self._call(stream, "broadcast", source, target, count, root)

    def send(self, source, count, kind, peer, stream):
        self.host.used.add("send")
        self._call(stream, "send", source, count, peer)

    def recv(self, target, count, kind, peer, stream):
        self._call(stream, "recv", target, count, peer)

    def abort(self):
        self.aborted = True

    def destroy(self):
        pass


def move(source, target, count):
    import ctypes

    ctypes.memmove(target, source, count)


class Host:
    """Streams, events, collectives."""

    def __init__(self, seed, runs_by_itself=False):
        self.streams, self.group, self.current, self.used = {}, None, None, set()
        self.random, self.clock, self.runs_by_itself = np.random.default_rng(seed), 0.0, runs_by_itself  # fmt: skip # noqa: E501

    def enqueue(self, work):
        self.current.queue.append(("do", work))

    def start_group(self):
        self.group = []

    def end_group(self):
        calls, self.group = self.group, None
        if calls:
            communicator, stream = calls[0][0], calls[0][1]
            communicator._enqueue(stream, [one[2] for one in calls])

    def run(self):
        """Everything, in a random order that is allowed. What cannot go on stays."""
        while True:
            ready = [one for one in self.streams.values() if one.queue and self._ready(one)]
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
        if what == "meet":
            return len(self._members(rest[0])) == len(rest[0][0])
        return True

    def _members(self, key):
        heads = [one for one in self.streams.values() if one.queue]
        return [one for one in heads if one.queue[0][0] == "meet" and one.queue[0][1] == key]

    def _meet(self, key):
        streams = self._members(key)
        calls = {}
        for one in streams:
            _, _, me, own = one.queue.pop(0)
            calls[me] = own
        for me, own in calls.items():
            for at, call in enumerate(own):
                if call[0] == "gather":
                    for root, other in calls.items():
                        move(other[at][1], call[2] + root * call[3], call[3])
                elif call[0] == "broadcast":
                    _, _, target, count, root = call
                    assert calls[root][at][3] == count, "all members name the same size"
                    move(calls[root][at][1], target, count)
                elif call[0] == "recv":
                    _, target, count, peer = call
                    (sent,) = [c for c in calls[peer] if c[0] == "send" and c[3] == me]
                    assert sent[2] == count, "what is sent is what is received"
                    move(sent[1], target, count)


@pytest.fixture
def host(monkeypatch):
    """Puts the stand-in of a seed in place of CuPy's parts."""
    import cupy
    from cupy.cuda import nccl

    def install(seed, **how):
        made = Host(seed, **how)
        monkeypatch.setattr(cupy.cuda, "Stream", lambda non_blocking, priority: Stream(made))
        monkeypatch.setattr(cupy.cuda, "get_elapsed_time", lambda begin, end: end.at - begin.at)
        monkeypatch.setattr(cupy, "zeros", lambda n, t: np.zeros(n, t).view(Array))
        for name, value in {
            "groupStart": made.start_group, "groupEnd": made.end_group, "NCCL_UINT8": 1,
            "NCCL_FLOAT32": 7, "NCCL_SUM": 0, "available": True,
        }.items():  # fmt: skip
            monkeypatch.setattr(nccl, name, value, raising=False)
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
        return np.full((rows, columns), np.nan).view(Array)

    def prepared(self, a, b, c, add):
        def work():
            c[...] = np.asarray(a) @ np.asarray(b) + (c if add else 0)

        assert self.host.current is not None, "workspaces are those of a stream"
        return lambda: self.host.enqueue(work)


class Steps:
    def __init__(self):
        self.names = []

    def step(self, name):
        self.names.append(name)


def on_streams(host, schedule, A, B):
    """Each rank's streams and buffers, all in this process."""
    groups = by_nccl._groups([by_nccl.Job(schedule)])
    made, units = [], in_order(schedule)
    for rank in range(schedule.ranks):
        by = Whole(host)
        buffers = in_turn.placed(schedule, rank, by, A, B)
        buffers = {name: one.view(Array) for name, one in buffers.items()}
        connected = {g: Communicator(host, g, g.index(rank)) for g in groups if rank in g}
        own = [step for unit in units for one, step in unit if one == rank]
        made.append((by_nccl.OnStreams(rank, schedule, own, by, buffers, connected), buffers))
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
        make.summa(problem, Grid(2, 2), 5), make.summa(problem, Grid(1, 2), 3),
    )  # fmt: skip


@pytest.mark.parametrize("problem", [UNEVEN, EVEN], ids=str)
def test_in_any_order_that_streams_and_events_allow_the_product_is_right(host, problem):
    A, B = matrices(problem)
    for seed, schedule in itertools.product(range(3), schedules(problem)):
        machine = host(seed)
        ranks = on_streams(machine, schedule, A, B)
        for _ in range(2):  # a second run finds the slots of the first
            for streams, _ in ranks:
                streams.enqueue()
            machine.run()
            ran = [one for streams, _ in ranks for one in streams.finish(Steps(), 1)]
            C = in_turn.gathered(schedule, [buffers for _, buffers in ranks], Whole(machine))
            assert (C == A @ B).all(), schedule
        assert {(one.rank, one.name) for one in ran} == {(r, s.name) for r, s in schedule}
        assert all(0 < one.start_ms < one.end_ms for one in ran)


def test_a_wait_that_is_left_out_shows_in_some_order(host):
    A, B = matrices(EVEN)
    whole = make.column_parallel(EVEN, 2, 3)
    schedule = whole.without(0, "product 1", "gather 1")
    wrong = 0
    for seed in range(40):
        machine = host(seed)
        ranks = on_streams(machine, schedule, A, B)
        for streams, _ in ranks:
            streams.enqueue()
        machine.run()
        C = in_turn.gathered(schedule, [buffers for _, buffers in ranks], Whole(machine))
        wrong += not (C == A @ B).all()
    assert wrong


def test_parts_of_one_size_go_by_all_gather_others_by_broadcasts(host):
    for problem, used in ((EVEN, {"allGather"}), (UNEVEN, {"broadcast"})):
        machine, schedule = host(0), make.column_parallel(problem, 2, 1)
        for streams, _ in on_streams(machine, schedule, *matrices(problem)):
            streams.enqueue()
        assert machine.used == used


def test_a_collective_that_does_not_end_is_given_up_with_a_sentence(host):
    machine, schedule = host(0), make.column_parallel(EVEN, 2, 1)
    (first, _), _ = on_streams(machine, schedule, *matrices(EVEN))
    first.enqueue()  # the other rank never comes
    machine.run()
    steps = Steps()
    with pytest.raises(RankFailed, match=r"rank 0: 'gather 0' did not end in 0\.02 s; the collective was given up\. One of ranks 0, 1"):  # fmt: skip # noqa: E501
        first.finish(steps, 0.01)
    assert steps.names == ["gather 0"]
    assert all(one.aborted for one in first._connected.values())


def test_a_rank_runs_job_after_job_and_gives_back_its_part_of_c(host, monkeypatch):
    import cupy
    from cupy.cuda import nccl, runtime

    machine = host(0, runs_by_itself=True)
    nothing = SimpleNamespace(use=lambda: None, synchronize=lambda: None)
    pool = SimpleNamespace(free_all_blocks=lambda: None)
    for where, name, value in (
        (cupy.cuda, "Device", lambda rank=0: nothing),
        (cupy, "get_default_memory_pool", lambda: pool), (by_nccl, "require_memory", lambda *_: 0),
        (runtime, "getDeviceProperties", lambda rank: {"name": b"A GPU"}),
        (nccl, "NcclCommunicator", lambda n, one, me: Communicator(machine, tuple(range(n)), me)),
    ):  # fmt: skip
        monkeypatch.setattr(where, name, value, raising=False)
    A, B = matrices(EVEN)
    jobs = [
        by_nccl.Job(make.one_rank(EVEN), A, B, repeats=2),
        by_nccl.Job(make.row_parallel(EVEN, 1, 3), A, B),
    ]
    steps = [[step for unit in in_order(job.schedule) for _, step in unit] for job in jobs]
    by = partial(Whole, machine)
    reporter = Steps()
    found, name = by_nccl._rank(reporter, 0, jobs, steps, by, {(0,): None}, 1)
    assert name == "A GPU" and reporter.names[0] == by_nccl.CONNECTING
    for (kept, runs), job in zip(found, jobs, strict=True):
        C = in_turn.gathered(job.schedule, [kept], Whole(machine))
        assert (C == A @ B).all()
        assert len(runs) == job.repeats
        assert [one.name for one in runs[0]] == [step.name for step in job.schedule.steps[0]]


def test_jobs_of_different_numbers_of_ranks_and_gpus_of_two_kinds_are_refused(monkeypatch):
    one, two = (by_nccl.Job(make.column_parallel(EVEN, ranks)) for ranks in (1, 2))
    with pytest.raises(ScheduleError, match=r"jobs of \[1, 2\] ranks"):
        by_nccl.run([one, two], None)
    from cupy.cuda import nccl

    monkeypatch.setattr(by_nccl, "require_gpus", lambda ranks: None)
    monkeypatch.setattr(nccl, "get_unique_id", lambda: (0,), raising=False)
    monkeypatch.setattr(by_nccl, "run_ranks", lambda *_: [([], "NVIDIA H100"), ([], "NVIDIA H200")])
    with pytest.raises(RankFailed, match="GPUs of 2 kinds: NVIDIA H100, NVIDIA H200"):
        by_nccl.run([two], None)


def test_groups_are_made_in_an_order_in_which_all_ranks_meet():
    schedule = make.summa(EVEN, Grid(2, 3), 2)
    groups = by_nccl._groups([by_nccl.Job(schedule)])
    members = {one.work.members for _, one in schedule if isinstance(one.work, Collective)}
    assert groups == sorted(groups) and set(groups) == members | {tuple(range(6))}


def test_what_lacks_is_said_before_anything_starts(monkeypatch):
    from cupy.cuda import nccl, runtime

    schedule = make.column_parallel(EVEN, 2)
    with pytest.raises(NoGpu, match="Running on several GPUs needs a GPU"):
        by_nccl.run([by_nccl.Job(schedule)], None)
    monkeypatch.setattr(by_nccl, "require_gpu", lambda purpose: None)
    monkeypatch.setattr(nccl, "available", False)
    with pytest.raises(by_nccl.NotEnoughGpus, match="CuPy finds no NCCL: pip install"):
        by_nccl.run([by_nccl.Job(schedule)], None)
    monkeypatch.setattr(nccl, "available", True)
    monkeypatch.setattr(runtime, "getDeviceCount", lambda: 1)
    with pytest.raises(by_nccl.NotEnoughGpus, match="2 ranks need a GPU each, and CUDA sees 1 here: take 1 ranks, look"):  # fmt: skip # noqa: E501
        by_nccl.run([by_nccl.Job(schedule)], None)
