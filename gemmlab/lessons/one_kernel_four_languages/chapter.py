"""Notebook 25 among those of the series."""

from gemmlab.notebook.series import Chapter
from gemmlab.plots import thumbnails

CHAPTER = Chapter(
    name="25_one_kernel_four_languages",
    title="Four languages",
    idea="one kernel in CUDA C++, Triton, CuTe DSL and Numba: what each decides for you",
    draw=lambda: thumbnails.heights_thumbnail((3, 3, 3, 3)),
    alt="Four bars of one height, each in a colour.",
)
