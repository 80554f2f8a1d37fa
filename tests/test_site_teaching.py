"""The page for teachers: plans that can be read in order, tables of what is there, its snippet."""

import json
import re

import pytest
from test_exercises import solved

from gemmlab.folders import NOTEBOOKS, ROOT
from gemmlab.notebook import series
from tools.site.tables import teaching

PAGE = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
SNIPPET = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]


def rows(table):
    return [line.strip("| ").split(" | ") for line in table.splitlines() if line[:2] == "| "][2:]


def plan(title):
    """The notebooks of a plan, in order, a list for each of its parts."""
    section = PAGE.partition(f"### {title}\n")[2].partition("\n#")[0]
    return [re.findall(r"notebooks/(\w+)\.ipynb", line)
            for line in section.splitlines() if line.startswith("| ")][1:]  # fmt: skip


PLANS = {title: plan(title) for title in re.findall(r"^### (A .*)$", PAGE, re.MULTILINE)}


@pytest.mark.parametrize("title", PLANS)
def test_what_a_notebook_needs_comes_before_it(title):
    seen = set()
    for notebooks in PLANS[title]:
        assert notebooks
        for name in notebooks:
            assert set(series.needed(name)) <= seen, name
            seen.add(name)


def test_plans_fit_into_their_time():
    lecture, day, course = (
        sum(series.minutes(name) for part in plan for name in part) for plan in PLANS.values()
    )
    assert lecture <= 2 * 60 and 2 * day <= 7 * 60 < 2 * course
    assert [len(plan) for plan in PLANS.values()] == [4, 4, 6]


def test_every_notebook_has_a_row_with_its_minutes():
    rows_by_name = {re.search(r"notebooks/(\w+)\.ipynb", cells[0])[1]: cells for cells in rows(teaching.notebooks())}  # fmt: skip # noqa: E501
    assert rows_by_name.keys() == {path.stem for path in NOTEBOOKS.glob("*.ipynb")} - {"index"}
    assert all(cells[2] == series.both_minutes(name) for name, cells in rows_by_name.items())
    assert rows_by_name["03_shared_memory"][3] == "a number, a kernel, a planted mistake"
    assert rows_by_name["21_multi_gpu"][3] == "2 functions, a planted mistake"
    assert all(cells[3] for cells in rows_by_name.values())
    assert (
        rows_by_name["01_naive"][6] == "any" and rows_by_name["18_persistent"][6] == "sm_90a alone"
    )


@pytest.mark.parametrize("name", ["02_coalescing", "06_vectorized_loads"])
def test_the_snippet_judges_a_stub_and_its_solution(name, tmp_path, capsys):
    text = (NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8")
    notebook = json.loads(text)
    cells = notebook["cells"]
    at = next(at for at, cell in enumerate(cells) if "TODO" in "".join(cell["source"]) and cell["cell_type"] == "code")  # fmt: skip # noqa: E501
    call = re.search(r"check_kernel\(source, like=NAME(?:, mistakes=True)?(.*?)\)",
                     "".join(cells[at]["source"]))  # fmt: skip
    settings = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", call[1])}
    scope = {}
    exec(SNIPPET, scope)

    def verdict():
        path = tmp_path / "handed_in.ipynb"
        path.write_text(json.dumps(notebook), encoding="utf-8")
        scope["judge"](str(path), name, **settings)
        return capsys.readouterr().out

    assert verdict().startswith("Not yet")
    stub, solution = ("".join(cell["source"]) for cell in cells[at : at + 2])
    cells[at]["source"] = solved(stub, solution)
    assert verdict().startswith("Right")
