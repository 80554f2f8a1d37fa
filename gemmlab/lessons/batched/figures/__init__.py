"""Figures of this lesson."""

from gemmlab.lessons.batched.figures.batches import batches
from gemmlab.lessons.batched.figures.copies import copies

__all__ = ["batches", "copies"]  # fmt: skip
