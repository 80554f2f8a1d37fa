"""Figures of this lesson."""

from gemmlab.lessons.tma_wgmma.figures.boxes import boxes, factors
from gemmlab.lessons.tma_wgmma.figures.power import power, wgmma_ceilings
from gemmlab.lessons.tma_wgmma.figures.warpgroups import swizzles, warpgroup_sums

__all__ = ["boxes", "factors", "power", "swizzles", "warpgroup_sums", "wgmma_ceilings"]  # fmt: skip
