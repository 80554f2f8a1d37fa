"""The documentation: its examples give what they say, its links lead to files, its map is whole."""

import re
from pathlib import Path

import nbformat
import pytest
from test_walls import FLOORS, HOUSE

import gemmlab

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PTXSIM = [ROOT / "ptxsim" / "README.md", *sorted((ROOT / "ptxsim" / "docs").glob("*.md"))]
PAGES = [*sorted(ROOT.glob("*.md")), *PTXSIM, *sorted(DOCS.glob("*.md")), *sorted((ROOT / "notebooks").glob("*.ipynb"))]  # fmt: skip # noqa: E501
MOST_BYTES = 8192  # of README.md
MOST_WORDS = 60  # of a paragraph in it


def prose(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    cells = nbformat.reads(text, as_version=4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_link_leads_to_a_file(path):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose(path))
    assert [link for link in links if "://" not in link and not (path.parent / link).exists()] == []


def test_every_module_that_is_run_or_named_by_its_path_is_there():
    for path in PAGES:
        for name in re.findall(r"-m (gemmlab[.\w]+)", prose(path)):
            assert (ROOT / name.replace(".", "/")).with_suffix(".py").is_file(), (path, name)
        home = ROOT / "ptxsim" if path in PTXSIM else ROOT
        folders = "gemmlab|ptxsim|src|hardware|tests|tools|benchmarks|results"
        for name in re.findall(rf"`((?:{folders})/[^`<\s]*)`", prose(path)):
            placeholder = "/name/" in name
            assert placeholder or (home / name).exists() or (ROOT / name).exists(), (path, name)


def test_the_map_of_the_core_has_every_part_from_the_ground_up():
    table = prose(DOCS / "architecture.md").partition("| in `gemmlab/` |")[2].partition("\n\n")[0]
    rows = [row.split("|")[1] for row in table.splitlines()[2:]]
    named = [name for row in rows for name in re.findall(r"`(\w+)`|\[(\w+)\]", row)]
    assert ["".join(name) for name in named] == [
        name for name in FLOORS if not name.startswith("_")
    ]
    assert all((HOUSE / path).is_dir() for path in re.findall(r"\(\.\./gemmlab/(\w+)\)", table))


def test_the_readme_is_short():
    text = prose(ROOT / "README.md")
    assert len(text.encode()) <= MOST_BYTES
    outside = re.sub(r"<!-- made by .*?<!-- end -->", "", text, flags=re.DOTALL)
    for paragraph in re.split(r"\n\n|\n(?=\|)", outside):
        assert len(paragraph.split()) <= MOST_WORDS, paragraph


def test_every_page_of_docs_is_in_the_list_of_the_site():
    listed = re.findall(r"^[a-z_]+$", prose(DOCS / "index.md"), re.M)
    pages = {path.stem.lower() for path in PAGES if path.suffix == ".md"} - {"index"} | {"ptxsim"}
    assert sorted(listed) == sorted(pages)


def test_the_version_stands_in_the_citation_and_the_changelog():
    assert f"\nversion: {gemmlab.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    first = re.search(r"^## (\S+)", prose(ROOT / "CHANGELOG.md"), re.M)
    assert first[1] == gemmlab.__version__
