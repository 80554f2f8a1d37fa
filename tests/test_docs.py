"""The documentation: its examples give what they say, its links lead to files, its map is whole."""

import re
from pathlib import Path

import nbformat
import pytest
from test_walls import FLOORS, HOUSE

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PTXSIM = [ROOT / "ptxsim" / "README.md", *sorted((ROOT / "ptxsim" / "docs").glob("*.md"))]
PAGES = [ROOT / "README.md", *PTXSIM, *sorted(DOCS.glob("*.md")), *sorted((ROOT / "notebooks").glob("*.ipynb"))]  # fmt: skip # noqa: E501


def prose(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    cells = nbformat.reads(text, as_version=4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_link_leads_to_a_file(path):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose(path))
    assert [one for one in links if "://" not in one and not (path.parent / one).exists()] == []


def test_every_module_that_is_run_or_named_by_its_path_is_there():
    for path in PAGES:
        for name in re.findall(r"-m (gemmlab[.\w]+)", prose(path)):
            assert (ROOT / name.replace(".", "/")).with_suffix(".py").is_file(), (path, name)
        home = ROOT / "ptxsim" if path in PTXSIM else ROOT
        for name in re.findall(
            r"`((?:gemmlab|ptxsim|src|hardware|tests|benchmarks)/[/\w]+\.py)", prose(path)
        ):
            assert (home / name).is_file(), (path, name)


def test_the_map_of_the_readme_has_every_part_from_the_ground_up():
    table = prose(ROOT / "README.md").partition("| in `gemmlab/` |")[2].partition("\n\n")[0]
    rows = [row.split("|")[1] for row in table.splitlines()[2:]]
    named = [name for row in rows for name in re.findall(r"`(\w+)`|\[(\w+)\]", row)]
    assert ["".join(one) for one in named] == [one for one in FLOORS if not one.startswith("_")]
    assert all((HOUSE / path).is_dir() for path in re.findall(r"\(gemmlab/(\w+)\)", table))
