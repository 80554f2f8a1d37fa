"""tune with a strategy: what is measured, what fails, and what is refused."""

from types import SimpleNamespace

import pytest

from gemmlab import cli
from gemmlab.ladder import find
from gemmlab.lessons.autotuning import searching, tuner
from gemmlab.lessons.autotuning import space as recorded
from gemmlab.lessons.autotuning.searching import Wanted
from gemmlab.measure.timing import TimingError
from gemmlab.records import tuning

TEN, SQUARE = "10_register_banks", (4096, 4096, 4096)
WANTED = Wanted(TEN, SQUARE, "genetic", 14, 2)


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


def test_a_setting_that_fails_is_noted_and_the_search_goes_on(known):
    asked, lines = [], []
    straight = tuner.replay(known, "genetic", 14, 2)
    fails = {point for point, _ in straight.evaluated[:2]}
    search = searching.search(known.space, WANTED, timer_of(known, asked, fails), lines.append)
    assert {point for point, time_ms in search.evaluated if time_ms is None} == fails
    assert sum("far too slow; left out" in line for line in lines) == 2
    assert len(asked) == len(search.evaluated) and "  failed: 2" in searching._lines(search, 35)
    whole = searching.search(known.space, WANTED, timer_of(known, []), lines.append)
    assert whole.evaluated == straight.evaluated


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
