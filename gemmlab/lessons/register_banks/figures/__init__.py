"""Figures of this lesson."""

from gemmlab.lessons.register_banks.figures.fma_order import fma_order
from gemmlab.lessons.register_banks.figures.issue_slots import issue_slots
from gemmlab.lessons.register_banks.figures.ring import ring

__all__ = ["fma_order", "issue_slots", "ring"]  # fmt: skip
