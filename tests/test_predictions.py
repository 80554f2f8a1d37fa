"""Predictions stay open: neither their outputs nor what stands above them gives the answer away.

The answers are read from the folds of the committed outputs, so nothing is executed here.
"""

import math
import re
from dataclasses import dataclass
from html import unescape

import nbformat
import pytest
from test_anatomy import split

from gemmlab.folders import NOTEBOOKS
from gemmlab.notebook.exercises import WAITING, unanswered

CALL, PLACE = "exercises.prediction(", re.compile(r"^prediction\w* *= *None\b", re.M)
FOLD = re.compile(r"<details>.*?</details>", re.S)
LISTING = re.compile(r"<pre\b.*?</pre>", re.S)  # the numbers of its lines mean nothing
ANSWER = re.compile(r"<summary>Answer</summary>(?P<what>[^<]*): (?P<number>[^<:]*)</details>")
# Numbers with their thousands separated, but not the sizes of a shape or parts of a name.
NUMBER = re.compile(r"(?<![\w.,×])\d[\d,]*(?:\.\d+)?(?![\w×³]|\.\d)")
WORDS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 12: "twelve"}
BETWEEN = r"(?:\s+[\w-]+){0,2}\s*"  # such as "5 large boxes"
# What has the number and the unit of an answer, and is about something else.
OTHERS = {
    "15_mma_sync": "“rows as they are” takes 32 wavefronts",  # for one instruction
    "21_multi_gpu": "in FP32 1.95 times as fast",  # the question is of BF16
}


@dataclass(frozen=True)
class Answer:
    what: str
    number: str

    @property
    def value(self) -> float:
        return float(self.number.replace(",", ""))

    @property
    def is_telling(self) -> bool:
        """Whether the number alone gives it away: small ones and powers of two stand anywhere."""
        value = self.value
        return value != int(value) or not (value <= 100 or math.log2(value).is_integer())

    def is_in(self, text: str) -> bool:
        """Whether a text has the number, also rounded; with its unit, where it tells nothing alone.

        So does one that is rounded to two digits.
        """
        unit = re.escape(self.what.split()[0].rstrip(",").removesuffix("s"))
        unit = BETWEEN + (f"(?:{unit}|%)" if unit == "percent" else unit)
        for match in NUMBER.finditer(text):
            number = float(match[0].rstrip(",").replace(",", ""))
            if number == self.value or self._is_rounded(match[0]):
                telling = self.is_telling and (number == self.value or _digits(match[0]) > 2)
                if telling or re.match(unit, text[match.end() :], re.I):
                    return True
        spelled = WORDS.get(self.value)
        return bool(spelled and re.search(rf"\b{spelled}{unit}", text, re.I))

    def _is_rounded(self, token: str) -> bool:
        """Whether a number is this one with fewer digits, or with more."""
        number = float(token.rstrip(",").replace(",", ""))
        if _digits(token) > 1 and round(self.value, _decimals(token)) == number:
            return True
        return _digits(self.number) > 1 and round(number, _decimals(self.number)) == self.value


def _decimals(number: str) -> int:
    return len(number.partition(".")[2])


def _digits(number: str) -> int:
    return len(re.sub(r"\D", "", number).lstrip("0"))


def visible(output) -> str:
    """What a reader sees of an output, the caption of a figure included, without what is folded."""
    data = output.get("data", {})
    if "text/html" in data:
        words = LISTING.sub(" ", FOLD.sub(" ", data["text/html"]))
        return unescape(re.sub(r"<[^>]*>", " ", words))
    return output.get("text", "") + data.get("text/plain", "")


def seen(cell) -> str:
    """What a reader sees of a cell, but for code."""
    if cell.cell_type == "code":
        return "\n".join(map(visible, cell.outputs))
    return re.sub(r"\]\([^)]*\)|[*`]", " ", FOLD.sub(" ", cell.source))


def answers(cell) -> list[Answer]:
    """Those that the outputs of a cell have in folds."""
    folds = [fold for output in cell.outputs for fold in FOLD.findall(_html(output))]
    matches = [ANSWER.search(fold) for fold in folds]
    return [Answer(unescape(match["what"]), match["number"]) for match in matches if match]


def _html(output) -> str:
    return output.get("data", {}).get("text/html", "")


def asking(cells) -> list[tuple[int, int]]:
    """Of each cell that compares a prediction: where its place for a number is, and where it is."""
    places, place = [], None
    for at, cell in enumerate(cells):
        if cell.cell_type == "code":
            place = at if PLACE.search(cell.source) else place
            if CALL in cell.source:
                places.append((place, at))
    return places


def said_in_its_outputs(cells) -> list[str]:
    """Answers that a cell shows beside its question, before a number is there."""
    return [
        f"{cells[at].id}: {answer.what}: {answer.number}"
        for _, at in asking(cells)
        for answer in answers(cells[at])
        if answer.is_in(seen(cells[at]))
    ]


def said_above(cells, others="") -> list[str]:
    """Answers that stand above their question, its own cell included; not in these `others`."""
    return [
        f"{cell.id}: {answer.what}: {answer.number}"
        for place, at in asking(cells)
        for answer in answers(cells[at])
        for cell in cells[: place + (place < at)]
        if answer.is_in(seen(cell).replace(others or " ", " "))
    ]


NAMES = sorted(
    path.stem for path in NOTEBOOKS.glob("*.ipynb") if CALL in path.read_text(encoding="utf-8")
)
every_notebook = pytest.mark.parametrize("name", NAMES)


@every_notebook
def test_each_prediction_waits_for_a_number_and_folds_its_answer(name):
    cells = split(name)[0]
    for place, at in asking(cells):
        assert place is not None and at - place <= 1, "it stands right below its place"
        waits = [output for output in cells[at].outputs if WAITING in visible(output)]
        assert len(waits) == len(answers(cells[at])) >= cells[at].source.count(CALL)


@every_notebook
def test_no_cell_shows_an_answer_before_a_number_is_there(name):
    assert said_in_its_outputs(split(name)[0]) == []


@every_notebook
def test_nothing_above_a_prediction_says_its_answer(name):
    assert said_above(split(name)[0], OTHERS.get(name, "")) == []


# ---- what these find -----------------------------------------------------------------------------


def of_outputs(*outputs, before="The idea."):
    """A notebook that asks for 41.58 ms and for 5 boxes, with more outputs of the cell below."""
    folds = [_folded("ms, in the median: 41.58"), _folded("boxes for a step: 5"), *outputs]
    return [
        nbformat.v4.new_markdown_cell(before, id="above"),
        nbformat.v4.new_code_cell("prediction = None", id="place"),
        nbformat.v4.new_code_cell(f"gl.{CALL}prediction, 1)", outputs=folds, id="asks"),
    ]


def _folded(answer):
    shown = unanswered(answer)
    data = {"text/plain": repr(shown), "text/html": shown._repr_html_()}
    return nbformat.v4.new_output("display_data", data)


GIVEN_AWAY = (
    "It takes 41.6 ms.", "It takes 42 ms.", "It takes 41.582 ms.",
    "5 boxes", "five large boxes", "the *five* boxes",
)  # fmt: skip
NOT = (
    "41 ms", "42 rows", "It takes 41.6×8 ms", "05_thread_tile_2d", "5 rows", "15 boxes",
    "<details>5 boxes</details>", "4 boxes, 5.1 rows", "<pre>41.58</pre>",
)  # fmt: skip


@pytest.mark.parametrize("text", GIVEN_AWAY)
def test_an_answer_is_found_in_an_output_and_above_the_question(text):
    assert len(said_above(of_outputs(before=text))) == 1
    stream = nbformat.v4.new_output("stream", text=text)
    table = nbformat.v4.new_output("display_data", {"text/html": f"<b>{text}</b>"})
    for output in (stream, table):
        assert len(said_in_its_outputs(of_outputs(output))) == (0 if "*" in text else 1)


@pytest.mark.parametrize("text", NOT)
def test_other_numbers_and_folded_text_reveal_no_answer(text):
    table = nbformat.v4.new_output("display_data", {"text/html": text})
    assert said_in_its_outputs(of_outputs(table)) == []
    if "<pre>" not in text:
        assert said_above(of_outputs(before=text)) == []
