"""Notebook 20 among those of the series."""

from __future__ import annotations

from PIL import Image

from gemmlab.lessons.autotuning import space as landscape
from gemmlab.lessons.autotuning.space import recorded
from gemmlab.notebook.series import Chapter
from gemmlab.plots import thumbnails
from gemmlab.records import runs


def _shares() -> Image.Image:
    known = recorded("09_double_buffering", runs.LARGE)
    return thumbnails.curve_thumbnail(landscape.shares(known))


CHAPTER = Chapter(
    name="20_autotuning",
    title="Searching for settings",
    idea="which settings to time: strategies, a model from counts, a rule for new shapes",
    draw=_shares,
    alt="A curve that falls from the fastest settings to the slowest.",
)
