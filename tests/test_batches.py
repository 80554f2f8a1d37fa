"""Batches in one launch, graphs and loops: what each way launches, and the measurements."""

from functools import partial
from itertools import product, takewhile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas
import pytest

import gemmlab as gl
from gemmlab import ladder
from gemmlab.cuda.device import GpuState, gpu, why_no_gpu
from gemmlab.kernel.verify import VerificationError
from gemmlab.ladder import Problem
from gemmlab.lessons.batched import measure as batches
from gemmlab.lessons.batched.rung import RUNG as BATCHED
from gemmlab.measure import in_turn
from gemmlab.records import registry, tuning
from gemmlab.records.registry import StaleRecord

# ---- a GPU of our own: each call of a library or a kernel takes a millisecond --------------------


class Stream:
    """What is enqueued next comes after all of `after`, as while a stream is captured."""

    def __init__(self, machine):
        self.machine, self.after = machine, frozenset()

    def record(self):
        at, after = self.machine.clock_ms, self.after
        return SimpleNamespace(at=at, after=after, synchronize=lambda: None)

    def wait_event(self, event):
        self.after |= event.after

    def __enter__(self):
        self.machine.here = self
        return self

    def __exit__(self, *_):
        self.machine.here = self.machine


class Machine(Stream):
    """The main stream. What it captures is done when a graph is launched."""

    def __init__(self):
        super().__init__(self)
        self.clock_ms, self.captured, self.here = 0.0, None, self
        self.most_after, self.streams = 0, set()

    def enqueue(self, work):
        if self.captured is not None:
            self.captured.append(work)
            self.streams.add(self.here)
            self.most_after = max(self.most_after, len(self.here.after))
            self.here.after = frozenset([len(self.captured)])
            return
        self.clock_ms += 1
        work()

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


PROVENANCE = "driver", "cuda", "cublas", "cupy", "python"


@pytest.fixture
def machine(monkeypatch):
    """A GPU on which NumPy does the arithmetic."""
    fake = Machine()
    others = [Stream(fake) for _ in range(batches.BRANCHES - 1)]
    import cupy

    monkeypatch.setattr(cupy.cuda, "Stream", lambda non_blocking: fake)
    monkeypatch.setattr(batches, "_other_branches", lambda: others)
    monkeypatch.setattr(cupy.cuda, "get_current_stream", lambda: fake)
    monkeypatch.setattr(cupy.cuda, "get_elapsed_time", lambda start, end: end.at - start.at)
    monkeypatch.setattr(cupy, "abs", np.abs)
    monkeypatch.setattr(cupy, "matmul", np.matmul)
    state = GpuState(1980, 400.0, 50)
    here = SimpleNamespace(name="NVIDIA Test", l2_bytes=1000, slug="test")
    monkeypatch.setattr(in_turn, "gpu_state", lambda: state)
    monkeypatch.setattr(batches, "gpu_state", lambda: state)
    monkeypatch.setattr(batches, "require_gpu", lambda purpose: here)
    monkeypatch.setattr(batches, "check_sample", lambda kernel, problem: None)
    monkeypatch.setattr(batches, "require_verified", lambda kernel: None)
    monkeypatch.setattr(batches, "Cublas", lambda stream, pointers=False: Library(fake))
    monkeypatch.setattr(batches.Operands, "pointers", {})
    monkeypatch.setattr(batches, "_kernel", lambda problem, kernels, **others: Library(fake))
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
    return fake


@pytest.mark.parametrize("batch", [1, 3])
def test_every_way_makes_the_product_and_takes_as_many_launches_as_it_says(
    machine, batch, monkeypatch
):
    monkeypatch.setattr(batches, "BRANCHED_AT", batch)
    rows = list(batches._measure(Problem(8, 8, 8, batch), {}))
    assert tuple(row["way"] for row in rows) == batches.WAYS
    for row in rows:
        at_once = row["way"] in (
            batches.ONE, batches.ADDRESSES, batches.CUBLAS, batches.CUBLAS_ADDRESSES
        )  # fmt: skip
        assert row["time_ms"] == (1 if at_once else batch), row["way"]
        assert row["ratio"] == row["time_ms"] and row["one_launch_ms"] == 1
    assert {*rows[0], *registry.provenance(*PROVENANCE)} == set(batches.TABLE.columns)


def test_a_graph_of_branches_has_as_many_as_there_are_products(machine):
    with machine:
        machine.begin_capture()
        batches.in_branches([partial(machine.enqueue, int)] * 5)
        assert len(machine.streams) == 5
        batches.in_branches([partial(machine.enqueue, int)] * 50)
        assert len(machine.streams) == batches.BRANCHES and len(machine.captured) == 55


@pytest.mark.parametrize("batch", [1, 3, 50])
def test_what_a_launch_waits_for_does_not_pile_up_from_batch_to_batch(machine, batch):
    with machine:
        machine.begin_capture()
        for _ in range(100):
            batches.in_branches([partial(machine.enqueue, int)] * batch)
    assert machine.most_after <= min(batch, batches.BRANCHES)


def test_a_way_that_leaves_out_a_product_is_not_timed(machine, monkeypatch):
    monkeypatch.setattr(
        batches, "Cublas", lambda stream, pointers=False: Library(machine, works=False)
    )
    timed = []
    with pytest.raises(VerificationError, match=batches.CUBLAS_GRAPH):
        for row in batches._measure(Problem(8, 8, 8, 3), {}):
            timed.append(row["way"])
    assert timed == list(takewhile(lambda way: way != batches.CUBLAS_GRAPH, batches.ways(3)))


def test_verification_goes_from_product_to_product():
    """A block's first tile is right, and of the later ones B is that of another product."""
    text = gl.load(BATCHED.name).text
    wrong = text.replace("matrix(B, stride_b, next.product)", "matrix(B, stride_b, tile.product)")
    assert wrong != text
    failed = [
        case for case in gl.from_source(wrong, BATCHED.name).verify(seed=1).cases if not case.passed
    ]
    assert failed and all(case.m * case.n > 64 * 64 for case in failed), "of several tiles"


def test_what_is_prepared_launches_each_time_it_is_called():
    kernel = gl.load("02_coalescing")
    operands = kernel.operands(kernel.problem(8, 7, 5), seed=3)
    A, B, C = (getattr(operands, name) for name in "ABC")
    start, launch = C.copy(), kernel.prepared(operands, 1.0, 1.0)
    launch()
    launch()
    assert np.allclose(C, start + 2 * A @ B, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(gpu() is None, reason=f"needs a GPU: {why_no_gpu()}")
@pytest.mark.parametrize("batch", [1, batches.BRANCHED_AT])
def test_every_way_is_verified_and_measured_on_a_gpu(batch):
    rows = pandas.DataFrame(batches._measure(Problem(32, 32, 32, batch), {}))
    assert tuple(rows["way"]) == batches.ways(batch)
    known = {name: kind for name, kind in batches.TABLE.columns.items() if name in rows}
    registry.parsed(rows.to_csv(index=False), Path("batches.csv"), known)


# ---- the measurements ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table():
    return batches.batches()


def test_every_way_is_recorded_at_every_batch_once(table):
    wanted = [
        (size, batch, way)
        for size, batch in product(batches.SIZES, batches.BATCHES)
        for way in batches.ways(batch)
    ]
    found = [(row.m, row.batch, row.way) for row in table.itertuples()]
    assert sorted(found) == sorted(wanted)
    assert (table["m"] == table["n"]).all() and (table["n"] == table["k"]).all()


def test_all_ways_to_a_batch_have_the_same_settings_and_the_tile_that_a_sweep_found(table):
    for (size, batch), rows in table.groupby(["m", "batch"]):
        (written,) = set(rows["settings"])
        chosen = tuning.for_shape(BATCHED, (size, size, size, batch), "sm_90").settings
        tile = {"BM", "BN", "BK", "TM", "TN", "STAGES"}
        settings = ladder.read_settings(written)
        assert {name: settings[name] for name in tile} == {name: chosen[name] for name in tile}


def test_ratios_times_and_quartiles_agree(table):
    assert (table["time_ms"] / table["one_launch_ms"]).values == pytest.approx(
        table["ratio"].values, rel=0.05
    )
    for kind in ("time_{}ms", "ratio{}"):
        low, middle, high = (
            table[kind.format(part).rstrip("_")]
            for part in (("q1_", "", "q3_") if "time" in kind else ("_q1", "", "_q3"))
        )
        assert ((low <= middle) & (middle <= high)).all()


def test_rows_of_another_kernel_are_refused(table, tmp_path, monkeypatch):
    folder = tmp_path / "any-gpu"
    folder.mkdir()
    monkeypatch.setattr(registry, "folders", lambda: [folder])
    table.to_csv(folder / "batches.csv", index=False)
    assert len(batches.batches()) == len(table)
    table.assign(code="0123456789abcdef").to_csv(folder / "batches.csv", index=False)
    with pytest.raises(StaleRecord, match=r"another version of this kernel.*record batches"):
        batches.batches()
