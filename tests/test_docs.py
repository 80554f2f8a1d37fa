"""The documentation: its examples give what they say, its links lead to files, its map is whole."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from test_walls import FLOORS, HOUSE

import gemmlab

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("*.md")), *sorted((ROOT / "notebooks").glob("*.ipynb"))]  # fmt: skip # noqa: E501
MOST_BYTES = 8192  # of README.md
MOST_WORDS = 60  # of a paragraph in it


def prose(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    cells = nbformat.reads(text, as_version=4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


@pytest.mark.parametrize("name", ["simulator.md"])
def test_the_examples_of_a_document_run(name):
    done = doctest.testfile(str(DOCS / name), module_relative=False)
    assert done.attempted > 5 and done.failed == 0


def test_the_test_file_of_the_page_on_testing_passes(tmp_path):
    (file,) = re.findall(r"```python\n(.*?)```", prose(DOCS / "testing.md"), re.DOTALL)
    (tmp_path / "test_row_sums.py").write_text(file, encoding="utf-8")
    here = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n0", str(tmp_path)]
    done = subprocess.run(here, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0 and "5 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_link_leads_to_a_file(path):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose(path))
    assert [one for one in links if "://" not in one and not (path.parent / one).exists()] == []


def test_every_module_that_is_run_or_named_by_its_path_is_there():
    for path in PAGES:
        for name in re.findall(r"-m (gemmlab[.\w]+)", prose(path)):
            assert (ROOT / name.replace(".", "/")).with_suffix(".py").is_file(), (path, name)
        for name in re.findall(r"`((?:gemmlab|tests|benchmarks|results)/[^`<\s]*)`", prose(path)):
            placeholder = "/name/" in name
            assert placeholder or (ROOT / name).exists(), (path, name)


def test_the_map_of_the_core_has_every_part_from_the_ground_up():
    table = prose(DOCS / "architecture.md").partition("| in `gemmlab/` |")[2].partition("\n\n")[0]
    rows = [row.split("|")[1] for row in table.splitlines()[2:]]
    named = [name for row in rows for name in re.findall(r"`(\w+)`|\[(\w+)\]", row)]
    assert ["".join(one) for one in named] == [one for one in FLOORS if not one.startswith("_")]
    assert all((HOUSE / path).is_dir() for path in re.findall(r"\(\.\./gemmlab/(\w+)\)", table))


def test_the_readme_is_short():
    text = prose(ROOT / "README.md")
    assert len(text.encode()) <= MOST_BYTES
    outside = re.sub(r"<!-- made by .*?<!-- end of what is made -->", "", text, flags=re.DOTALL)
    for paragraph in re.split(r"\n\n|\n(?=\|)", outside):
        assert len(paragraph.split()) <= MOST_WORDS, paragraph


def test_every_page_of_docs_is_in_the_list_of_the_site():
    listed = re.findall(r"^[a-z_]+$", prose(DOCS / "index.md"), re.M)
    pages = {path.stem.lower() for path in PAGES if path.suffix == ".md"} - {"index"}
    assert sorted(listed) == sorted(pages)


def test_the_version_stands_in_the_citation_and_the_changelog():
    assert f"\nversion: {gemmlab.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    first = re.search(r"^## (\S+)", prose(ROOT / "CHANGELOG.md"), re.M)
    assert first[1] == gemmlab.__version__
