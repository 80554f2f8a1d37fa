"""Figures of this lesson."""

from gemmlab.lessons.warp_specialized.figures.block_phases import block_phases
from gemmlab.lessons.warp_specialized.figures.registers import register_budget
from gemmlab.lessons.warp_specialized.figures.turns import turns
from gemmlab.lessons.warp_specialized.figures.waits import waits

__all__ = ["block_phases", "register_budget", "turns", "waits"]  # fmt: skip
