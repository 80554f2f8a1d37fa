"""The notebooks of the series in their order: roofs, rungs, and chapters that have no kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image

from gemmlab.ladder import CEILINGS, RUNGS
from gemmlab.plots import thumbnails
from gemmlab.search import landscape
from gemmlab.search.recorded import recorded


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


def _shares() -> Image.Image:
    known = recorded("09_double_buffering", (4096, 4096, 4096))
    return thumbnails.curve_thumbnail(landscape.shares(known))


AUTOTUNING = Chapter(
    name="20_autotuning",
    title="Searching for settings",
    idea="which settings to time: strategies, a model from counts, a rule for new shapes",
    draw=_shares,
    alt="A curve that falls from the fastest settings to the slowest.",
)
CHAPTERS = (AUTOTUNING,)


def names() -> list[str]:
    """Of all notebooks with a number, in the order of the series."""
    return sorted([CEILINGS.name, *(one.name for one in (*RUNGS, *CHAPTERS))])
