import copy
import functools
import importlib
import json
import math
import os
from types import SimpleNamespace

import pytest
import sample_record

import gemmlab as gl
from gemmlab.folders import RESULTS
from gemmlab.ladder import RUNGS, find, settings_for
from gemmlab.measure import ceilings, profiler, timing
from gemmlab.notebook import overview
from gemmlab.records import recorder, registry, roofs, runs

device = importlib.import_module("gemmlab.cuda.device")
needs_gpu = pytest.mark.skipif(device.gpu() is None, reason=f"needs a GPU: {device.why_no_gpu()}")


RECORD = sample_record.record()


# ---- the format ----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema": 2}', '"text"'])
def test_a_file_of_something_else_is_refused_by_name(tmp_path, text):
    path = tmp_path / "nvidia-test.json"
    path.write_text(text)
    with pytest.raises(registry.BadRecord, match=r"nvidia-test\.json"):
        runs.load(path)


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        ("gpu.sm_count", None, "KeyError('sm_count')"),
        ("rungs.01_naive.code", None, "KeyError('code')"),
        ("rungs.01_naive.runs.0.ratio", None, "KeyError('ratio')"),
        ("rungs.01_naive.runs.0.ratio", 2.0, "it is not what `record` writes"),
        ("rungs", [], "it is not what `record` writes"),
        ("rungs.01_naive.runs.0.verify", "FAIL", "verify is 'FAIL', not 'pass'"),
        ("rungs.01_naive.runs.0.time_ms.median", 0, "median is 0, not a number above 0"),
        ("rungs.01_naive.runs.0.cublas_ms.q3", math.nan, "q3 is nan, not a number above 0"),
    ],
)
def test_what_is_missing_not_verified_or_no_measurement_is_refused(results, at, value, reason):
    """None: the field is not there at all."""
    record = copy.deepcopy(RECORD)
    *way, last = (int(part) if part.isdigit() else part for part in at.split("."))
    holder = functools.reduce(lambda part, key: part[key], way, record)
    holder[last] = value
    if value is None:
        del holder[last]
    before = results.read_bytes()
    with pytest.raises(registry.BadRecord):
        runs.save(record, results)
    assert results.read_bytes() == before and os.listdir(results.parent) == [results.name]
    results.write_text(json.dumps(record))
    with pytest.raises(registry.BadRecord) as caught:
        runs.replay(sample_record.kernel())
    message = str(caught.value)
    assert message.startswith(str(results)) and reason in message
    assert f"git checkout -- {results}" in message and "python -m gemmlab record`" in message


# ---- files ---------------------------------------------------------------------------------------


def test_what_is_saved_is_loaded(tmp_path):
    path = tmp_path / "deeper" / "nvidia-test.json"
    record = copy.deepcopy(RECORD)
    record["ceilings"]["copy"]["bytes_per_second"]["median"] = 3_951_234_567_890.123
    runs.save(record, path)
    record["ceilings"]["copy"]["bytes_per_second"]["median"] = 3_951_230_000_000.0  # six digits
    assert runs.load(path) == record
    before = path.read_bytes()
    runs.save(runs.load(path), path)
    assert path.read_bytes() == before


# ---- replay --------------------------------------------------------------------------------------


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A results folder with the sample record, on a machine without a GPU."""
    return sample_record.put(monkeypatch, tmp_path)


def test_recorded_runs_are_replayed_with_gpu_and_date(results):
    replayed = runs.replay(sample_record.kernel())
    assert [(run.m, run.time_ms.median) for run in replayed] == [(512, 0.5), (4096, 275.0)]
    table = runs.benchmark(sample_record.kernel())
    assert tuple(table.columns) == timing.COLUMNS
    assert set(table.gpu) == {"NVIDIA Test"} and set(table.recorded) == {sample_record.DATE}


TEST_GPU = sample_record.GPU


def test_the_line_says_what_runs_here_or_what_is_replayed(results, monkeypatch):
    assert str(runs.device()) == "simulator, replaying NVIDIA Test (recorded 2026-11-21)"
    assert repr(gl.device()) == str(runs.device())
    monkeypatch.setattr(device, "_find_gpu", lambda: TEST_GPU)
    assert str(runs.device()) == "NVIDIA Test (sm_90, 132 SMs), driver 1.0, CUDA 1.0"


def test_the_line_says_why_nothing_can_be_replayed(results, monkeypatch):
    results.write_text("{")
    assert "runs.json: the file is not JSON" in str(runs.device())
    monkeypatch.setenv("GEMMLAB_RECORDS", "typo")
    message = str(runs.device())
    assert message.startswith("simulator, with no recorded run") and "'typo'" in message
    assert "nvidia-test" in message
    monkeypatch.delenv("GEMMLAB_RECORDS")
    results.unlink()
    assert "run `python -m gemmlab record` on a GPU" in str(runs.device())


def test_one_stale_rung_does_not_silence_the_others(results, caplog):
    record = sample_record.record()
    changed = find("02_coalescing")
    record["rungs"][changed.name] = {**record["rungs"]["01_naive"], "code": "sha256:0"}
    first = runs.Measured(find("01_naive"))
    record["rungs"]["01_naive"]["code"] = sample_record.code_of(first)
    runs.save(record, results)
    assert list(overview._so_far("01_naive")["kernel"].unique()) == ["01_naive", "cublas"]
    assert caplog.messages == []
    with pytest.raises(registry.StaleRecord, match="02_coalescing"):
        overview._so_far("02_coalescing")
    third = runs.Measured(find("03_shared_memory"))
    record["rungs"][third.name] = {
        **record["rungs"]["01_naive"], "code": sample_record.code_of(third),
        "settings": third.settings,
    }  # fmt: skip
    runs.save(record, results)
    overview._so_far("03_shared_memory")
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("Left out: 02_coalescing: recorded for another version")


# ---- the records of this repository --------------------------------------------------------------

FILES = sorted(RESULTS.glob("*/runs.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_the_committed_records_are_in_the_format_and_current(path):
    record = runs.load(path)
    assert path.parent.name == "-".join(record["gpu"]["name"].lower().split())
    with registry.records_of(path.parent.name):
        for name in record["rungs"]:
            assert runs.entry(runs.Measured(find(name)))["runs"]
        assert roofs.recorded_ceilings().copy


OF_FEW_TILES = ("12_split_k", "13_batched")  # which leave large products to 10


def test_every_rung_is_recorded_on_an_h200():
    record = runs.load(RESULTS / "nvidia-h200" / "runs.json")
    assert "ceilings" in record
    for rung in RUNGS:
        recorded = record["rungs"][rung.name]
        assert recorded["settings"] == settings_for(rung, {})
        measured = {(run["m"], run["n"], run["k"]) for run in recorded["runs"]}
        skipped = {(item["m"], item["n"], item["k"]) for item in recorded["skipped"]}
        assert not measured & skipped
        missing = set(runs.SHAPES) - (measured | skipped)
        assert measured | skipped <= set(runs.SHAPES)
        assert not missing or (rung.name in OF_FEW_TILES and all(max(s) > 4096 for s in missing))
        counted = {(item["m"], item["n"], item["k"]) for item in recorded["counters"]}
        assert counted == set(recorder.COUNTER_SHAPES)


# ---- recording -----------------------------------------------------------------------------------


class Unrecorded(registry.Evidence):
    def read(self):
        raise registry.NoRecord("nothing is kept of it")

    def remake(self, say):
        say("FMAs")
        return registry.RESULTS


@pytest.fixture
def recording(tmp_path, monkeypatch):
    """A GPU of our own: recording a rung takes what the sample record holds."""
    case = SimpleNamespace(m=1, n=1, k=1, alpha=1.0, beta=0.0, passed=True)

    def by_default(rung):
        kernel = sample_record.kernel()
        kernel.name, kernel.rung = rung.name, rung
        return kernel

    def sweep(kernel, shapes):
        for m, n, k in shapes:
            if m > 4096:
                yield timing.Skipped(m, n, k, "too long")
            else:
                yield timing.Measurement.from_dict(sample_record.run(m, n, k, 1.0))

    monkeypatch.setattr(registry, "RESULTS", tmp_path)
    sample_record.measure_on(monkeypatch, recorder, roofs, runs)
    monkeypatch.setattr(runs, "ncu_version", lambda: "2025.3.1.0")
    monkeypatch.setattr(recorder, "by_default", by_default)
    monkeypatch.setattr(runs, "SHAPES", ((64, 64, 64), (8192, 8192, 8192)))
    monkeypatch.setattr(recorder, "require_verified", lambda kernel: SimpleNamespace(cases=[case]))
    monkeypatch.setattr(recorder, "sweep", sweep)
    monkeypatch.setattr(recorder.runs, "result_digest", lambda *_: "00")
    monkeypatch.setattr(
        profiler, "counters", lambda rung, settings, shapes: [{"a.sum": 1} for _ in shapes]
    )
    state = device.GpuState(1755, 690.0, 50)

    def roof(rate, work):
        return ceilings.Roof(timing.Spread(*(rate,) * 4), work, state)

    for name, measured in {
        "measure_copy": roof(4e12, 2**32), "measure_fma": roof(6e13, 2**40),
        "measure_tensor_ceiling": roof(4e14, 2**40), "measure_levels": {"L2": roof(5e12, 2**30)},
    }.items():  # fmt: skip
        monkeypatch.setattr(ceilings, name, lambda *_, measured=measured: measured)
    lessons = SimpleNamespace(EVIDENCE=(Unrecorded(name="10_fma_order", file="", by_default=True),))
    monkeypatch.setattr(recorder, "modules", lambda name: [lessons])
    return tmp_path / "nvidia-test" / "runs.json"


def silent(line):
    pass


def test_recording_writes_every_rung_and_the_ceilings(recording):
    assert recorder.record([], silent) == recording
    record = runs.load(recording)
    assert list(record["rungs"]) == [rung.name for rung in RUNGS]
    assert record["ceilings"]["copy"]["bytes_per_second"]["median"] == 4e12
    assert record["tensor_ceiling"]["mma"]["flop_per_second"]["median"] == 4e14
    assert record["levels"]["reads"]["L2"]["bytes_per_second"]["median"] == 5e12
    rung = record["rungs"]["01_naive"]
    assert [run["m"] for run in rung["runs"]] == [64]
    assert [item["m"] for item in rung["skipped"]] == [8192]
    assert rung["provenance"]["ncu"] == "2025.3.1.0"
    assert {(item["k"], item["beta"]) for item in rung["results"]} >= {(0, 0.0), (0, 2.0), (1, 0.0)}


def test_an_interruption_loses_only_the_rung_in_hand(recording, monkeypatch):
    def interrupted(kernel, shapes):
        if kernel.name == "02_coalescing":
            raise KeyboardInterrupt
        yield timing.Measurement.from_dict(sample_record.run(64, 64, 64, 1.0))

    monkeypatch.setattr(recorder, "sweep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        recorder.record(["01_naive", "02_coalescing"], silent)
    assert list(runs.load(recording)["rungs"]) == ["01_naive"]


def test_without_nsight_compute_recording_says_why(recording, monkeypatch):
    def unavailable(*_):
        raise profiler.CountersUnavailable("ncu is not installed")

    monkeypatch.setattr(profiler, "counters", unavailable)
    lines = []
    recorder.record(["01_naive"], lines.append)
    assert runs.load(recording)["rungs"]["01_naive"]["counters"] == []
    assert any("NO COUNTERS" in line and "ncu is not installed" in line for line in lines)


def test_a_spoilt_file_is_not_overwritten(recording):
    recording.parent.mkdir()
    recording.write_text("{")
    with pytest.raises(registry.BadRecord):
        recorder.record(["01_naive"], silent)
    assert recording.read_text() == "{"


# ---- Nsight Compute ------------------------------------------------------------------------------

NCU_CSV = """\
==PROF== Connected to process 4242 (/usr/bin/python3.12)
hello from the program, "with quotes"
==PROF== Profiling "naive" - 0: 0%....50%....100% - 3 passes
==PROF== Profiling "naive" - 1: 0%....50%....100% - 3 passes
==PROF== Disconnected from process 4242
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",\
"Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","4242","python3.12","127.0.0.1","naive","1","7","(32, 32, 1)","(32, 25, 1)","0","9.0",\
"Command line profiler metrics","dram__bytes_read.sum","byte","3,722,240"
"0","4242","python3.12","127.0.0.1","naive","1","7","(32, 32, 1)","(32, 25, 1)","0","9.0",\
"Command line profiler metrics","l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum","","25,622,784"
"0","4242","python3.12","127.0.0.1","naive","1","7","(32, 32, 1)","(32, 25, 1)","0","9.0",\
"Command line profiler metrics","sm__warps_active.avg.pct_of_peak_sustained_active","%","97.35"
"0","4242","python3.12","127.0.0.1","naive","1","7","(32, 32, 1)","(32, 25, 1)","0","9.0",\
"Command line profiler metrics","smsp__inst_executed_op_shared_ld.sum","inst","n/a"
"1","4242","python3.12","127.0.0.1","naive","1","7","(32, 32, 1)","(16, 16, 1)","0","9.0",\
"Command line profiler metrics","dram__bytes_read.sum","byte","2097152"
"""


def test_ncu_s_csv_is_read_launch_by_launch():
    assert profiler.parse_csv(NCU_CSV) == [
        (
            "naive",
            {
                "dram__bytes_read.sum": 3_722_240,
                "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 25_622_784,
                "sm__warps_active.avg.pct_of_peak_sustained_active": 97.35,
            },
        ),
        ("naive", {"dram__bytes_read.sum": 2_097_152}),
    ]


def ncu(monkeypatch, stdout, returncode=0):
    """Let ncu be there and print this; returns the list that its command line lands in."""
    seen = []

    def run(command, **_):
        seen.append(command)
        return SimpleNamespace(stdout=stdout, stderr="", returncode=returncode)

    monkeypatch.setattr(profiler, "find_ncu", lambda: "/opt/ncu")
    monkeypatch.setattr(profiler.subprocess, "run", run)
    return seen


def test_counters_of_too_few_launches_are_refused(monkeypatch):
    ncu(monkeypatch, NCU_CSV)
    with pytest.raises(profiler.CountersUnavailable, match="2 launches of 01_naive, not 1"):
        profiler.counters(find("01_naive"), {}, [(1, 1, 1)])


def test_a_forbidden_ncu_says_what_to_do(monkeypatch):
    ncu(monkeypatch, "==ERROR== ERR_NVGPUCTRPERM - no permission\n", returncode=1)
    with pytest.raises(profiler.CountersUnavailable, match="run as root"):
        profiler.counters(find("01_naive"), {}, [(1, 1, 1)])


# ---- on a GPU ------------------------------------------------------------------------------------


@pytest.mark.gpu
@needs_gpu
@pytest.mark.skipif(profiler.find_ncu() is None, reason="needs Nsight Compute (ncu)")
def test_real_counters():
    (counted,) = profiler.counters(find("02_coalescing"), {}, [(64, 64, 64)])
    assert set(counted) == set(profiler.METRICS)
    # One FMA per thread and step of k, and a request per warp for A and for B.
    assert counted["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] == 64**3
    assert counted["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 2 * 64**3 // 32
    assert counted["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == (1 + 4) * 64**3 // 32


@pytest.mark.gpu
@needs_gpu
def test_results_on_this_gpu_are_the_recorded_bits():
    from gemmlab.loading import load

    for rung in RUNGS:
        kernel = load(rung.name)
        for result in runs.entry(kernel)["results"]:
            expected = result.pop("sha256")
            assert runs.result_digest(kernel, **result) == expected, (rung.name, result)
