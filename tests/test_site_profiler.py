"""The tables of the walk through Nsight Compute: each metric once, as recorded and as simulated."""

import json
import re

from gemmlab.analysis import counters
from gemmlab.folders import ROOT
from gemmlab.measure import profiler
from gemmlab.records import stalls
from gemmlab.records.registry import replayed
from gemmlab.records.runs import LARGE
from gemmlab.report import number
from tools.site.tables import profiler as tables
from tools.site.tables.profiler import PARTS, PLACES, TITLES, WALK

PAGE = (ROOT / "docs" / "nsight_compute.md").read_text(encoding="utf-8")


def rows(table):
    """Cells of a table of Markdown, by the metric in the first."""
    lines = [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {m[1]: cells for cells in lines if (m := re.search(r"`([\w.]+)`", cells[0]))}


def of_the_file(shape=LARGE):
    rung = json.loads((replayed() / "runs.json").read_text(encoding="utf-8"))["rungs"][WALK]
    return next(
        counted["metrics"]
        for counted in rung["counters"]
        if (counted["m"], counted["n"], counted["k"]) == shape
    )


def test_every_metric_that_is_recorded_and_not_0_stands_in_one_section():
    made = [make() for make in PARTS.values()]
    shown = [metric for table in made for metric in rows(table)]
    assert sorted(metric for metric in shown if metric in of_the_file()) == sorted(
        metric for metric, value in of_the_file().items() if value or tables.simulated().get(metric)
    )
    assert stalls.ISSUE_ACTIVE in shown and len(shown) == len(set(shown))
    assert not any(entry.strip(" .") == "nan" for table in made for entry in table.split("|"))


def test_values_are_those_of_the_record_and_of_the_simulator(monkeypatch):
    simulated = counters.simulated(tables.kernel(), *LARGE)
    marks = set()
    shown = rows(tables.section("MemoryWorkloadAnalysis"))
    for metric, (_, measured, here, difference) in shown.items():
        assert measured == number(of_the_file()[metric])
        assert here == (number(simulated[metric]) if metric in simulated else "–")
        marks.add(difference.strip())
        if metric in simulated:
            assert (difference.strip() == "equal") == (simulated[metric] == of_the_file()[metric])
    assert "equal" in marks and not any("not explained" in mark for mark in marks)
    stores = counters.METRICS["global", "store"][0]
    monkeypatch.setitem(tables.simulated(), stores, tables.simulated()[stores] + 3)
    assert "−3: not explained" in rows(tables.section("MemoryWorkloadAnalysis"))[stores][3]


def test_the_command_launches_what_was_recorded(monkeypatch):
    """Its last line is read by the program that is profiled, its kernel is what that launches."""
    command = tables.command()
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
    assert launched == [(WALK, LARGE)]
    entry = re.search(r"--kernel-name (\w+)", command)[1]
    assert f"{entry}(" in tables.kernel().text
    assert f"CUPY_CACHE_DIR={re.search(r'--source-folders ([^,]+),', command)[1]} " in command


def test_the_page_has_a_mark_for_every_part_and_a_part_for_every_mark():
    assert sorted(re.findall(r"<!-- made: (nsight-[\w-]+) -->", PAGE)) == sorted(PARTS)
    assert {section for section, _ in PLACES.values()} <= set(TITLES.values())
    assert all(f"## {title}" in PAGE for title in TITLES)
    assert WALK in PAGE
