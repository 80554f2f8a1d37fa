import importlib
import math
import statistics
from types import SimpleNamespace

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmlab.cuda import cublas
from gemmlab.cuda.cublaslt import NoAlgorithm
from gemmlab.kernel.verify import VerificationError
from gemmlab.ladder import SINGLE, Problem, find
from gemmlab.measure import in_turn, timing

device = importlib.import_module("gemmlab.cuda.device")
needs_gpu = pytest.mark.skipif(device.gpu() is None, reason=f"needs a GPU: {device.why_no_gpu()}")

H200_L2 = 60 * 2**20


# ---- a GPU of our own, whose clock advances by what each launch is said to take ------------------


class FakeGraph:
    def __init__(self, machine, launches):
        self.machine, self.launches = machine, launches

    def upload(self, stream):
        pass

    def launch(self, stream):
        for name, milliseconds, matrices in self.launches:
            self.machine.run(name, milliseconds, matrices)


class FakeMachine:
    """Stands in for a stream and for cuBLAS, and keeps what was launched, in order."""

    def __init__(self):
        self.clock_ms, self.log, self.recording, self.graphs = 0.0, [], None, 0

    def run(self, name, milliseconds, matrices):
        if self.recording is not None:
            self.recording.append((name, milliseconds, matrices))
            return
        self.clock_ms += milliseconds
        self.log.append((name, matrices))

    def launcher(self, name, milliseconds):
        return lambda *matrices, bias=None: self.run(name, milliseconds, matrices)

    def record(self):
        return SimpleNamespace(at=self.clock_ms, synchronize=lambda: None)

    def begin_capture(self):
        self.recording = []

    def end_capture(self):
        launches, self.recording = self.recording, None
        self.graphs += 1
        return FakeGraph(self, launches)

    def synchronize(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture
def machine(monkeypatch):
    import cupy

    fake = FakeMachine()
    state = device.GpuState(1980, 400.0, 50)
    here = SimpleNamespace(name="NVIDIA Test", l2_bytes=H200_L2)
    monkeypatch.setattr(cupy.cuda, "Stream", lambda non_blocking: fake)
    monkeypatch.setattr(cupy.cuda, "get_elapsed_time", lambda start, end: end.at - start.at)
    monkeypatch.setattr(in_turn, "gpu_state", lambda: state)
    monkeypatch.setattr(timing, "require_gpu", lambda purpose: here)
    monkeypatch.setattr(timing, "check_sample", lambda kernel, problem, precision=None: None)
    monkeypatch.setattr(
        timing,
        "make_sets",
        lambda problem, count, dtype: [(number,) * 3 for number in range(count)],
    )
    return fake


class FakeKernel:
    name = "01_naive"
    rung, dtype, precision, takes_bias = find("01_naive"), "float32", SINGLE, False

    def __init__(self, launch, passes=True):
        self._launch, self.passes, self.verified = launch, passes, 0

    def takes(self, name):
        return False

    def problem(self, m, n, k, batch):
        return Problem(m, n, k, batch, self.rung.ops(self.rung.defaults))

    def launch(self, operands, alpha, beta):
        assert (alpha, beta) == (1, 0)
        self._launch(operands.A)

    def verify(self):
        self.verified += 1

        def require():
            if not self.passes:
                raise VerificationError("wrong")

        return SimpleNamespace(require=require)


def fake_cublas(machine, milliseconds):
    class Fake(FakeMachine):
        name, takes_bias = "cublas", False

        def launch(self, operands, alpha, beta):
            machine.launcher("cublas", milliseconds)(operands.A)

    return lambda stream, dtype, pointers: Fake()


# ---- statistics and plans ------------------------------------------------------------------------


@given(st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=40))
def test_quartiles_are_numpy_s(samples):
    spread = timing.Spread.of(samples, min)
    expected = numpy.percentile(samples, (25, 50, 75))
    assert numpy.allclose((spread.q1, spread.median, spread.q3), expected, rtol=1e-12)
    assert spread.best == min(samples)


@given(st.integers(4 * 3, 2**34), st.integers(2**20, 2**28))
def test_a_set_has_left_the_cache_before_its_next_turn(bytes_per_launch, l2_bytes):
    sets = in_turn.input_sets(bytes_per_launch, l2_bytes)
    between = (sets - 1) * bytes_per_launch
    assert between >= 2 * l2_bytes or sets == in_turn.MOST_SETS
    assert sets == 1 or (sets - 2) * bytes_per_launch < 2 * l2_bytes, "no more sets than needed"


@given(st.floats(1e-3, 2e3), st.integers(1, 4096))
def test_a_sample_is_long_enough_and_a_graph_visits_each_set_alike(launch_ms, sets):
    launches = in_turn.launches_per_sample(launch_ms, sets)
    assert launches * launch_ms >= in_turn.SAMPLE_MS * (1 - 1e-9)
    if launch_ms < in_turn.GRAPH_BELOW_MS:
        assert launches >= in_turn.GRAPH_LAUNCHES
        assert launches % sets == 0


# ---- compare, on the machine of our own ----------------------------------------------------------


def test_long_launches_alternate_one_by_one(machine, monkeypatch):
    monkeypatch.setattr(timing, "Cublas", fake_cublas(machine, 10.0))
    ours = FakeKernel(machine.launcher("ours", 40.0))
    comparison = timing.compare(ours, 4096, 4096, 4096, pairs=4)

    assert machine.graphs == 0
    assert comparison.launches == comparison.cublas_launches == 1
    assert comparison.pairs == comparison.noise_pairs == 4
    assert comparison.time_ms.median == pytest.approx(40.0)
    assert comparison.cublas_ms.median == pytest.approx(10.0)
    assert comparison.ratio.median == pytest.approx(0.25), "a quarter of cuBLAS's speed"
    assert comparison.noise.median == pytest.approx(1.0)
    names = [name[0] for name, _ in machine.log]
    # two launches each to warm up and plan, one each ahead of the samples, the pairs; then itself
    assert "".join(names) == "oo" + "cc" + "oc" + "occoocco" + "o" * (2 + 8)


def test_the_two_sides_never_share_inputs_and_each_rotates(machine, monkeypatch):
    monkeypatch.setattr(timing, "Cublas", fake_cublas(machine, 10.0))
    ours = FakeKernel(machine.launcher("ours", 40.0))
    comparison = timing.compare(ours, 2048, 2048, 2048, pairs=4)
    compared = machine.log[: 4 + 2 + 8]
    used = {
        side: [number for name, (number,) in compared if name == side]
        for side in ("ours", "cublas")
    }
    for side, first in (("ours", 0), ("cublas", comparison.input_sets)):
        expected = [first + turn % comparison.input_sets for turn in range(len(used[side]))]
        assert used[side] == expected


def test_short_launches_go_into_graphs(machine, monkeypatch):
    monkeypatch.setattr(timing, "Cublas", fake_cublas(machine, 0.01))
    comparison = timing.compare(FakeKernel(machine.launcher("ours", 0.1)), 512, 512, 512, pairs=3)
    assert machine.graphs >= 3, "ours, cuBLAS, and ours once more on the other inputs"
    for launches in (comparison.launches, comparison.cublas_launches):
        assert launches >= in_turn.GRAPH_LAUNCHES and launches % comparison.input_sets == 0
    assert comparison.time_ms.median == pytest.approx(0.1)
    assert comparison.ratio.median == pytest.approx(0.1)


def test_no_time_without_pass(machine, monkeypatch):
    monkeypatch.setattr(timing, "Cublas", fake_cublas(machine, 1.0))
    with pytest.raises(VerificationError):
        timing.compare(FakeKernel(machine.launcher("ours", 1.0), passes=False), 64, 64, 64)
    assert machine.log == []


@pytest.mark.parametrize("whose", ["01_naive", "cublas"])
def test_no_time_of_a_shape_whose_sample_is_wrong(machine, monkeypatch, whose):
    def wrong(kernel, problem, precision=None):
        if kernel.name == whose:
            raise VerificationError(f"row 3 at {problem.m}")

    monkeypatch.setattr(timing, "Cublas", fake_cublas(machine, 1.0))
    monkeypatch.setattr(timing, "check_sample", wrong)
    with pytest.raises(VerificationError, match="row 3 at 64"):
        timing.compare(FakeKernel(machine.launcher("ours", 1.0)), 64, 64, 64)
    assert machine.log == []


def test_a_rung_of_single_products_has_no_time_of_a_batch(machine):
    with pytest.raises(timing.TimingError, match="01_naive takes no batches"):
        timing.compare(FakeKernel(machine.launcher("ours", 1.0)), 32, 32, 32, batch=7)


@pytest.mark.parametrize(
    "name", ["CUPY_TF32", "NVIDIA_TF32_OVERRIDE", "CUBLAS_EMULATE_SINGLE_PRECISION"]
)
def test_a_baseline_in_less_than_fp32_is_refused(machine, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    with pytest.raises(cublas.CublasError, match=f"{name}=1"):
        timing.compare(FakeKernel(machine.launcher("ours", 1.0)), 64, 64, 64)
    monkeypatch.setenv(name, "0")
    cublas.refuse_reduced_precision()


# ---- sweep and table -----------------------------------------------------------------------------


def measurement(name="01_naive", size=512, time_ms=1.0, cublas_ms=0.5, **changes):
    def spread(value):
        return timing.Spread(value, value, value, value)

    fields = {
        "kernel": name, "dtype": "float32", "m": size, "n": size, "k": size,
        "time_ms": spread(time_ms), "cublas_ms": spread(cublas_ms),
        "ratio": spread(cublas_ms / time_ms), "noise": spread(1.0), "sm_clock_mhz": 1980,
        "power_w": 300.0, "temperature_c": 40, "pairs": 20, "noise_pairs": 20, "launches": 1,
        "cublas_launches": 1, "input_sets": 2, "verify": "pass", "gpu": "NVIDIA Test",
        "recorded": "2026-11-21T10:00:00+00:00",
    }  # fmt: skip
    return timing.Measurement(**fields | changes)


def test_a_sweep_stops_where_a_launch_takes_over_a_second(monkeypatch):
    tried = []

    def compare(kernel, m, n, k):
        tried.append(m)
        return measurement(size=m, time_ms=275.0 * (m / 4096) ** 3)

    monkeypatch.setattr(timing, "compare", compare)
    runs = list(timing.sweep(None, [(size,) * 3 for size in (2048, 4096, 8192, 16384)]))
    assert tried == [2048, 4096], "2.2 s are not even tried"
    assert [type(item).__name__ for item in runs] == ["Measurement"] * 2 + ["Skipped"] * 2
    assert "takes 2.20 s" in runs[2].reason and "takes 17.60 s" in runs[3].reason
    assert "not tried" in runs[3].reason and "limit of 1 s" in runs[3].reason


@pytest.mark.parametrize("error", [timing.TimingError, NoAlgorithm])
def test_a_shape_that_does_not_fit_is_skipped_and_the_sweep_goes_on(error, monkeypatch):
    def compare(kernel, m, n, k):
        if m == 64:
            raise error("needs 900 GiB")
        return measurement(size=m)

    monkeypatch.setattr(timing, "compare", compare)
    skipped, measured = timing.sweep(None, [(64,) * 3, (128,) * 3])
    assert skipped == timing.Skipped(64, 64, 64, "needs 900 GiB")
    assert measured.m == 128


def test_the_table():
    table = timing.table(
        [
            measurement("01_naive", time_ms=2.0, cublas_ms=0.5),
            measurement("02_coalescing", time_ms=1.0, cublas_ms=0.4),
            measurement("01_naive", size=1024, time_ms=9.0, cublas_ms=3.0),
        ]
    )
    assert tuple(table.columns) == timing.COLUMNS
    by_row = {(row.kernel, row.m): row for row in table.itertuples()}
    assert len(by_row) == len(table) == 5, "one row for cuBLAS per shape"
    assert by_row["cublas", 512].time_ms == 0.4
    assert by_row["cublas", 512].pct_cublas == 100
    naive = by_row["01_naive", 512]
    assert naive.pct_cublas == pytest.approx(25.0)
    assert naive.gflops == pytest.approx(2 * 512**3 / 2e-3 / 1e9)
    assert (naive.verify, naive.gpu) == ("pass", "NVIDIA Test")


# ---- on a GPU ------------------------------------------------------------------------------------


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("shape", [(64, 64, 64), (513, 129, 65)])
def test_a_real_measurement(shape):
    from gemmlab.loading import load

    comparison = timing.compare(load("02_coalescing"), *shape)
    for name in timing.SPREADS:
        spread = getattr(comparison, name)
        assert all(math.isfinite(value) and value > 0 for value in vars(spread).values())
    assert comparison.launches >= in_turn.GRAPH_LAUNCHES
    assert comparison.gpu == device.gpu().name


@pytest.mark.gpu
@needs_gpu
def test_inputs_are_random_aligned_and_apart():
    sets = in_turn.make_sets(Problem(33, 65, 17), 4)
    pointers = [matrix.data.ptr for matrices in sets for matrix in matrices]
    assert all(pointer % 256 == 0 for pointer in pointers)
    assert len(set(pointers)) == 12
    for A, B, C in sets:
        assert (A.shape, B.shape, C.shape) == ((33, 17), (17, 65), (33, 65))
        values = A.get()
        assert values.min() >= -1 and values.max() < 1
        assert statistics.pstdev(values.ravel().tolist()) > 0.3
