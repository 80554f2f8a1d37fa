"""Figures of this lesson."""

from gemmlab.lessons.fp8.figures.errors import fp8_errors, fp8_errors_tried
from gemmlab.lessons.fp8.figures.scales import scale_reach
from gemmlab.lessons.fp8.figures.speeds import fp8_speeds
from gemmlab.lessons.fp8.figures.sums import sums_in_turn
from gemmlab.lessons.fp8.figures.values import fp8_values

__all__ = [
    "fp8_errors",
    "fp8_errors_tried",
    "fp8_speeds",
    "fp8_values",
    "scale_reach",
    "sums_in_turn",
]
