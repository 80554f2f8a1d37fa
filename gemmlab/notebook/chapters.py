"""The notebooks of the series in their order: roofs, rungs, and chapters that have no kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image

from gemmlab.ladder import CEILINGS, RUNGS, Problem
from gemmlab.lessons.autotuning import landscape
from gemmlab.lessons.multi_gpu.holdings import holdings
from gemmlab.lessons.multi_gpu.ranks import Grid
from gemmlab.lessons.multi_gpu.schedules import summa
from gemmlab.plots import thumbnails
from gemmlab.records import runs
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
    known = recorded("09_double_buffering", runs.LARGE)
    return thumbnails.curve_thumbnail(landscape.shares(known))


AUTOTUNING = Chapter(
    name="20_autotuning",
    title="Searching for settings",
    idea="which settings to time: strategies, a model from counts, a rule for new shapes",
    draw=_shares,
    alt="A curve that falls from the fastest settings to the slowest.",
)


def _of_a_grid() -> Image.Image:
    return thumbnails.ranks_thumbnail(holdings(summa(Problem(12, 12, 12), Grid(2, 2), 4))[0])


MULTI_GPU = Chapter(
    name="21_multi_gpu",
    title="Several GPUs",
    idea="a product over ranks as lists of steps: who holds what, what moves, "
    "and what of that two GPUs hide",
    draw=_of_a_grid,
    alt="One of four ranks has a quarter of A, of B and of C, and gets a quarter of A and of B.",
)
CHAPTERS = (AUTOTUNING, MULTI_GPU)


def names() -> list[str]:
    """Of all notebooks with a number, in the order of the series."""
    return sorted([CEILINGS.name, *(one.name for one in (*RUNGS, *CHAPTERS))])
