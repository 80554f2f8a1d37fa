"""Notebook 26 among those of the series."""

import numpy as np

from gemmlab.lessons.blackwell.kernels import EPILOGUE_WARPS, HALVES
from gemmlab.notebook.series import Chapter
from gemmlab.plots import thumbnails

CHAPTER = Chapter(
    name="26_blackwell",
    title="Accumulators in tensor memory",
    idea="one thread multiplies into tensor memory, and the epilogue has warps of its own",
    draw=lambda: thumbnails.cells_thumbnail(
        np.arange(EPILOGUE_WARPS)[:, None] + np.zeros((1, HALVES), int)
    ),
    alt="Tensor memory in four bands of lanes, one for each warp of the epilogue.",
)
