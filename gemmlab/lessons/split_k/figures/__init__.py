"""Figures of this lesson."""

from gemmlab.lessons.split_k.figures.joins import joins
from gemmlab.lessons.split_k.figures.waves import waves

__all__ = ["joins", "waves"]  # fmt: skip
