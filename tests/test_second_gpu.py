"""Recording another GPU: it goes on where it was, leaves out what cannot run, and says why."""

import dataclasses
import shutil
from collections.abc import Callable
from contextlib import suppress

import pytest

from gemmlab.analysis import recorded as gpus
from gemmlab.cuda.device import Gpu
from gemmlab.ladder import IllegalSetting, find, nearest_on
from gemmlab.lessons import modules
from gemmlab.lessons.persistent.rung import RUNG as PERSISTENT
from gemmlab.measure.timing import TimingError
from gemmlab.records import recorder, registry, roofs, runs
from gemmlab.records.registry import Evidence, NoRecord, StaleRecord
from gemmlab.records.runs import Measured

H100 = "nvidia-h100-80gb-hbm3"
AMPERE = Gpu(
    name="NVIDIA Made Up", compute_capability=(8, 0), arch="sm_80", sm_count=108,
    memory_bytes=4 * 10**10, l2_bytes=40 * 2**20, driver="1.0", cuda="1.0",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kept(Evidence):
    """Evidence that tells when it is measured, may fail, and can be read once it is there."""

    measure: Callable
    done: list

    def remake(self, say):
        return self.measure(self.name)

    def read(self):
        if (registry.replayed().name, self.name) not in self.done:
            raise StaleRecord("of another version") if self.file == "stale" else NoRecord("none")


@pytest.fixture
def record(tmp_path, monkeypatch):
    """record(names, failing, on): what was measured of a GPU, and the lines that were said."""
    monkeypatch.setattr(registry, "RESULTS", tmp_path)
    monkeypatch.delenv("GEMMLAB_RECORDS", raising=False)
    for name in ("load", "current"):
        monkeypatch.setattr(runs, name, lambda *_: {})
    done = []

    def run(names=(), failing=(), on=AMPERE):
        for module in (recorder, registry):
            monkeypatch.setattr(module, "require_gpu", lambda _: on)
        measured, lines = [], []

        def remake(name):
            if name in failing:
                raise failing[name]
            measured.append(name)
            done.append((on.slug, name))
            path = tmp_path / on.slug / registry.RUNS
            path.parent.mkdir(exist_ok=True)
            path.write_text("{}")
            return path

        every = tuple(
            Kept(name=name, file="", by_default=True, measure=remake, done=done)
            for name in ("one", "two", "three")
        )
        monkeypatch.setattr(recorder, "evidence", lambda: every)
        recorder.record(names, lines.append)
        return measured, lines

    return run


def test_an_interrupted_record_continues_with_the_missing_rungs(record):
    with pytest.raises(KeyboardInterrupt):
        record(failing={"two": KeyboardInterrupt()})
    measured, lines = record()
    assert measured == ["two", "three"]
    assert lines[0] == "one: recorded already; `record one` measures it again"
    assert record()[0] == []
    assert record(["one"])[0] == ["one"]


def test_what_cannot_run_is_left_out_with_its_reason_and_the_rest_is_measured(record):
    reasons = {"one": IllegalSetting("one needs sm_90a, this is sm_80"), "two": TimingError("no")}
    measured, lines = record(failing=reasons)
    assert measured == ["three"]
    assert lines[:2] == ["one: left out. one needs sm_90a, this is sm_80", "two: left out. no"]


def test_a_gpu_without_tensor_cores_for_the_probe_is_refused(monkeypatch):
    old = dataclasses.replace(AMPERE, compute_capability=(7, 5), arch="sm_75")
    for module in (roofs, runs):
        monkeypatch.setattr(module, "require_gpu", lambda _: old)
    part = next(part for part in roofs.PARTS if part.name == "00_tensor_ceiling")
    with pytest.raises(IllegalSetting, match="needs sm_80 or newer, this is sm_75"):
        part.measure(print)


# ---- reading ------------------------------------------------------------------------------------


def test_a_rung_is_read_with_the_settings_that_run_on_the_gpu_of_the_record(monkeypatch):
    rung = find("15_mma_sync")
    monkeypatch.setattr(runs, "current", lambda: {"gpu": {"compute_capability": [8, 0]}})
    assert not rung.runs_on(rung.defaults, "sm_80")
    assert Measured(rung).settings == nearest_on(rung, rung.defaults, "sm_80") != rung.defaults
    assert Measured(PERSISTENT).settings == PERSISTENT.defaults  # nothing of it runs there
    monkeypatch.setattr(runs, "current", lambda: {"gpu": {"compute_capability": [9, 0]}})
    assert Measured(rung).settings == rung.defaults


@pytest.mark.parametrize("slug", ["nvidia-h200", H100])
def test_speeds_are_those_of_the_gpu_and_shares_of_its_own_cublas_and_roof(slug):
    speeds = gpus.gpu_speeds()
    with registry.records_of(slug):
        name = runs.current()["gpu"]["name"]
        run = runs.replay_at(Measured(find("14_wmma")), *runs.LARGE)
        roof = roofs.recorded_ceilings().tensor.per_second.median
    row = speeds.loc["14_wmma", name]
    assert row[gpus.TFLOPS] == pytest.approx(run.problem.flop / run.time_ms.median / 1e9)
    assert row[gpus.CUBLAS] == pytest.approx(
        100 * run.cublas_ms.median / run.time_ms.median, rel=0.05
    )
    assert row[gpus.ROOF] == pytest.approx(100e12 * row[gpus.TFLOPS] / roof)


def test_every_record_of_a_lesson_is_of_the_code_that_is_here_or_is_missing():
    read = []
    with registry.records_of(H100):
        for lesson in modules("measure"):
            for evidence in lesson.EVIDENCE:
                with suppress(NoRecord):
                    read.append(evidence.read())
    assert read


@pytest.fixture
def h100_without_wgmma(monkeypatch, tmp_path):
    """Both recorded GPUs, without the H100's roofs of wgmma."""
    for slug in ("nvidia-h200", H100):
        shutil.copytree(registry.RESULTS / slug, tmp_path / slug)
    (tmp_path / H100 / "wgmma_ceilings.csv").unlink()
    monkeypatch.setattr(registry, "RESULTS", tmp_path)


def test_where_a_roof_lacks_the_speed_is_there(h100_without_wgmma):
    row = gpus.gpu_speeds().loc["18_persistent", "NVIDIA H100 80GB HBM3"]
    assert row[gpus.TFLOPS] > 0 and row[gpus.CUBLAS] > 0 and row.isna()[gpus.ROOF]


def test_recorded_roofs_are_never_of_two_gpus(monkeypatch, h100_without_wgmma):
    """Where the H100's record lacks wgmma's, they are there of the reference."""
    monkeypatch.delenv("GEMMLAB_RECORDS", raising=False)
    reference = roofs.recorded_ceilings()
    assert reference.wgmma
    h100 = dataclasses.replace(AMPERE, name="NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(registry, "gpu", lambda: h100)
    recorded = roofs.recorded_ceilings()
    assert recorded.gpu == h100.name and not recorded.wgmma and recorded.reads
    monkeypatch.setattr(registry, "gpu", lambda: AMPERE)
    assert roofs.recorded_ceilings() == reference
