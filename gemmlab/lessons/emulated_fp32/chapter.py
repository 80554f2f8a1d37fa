"""Notebook 23 among those of the series."""

from gemmlab.lessons.emulated_fp32.measure import SPEEDS
from gemmlab.notebook.series import Chapter
from gemmlab.plots import thumbnails
from gemmlab.records.runs import LARGE

CHAPTER = Chapter(
    name="23_emulated_fp32",
    title="FP32 from tensor cores",
    idea="float32 as sums of three parts in BF16; six of their products",
    draw=lambda: thumbnails.parts_thumbnail(3),
    alt="A bar, the bits of a float, and below it the three parts that have them.",
    speed=lambda: (SPEEDS.rows_of(SPEEDS.steps, LARGE).iloc[0].to_dict(), ""),
)
