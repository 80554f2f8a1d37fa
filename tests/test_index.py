"""notebooks/index.ipynb: the ladder with its thumbnails, the ways through it, the glossary."""

import json
import re
from pathlib import Path

import pytest

from gemmlab.folders import NOTEBOOKS
from gemmlab.ladder import RUNGS, SINGLE
from gemmlab.notebook import glossary, index, overview, series

NAMES = series.names()


def links(markup):
    return re.findall(r'<a href="([^"]+)"', markup)


# ---- how a notebook is read ----------------------------------------------------------------------


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    """Writes a notebook of (kind, source) and names it."""
    monkeypatch.setattr(series, "NOTEBOOKS", tmp_path)

    def write(*cells):
        made = [{"cell_type": kind, "source": source.splitlines(True)} for kind, source in cells]
        (tmp_path / "98_made.ipynb").write_text(json.dumps({"cells": made}))
        return "98_made"

    return write


def test_the_main_path_ends_where_it_goes_deeper(notebook):
    before = [
        ("markdown", "# 98 · Go"),
        ("code", "# Going deeper"),
        ("markdown", "## Going deeper"),
    ]
    name = notebook(*before, ("markdown", "# Going deeper\nmore"), ("code", "1"))
    assert ["".join(cell["source"]) for cell in series.main_path(name)] == [s for _, s in before]
    assert len(series.main_path(notebook(*before))) == len(before)


def test_minutes_count_the_words_and_the_code_of_the_main_path(notebook):
    words = ("markdown", "word " * 400)
    deeper = ("markdown", "# Going deeper")
    assert series.minutes(notebook(words)) == 2
    assert series.minutes(notebook(words, *[("code", "a b c")] * 10)) == 11
    assert series.minutes(notebook(words, deeper, words, ("code", "d"))) == 2
    assert series.minutes(notebook(words), series.ENGINEER) == 1
    name = notebook(words, *[("code", "d")] * 100)
    assert series.both_minutes(name) == "92 / 46"
    assert series.hours([name, name]) == "student 3 h 4 min, engineer 1 h 32 min"


# What first readers took for 00 to 09 without the exercises; those who know CUDA took 10 to 15.
TAKEN = (20, 23, 24, 29, 23, 23, 29, 24, 26, 21)


def test_the_rule_of_thumb_agrees_with_the_minutes_that_readers_took():
    minutes = [series.minutes(name) for name in NAMES[: len(TAKEN)]]
    assert abs(sum(minutes) - sum(TAKEN)) <= 0.1 * sum(TAKEN)
    assert all(
        abs(computed - taken) <= 6 for computed, taken in zip(minutes, TAKEN, strict=True)
    ), minutes
    quick = [series.minutes(name, series.ENGINEER) for name in NAMES[: len(TAKEN)]]
    assert all(10 <= computed <= 15 for computed in quick), quick


def test_what_is_needed_are_the_links_after_those_words(notebook):
    text = "[a](01_a.ipynb)\n**You need** [c](03_c.ipynb), [b](02_b.ipynb), [c](03_c.ipynb)"
    assert series.needed(notebook(("markdown", "# x"), ("markdown", text))) == ["03_c", "02_b"]
    assert series.needed(notebook(("markdown", "# x"))) == []


# ---- the ladder and the ways ---------------------------------------------------------------------


def test_the_ladder_links_every_notebook_and_has_its_numbers():
    shown = index.ladder()
    assert links(shown.markup) == [f"{name}.ipynb" for name in NAMES]
    rows = {row.split()[0]: row for row in repr(shown).splitlines() if row[:1].isdigit()}
    assert list(rows) == NAMES
    for step in overview.ladder_steps():
        numbers = f"{step.tflops} {step.share} {series.both_minutes(step.name)}".split()
        assert rows[step.name].split()[-len(numbers) :] == numbers
    assert series.FORMULA in repr(shown)


def test_a_way_has_what_its_notebooks_need_and_nothing_else():
    routes = index.routes()
    every, fp32, tensor = routes.values()
    assert every == [series.HOST_CODE, *NAMES]
    goals = ({rung.name for rung in RUNGS if rung.precision is SINGLE},
             {rung.name for rung in RUNGS if rung.precision.on_tensor_cores})  # fmt: skip
    for way, goal in zip((fp32, tensor), goals, strict=True):
        assert goal <= set(way) and way == [name for name in every if name in way]
        assert way != every, "a way leaves something out"
        asked = [word for name in way for word in series.needed(name)]
        assert set(asked) <= set(way) <= {*asked, *goal}
        for name in way:  # whoever reads in this order has read what a notebook needs
            assert set(series.needed(name)) <= set(way[: way.index(name)]), name
    seen = set()
    for name in every:
        assert set(series.needed(name)) <= seen, name
        seen.add(name)
    shown = index.ways()
    assert links(shown.markup) == [f"{name}.ipynb" for names in routes.values() for name in names]
    assert all(
        f"{title} ({len(names)} notebooks, " in repr(shown) for title, names in routes.items()
    )


# ---- the glossary --------------------------------------------------------------------------------


def text_of(name):
    """What a reader of a notebook sees as text: prose, code, and output."""
    cells = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    parts = []
    for cell in cells:
        parts += cell["source"]
        for output in cell.get("outputs", []):
            parts += output.get("text", []) + output.get("data", {}).get("text/plain", [])
    return "".join(parts)


@pytest.mark.parametrize("term", glossary.TERMS, ids=lambda term: term.name)
def test_a_term_is_used_where_it_is_explained(term):
    known = [*NAMES, series.HOST_CODE]
    assert term.notebook in known
    forms = "|".join(map(re.escape, (term.name, *term.also)))
    use = re.search(rf"(?<!\w)({forms})(s|es)?(?!\w)", text_of(term.notebook), re.IGNORECASE)
    assert use, f"{term.notebook} does not say {term.name!r}"


def test_every_item_of_the_list_is_a_term():
    text = Path(glossary.__file__).with_name("glossary.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^- ", text, re.MULTILINE)) == len(glossary.TERMS)


def test_every_term_is_there_once_with_one_sentence():
    for key in ("name", "anchor", "meaning"):
        assert len({getattr(term, key) for term in glossary.TERMS}) == len(glossary.TERMS)
    for term in glossary.TERMS:
        assert re.fullmatch(r"[A-Z0-9].{15,}[^.]\.", term.meaning), term.name
        assert not re.search(r"\.\s", term.meaning) and term.meaning.count("`") % 2 == 0, term.name


def test_the_glossary_is_alphabetical_and_says_the_same_twice():
    shown = glossary.glossary()
    lines = repr(shown).splitlines()
    names = [re.split(r"\s{2,}", line)[0] for line in lines]
    assert names == sorted(names, key=lambda name: name.lower().strip("_"))
    assert set(names) == {term.name for term in glossary.TERMS}
    assert re.findall(r"<b>(.*?)</b>", shown.markup) == names
    assert len(re.findall(r'id="term-', shown.markup)) == len(names)
    assert all((NOTEBOOKS / target).is_file() for target in links(shown.markup))
    assert "<code>__syncthreads()</code>" in shown.markup and "`" not in shown.markup
