"""The path to a rung: its steps, and what was recorded of them."""

import importlib
from contextlib import nullcontext
from types import SimpleNamespace

import pandas
import pytest
import sample_record

import gemmlab as gl
from gemmlab import ladder
from gemmlab.folders import RESULTS
from gemmlab.lessons.fp8 import measure as fp8
from gemmlab.lessons.fp32_summit import measure as fp32_summit
from gemmlab.lessons.mma_sync import measure as mma_sync
from gemmlab.lessons.tma_wgmma import measure as tma_wgmma
from gemmlab.measure import profiler
from gemmlab.measure.ceilings import Roof
from gemmlab.measure.power import Pace
from gemmlab.measure.timing import Measurement, Spread
from gemmlab.records import ablations, best_by_shape, registry
from gemmlab.records.ablations import SQUARES, AblationStep, path_to

device = importlib.import_module("gemmlab.cuda.device")
# Instead of other processes.
HERE = SimpleNamespace(submit=lambda work, given: SimpleNamespace(result=lambda: work(given)))
NAME = "10_register_banks"
NAIVE = ladder.find("01_naive")
FIRST = AblationStep(title="one", rung=NAIVE)
SECOND = AblationStep(
    title="two", predicted="faster", rung=NAIVE, settings={"BLOCK_X": 16, "EXTRA": 1}, taken=False
)
PATHS = ablations.paths()


def code_of(step, shape=SQUARES[0]):
    return str(step.fingerprint([ladder.Problem(*shape)], sample_record.TARGET))


def recorded(step, shape, **changed):
    m, n, k = shape
    return {
        "path": NAME, **{name: step.cells[name] for name in ("file", "settings")},
        "m": m, "n": n, "k": k,
        "tflops": 50.04, "pct_cublas": 98.04, "pct_cublas_q1": 97.5, "pct_cublas_q3": 98.2,
        "noise_q1": 99.9, "noise_q3": 100.1, "cublas_tflops": 51.0, "sm_clock_mhz": 1755,
        "power_w": 690.0, "registers": 200, "spilled_bytes": 0, "slots": 1100, "ffma": 1024,
        "bank_0": 1000, "bank_1": 1010, "two_in_a_bank": 64, "waits": 100, "reuse_pct": 93.75,
        "code": code_of(step, shape),
        "gpu": "NVIDIA Test", "driver": "1", "cuda": "1", "nvrtc": "1", "cublas": "1",
        "recorded": sample_record.DATE, **changed,
    }  # fmt: skip


def follow(monkeypatch, *steps):
    """Let these be the steps of the only path that there is."""
    table = path_to(ladder.find(NAME), steps)
    monkeypatch.setattr(ablations, "paths", lambda: {NAME: table})


@pytest.fixture
def csv(tmp_path, monkeypatch):
    """A path of two steps with what was recorded of them, on a machine without a GPU."""
    follow(monkeypatch, FIRST, SECOND)
    path = sample_record.put(monkeypatch, tmp_path).with_name("path.csv")
    rows = [recorded(step, shape) for step in (SECOND, FIRST) for shape in SQUARES]
    rows[0] |= {"tflops": 55.0, "pct_cublas": 107.8}
    table = pandas.DataFrame(rows)
    assert tuple(table.columns) == tuple(ablations.PATH_COLUMNS)
    table.to_csv(path, index=False)
    return path


def test_steps_come_in_the_order_of_the_path(csv):
    table = gl.path(NAME)
    assert table["step"].tolist() == ["one", "two"]
    assert table["predicted"].tolist() == ["", "faster"]
    assert table["taken"].tolist() == [True, False]
    assert table["TFLOP/s"].tolist() == [50.0, 55.0]
    assert table["% of cuBLAS"].tolist() == [98.0, 107.8]
    row = table.iloc[0]
    assert row["% of cuBLAS, quartiles"] == "97.5 to 98.2"
    assert row["FFMA, % of slots"] == round(100 * 1024 / 1100, 1)
    assert row["two in a bank, % of FFMA"] == round(100 * 64 / 1024, 1)
    assert row["waits, % of cycles"] == round(100 * 100 / 1200, 1)
    assert gl.path(NAME, SQUARES[1])["TFLOP/s"].tolist() == [50.0, 50.0]


def test_a_step_is_the_rung_s_file_with_other_macros():
    assert FIRST.path == ladder.find("01_naive").path
    assert SECOND.all_settings == {"BLOCK_X": 16, "BLOCK_Y": 8, "EXTRA": 1}
    kernel = SECOND.kernel()
    assert kernel.settings == SECOND.all_settings and kernel.name == "01_naive"
    problems = [ladder.Problem(*SQUARES[0])]
    assert str(kernel.fingerprint(problems, sample_record.TARGET)) == code_of(SECOND)
    elsewhere = AblationStep(title="three", rung=NAIVE, file="02_coalescing.cu")
    assert elsewhere.path == ladder.find("02_coalescing").path
    assert len({*map(code_of, (FIRST, SECOND, elsewhere))}) == 3


def test_what_is_not_kept_is_refused(csv):
    with pytest.raises(ladder.LadderError, match=r"no path to '09'.* there is one to 10_register"):
        gl.path("09")
    with pytest.raises(registry.NoRecord, match="is not recorded at 1×2×3; recorded are"):
        gl.path(NAME, (1, 2, 3))


def test_the_measured_path_is_the_path_that_is_shown(csv, monkeypatch):
    """With rows that nobody measured, and nothing compiled."""

    def rows(step, kernel, shape):
        yield recorded(step, shape, tflops=float(shape[0]), recorded="2027-01-01T00:00:00+00:00")

    sample_record.measure_on(monkeypatch)
    monkeypatch.setattr(ablations, "_taken_apart", rows)
    monkeypatch.setattr(ablations, "workers", lambda context: nullcontext(HERE))
    monkeypatch.setattr(ablations, "_compiled", lambda given: None)
    follow(monkeypatch, FIRST, SECOND)
    csv.write_text(csv.read_text().replace(code_of(SECOND), "of a former"))
    with pytest.raises(registry.StaleRecord):
        gl.path(NAME)
    lines = []
    assert ablations.path_of(NAME).remake(lines.append) == csv
    assert gl.path(NAME)["TFLOP/s"].tolist() == [4096.0, 4096.0]
    assert lines[0] == f"path/{NAME}: one at 4096×4096×4096: 4096.0 TFLOP/s, 98.0 % of cuBLAS"
    assert len(lines) == len(pandas.read_csv(csv)) == 4


@pytest.fixture
def on_a_gpu_that_is_made_up(tmp_path, monkeypatch):
    """Every kernel takes 2 ms, every counter is 7, and nothing is compiled."""
    pace = Pace(5e14, 1500.0, 1500.0, 600.0, 50.0)
    loop = dict.fromkeys(("ffma", "bank_0", "bank_1", "two_in_a_bank", "waits", "reuse_pct"), 1)

    def compare(kernel, m, n, k, *, batch=1, pairs=20):
        fields = sample_record.run(m, n, k, 2.0) | {"batch": batch, "pairs": pairs}
        return Measurement.from_dict(fields)

    def kernel(step, compiled=None):
        return SimpleNamespace(
            rung=step.rung, settings=step.all_settings, compiled=SimpleNamespace(cubin=b"")
        )

    def counters(rung, settings, shapes, metrics, path):
        return [dict.fromkeys(metrics, 7) for _ in shapes]

    roof = Roof(Spread(6e14, 6e14, 6e14, 6e14), 1, device.GpuState(1500, 600.0, 50))
    arena = nullcontext(SimpleNamespace(their_precision=SimpleNamespace(scales=None)))
    for module, names in {
        ablations: {
            "compare": compare, "workers": lambda context: nullcontext(HERE),
            "work_of": lambda *_: None, "_compiled": lambda given: None,
            "taken": lambda kernel: {"registers": 9, "spilled_bytes": 0},
            "register_reads": lambda loops: loop | {"slots": 2},
            "loops": SimpleNamespace(analyse=lambda *_: None, adds_per_tile=lambda kernel: 0),
        },
        best_by_shape: {"compare": compare, "time": SimpleNamespace(sleep=lambda seconds: None)},
        AblationStep: {"kernel": kernel}, fp32_summit.SummitStep: {"kernel": kernel},
        fp32_summit: {"_errors": lambda *_: {"error": 1e-7, "cublas_error": 1e-7}},
        mma_sync: {
            "bits_of": lambda kernel: "0" * 64,
            "measure_mma": lambda *_: roof,
            "LOADS": dict.fromkeys(mma_sync.LOADS, lambda work: pace),
        },
        tma_wgmma: {
            "bits_of": lambda kernel: "0" * 64, "sustained": lambda work: pace,
        },
        fp8: {"bits_of": lambda kernel: "0" * 64, "arena_of": lambda *_: arena},
        profiler: {"counters": counters},
    }.items():  # fmt: skip
        for name, played in names.items():
            monkeypatch.setattr(module, name, played)
    monkeypatch.setattr(registry, "RESULTS", tmp_path)
    sample_record.measure_on(monkeypatch)


def test_steps_are_read_from_the_table_beside_a_module(tmp_path):
    (tmp_path / "steps.csv").write_text(
        "group,rung,settings,taken,shapes,also,title\n"
        "way,01_naive,BLOCK_X=32 BLOCK_Y=4,yes,,,one\n"
        'way,01_naive,,no,8x4x2 1x1x1,paced,"two, and more"\n'
        "roads,01_naive,,yes,,,three\n"
    )
    first, two = ablations.steps_beside(str(tmp_path / "measure.py"), "way")
    assert (
        first.settings == {"BLOCK_X": 32, "BLOCK_Y": 4} and first.taken and first.shapes == SQUARES
    )
    assert not two.taken and two.shapes == ((8, 4, 2), (1, 1, 1)) and two.also == ("paced",)
    assert two.title == "two, and more" and two.rung is ladder.find("01_naive")


EVERY = [
    *PATHS.values(), mma_sync.BY_STEPS, mma_sync.BY_TYPES, tma_wgmma.TABLE, fp8.BY_STEPS,
    fp32_summit.TABLE,
]  # fmt: skip


@pytest.mark.parametrize("table", EVERY, ids=lambda table: table.name)
def test_what_would_be_measured_now_is_what_is_recorded(table, on_a_gpu_that_is_made_up):
    """The same rows with the same code, and no other cells are empty."""
    rows = pandas.read_csv(table.remake(lambda line: None), dtype=str, keep_default_na=False)
    kept = pandas.read_csv(RESULTS / "nvidia-h200" / table.file, dtype=str, keep_default_na=False)
    if table.part:
        kept = kept[kept[table.part[0]] == table.part[1]]
    by = [*table.key, "code"]
    assert list(rows.columns) == list(kept.columns)
    order = [each.sort_values(by).reset_index(drop=True) for each in (rows, kept)]
    assert order[0][by].equals(order[1][by])
    assert ((order[0] == "") == (order[1] == "")).all(axis=None)
