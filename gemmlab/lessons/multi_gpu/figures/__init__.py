"""Figures of this lesson."""

from gemmlab.lessons.multi_gpu.figures.holdings import rank_holdings
from gemmlab.lessons.multi_gpu.figures.timeline import rank_timeline

__all__ = ["rank_holdings", "rank_timeline"]  # fmt: skip
