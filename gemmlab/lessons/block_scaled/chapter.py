"""Notebook 27 among those of the series."""

import numpy as np

from gemmlab.notebook.series import Chapter
from gemmlab.plots import thumbnails

CHAPTER = Chapter(
    name="27_block_scaled",
    title="Block scales in tensor memory",
    idea="the tensor cores multiply by the scales of blocks, which lie beside the sums",
    draw=lambda: thumbnails.cells_thumbnail(np.array([[0, 0, 0, 0, 1, 2, 1, 2]])),
    alt="Columns of tensor memory: half of them sums, beside them scales of A and of B in turn.",
)
