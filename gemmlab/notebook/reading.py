"""A notebook as it is read: its main path, how long that takes, what is to be read before."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from pathlib import Path

from gemmlab.folders import IS_CHECKOUT, NOTEBOOKS, PACKAGE, NoCheckout

DEEPER = "# Going deeper"  # the heading at which the main path ends
WORDS_A_MINUTE = 200
MINUTES_A_CELL = 0.5  # of code, with what it shows
FORMULA = (
    f"Minutes: a minute for each {WORDS_A_MINUTE} words and half a minute for each cell of code "
    f'with what it shows, up to "{DEEPER.lstrip("# ")}". Exercises are not counted: plan as long '
    "again for them, or more."
)
HOST_CODE = "host_code"  # the page on launches, for those who know no CUDA


def main_path(name: str) -> list[dict]:
    """The cells of a notebook up to "Going deeper", as in the file; all, where it has none.

    name: without ".ipynb". Raises NoCheckout where the package was installed without notebooks, and
    FileNotFoundError for a notebook that is not there.
    """
    cells = _cells(name)
    ends = (
        at
        for at, cell in enumerate(cells)
        if cell["cell_type"] == "markdown" and _text(cell).splitlines()[:1] == [DEEPER]
    )
    return cells[: next(ends, None)]


def prose(cells: list[dict]) -> str:
    """The text between the code, without what is folded, as hints and solutions are."""
    text = "\n".join(_text(cell) for cell in cells if cell["cell_type"] == "markdown")
    return re.sub(r"<details>.*?</details>", " ", text, flags=re.S)


def words(cells: list[dict]) -> int:
    """How many words the prose has, with its numbers and formulas, without the targets of links."""
    readable = re.sub(r"\]\([^)]*\)|<[^>]*>|[|#*`>]", " ", prose(cells))
    return sum(bool(re.search(r"\w", word)) for word in readable.split())


def minutes(name: str) -> int:
    """How long the main path takes to read, as FORMULA says. Raises what main_path raises."""
    cells = main_path(name)
    code = sum(cell["cell_type"] == "code" for cell in cells)
    return math.ceil(words(cells) / WORDS_A_MINUTE + code * MINUTES_A_CELL)


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
    """These notebooks, those that they need, those that these need, and so on.

    Raises what main_path raises.
    """
    needed_names: set[str] = set()
    ahead = list(names)
    while ahead:
        name = ahead.pop()
        if name not in needed_names:
            needed_names.add(name)
            ahead += needed(name)
    return needed_names


def _cells(name: str) -> list[dict]:
    if not IS_CHECKOUT:
        raise NoCheckout(
            f"the notebooks are in the repository, and gemmlab was installed without it, in "
            f"{PACKAGE}: clone the repository and install that with pip "
            'install -e ./ptxsim -e ".[simulator]".'
        )
    return json.loads(_path(name).read_text(encoding="utf-8"))["cells"]


def _path(name: str) -> Path:
    return NOTEBOOKS / f"{name}.ipynb"


def _text(cell: dict) -> str:
    return "".join(cell["source"])
