"""Mistakes that hardware hides: races, reads of what nobody wrote, barriers that threads miss."""

from __future__ import annotations


class Checker:
    """Watches the accesses and barriers of a chunk."""

    def __init__(self, lanes):
        self.lanes = lanes

    def access(self, index: int, space: str, operation: str, addresses, size: int, mask) -> None:
        """`size` bytes per lane, all inside their memory."""

    def arrive(self, index: int, number, mask) -> None:
        """The lanes of `mask` come to barrier `number` of their block."""

    def open(self, opened) -> None:
        """A barrier opens: a barriers.Opened."""

    def warp_barrier(self, index: int, members, mask) -> None:
        """The lanes of `mask` synchronise with those of their warp that `members` names."""
