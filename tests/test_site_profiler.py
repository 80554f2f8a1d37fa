"""The tables of the walk through Nsight Compute: each metric once, as recorded and as simulated."""

import json
import re

import pytest

from gemmlab.analysis import counters
from gemmlab.folders import ROOT
from gemmlab.ladder import RUNGS
from gemmlab.measure import profiler
from gemmlab.records import stalls
from gemmlab.records.registry import replayed
from gemmlab.report import number
from gemmlab.site.tables import profiler as profiler_tables
from gemmlab.site.tables.profiler import BY_NAME, PARTS, PLACES, TITLES, WALK, Report
from ptxsim.metrics import METRICS

PAGE = (ROOT / "docs" / "nsight_compute.md").read_text(encoding="utf-8")
SHARED_LOADS = METRICS["shared", "load"][0]


@pytest.fixture(scope="module")
def report():
    return Report("03_shared_memory")


@pytest.fixture(scope="module")
def hopper():
    return Report("18_persistent")


def rows(table):
    """Cells of a table of Markdown, by the metric in the first."""
    lines = [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {m[1]: cells for cells in lines if (m := re.search(r"`([\w.]+)`", cells[0]))}


def of_the_file(name, shape):
    rung = json.loads((replayed() / "runs.json").read_text(encoding="utf-8"))["rungs"][name]
    return next(
        one["metrics"] for one in rung["counters"] if (one["m"], one["n"], one["k"]) == shape
    )


@pytest.mark.parametrize("name", ["report", "hopper"])
def test_every_metric_that_is_recorded_and_not_0_stands_in_one_section(name, request):
    report = request.getfixturevalue(name)
    sections = [report.table(one) for one in TITLES.values()] + [report.section(BY_NAME)]
    shown = [metric for table in sections for metric in rows(table)]
    recorded = of_the_file(report.name, report.shape)
    assert sorted(one for one in shown if one in recorded) == sorted(
        one for one, value in recorded.items() if value or report.simulated.get(one)
    )
    assert stalls.ISSUE_ACTIVE in shown and len(shown) == len(set(shown))
    assert not any(one.strip(" .") == "nan" for table in sections for one in table.split("|"))


def test_values_are_those_of_the_record_and_of_the_simulator(report):
    found = rows(report.section("MemoryWorkloadAnalysis"))
    recorded = of_the_file(report.name, report.shape)
    simulated = counters.simulated(report.kernel, *report.shape)
    for metric, (_, measured, here, _) in found.items():
        assert measured == number(recorded[metric])
        assert here == (number(simulated[metric]) if metric in simulated else "–")
    assert found[SHARED_LOADS][3].strip() == "equal"


def test_a_difference_is_told_with_its_reason_or_as_not_explained():
    split = Report("12_split_k")
    assert (
        "the assembler puts them" in rows(split.section("MemoryWorkloadAnalysis"))[SHARED_LOADS][3]
    )
    split.recorded[SHARED_LOADS] += 1
    said = rows(split.section("MemoryWorkloadAnalysis"))[SHARED_LOADS][3]
    assert said.startswith("+1,025") and "not explained" in said


def test_stall_reasons_add_up_to_all(report):
    lines = [line.strip("| ").split(" | ") for line in report.stalls().splitlines()[3:]]
    shares = [float(cells[2].removesuffix(" %")) for cells in lines[:-1]]
    assert sum(shares) == pytest.approx(100, abs=0.05 * len(shares))
    cycles = float(lines[-1][1])
    assert sum(float(cells[1]) for cells in lines[:-1]) == pytest.approx(
        cycles, abs=0.01 * len(lines)
    )


def test_two_sections_held_against_each_other_give_the_occupancy():
    """As the page says: cycles per instruction, times the share of cycles, are warps."""
    for name in (WALK, "02_coalescing"):
        report = Report(name)
        each = sum(report._stalls[one] for one in stalls.REASONS)
        warps = each * report.recorded[stalls.ISSUE_ACTIVE] / 100 * 4
        assert 100 * warps / 64 == pytest.approx(report.recorded[counters.ACTIVE_WARPS], rel=0.02)


def test_what_the_page_says_of_its_rung_is_so():
    table = counters.side_by_side(WALK, "10_register_banks")
    busiest = of_the_file(WALK, (4096, 4096, 4096))[
        "sm__throughput.avg.pct_of_peak_sustained_elapsed"
    ]
    assert table.loc["FP32 units busy, %", WALK] < busiest - 5
    assert table.loc["active warps, %", "10_register_banks"] < table.loc["active warps, %", WALK]
    assert "TM" in next(rung.defaults for rung in RUNGS if rung.name == WALK)  # --set TM=4


def test_the_command_launches_what_was_recorded(report, monkeypatch):
    """Its last line is read by the program that is profiled, its kernel is what that launches."""
    command = report.command()
    words = re.search(r"-m gemmlab\.measure\.profiler (.*)", command)[1].split()
    launched = []

    class Found:
        def __init__(self, rung, settings, *_):
            self.rung, self.settings, self.to_device, self.to_host = rung, settings, None, id

        def problem(self, *sizes):
            launched.append((self.rung.name, sizes))
            return self

        def operands(self, problem, seed):
            return self

        def changed(self, how):
            return self

        def launch(self, *_):
            self.C = None

    monkeypatch.setattr(profiler, "Kernel", Found)
    profiler.main(words)
    assert launched == [(report.name, report.shape)]
    entry = re.search(r"--kernel-name (\w+)", command)[1]
    assert f"{entry}(" in report.kernel.text
    assert f"CUPY_CACHE_DIR={re.search(r'--source-folders ([^,]+),', command)[1]} " in command


def test_the_page_has_a_mark_for_every_part_and_a_part_for_every_mark():
    assert sorted(re.findall(r"<!-- made: (nsight-[\w-]+) -->", PAGE)) == sorted(PARTS)
    assert {section for section, _ in PLACES.values()} <= set(TITLES.values())
    assert all(f"## {title}" in PAGE for title in TITLES)
    assert WALK in PAGE


def test_rungs_without_a_record_say_so(monkeypatch, tmp_path):
    monkeypatch.setattr(profiler_tables, "RUNGS", RUNGS[:1])
    monkeypatch.setattr(profiler_tables.runs, "counters_at", no_record)
    monkeypatch.setattr(profiler_tables.cache, "FOLDER", tmp_path)
    assert PARTS["nsight-rungs"]().endswith("01_naive: not recorded")


def no_record(*_):
    raise profiler_tables.NoRecord("01_naive: not recorded")


def test_the_parts_of_a_rung_are_made_once_and_anew_with_another_record(monkeypatch, tmp_path):
    made = []

    class Counted(Report):
        def parts(self):
            made.append(self.name)
            return {"command": str(len(made))}

    monkeypatch.setattr(profiler_tables, "Report", Counted)
    monkeypatch.setattr(profiler_tables.cache, "FOLDER", tmp_path)
    for file in ("runs.json", "stalls.csv"):
        (tmp_path / file).write_bytes((replayed() / file).read_bytes())
    monkeypatch.setattr(profiler_tables, "replayed", lambda: tmp_path)
    assert [profiler_tables._kept("01_naive")["command"] for _ in range(2)] == ["1", "1"]
    (tmp_path / "stalls.csv").write_bytes(b"other")
    monkeypatch.setattr(profiler_tables, "code_hash", lambda source, settings: "the same")
    assert profiler_tables._kept("01_naive")["command"] == "2"
    assert len(list((tmp_path / "nsight" / "01_naive").iterdir())) == 1
