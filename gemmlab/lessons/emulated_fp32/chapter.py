"""Notebook 23 among those of the series."""

from gemmlab.notebook.series import Chapter
from gemmlab.plots import thumbnails

CHAPTER = Chapter(
    name="23_emulated_fp32",
    title="FP32 from tensor cores",
    idea="float32 as sums of parts of 16 bits",
    draw=lambda: thumbnails.parts_thumbnail(3),
    alt="A bar, the bits of a float, and below it the three parts that have them.",
)
