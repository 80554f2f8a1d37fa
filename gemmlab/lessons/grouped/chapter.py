"""Notebook 24 among those of the series."""

from gemmlab.lessons.grouped.tables import on_the_ladder
from gemmlab.notebook.series import Chapter
from gemmlab.plots import thumbnails

CHAPTER = Chapter(
    name="24_grouped",
    title="Grouped products",
    idea="BF16 products of different heights in one launch: each block finds its tiles",
    draw=lambda: thumbnails.heights_thumbnail((5, 2, 8, 1, 3)),
    alt="Five products of different heights below one another, each in a colour.",
    speed=on_the_ladder,
)
