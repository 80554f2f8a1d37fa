"""Batches in one launch, graphs and loops: what each way launches, and the measurements."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import gemmlab as gl
from gemmlab.cuda.device import GpuState
from gemmlab.kernel.verify import VerificationError
from gemmlab.ladder import Problem
from gemmlab.ladder.rungs.irregular import BATCHED
from gemmlab.measure import in_turn
from gemmlab.records.experiments import batches

# ---- a GPU of our own: each call of a library or a kernel takes a millisecond --------------------


class Machine:
    """Stands in for streams. What it captures is done when a graph is launched."""

    def __init__(self):
        self.clock_ms, self.captured, self.here, self.branches = 0.0, None, self, set()

    def enqueue(self, work):
        if self.captured is not None:
            self.captured.append(work)
            self.branches.add(id(self.here))
            return
        self.clock_ms += 1
        work()

    def record(self):
        return SimpleNamespace(at=self.clock_ms, synchronize=lambda: None)

    def begin_capture(self):
        self.captured = []

    def end_capture(self):
        captured, self.captured = self.captured, None

        def launch(stream):
            for work in captured:
                self.enqueue(work)

        return SimpleNamespace(upload=lambda stream: None, launch=launch)

    def synchronize(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Branch:
    def __init__(self, machine):
        self.machine, self.record = machine, machine.record

    def wait_event(self, event):
        pass

    def __enter__(self):
        self.machine.here = self

    def __exit__(self, *_):
        self.machine.here = self.machine


class Library:
    """cuBLAS, or a kernel, by NumPy."""

    rung, settings = BATCHED, BATCHED.defaults

    def __init__(self, machine, works=True):
        self.machine, self.works = machine, works

    def prepared(self, operands, alpha, beta):
        def multiply():
            if self.works or operands.A.ndim == 3:
                np.matmul(operands.A, operands.B, out=operands.C)

        return partial(self.machine.enqueue, multiply)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture
def machine(monkeypatch):
    """A GPU on which NumPy does the arithmetic."""
    fake = Machine()
    fake.wait_event = lambda event: None
    made = []

    def stream(non_blocking):
        made.append(fake if not made else Branch(fake))
        return made[-1]

    import cupy

    monkeypatch.setattr(cupy.cuda, "Stream", stream)
    monkeypatch.setattr(cupy.cuda, "get_current_stream", lambda: fake)
    monkeypatch.setattr(cupy.cuda, "get_elapsed_time", lambda start, end: end.at - start.at)
    monkeypatch.setattr(cupy, "abs", np.abs)
    monkeypatch.setattr(cupy, "matmul", np.matmul)
    state = GpuState(1980, 3201, 400.0, 50)
    here = SimpleNamespace(name="NVIDIA Test", l2_bytes=1000, slug="test")
    monkeypatch.setattr(in_turn, "gpu_state", lambda: state)
    monkeypatch.setattr(batches, "gpu_state", lambda: state)
    monkeypatch.setattr(batches, "require_gpu", lambda purpose: here)
    monkeypatch.setattr(batches, "check_sample", lambda kernel, problem: None)
    monkeypatch.setattr(batches, "require_verified", lambda kernel: None)
    monkeypatch.setattr(batches, "Cublas", lambda stream, pointers=False: Library(fake))
    monkeypatch.setattr(batches.Operands, "pointers", {})
    monkeypatch.setattr(batches, "_kernel", lambda problem, kernels, **others: Library(fake))
    monkeypatch.setattr(
        batches, "software_versions",
        lambda: dict.fromkeys(("driver", "cuda", "cublas", "cupy", "python"), "1"),
    )  # fmt: skip
    random = np.random.default_rng(1)
    monkeypatch.setattr(
        batches, "make_sets",
        lambda problem, count: [
            tuple(
                random.uniform(-1, 1, shape).astype("f4")
                for shape in (problem.shape_of_a, problem.shape_of_b, problem.shape_of_c)
            )
            for _ in range(count)
        ],
    )  # fmt: skip
    batches._branches.cache_clear()
    yield fake
    batches._branches.cache_clear()


@pytest.mark.parametrize("batch", [1, 3])
def test_every_way_makes_the_product_and_takes_as_many_launches_as_it_says(machine, batch):
    rows = list(batches._measure(Problem(8, 8, 8, batch), {}))
    assert tuple(row["way"] for row in rows) == batches.WAYS
    for row in rows:
        at_once = row["way"] in (
            batches.ONE, batches.ADDRESSES, batches.CUBLAS, batches.CUBLAS_ADDRESSES
        )  # fmt: skip
        assert row["time_ms"] == (1 if at_once else batch), row["way"]
        assert row["ratio"] == row["time_ms"] and row["one_launch_ms"] == 1
    assert set(rows[0]) == set(batches.COLUMNS)


def test_a_graph_of_branches_has_as_many_as_there_are_products(machine):
    with machine:
        machine.begin_capture()
        batches.in_branches([partial(machine.enqueue, int)] * 5)
        assert len(machine.branches) == 5
        batches.in_branches([partial(machine.enqueue, int)] * 50)
        assert len(machine.branches) == batches.BRANCHES and len(machine.captured) == 55


def test_a_way_that_leaves_out_a_product_is_not_timed(machine, monkeypatch):
    monkeypatch.setattr(
        batches, "Cublas", lambda stream, pointers=False: Library(machine, works=False)
    )
    timed = []
    with pytest.raises(VerificationError, match=batches.CUBLAS_GRAPH):
        for row in batches._measure(Problem(8, 8, 8, 3), {}):
            timed.append(row["way"])
    assert timed == list(batches.WAYS[: batches.WAYS.index(batches.CUBLAS_GRAPH)])


def test_verification_goes_from_product_to_product():
    """A block's first tile is right, and of the later ones B is that of another product."""
    text = gl.load(BATCHED.name).text
    wrong = text.replace("matrix(B, stride_b, next.product)", "matrix(B, stride_b, tile.product)")
    assert wrong != text
    failed = [
        case for case in gl.from_source(wrong, BATCHED.name).verify(seed=1).cases if not case.passed
    ]
    assert failed and all(case.m * case.n > 64 * 64 for case in failed), "of several tiles"
