"""The page for teachers: plans that can be read in order, tables of what is there, its snippet."""

import html
import json
import re

import pytest

from gemmlab.analysis import counters
from gemmlab.folders import NOTEBOOKS, ROOT
from gemmlab.loading import load
from gemmlab.notebook import reading
from gemmlab.site.tables import teaching as teaching_tables
from gemmlab.site.tables.teaching import PARTS, PLANS

PAGE = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
SNIPPET = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]


def rows(table):
    return [line.strip("| ").split(" | ") for line in table.splitlines() if line[:2] == "| "][2:]


def test_the_page_has_a_mark_for_every_part_and_a_part_for_every_mark():
    assert sorted(re.findall(r"<!-- made: (teaching-[\w-]+) -->", PAGE)) == sorted(PARTS)


@pytest.mark.parametrize("name", PLANS)
def test_what_a_notebook_needs_comes_before_it(name):
    seen = set()
    for session in PLANS[name]:
        for one in session.notebooks:
            assert set(reading.needed(one)) <= seen, one
            seen.add(one)


def test_plans_fit_into_their_time():
    minutes = {name: sum(reading.minutes(one) for part in parts for one in part.notebooks)
               for name, parts in PLANS.items()}  # fmt: skip
    assert minutes["lecture"] <= 90 and 2 * minutes["day"] <= 6 * 60
    assert len(PLANS["course"]) == 6
    assert rows(PARTS["teaching-lecture"]())[-1][2] == f"**{minutes['lecture']}**"


def test_every_notebook_has_a_row_with_its_minutes():
    found = {re.search(r"notebooks/(\w+)\.ipynb", cells[0])[1]: cells for cells in rows(PARTS["teaching-notebooks"]())}  # fmt: skip # noqa: E501
    assert found.keys() == {path.stem for path in NOTEBOOKS.glob("*.ipynb")} - {"index"}
    assert all(int(cells[2]) == reading.minutes(name) for name, cells in found.items())
    assert found["03_shared_memory"][3] == "a number, a kernel, a planted mistake"
    assert found["21_multi_gpu"][3] == "2 functions, a planted mistake"
    assert all(cells[3] for cells in found.values())
    assert found["01_naive"][6] == "any" and found["18_persistent"][6] == "sm_90a alone"


def test_costs_are_those_of_notebooks_that_are_there():
    costs = teaching_tables._costs()
    assert costs.keys() <= {path.stem for path in NOTEBOOKS.glob("*.ipynb")}
    largest = max(float(row["peak_mb"]) for row in costs.values())
    assert f"{largest:,.0f} MB" in PARTS["teaching-machine"]()


def test_every_planted_mistake_is_of_one_kind():
    table = [list(map(int, cells[1:])) for cells in rows(PARTS["teaching-mistakes"]())]
    total, checks, verification, right = map(sum, zip(*table, strict=True))
    said = " ".join((ROOT / "docs" / "mistakes.md").read_text(encoding="utf-8").split())
    assert f"Of {total} mistakes the simulator's checks find {checks} and" in said
    assert f"verification {verification};" in said
    assert f"on the GPU alone the result of {right} is right" in said
    assert min(numbers[0] for numbers in table) > 0
    assert table[-1][1] == 0 and table[-1][0] == table[-1][2]  # by comparing numbers alone


def test_rungs_that_are_named_are_faster_with_fewer_warps_than_the_one_before():
    for before, name in (("03_shared_memory", "04_thread_tile_1d"),
                         ("09_double_buffering", "10_register_banks")):  # fmt: skip
        warps = counters.side_by_side(before, name).loc["active warps, %"]
        assert warps[name] < 0.6 * warps[before]
        speeds = [load(one).benchmark().query("m == n == k == 4096").gflops.iloc[0]
                  for one in (before, name)]  # fmt: skip
        assert speeds[1] > speeds[0]


@pytest.mark.parametrize("name", ["02_coalescing", "06_vectorized_loads"])
def test_the_snippet_judges_a_stub_and_its_solution(name, tmp_path, capsys):
    text = (NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8")
    notebook = json.loads(text)
    cells = notebook["cells"]
    at = next(at for at, one in enumerate(cells) if "TODO" in "".join(one["source"]) and one["cell_type"] == "code")  # fmt: skip # noqa: E501
    call = re.search(r"check_kernel\(source, like=NAME(?:, mistakes=True)?(.*?)\)",
                     "".join(cells[at]["source"]))  # fmt: skip
    settings = {one: int(value) for one, value in re.findall(r"(\w+)=(\d+)", call[1])}
    scope = {}
    exec(SNIPPET, scope)

    def verdict():
        path = tmp_path / "handed_in.ipynb"
        path.write_text(json.dumps(notebook), encoding="utf-8")
        scope["judge"](str(path), name, **settings)
        return capsys.readouterr().out

    assert verdict().startswith("Not yet")
    solution = re.search(r"Solution</summary>\s*<pre>(.*?)</pre>", "".join(cells[at + 1]["source"]), re.S)  # fmt: skip # noqa: E501
    lines = "".join(cells[at]["source"]).splitlines()
    places = [one for one, line in enumerate(lines) if "TODO" in line]
    kept = [line for one, line in enumerate(lines) if one not in places]
    cells[at]["source"] = "\n".join([*kept[: places[0]], html.unescape(solution[1]), *kept[places[0] :]])  # fmt: skip # noqa: E501
    assert verdict().startswith("Right")
