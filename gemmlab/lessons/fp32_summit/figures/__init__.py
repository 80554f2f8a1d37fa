"""Figures of this lesson."""

from gemmlab.lessons.fp32_summit.figures.loads_under_way import loads_under_way
from gemmlab.lessons.fp32_summit.figures.sharing import sharing

__all__ = ["loads_under_way", "sharing"]  # fmt: skip
