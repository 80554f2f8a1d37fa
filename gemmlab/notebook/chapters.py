"""The notebooks of the series in their order: roofs, rungs, and chapters that have no kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image

from gemmlab.ladder import CEILINGS, RUNGS
from gemmlab.lessons import modules


@dataclass(frozen=True)
class Chapter:
    """A notebook with a number among the rungs', about kernels of other rungs.

    `name`: of its file, without ".ipynb". `draw` makes its thumbnail, and `alt` says what that
    shows.
    """

    name: str
    title: str
    idea: str
    draw: Callable[[], Image.Image]
    alt: str


def chapters() -> list[Chapter]:
    """In the order of the series: CHAPTER of each lesson that has a module `chapter`."""
    every = (lesson.CHAPTER for lesson in modules("chapter"))
    return sorted(every, key=lambda chapter: chapter.name)


def names() -> list[str]:
    """Of all notebooks with a number, in the order of the series."""
    rungs, others = (rung.name for rung in RUNGS), (chapter.name for chapter in chapters())
    return sorted([CEILINGS.name, *rungs, *others])
