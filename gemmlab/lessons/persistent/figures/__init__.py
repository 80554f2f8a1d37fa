"""Figures of this lesson."""

from gemmlab.lessons.persistent.figures.multicast import multicast
from gemmlab.lessons.persistent.figures.tile_changes import tile_changes
from gemmlab.lessons.persistent.figures.tile_order import tile_order

__all__ = ["multicast", "tile_changes", "tile_order"]  # fmt: skip
