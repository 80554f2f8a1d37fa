"""The anatomy of a notebook: a main path to read in twenty minutes, the rest folded below it.

Numbers in the prose of the main path are those that a cell computes, prints or is given.
"""

import re
from html import unescape

import nbformat
import pytest

import gemmlab as gl
from gemmlab.folders import NOTEBOOKS
from gemmlab.notebook import series
from gemmlab.notebook.series import DEEPER, prose, words

MOST_WORDS, MOST_CELLS, OPENING = 1560, 45, 12
FOLDED = "jp-MarkdownHeadingCollapsed"
RUNGS = [rung.name for rung in gl.RUNGS]
CHAPTERS = [chapter.name for chapter in series.chapters()]
NAMES = series.names()
# Numbers that need no cell: small ones, powers of two and their like in shapes and settings, warps.
PLAIN = {*range(17), 20, 24, 100, *(2**n for n in range(4, 15)), 48, 96, 1000}
NUMBER = re.compile(r"(?<![\w.,-])\d[\d,]*(?:\.\d+)?(?![\w-])")

every_notebook = pytest.mark.parametrize("name", NAMES)


def cells(name):
    return nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells


def split(name):
    """The cells of the main path, and those from the heading of what goes deeper on."""
    every = cells(name)
    starts = [at for at, cell in enumerate(every) if cell.source.splitlines()[:1] == [DEEPER]]
    assert len(starts) == 1, f"one cell begins with {DEEPER!r}"
    return every[: starts[0]], every[starts[0] :]


def numbers(text) -> set[str]:
    return {number.rstrip(",").replace(",", "") for number in NUMBER.findall(text)}


def shown(every) -> set[str]:
    """Every number in the code and in the outputs of cells."""
    texts = []
    for cell in every:
        if cell.cell_type == "code":
            texts.append(cell.source)
            for output in cell.outputs:
                data = output.get("data", {})
                texts += [output.get("text", ""), data.get("text/plain", "")]
                texts.append(unescape(re.sub("<[^>]*>", " ", data.get("text/html", ""))))
    return {n.replace(",", "") for text in texts for n in re.findall(r"\d[\d,]*(?:\.\d+)?", text)}


def unsupported(text, there) -> list[str]:
    """Numbers in a text that no cell shows, also not with more digits."""
    not_there = []
    for number in sorted(numbers(text)):
        decimals = len(number.partition(".")[2])
        if re.fullmatch(r"0\d", number) or (not decimals and int(number) in PLAIN):
            continue  # the number of a rung, or a plain one
        if not any(f"{float(value):.{decimals}f}" == number for value in there if value):
            not_there.append(number)
    return not_there


@every_notebook
def test_the_sections_of_the_form_come_in_their_order(name):
    text = "\n".join(cell.source for cell in split(name)[0] if cell.cell_type == "markdown")
    headings = re.findall(r"^## (.*)", text, re.M)
    required = ("Predict", "Verify", "On your own", "Summary")
    assert [heading for heading in headings if heading in required] == [*required]
    questions = text[text.index("## On your own") :]
    assert re.findall(r"^\*\*(\d)\.\*\*", questions, re.M) == ["1", "2", "3"]


@every_notebook
def test_the_main_path_is_read_in_twenty_minutes(name):
    main, deeper = split(name)
    assert words(main) <= MOST_WORDS and len(main) <= MOST_CELLS, (words(main), len(main))
    assert words(deeper) <= MOST_WORDS, words(deeper)


@every_notebook
def test_what_goes_deeper_is_folded(name):
    _, deeper = split(name)
    headings = [cell for cell in deeper[1:] if re.match("#+ ", cell.source)]
    assert headings
    for cell in headings:
        assert cell.cell_type == "markdown" and cell.metadata.get(FOLDED) is True, cell.source
    for cell in deeper[1:]:
        lines = (
            re.findall("^#+ .*", cell.source, flags=re.M) if cell.cell_type == "markdown" else []
        )
        assert len(lines) <= 1, lines


@pytest.mark.parametrize("name", [*RUNGS, *CHAPTERS])
def test_idea_picture_and_a_rung_s_inner_loop_stand_in_the_first_cells(name):
    opening = cells(name)[:OPENING]
    code = [cell for cell in opening if cell.cell_type == "code"]
    assert any("## The idea" in cell.source for cell in opening)
    assert name in CHAPTERS or any("inner_loop(" in cell.source for cell in code)
    assert any("image/png" in output.get("data", {}) for cell in code for output in cell.outputs)


@every_notebook
def test_no_prediction_and_no_answer_is_filled_in(name):
    main, _ = split(name)
    places = [
        line
        for cell in main
        if cell.cell_type == "code"
        for line in cell.source.splitlines()
        if re.match(r"(prediction|predicted|answer)\w* *=", line)
    ]
    assert any(line.startswith("prediction") for line in places)
    for line in places:
        assert re.search(r"= *None\b", line), line


@every_notebook
def test_every_number_of_the_main_path_is_computed(name):
    main, _ = split(name)
    there = shown(cells(name))
    links = r"\[[^]]*\]\([^)]*\.ipynb\)|\]\([^)]*\)"  # numbers of notebooks are not computed
    readable = re.sub(rf"{links}|`[^`]*`|\*\*Further reading.*", " ", prose(main), flags=re.S)
    assert unsupported(readable, there) == []


def test_a_number_that_no_cell_shows_is_found():
    text = "It takes 33 sectors and 18.5 % of 9,216 bytes."
    assert unsupported(text, {"33", "18.53"}) == ["9216"]
    assert unsupported("Rung 03 at 4096, twice 32.", set()) == []
    assert unsupported("It takes 18.6 %.", {"18.53"}) == ["18.6"]


@pytest.mark.parametrize("name", [*RUNGS, *CHAPTERS])
def test_one_exercise_is_code_to_write(name):
    """A kernel, in a chapter a function, from a stub that is wrong as it stands, and says so."""
    main, _ = split(name)
    stubs = [c for c in main if c.cell_type == "code" and "TODO" in c.source]
    assert stubs, "no cell has a TODO"
