"""Figures of this lesson."""

from gemmlab.lessons.autotuning.figures.landscape import landscape
from gemmlab.lessons.autotuning.figures.predicted import predicted
from gemmlab.lessons.autotuning.figures.rules import rules
from gemmlab.lessons.autotuning.figures.strategies import best_found, one_search

__all__ = ["best_found", "landscape", "one_search", "predicted", "rules"]  # fmt: skip
