"""Asynchronous copies into shared memory, and the mbarriers that tell when they are done."""

from __future__ import annotations


class Copies:
    """The copies in flight of a chunk."""

    def __init__(self, lanes):
        self.lanes = lanes
        self.changed = False  # whether an mbarrier changed since lanes last tried one
