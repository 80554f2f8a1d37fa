"""The notebooks of the series: their order, what is to be read before each, how long one takes."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from PIL import Image

from gemmlab.folders import NOTEBOOKS
from gemmlab.ladder import CEILINGS, RUNGS
from gemmlab.lessons import modules

CEILINGS_TITLE = "Two roofs"
DEEPER = "# Going deeper"  # the heading at which the main path ends
WORDS_A_MINUTE = 200
MINUTES_A_CELL = 0.9  # of code, with what it shows
STUDENT, ENGINEER = "student", "engineer"  # who is new to CUDA, and who is not
SHARES = {STUDENT: 1.0, ENGINEER: 0.5}  # of those minutes
FORMULA = (
    f"Minutes of a student / of an engineer who knows CUDA. A rule of thumb: for the student a "
    f"minute for each {WORDS_A_MINUTE} words and {MINUTES_A_CELL} for each cell of code with what "
    f'it shows, up to "{DEEPER.lstrip("# ")}"; for the engineer half as long. Exercises are not '
    "counted: plan as long again for them, or more."
)
HOST_CODE = "host_code"  # the page on launches, for those who know no CUDA


@dataclass(frozen=True)
class Chapter:
    """A notebook with a number among the rungs', about kernels of other rungs.

    `name`: of its file, without ".ipynb". `draw` makes its thumbnail, and `alt` says what that
    shows. `speed` reads its record: tflops, pct_cublas and recorded; and " at" another product.
    """

    name: str
    title: str
    idea: str
    draw: Callable[[], Image.Image]
    alt: str
    speed: Callable[[], tuple[dict, str]] | None = None


def chapters() -> list[Chapter]:
    """In the order of the series: CHAPTER of each lesson that has a module `chapter`."""
    every = (lesson.CHAPTER for lesson in modules("chapter"))
    return sorted(every, key=lambda chapter: chapter.name)


def titles() -> dict[str, str]:
    """The title of each notebook with a number, by name, in the order of the series."""
    every = {CEILINGS.name: CEILINGS_TITLE} | {rung.name: rung.title for rung in RUNGS}
    every |= {chapter.name: chapter.title for chapter in chapters()}
    return dict(sorted(every.items()))


def names() -> list[str]:
    """Of all notebooks with a number, in the order of the series."""
    return list(titles())


# ---- one notebook --------------------------------------------------------------------------------


def main_path(name: str) -> list[dict]:
    """The cells of a notebook up to "Going deeper", as in the file; all, where it has none.

    name: without ".ipynb". Raises FileNotFoundError for a notebook that is not there.
    """

    def goes_deeper(cell: dict) -> bool:
        return cell["cell_type"] == "markdown" and _text(cell).splitlines()[:1] == [DEEPER]

    cells = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    return list(takewhile(lambda cell: not goes_deeper(cell), cells))


def prose(cells: list[dict]) -> str:
    """The text between the code, without what is folded, as hints and solutions are."""
    text = "\n".join(_text(cell) for cell in cells if cell["cell_type"] == "markdown")
    return re.sub(r"<details>.*?</details>", " ", text, flags=re.S)


def words(cells: list[dict]) -> int:
    """How many words the prose has, with its numbers and formulas, without the targets of links."""
    readable = re.sub(r"\]\([^)]*\)|<[^>]*>|[|#*`>]", " ", prose(cells))
    return sum(bool(re.search(r"\w", word)) for word in readable.split())


def minutes(name: str, reader: str = STUDENT) -> int:
    """How long the main path takes to read, as FORMULA says. Raises what main_path raises."""
    cells = main_path(name)
    code = sum(cell["cell_type"] == "code" for cell in cells)
    return round(SHARES[reader] * (words(cells) / WORDS_A_MINUTE + code * MINUTES_A_CELL))


def both_minutes(name: str) -> str:
    """How long a student and an engineer take: "24 / 12". Raises what main_path raises."""
    return " / ".join(str(minutes(name, reader)) for reader in SHARES)


def hours(names: Sequence[str]) -> str:
    """The same for several notebooks: "student 9 h 40 min, engineer 4 h 50 min"."""
    totals = {reader: sum(minutes(name, reader) for name in names) for reader in SHARES}
    return ", ".join(f"{who} {total // 60} h {total % 60} min" for who, total in totals.items())


def needed(name: str) -> list[str]:
    """The notebooks that this one links to after the words "You need", in that order.

    Raises what main_path raises.
    """
    for cell in main_path(name):
        _, heading, rest = _text(cell).partition("**You need**")
        if heading and cell["cell_type"] == "markdown":
            return list(dict.fromkeys(re.findall(r"\]\((\w+)\.ipynb\)", rest)))
    return []


def with_needed(names: Iterable[str]) -> set[str]:
    """These notebooks, and all that are needed before them. Raises what main_path raises."""
    every, ahead = set[str](), list(names)
    while ahead:
        if (name := ahead.pop()) not in every:
            every.add(name)
            ahead += needed(name)
    return every


def _text(cell: dict) -> str:
    return "".join(cell["source"])
