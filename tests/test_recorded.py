"""Records of kernels: nothing is left to record, and recording keeps what still fits."""

import json

import corpus
import pytest
import record_corpus
import record_kernels
import record_sanitizer
import recording

import ptxsim

A, B, C = ({"code": code, "recording": 0, "seen": code} for code in "abc")
RUN = {"gpu": "some GPU", "recorded": "2026-11-21"}
LATER = {"gpu": "some GPU", "recorded": "2026-11-24"}


@pytest.mark.parametrize("record", record_kernels.RECORDS, ids=lambda record: record.file)
def test_nothing_is_left_to_record(record):
    assert record.stale() == [], f"on a GPU: {recording.COMMAND}"
    assert record.read()["entries"].keys() == record.codes().keys()


@pytest.fixture
def record(tmp_path, monkeypatch):
    """One with the entries a, b and c, of which b has changed since, c has gone, and d is new."""
    monkeypatch.setattr(recording, "HERE", tmp_path)
    monkeypatch.setattr(recording, "provenance", lambda: dict(LATER))
    recording.write(
        tmp_path / "it.json", {"recordings": [RUN], "entries": {"a": A, "b": B, "c": C}}
    )
    codes = {"d": "d", "a": "a", "b": "changed"}
    return recording.Record("it.json", lambda: codes, lambda names: ((n, {}) for n in names))


def renewed(folder):
    record = json.loads((folder / "it.json").read_text("utf-8"))
    return record["recordings"], record["entries"]


def test_what_is_new_or_has_changed_is_recorded_and_the_rest_is_kept(record, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    assert record.stale() == ["d", "b"]
    assert list(record.renew(out)) == ["d", "b"]
    recordings, entries = renewed(out)
    assert recordings == [RUN, LATER]
    assert list(entries) == ["d", "a", "b"]
    assert entries["a"] == A
    assert entries["b"] == {"code": "changed", "recording": 1}
    assert sorted(out.iterdir()) == [out / "it.json"]


def test_a_run_that_stops_leaves_what_it_had_and_the_next_one_goes_on(record, tmp_path):
    steps = record.renew(tmp_path)
    assert next(steps) == "d"
    steps.close()
    assert record.stale() == ["b"]
    assert list(record.renew(tmp_path)) == ["b"]
    recordings, entries = renewed(tmp_path)
    assert recordings == [RUN, LATER] and entries.keys() == {"a", "b", "d"}
    assert record.stale() == []


def test_the_recorded_results_equal_what_the_kernel_computes(monkeypatch):
    """With the simulator in the GPU's place: every argument of the launch is as it takes it."""
    monkeypatch.setattr(record_corpus, "RESULTS", ((5, 7, 3, 1.0, 0.0), (9, 20, 17, 0.5, 2.0)))
    monkeypatch.setattr(record_corpus.hardware, "launch", ptxsim.launch)
    entry = corpus.rung("03_shared_memory", TILE=8, BK=32, PAD=1)
    ((name, entry_read),) = record_corpus.recorded([entry.name])
    assert name == entry.name
    for row in entry_read["results"]:
        C, _ = entry.launch(row["m"], row["n"], row["k"], row["alpha"], row["beta"], row["seed"])
        assert row["sha256"] == record_corpus.digest(C)
    assert len({row["sha256"] for row in entry_read["results"]}) == 2


TOOL_OUTPUT = """========= COMPUTE-SANITIZER
wrong
========= Error: Race reported between Write access at k+0x10 in kernel.cu:3
========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)
"""


def test_a_case_is_run_alone_and_under_each_tool(monkeypatch):
    commands = []

    def finished(command):
        commands.append(command)
        if command[0] != "compute-sanitizer":
            return None
        return TOOL_OUTPUT if "racecheck" in command else "right\nERROR SUMMARY: 0 errors\n"

    monkeypatch.setattr(record_sanitizer, "finished", finished)
    cases = dict(record_sanitizer.recorded(["no bound on k"]))["no bound on k"]
    assert cases["alone"] == "hangs"
    assert {tool: result["errors"] for tool, result in cases["tools"].items()} == {
        "memcheck": 0, "racecheck": 2, "initcheck": 0, "synccheck": 0,
    }  # fmt: skip
    assert cases["tools"]["racecheck"]["first"] == "Race reported between Write access"
    assert len(commands) == 5 and all("no bound on k" in command for command in commands)
