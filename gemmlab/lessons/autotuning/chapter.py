"""Notebook 20 among those of the series."""

from gemmlab.lessons.autotuning import space
from gemmlab.notebook.series import Chapter
from gemmlab.plots import thumbnails
from gemmlab.records import runs

CHAPTER = Chapter(
    name="20_autotuning",
    title="Searching for settings",
    idea="which settings to time: strategies, and a model of counts for new shapes",
    draw=lambda: thumbnails.curve_thumbnail(
        space.shares(space.recorded("09_double_buffering", runs.LARGE))
    ),
    alt="A curve that falls from the fastest settings to the slowest.",
)
