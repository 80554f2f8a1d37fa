"""Launches that do not come about: refused before they run, or given up."""

from __future__ import annotations


class LaunchError(Exception):
    """A launch that no GPU would take, or arguments that do not fit the kernel."""


class TakesTooLong(LaunchError):
    """A launch that passes its time limit. It may be one that never ends.

    `how_long`: what is known of it, such as "about 12.5 minutes".
    """

    def __init__(self, message: str, how_long: str = ""):
        super().__init__(message)
        self.how_long = how_long
