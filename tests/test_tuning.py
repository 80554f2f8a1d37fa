"""Recorded sweeps: whole, of the code as it stands, and the source of every default setting."""

import importlib
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pandas
import pytest
import sample_record
from cupy.cuda import runtime

import gemmlab as gl
from gemmlab import ladder
from gemmlab.cuda.cublas import CublasError
from gemmlab.kernel.compiler import Compiled, Resources
from gemmlab.kernel.faults import GpuFault
from gemmlab.kernel.verify import VerificationError
from gemmlab.ladder import Problem
from gemmlab.measure import timing
from gemmlab.measure.timing import TimingError
from gemmlab.records import registry, roofs, runs, tuning
from ptxsim import CompileError

device = importlib.import_module("gemmlab.cuda.device")  # gemmlab.device itself is the function

SWEPT = [rung for rung in ladder.RUNGS if rung.name >= "03"]
every_sweep = pytest.mark.parametrize(
    ("rung", "computed"),
    [
        pytest.param(rung, computed, id=f"{rung.name} {ladder.written(computed)}".strip())
        for rung in SWEPT
        for computed in rung.computed
    ],
)
for_large_products = pytest.mark.parametrize(
    "rung",
    [rung for rung in SWEPT if tuning.SHAPES[0] in tuning.shapes_of(rung)],
    ids=lambda rung: rung.name,
)
NOISE = 0.01  # settings that are no further apart are equally fast


@every_sweep
def test_every_tuned_setting_was_measured_at_every_shape(rung, computed):
    table = tuning.recorded(rung.name, **computed)
    names = [*rung.defaults]
    dtype = rung.precision_of(rung.defaults | computed).name
    assert set(table["dtype"]) == {dtype} and tuning.shapes_of(rung, computed)
    for shape in tuning.shapes_of(rung, computed):
        expected = {tuple(settings.values()) for settings in tuning.swept(rung, shape, computed)}
        rows = tuning.at(table, shape)
        assert {tuple(row) for row in rows[names].to_numpy().tolist()} == expected
        assert len(rows) == len(expected) and rows["time_ms"].is_monotonic_increasing


@for_large_products
def test_the_default_setting_is_the_fastest_recorded(rung):
    """As far as the sweep can tell: at the limit of power even cuBLAS's own time varies in it."""
    rows = tuning.at(tuning.recorded(rung.name), tuning.SHAPES[0])
    low, high = rows["cublas_ms"].quantile([0.25, 0.75])
    noise = max(NOISE, high / low - 1)
    for name, value in ladder.settings_for(rung, {}).items():
        rows = rows[rows[name] == value]
    (default,) = rows.itertuples()
    fastest = tuning.best(tuning.recorded(rung.name))
    assert default.time_ms <= fastest["time_ms"] * (1 + noise)


@for_large_products
def test_sweep_and_record_agree_on_the_default_setting(rung):
    """Within a few percent: more of them where the GPU, at its limit of power, lowers its clock."""
    run = runs.replay_at(gl.load(rung.name), 4096, 4096, 4096)
    best = tuning.best(tuning.recorded(rung.name))
    full = roofs.recorded_ceilings().fma.state.sm_clock_mhz
    apart = 0.03 if run.sm_clock_mhz == full else 0.05
    assert best["pct_cublas"] == pytest.approx(100 * run.ratio.median, rel=apart)


def test_an_unknown_rung_and_a_shape_that_was_not_swept_are_named():
    with pytest.raises(ladder.LadderError, match="no rung '03_shared'"):
        tuning.recorded("03_shared")
    with pytest.raises(registry.NoRecord, match=r"3×3×3.*4096"):
        tuning.best(tuning.recorded("03_shared_memory"), (3, 3, 3))


# ---- measuring, with a GPU, a compiler and cuBLAS that are made up -------------------------------


class Inline:
    """A pool of processes that does all in this one."""

    def submit(self, function, *arguments):
        done = Future()
        try:
            done.set_result(function(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """Rung 09 on a GPU of sm_75. What `fails` says of settings is raised; measuring costs nothing.

    `tried`: the settings that were compiled. `lines`: what it printed. `run()`: the rows written.
    `rung` and `arch` may be set before.
    """
    made = SimpleNamespace(tried=[], lines=[], fails=lambda settings: None)
    rung = ladder.find("09_double_buffering")
    path = tmp_path / "nvidia-test" / "tuning" / f"{rung.name}.csv"
    resources = Resources(64, 0, 0)

    def compiled(name, settings):
        made.tried.append(settings)
        if isinstance(error := made.fails(settings), CompileError):
            raise error
        return Compiled("", b"", {rung.entry(settings): resources})

    class Arena:
        here = SimpleNamespace(name="NVIDIA Test")

        def __init__(self, problem, precision):
            assert precision is rung.precision
            self.problem = problem

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def side(self, kernel):
            if error := made.fails(kernel.settings):
                raise error

        def race(self, kernel, side, pairs):
            times = [2.0] * pairs
            return timing.Race(times, times, device.GpuState(1980, 400.0, 50))

    def run():
        tuning.evidence(made.rung).remake(made.lines.append)
        return pandas.read_csv(path)

    here = device.Gpu("NVIDIA Test", (7, 5), "sm_75", 40, 1, 1, "1", "1")
    sample_record.measure_on(monkeypatch, tuning, gpu=here)
    monkeypatch.setattr(registry, "RESULTS", tmp_path)
    monkeypatch.setattr(tuning, "workers", lambda context: nullcontext(Inline()))
    monkeypatch.setattr(tuning, "_compile", compiled)
    monkeypatch.setattr(tuning, "Arena", Arena)
    monkeypatch.setattr(tuning, "require_verified", lambda kernel: None)
    made.run, made.path, made.rung = run, path, rung
    return made


def test_only_what_runs_on_the_gpu_is_tried(made_up):
    table = made_up.run()
    expected = [s for s in ladder.tuned_settings(made_up.rung) if s["STAGES"] == 1]
    assert made_up.tried == expected
    assert 0 < len(expected) < len(ladder.tuned_settings(made_up.rung))
    assert len(table) == len(expected) * len(tuning.SHAPES) and set(table["STAGES"]) == {1}


@pytest.mark.parametrize(
    "error",
    [
        CompileError("ptxas: too many registers"),
        VerificationError("C[3, 4] is NaN"),
        TimingError("does not fit"),
        runtime.CUDARuntimeError(701),  # too many resources requested for launch
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_setting_that_fails_is_named_and_the_others_go_on(made_up, error):
    made_up.fails = lambda settings: error if settings["BK"] == 8 else None
    table = made_up.run()
    failed = [settings for settings in made_up.tried if settings["BK"] == 8]
    assert failed and set(table["BK"]) == {16}
    left_out = [line for line in made_up.lines if line.endswith("; left out")]
    assert left_out == [
        f"{made_up.rung.name} with {ladder.written(s)}: {error}; left out" for s in failed
    ]


@pytest.mark.parametrize(
    "error",
    [GpuFault("a fault"), CublasError("reduced"), KeyboardInterrupt(), LookupError("unforeseen")],
    ids=lambda error: type(error).__name__,
)
def test_what_ends_a_sweep_leaves_the_rows_that_were_measured(made_up, error):
    expected = [s for s in ladder.tuned_settings(made_up.rung) if s["STAGES"] == 1]
    made_up.fails = lambda settings: error if settings == expected[5] else None
    with pytest.raises(type(error)):
        made_up.run()
    table = pandas.read_csv(made_up.path)
    assert len(table) == 5  # of the first shape
    made_up.fails = lambda settings: error if settings == expected[2] else None
    with pytest.raises(type(error)):
        made_up.run()
    assert len(pandas.read_csv(made_up.path)) == len(table)  # what it had of others stays


def test_a_rung_is_swept_for_all_that_it_computes(made_up, monkeypatch):
    """Each by itself: the default's rows are shown where nothing else is asked for."""
    rung = replace(
        made_up.rung,
        parameters=(*made_up.rung.parameters, ladder.Parameter("KIND", 0, (0, 1), "", tuned=False)),
        computed=({"KIND": 0}, {"KIND": 1}),
        swept=lambda problem, s: s["BK"] == (8, 16)[s["KIND"]] and problem.m < 4096,
    )
    made_up.rung = rung
    monkeypatch.setattr(ladder, "find", lambda name: rung)
    monkeypatch.setattr(registry, "folders", lambda: [made_up.path.parents[1]])
    table = made_up.run()
    assert {(row.KIND, row.BK) for row in table.itertuples()} == {(0, 8), (1, 16)}
    tuning.kept.cache_clear()
    usual, other = tuning.recorded(rung.name), tuning.recorded(rung.name, KIND=1)
    assert set(usual["BK"]) == {8} and set(other["BK"]) == {16}
    assert len(usual) + len(other) == len(table) and usual.index.tolist() == [*range(len(usual))]
    best = [tuning.for_shape(rung, (1000, 800, 500), "sm_75", {"KIND": kind}) for kind in (0, 1)]
    assert [settings["BK"] for settings, _ in best] == [8, 16]
    assert tuning.for_shape(rung, (1000, 800, 500), "sm_75") == best[0]
    tuning.kept.cache_clear()


@pytest.mark.parametrize("name", ["13_batched", "15_mma_sync"])
def test_the_fastest_settings_stand_in_a_table_by_shape_and_type(name):
    rung, table = ladder.find(name), tuning.fastest(name)
    asked = [(what, shape) for what in rung.computed for shape in tuning.shapes_of(rung, what)]
    assert len(table) == len(asked)
    for (computed, shape), row in zip(asked, table.to_dict("records"), strict=True):
        here = tuning.at(tuning.recorded(name, **computed), shape)["time_ms"].min()
        assert row["M×N×K"] == str(Problem(*shape))
        assert row["TFLOP/s"] == pytest.approx(Problem(*shape).flop / here / 1e9)
        assert row["dtype"] == rung.precision_of(rung.defaults | computed).name


def test_a_shape_at_which_another_kernel_is_launched_says_nothing_of_this_one():
    """Rows that begin off 16 bytes have no tensor maps: 1001×777×513, which would be nearest."""
    rung = ladder.find("18_persistent")
    _, near = tuning.for_shape(rung, (1024, 776, 512), "sm_90a")
    assert near.endswith("at 1024×1024×1024")
    _, near = tuning.for_shape(rung, (1003, 779, 515), "sm_90a")
    assert near.endswith("at 1001×777×513")
