"""Words that no page uses: engineers have better ones. An exercise may ask for a number, though."""

import re
from pathlib import Path

import pytest
from test_docs import PAGES, ROOT, prose

MOVED = r"(?:tiles?|box(?:es)?|elements?|rows?|columns?|pieces?|bytes|operands?|chunks?|sectors?|ones|`[ABC]`)"  # fmt: skip # noqa: E501
MOVER = r"(?:loads?|cop(?:y|ies)|threads?|lanes?|warps?|blocks?|producers?|engine|stub|gather)"
PEOPLE = "".join(
    rf"(?<!\b{who} )" for who in ("you", "we", "students", "readers", "exercise", "question")
)
# pattern -> what to write instead, and a sentence that it finds.
WORDS = {
    r"\bwhat holds (?:it|them|this)\b": ("what limits it", "What holds it now is DRAM."),
    r"\bheld against\b": ("compared with", "Sums are held against float64."),
    r"\bin place of (?!`?None\b)": ("instead of", "Two loads in place of four."),
    r"\bwhat lacks?\b": ("what is missing", "What lacks to 2 is the last round."),
    rf"\b{MOVER} (?:that )?brings?\b(?! .{{0,20}}back)": ("loads", "A producer brings it."),
    rf"\b(?:bring(?:s|ing)?|brought)\b [^.|]{{0,24}}{MOVED}": ("load", "It brings eight rows."),
    r"\bwhat \w+ (?:\w+ )?brings?\b": ("loads, copies", "Share what you bring."),
    r"\b(?:is|are|be|been|not) brought (?!back|up)": ("loaded, copied", "It is brought by TMA."),
    rf"{PEOPLE}\bask(?:s|ed|ing)? for\b": ("requests, reads", "A lane asks for 16 bytes."),
    r"\bask(?:s|ed)? of (?:memory|the)\b": ("request", "What stores ask of memory."),
    r"\bthat which\b": ("the one that", "That which is read last."),
    r"(?<!\bthere )\b(?:is|are) none\b(?! of)": ("is not one", "A cubin is none."),
    r"(?:^|[.:;|*] )Of [^.,:;|]{2,40} (?:it|they) (?:is|are|holds?)\b": (
        "it is … of", "Of FP8 it holds where sums are short."),
    r"\bone alone\b": ("a single one", "It takes as long as one alone."),
    r"\btold anew\b": ("rewritten", "The notebooks are told anew."),
    r"\bthe (?:told|said)\b|\bbytes told\b": ("a noun", "The said is right."),
}  # fmt: skip
PAGES = [*PAGES, ROOT / "kernels" / "README.md", ROOT / "gemmlab" / "notebook" / "glossary.md"]


def house_words(text: str) -> list[str]:
    """Each house word in a text, with the words around it and what to write instead."""
    text = " ".join(text.split())
    return [
        f"…{text[max(0, hit.start() - 30) : hit.end() + 30]}…: {plain}"
        for pattern, (plain, _) in WORDS.items()
        for hit in re.finditer(pattern, text, re.IGNORECASE)
    ]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{Path(path).parent.name}/{path.name}")
def test_a_page_has_none_of_the_house_words(path):
    assert house_words(prose(path)) == []


@pytest.mark.parametrize("pattern", WORDS)
def test_a_planted_sentence_is_found(pattern):
    _, planted = WORDS[pattern]
    assert re.search(pattern, planted, re.IGNORECASE) and house_words(planted)


def test_plain_sentences_have_no_house_words():
    plain = "Put 2 in place of None. There are none. The exercise asks for a number. It brings heat"
    assert not house_words(plain)
