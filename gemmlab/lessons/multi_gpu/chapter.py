"""Notebook 21 among those of the series."""

from gemmlab.ladder import Problem
from gemmlab.lessons.multi_gpu.in_turn import holdings
from gemmlab.lessons.multi_gpu.schedules import column_parallel
from gemmlab.notebook.series import Chapter
from gemmlab.plots import thumbnails

CHAPTER = Chapter(
    name="21_multi_gpu",
    title="Several GPUs",
    idea="a product over several GPUs, as a list of steps for each; copies that products hide",
    draw=lambda: thumbnails.ranks_thumbnail(holdings(column_parallel(Problem(12, 12, 12), 4))[0]),
    alt="One of four ranks has a quarter of A, of B and of C, and gets the rest of A.",
)
