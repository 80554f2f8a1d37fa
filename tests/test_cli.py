import csv
import importlib
import io
from types import SimpleNamespace

import pytest
import sample_record

from gemmlab import cli, records, timing
from gemmlab.ladder import RUNGS
from gemmlab.verify import VerificationError

device = importlib.import_module("gemmlab.device")

LOAD = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """No GPU, and a record of one rung, 01_naive; kernels that nobody has to compile."""
    fake = SimpleNamespace(
        passes=True, counters={LOAD: 10, SECTORS: 45}, text=sample_record.SOURCE, results=tmp_path
    )

    def load(name, **settings):
        kernel = sample_record.kernel(fake.text, **settings)
        cases = [SimpleNamespace()] * 3

        def require():
            if not fake.passes:
                raise VerificationError("01_naive: C[3, 4] is NaN")

        kernel.verify = lambda: SimpleNamespace(passed=fake.passes, cases=cases, require=require)
        kernel.trace = lambda m, n, k: SimpleNamespace(counters=fake.counters)
        return Hashable(vars(kernel))

    monkeypatch.setattr(device, "RESULTS", tmp_path)
    monkeypatch.setattr(device, "_find_gpu", lambda: "there is none.")
    monkeypatch.delenv("GEMMLAB_RECORDS", raising=False)
    monkeypatch.setattr(cli, "load", load)
    monkeypatch.setattr(cli, "RUNGS", RUNGS[:1])
    records.save(sample_record.record(), tmp_path / "nvidia-test.json")
    return fake


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
        assert "exit codes:" in out and "examples:" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "command"),
        (("fly",), "fly"),
        (("bench", "01_naive", "64", "64"), "K"),
        (("bench", "01_naive", "64", "0", "64"), "'0' is not a whole number of 1 or more"),
        (("bench", "01_naive", "64", "x", "64"), "'x' is not a whole number"),
        (("bench", "01_naive", "8", "8", "8", "--set", "BLOCK_X"), "'BLOCK_X' is not NAME=VALUE"),
        (("record", "--shapes", "64x64"), "'64x64' is not MxNxK"),
        (("record", "--shapes", "64x64x0"), "'0' is not a whole number"),
    ],
)
def test_a_request_that_cannot_be_read_is_2(capsys, arguments, says):
    code, out, err = run(capsys, *arguments)
    assert code == 2 and says in err and out == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("bench", "99_nothing", "64", "64", "64"),
        ("bench", "01_naive", "64", "64", "64", "--set", "NOTHING=1"),
        ("bench", "01_naive", "64", "64", "64", "--set", "BLOCK_X=-3"),
        ("sweep", "99_nothing"),
        ("record", "99_nothing"),
    ],
)
def test_a_request_that_the_ladder_refuses_is_2(capsys, arguments):
    code, out, err = run(capsys, *arguments)
    assert code == 2 and out == ""
    assert err.startswith("gemmlab: ") and "Traceback" not in err


def test_recording_without_a_gpu_is_3(machine, capsys):
    code, _, err = run(capsys, "record")
    assert code == 3 and "needs a GPU: there is none." in err


# ---- bench ---------------------------------------------------------------------------------------


def test_bench_without_a_gpu_verifies_and_replays_with_a_label(machine, capsys):
    code, out, err = run(capsys, "bench", "01_naive", "512", "512", "512")
    assert code == 0 and err == ""
    assert "simulator, replaying NVIDIA Test" in out
    assert "pass (3 cases)" in out
    assert "recorded on NVIDIA Test, 2026-11-21" in out
    assert "median 0.5 ms" in out and "25.00 %" in out


def test_bench_of_a_shape_that_was_not_recorded_is_3_and_says_which_were(machine, capsys):
    code, _, err = run(capsys, "bench", "01_naive", "100", "100", "100")
    assert code == 3 and "512x512x512, 4096x4096x4096" in err


def test_bench_of_other_settings_is_3(machine, capsys):
    code, _, err = run(capsys, "bench", "01_naive", "512", "512", "512", "--set", "BLOCK_X=16")
    assert code == 3 and "not with BLOCK_X=16" in err


def test_a_wrong_kernel_gets_no_time_and_is_1(machine, capsys):
    machine.passes = False
    code, out, err = run(capsys, "bench", "01_naive", "512", "512", "512")
    assert code == 1 and "C[3, 4] is NaN" in err and "ms" not in out


def test_a_stale_record_is_1(machine, capsys):
    machine.text = "int changed;"
    code, _, err = run(capsys, "bench", "01_naive", "512", "512", "512")
    assert code == 1 and "another version of this kernel" in err


def test_a_record_that_cannot_be_read_is_1_and_named(machine, capsys):
    (machine.results / "nvidia-test.json").write_text("{}")
    code, _, err = run(capsys, "sweep")
    assert code == 1 and "nvidia-test.json" in err and err.count("\n") == 1


def test_bench_on_a_gpu_measures(machine, capsys, monkeypatch):
    here = device.Gpu("NVIDIA X", (9, 0), "sm_90a", 1, 1, 1, "1", "1")
    measured = timing.Measurement.from_dict(sample_record.run(64, 64, 64, 2.0))
    monkeypatch.setattr(device, "_find_gpu", lambda: here)
    monkeypatch.setattr(timing, "compare", lambda kernel, m, n, k: measured)
    code, out, _ = run(capsys, "bench", "01_naive", "64", "64", "64")
    assert code == 0 and "measured here" in out and "median 2 ms" in out


def test_a_shape_that_takes_too_long_is_2(machine, capsys, monkeypatch):
    def compare(kernel, m, n, k):
        raise timing.LaunchTooLong(kernel.name, m, n, k, 2200.0)

    here = device.Gpu("NVIDIA X", (9, 0), "sm_90a", 1, 1, 1, "1", "1")
    monkeypatch.setattr(device, "_find_gpu", lambda: here)
    monkeypatch.setattr(timing, "compare", compare)
    code, _, err = run(capsys, "bench", "01_naive", "8192", "8192", "8192")
    assert code == 2 and "one launch takes 2.20 s" in err


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


def test_sweep_on_a_gpu_tells_what_it_left_out(machine, capsys, monkeypatch):
    here = device.Gpu("NVIDIA X", (9, 0), "sm_90a", 1, 1, 1, "1", "1")
    measured = timing.Measurement.from_dict(sample_record.run(64, 64, 64, 2.0))
    skipped = timing.Skipped(128, 128, 128, "too long", 2000.0)
    monkeypatch.setattr(device, "_find_gpu", lambda: here)
    monkeypatch.setattr(timing, "sweep", lambda kernel, shapes: iter([measured, skipped]))
    code, out, err = run(capsys, "sweep")
    assert code == 0 and len(out.splitlines()) == 3
    assert "128x128x128: left out, too long" in err


def test_the_ladder_verifies_counts_and_replays(machine, capsys):
    code, out, _ = run(capsys, "ladder")
    assert code == 0
    row = out.splitlines()[-1].split()
    assert row[:2] == ["01_naive", "pass"]
    assert "4.5" in row and "as recorded" in out and "25.0" in row and "NVIDIA Test" in out


def test_the_ladder_fails_where_a_counter_differs_from_the_record(machine, capsys):
    machine.counters = {LOAD: 10, SECTORS: 44}
    code, out, err = run(capsys, "ladder")
    assert code == 1 and "1 differ" in out and f"{SECTORS} is 44 here" in err


def test_the_ladder_fails_on_a_wrong_kernel_and_shows_no_speed(machine, capsys):
    machine.passes = False
    code, out, _ = run(capsys, "ladder")
    assert code == 1 and "FAIL" in out and "NVIDIA Test" not in out.splitlines()[-1]


def test_the_ladder_fails_on_a_stale_record(machine, capsys):
    machine.text = "int changed;"
    code, out, err = run(capsys, "ladder")
    assert code == 1 and "stale record" in out and "another version" in err


def test_the_doctor_finds_what_the_simulator_needs_and_says_what_a_gpu_would_add(machine, capsys):
    code, out, _ = run(capsys, "doctor")
    assert code == 0
    assert "GPU: there is none." in out and "Not needed" in out
    assert "NVRTC" in out and "records: nvidia-test" in out


def test_the_doctor_fails_where_something_needed_is_missing(machine, capsys, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        cli.importlib.util, "find_spec", lambda name: None if name == "pandas" else find_spec(name)
    )
    code, out, _ = run(capsys, "doctor")
    assert code == 1 and "MISSING package pandas" in out and "make lab" in out
