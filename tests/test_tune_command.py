"""tune with a strategy: nothing measured is lost, a stopped search goes on where it was."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from types import SimpleNamespace

import pytest

from gemmlab import cli
from gemmlab.folders import ROOT
from gemmlab.ladder import find
from gemmlab.lessons.autotuning import searching, tuner
from gemmlab.lessons.autotuning import space as recorded
from gemmlab.lessons.autotuning.searching import Wanted
from gemmlab.measure.timing import TimingError
from gemmlab.records import tuning

TEN, SQUARE = "10_register_banks", (4096, 4096, 4096)
WANTED = Wanted(TEN, SQUARE, "genetic", 14, 2)

FAKE = textwrap.dedent('''
    """A search whose clock is the record: each measurement takes a while."""
    import sys, time
    from pathlib import Path
    from gemmlab.records import tuning
    from gemmlab.lessons.autotuning import searching
    from gemmlab.lessons.autotuning import space as recorded

    known = recorded.recorded("10_register_banks", (4096, 4096, 4096))
    wanted = searching.Wanted("10_register_banks", (4096, 4096, 4096), "genetic", 14, 2)

    def timer(settings):
        time.sleep(float(sys.argv[2]))
        with open(sys.argv[3], "a") as file:
            print(settings, file=file)
        row = dict.fromkeys(tuning.MEASURED, "1")
        row |= {"time_ms": known.times_ms[known.space.point(settings)]}
        return settings | row

    search = searching.search(known.space, wanted, Path(sys.argv[1]), timer, lambda line: None)
    print(len(search.evaluated), search.best)
''')  # fmt: skip


@pytest.fixture(scope="module")
def known():
    return recorded.recorded(TEN, SQUARE)


def timer_of(known, asked, fails=()):
    def timer(settings):
        asked.append(settings)
        if known.space.point(settings) in fails:
            raise TimingError("it is too slow,\nfar too slow")
        row = dict.fromkeys(tuning.MEASURED, "1")
        return settings | row | {"time_ms": known.times_ms[known.space.point(settings)]}

    return timer


def run(arguments, **more):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "GEMMLAB_DEVICE": "simulator"}
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)], env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, **more,
    )  # fmt: skip


def test_a_search_that_is_killed_goes_on_where_it_was(known, tmp_path):
    script, path, asked = (tmp_path / name for name in ("fake.py", "journal.csv", "asked.txt"))
    script.write_text(FAKE)
    process = run([script, path, 0.2, asked])
    end = time.monotonic() + 60
    while time.monotonic() < end and not (path.exists() and path.read_text().count("\n") > 4):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = path.read_text().count("\n") - 1
    assert 4 <= kept < 14
    assert asked.read_text().count("\n") - kept in (0, 1), "at most the one under way is lost"
    with open(path, "a") as file:
        file.write("128,256,3")  # of a line that was not finished
    first = asked.read_text()
    out, _ = run([script, path, 0, asked]).communicate(timeout=60)
    straight = tuner.replay(known, "genetic", 14, 2)
    assert out.split("\n")[0] == f"{len(straight.evaluated)} {straight.best}"
    after = asked.read_text()[len(first) :].splitlines()
    assert len(after) == len(straight.evaluated) - kept and len(set(after)) == len(after)
    assert path.read_text().count("\n") - 1 == len(straight.evaluated)


def test_a_setting_that_fails_is_noted_and_not_tried_again(known, tmp_path):
    path, asked, lines = tmp_path / "journal.csv", [], []
    fails = {point for point, _ in tuner.replay(known, "genetic", 14, 2).evaluated[:2]}
    first = searching.search(known.space, WANTED, path, timer_of(known, asked, fails), lines.append)
    assert {point for point, time_ms in first.evaluated if time_ms is None} == fails
    assert sum("far too slow; left out" in line for line in lines) == 2
    count = len(asked)
    again = searching.search(known.space, WANTED, path, timer_of(known, asked), lines.append)
    assert len(asked) == count and again.evaluated == first.evaluated
    assert f"{count} settings are measured already" in lines[-1]
    assert "  failed: 2" in searching._lines(first, 35)


def test_without_a_gpu_the_record_is_searched_and_that_is_said(capsys):
    assert cli.main(["tune", TEN, "--strategy", "random", "--budget", "35"]) == cli.OK
    out = capsys.readouterr().out
    assert "No GPU here: replayed from the sweep of NVIDIA H200" in out
    assert "35 of 35 settings" in out and "of the fastest recorded 100.0 %" in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--strategy", "random"], cli.USAGE, "a search needs one kernel, and 0 are named"),
        ([TEN, "09_double_buffering", "--strategy", "random"], cli.USAGE, "and 2 are named"),
        (["10_nothing", "--strategy", "random"], cli.USAGE, "there is no rung '10_nothing'"),
        ([TEN, "--strategy", "random", "--shape", "64x64x64"], cli.UNAVAILABLE, "measured are"),
        ([TEN, "--budget", "5"], cli.USAGE, "--budget belongs to a search"),
    ],
)
def test_requests_that_cannot_be_searched_are_refused(arguments, code, message, capsys):
    assert cli.main(["tune", *arguments]) == code
    assert message in capsys.readouterr().err


# ---- the journal ---------------------------------------------------------------------------------


def test_the_gpu_timer_goes_through_the_gate(monkeypatch):
    """On a stand-in for the GPU: verified before it is timed, in one arena for all."""
    rung, steps = find(TEN), []
    space = searching.space_of(TEN, SQUARE)

    class Arena:
        def __init__(self, problem, precision):
            steps.append(("arena", problem, precision.name))

        def __enter__(self):
            return self

        def __exit__(self, *error):
            steps.append("closed")

    monkeypatch.setattr(searching, "Arena", Arena)
    monkeypatch.setattr(searching, "require_verified", lambda kernel: steps.append("verified"))
    monkeypatch.setattr(tuning, "row_of", lambda kernel, arena: {"timed": kernel.settings})
    with searching._gpu_timer(space, SimpleNamespace(arch="sm_90a")) as timer:
        rows = [timer(rung.defaults) for _ in range(2)]
    assert rows == [{"timed": rung.defaults}] * 2
    assert steps == [("arena", space.problem, "float32"), "verified", "verified", "closed"]
