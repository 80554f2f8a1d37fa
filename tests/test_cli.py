import csv
import importlib
import io
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import sample_record

import gemmlab as gl
from gemmlab import cli, ladder
from gemmlab.cli import doctor, measure
from gemmlab.cuda.device import NoGpu
from gemmlab.kernel import verify
from gemmlab.ladder import RUNGS
from gemmlab.lessons.multi_gpu.gpus.team import RankFailed
from gemmlab.measure import timing
from gemmlab.products import choosing
from gemmlab.records import best_by_shape, recorder, registry, runs, tuning

device = importlib.import_module("gemmlab.cuda.device")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """No GPU, and a record of one rung, 01_naive; kernels that nobody has to compile."""
    fake = SimpleNamespace(passes=True, text=sample_record.SOURCE, results=tmp_path)

    def load(name, arch=None, shape=None, **settings):
        if shape is not None:
            raise registry.NoRecord("01_naive: no sweep is recorded.")
        kernel = sample_record.kernel(fake.text, **settings)
        kernel.note, kernel.arch, kernel.dtype = "", "sm_90a", "float32"
        cases = [SimpleNamespace()] * 3

        def require():
            if not fake.passes:
                raise verify.VerificationError("01_naive: C[3, 4] is NaN")

        kernel.verify = lambda: SimpleNamespace(passed=fake.passes, cases=cases, require=require)
        return Hashable(vars(kernel))

    loaded_by(monkeypatch, load)
    only(monkeypatch, RUNGS[:1])
    sample_record.put(monkeypatch, tmp_path)
    return fake


def loaded_by(monkeypatch, load):
    monkeypatch.setattr(measure, "load", load)


def only(monkeypatch, rungs):
    monkeypatch.setattr(measure, "RUNGS", rungs)


class Hashable:
    def __init__(self, attributes):
        vars(self).update(attributes)


def run(capsys, *arguments):
    """Exit code, standard output, standard error."""
    try:
        code = cli.main(list(arguments))
    except SystemExit as stopped:  # argparse
        code = stopped.code
    return code, *capsys.readouterr()


# ---- exit codes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [(), ("bench",), ("record",), ("sweep",), ("doctor",)])
def test_help_teaches(capsys, command):
    code, out, _ = run(capsys, *command, "--help")
    assert code == 0 and "usage: python -m gemmlab" in out
    if not command:
        assert "exit codes:" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fly",), "fly"),
        (("bench", "01_naive", "64", "64"), "K"),
        (("bench", "01_naive", "64", "0", "64"), "'0' is not a whole number, 1 or more"),
        (("bench", "01_naive", "8", "8", "8", "--set", "BLOCK_X"), "'BLOCK_X' is not NAME=VALUE"),
        (("bench", "02", "64", "64", "64"), "no rung '02': the ladder has 01_naive"),
        (("sass", "99_nothing"), "no rung '99_nothing'"),
        (("sass", "01_naive", "--arch", "sm_50"), "choose one of sm_75"),
    ],
)
def test_an_unreadable_request_exits_with_2(capsys, arguments, message):
    code, out, err = run(capsys, *arguments)
    assert code == 2 and message in err and out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("bench 01_naive 64 64 64 --set NOTHING=1", "01_naive has no parameter NOTHING"),
        ("bench 01_naive 64 64 64 --dtype float16", "--dtype is only for auto"),
        ("bench auto 64 64 64 --set BM=64", "itself: to set BM=64, name a rung"),
        ("sweep 99_nothing", "no rung '99_nothing'"),
    ],
)
def test_a_request_that_the_ladder_refuses_exits_with_2(capsys, arguments, message):
    code, out, err = run(capsys, *arguments.split())
    assert code == 2 and out == "" and err.startswith("gemmlab: ") and message in err


@pytest.mark.parametrize("command", ["doctor", "ladder", "sweep", "tune", "bench 01_naive 8 8 8"])
def test_an_unknown_device_exits_with_2_for_every_command(capsys, monkeypatch, command):
    monkeypatch.setenv("GEMMLAB_DEVICE", "tpu")
    code, out, err = run(capsys, *command.split())
    assert code == 2 and out == "" and "GEMMLAB_DEVICE='tpu' is not known: set it" in err


def test_an_unknown_name_to_record_is_answered_with_how_to_list_all(capsys):
    code, _, err = run(capsys, "record", "qqq")
    assert code == 2 and "`python -m gemmlab record --list`" in err
    code, out, _ = run(capsys, "record", "--list")
    assert code == 0 and out.splitlines() == [item.name for item in recorder.evidence()]


# ---- bench ---------------------------------------------------------------------------------------


def test_bench_without_a_gpu_verifies_and_replays_with_a_label(machine, capsys):
    code, out, err = run(capsys, "bench", "01_naive", "512", "512", "512")
    assert code == 0 and err == ""
    assert "simulator, replaying NVIDIA Test" in out
    assert "pass (3 cases)" in out
    assert "recorded on NVIDIA Test, 2026-11-21" in out
    assert "median 0.5 ms" in out and "25.00 %" in out


def test_too_few_gpus_exit_with_3_and_a_dead_rank_with_1(monkeypatch, capsys):
    for error, code in (
        (NoGpu("2 ranks need a GPU each"), 3), (RankFailed("rank 1 of 2 died"), 1),
    ):  # fmt: skip

        def fails(*_, error=error):
            raise error

        monkeypatch.setattr(recorder, "record", fails)
        assert cli.main(["record", "21_multi_gpu"]) == code
        assert capsys.readouterr().err.strip() == f"gemmlab: {error}"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("100", "100", "100"), "recorded are, as MxNxK: 512x512x512, 4096x4096x4096."),
        (("512", "512", "512", "--set", "BLOCK_X=16"), "not with BLOCK_X=16"),
    ],
)
def test_bench_without_a_record_verifies_and_says_that_no_time_is_known(
    machine, capsys, asked, message
):
    code, out, err = run(capsys, "bench", "01_naive", *asked)
    assert (code, err) == (0, "") and "pass (3 cases)" in out and "ms" not in out
    assert out.splitlines()[-1].startswith("  no time to show: ") and message in out
    machine.passes = False
    code, out, err = run(capsys, "bench", "01_naive", *asked)
    assert code == 1 and "C[3, 4] is NaN" in err


TUNED, SWEPT = "10_register_banks", "05_thread_tile_2d"
HERE = device.Gpu("NVIDIA X", (9, 0), "sm_90a", 1, 1, 1, "1", "1")


@pytest.fixture
def replayed(monkeypatch):
    """No GPU, the results of the project, and no verification, which takes its time."""
    monkeypatch.setattr(device, "_find_gpu", lambda: "there is none.")
    monkeypatch.setattr(timing, "require_verified", lambda kernel: SimpleNamespace(cases=[None]))


def test_bench_takes_the_settings_that_suit_the_shape_and_says_so(replayed, capsys):
    code, out, err = run(capsys, "bench", TUNED, "1024", "1024", "512")
    fastest = tuning.best(tuning.recorded(TUNED), (1024, 1024, 512))
    settings = {name: fastest[name] for name in ladder.find(TUNED).defaults}
    row = best_by_shape.of(
        gl.load(TUNED, **{name: int(v) for name, v in settings.items()}), (1024, 1024, 512)
    )
    assert (code, err) == (0, "") and f"{TUNED} {ladder.written(settings)}: pass" in out
    assert "its settings: the fastest in the sweep recorded on NVIDIA H200 at 1024×1024×512" in out
    assert f"with the settings for each shape on NVIDIA H200, {row['recorded'][:10]}" in out
    assert f"share of cuBLAS  {row['pct_cublas']:.2f} %" in out


def test_bench_shows_the_default_where_only_that_is_recorded(replayed, capsys):
    code, out, _ = run(capsys, "bench", SWEPT, "1024", "1024", "1024")
    kernel = gl.load(SWEPT)
    recorded = runs.replay_at(kernel, 1024, 1024, 1024)
    assert code == 0 and f"{SWEPT} {ladder.written(kernel.settings)}: pass" in out
    assert "its settings: the default. No time is recorded of BM=" in out
    assert f"share of cuBLAS  {100 * recorded.ratio.median:.2f} %" in out


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ([], lambda: gl.load(TUNED, shape=(1024, 1024, 512)).settings),
        (["--set", "BN=128"], lambda: gl.load(TUNED, BN=128).settings),
    ],
)
def test_bench_on_a_gpu_measures_the_given_settings_or_those_for_the_shape(
    replayed, capsys, monkeypatch, options, settings
):
    measured = []

    def compare(kernel, *shape):
        measured.append((kernel.settings, shape))
        return timing.Measurement.from_dict(sample_record.run(*shape, 2.0))

    monkeypatch.setattr(device, "_find_gpu", lambda: HERE)
    monkeypatch.setattr(timing, "compare", compare)
    code, out, _ = run(capsys, "bench", TUNED, "1024", "1024", "512", *options)
    assert code == 0 and "measured here" in out
    assert measured == [(settings(), (1024, 1024, 512))]


# ---- damaged and odd records ---------------------------------------------------------------------


@pytest.mark.parametrize("command", ["bench 01_naive 512 512 512", "sweep", "ladder", "doctor"])
def test_a_damaged_record_exits_with_1_and_the_message_says_what_to_do(machine, capsys, command):
    path = machine.results / "nvidia-test" / "runs.json"
    path.write_text(path.read_text()[:-9])
    code, out, err = run(capsys, *command.split())
    assert code == 1 and f"git checkout -- {path}" in out + err and "Traceback" not in err
    assert len([line for line in err.splitlines() if str(path) in line]) <= 1, "told once"


def test_the_doctor_finds_a_choice_of_no_gpu_and_what_is_stale(machine, capsys, monkeypatch):
    code, out, _ = run(capsys, "doctor")
    assert code == 1 and "01_naive: recorded for another version of this kernel" in out
    monkeypatch.setenv("GEMMLAB_RECORDS", "typo")
    code, out, _ = run(capsys, "doctor")
    assert code == 1 and "GEMMLAB_RECORDS='typo' names no record; choose one of:" in out
    assert "or unset GEMMLAB_RECORDS" in out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_output_to_a_full_disk_exits_with_1_and_one_line():
    command = [sys.executable, "-m", "gemmlab", "sweep", "01_naive"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "gemmlab: [Errno 28] No space left on device\n"


# ---- sweep, ladder, doctor -----------------------------------------------------------------------


def test_sweep_prints_csv_and_nothing_else(machine, capsys):
    code, out, err = run(capsys, "sweep")
    assert code == 0 and err == ""
    header = "kernel,dtype,m,n,k,time_ms,gflops,pct_cublas,verify,gpu,recorded"
    assert out.splitlines()[0] == header
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["kernel"], row["m"]) for row in rows] == [
        ("01_naive", "512"), ("01_naive", "4096"), ("cublas", "512"), ("cublas", "4096"),
    ]  # fmt: skip
    assert float(rows[0]["time_ms"]) == 0.5 and rows[0]["gpu"] == "NVIDIA Test"


def test_a_rung_that_does_not_run_here_is_told_with_the_reason(machine, capsys, monkeypatch):
    first = measure.load

    def load(name, *others, **settings):
        if name == "02_coalescing":
            raise ladder.IllegalSetting(f"{name} needs sm_90a, this is sm_86")
        return first(name, *others, **settings)

    loaded_by(monkeypatch, load)
    only(monkeypatch, RUNGS[1::-1])
    code, out, err = run(capsys, "ladder")
    assert code == 0 and "02_coalescing needs sm_90a, this is sm_86" in err
    refused, other = (line.split() for line in out.splitlines()[-2:])
    assert refused[:2] == ["02_coalescing", "-"] and other[:2] == ["01_naive", "pass"]


def test_the_ladder_verifies_and_replays(machine, capsys):
    code, out, _ = run(capsys, "ladder")
    row = out.splitlines()[-1].split()
    assert code == 0 and row[:2] == ["01_naive", "pass"]
    assert "25.0" in row and "NVIDIA Test" in out
    machine.passes = False
    code, out, _ = run(capsys, "ladder", "01_naive")
    assert code == 1 and out.splitlines()[-1].split()[:3] == ["01_naive", "FAIL", "-"]


def test_the_doctor_finds_what_the_simulator_needs_and_says_what_a_gpu_would_add(
    machine, capsys, monkeypatch
):
    monkeypatch.setattr(recorder, "refused", lambda: [])
    code, out, _ = run(capsys, "doctor")
    assert code == 0
    assert "GPU: there is none." in out and "Not needed" in out
    assert "NVRTC" in out and "records: nvidia-test" in out


def test_the_doctor_fails_where_the_compiler_is_missing(machine, capsys, monkeypatch):
    monkeypatch.setattr(recorder, "refused", lambda: [])
    monkeypatch.setattr(doctor, "software_versions", dict)
    code, out, _ = run(capsys, "doctor")
    assert code == 1 and "MISSING NVRTC" in out and "make lab" in out


# ---- what gl.choose takes ------------------------------------------------------------------------


def test_bench_of_auto_says_what_was_picked_and_its_recorded_share(capsys):
    code, out, _ = run(capsys, "bench", "auto", "1024", "1024", "512")
    chosen = choosing.choose((1024, 1024, 512))
    assert code == 0 and f"auto: {chosen}" in out and "recorded on NVIDIA H200 at this shape" in out
    assert f"{chosen.rung} {ladder.written(chosen.settings)}: pass" in out
    row = choosing.at(chosen.problem)
    assert f"share of cuBLAS  {100 * row.share:.2f} %" in out and row.recorded[:10] in out
