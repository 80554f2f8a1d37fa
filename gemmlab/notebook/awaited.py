"""Cells that show what a GPU measures: before it is recorded, one sentence stands there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gemmlab.records.registry import NoRecord, again


@dataclass(frozen=True)
class Awaited:
    """What is still to be recorded, by the name that `python -m gemmlab record` knows it by."""

    name: str

    def __repr__(self) -> str:
        return f"{self.name} is not recorded yet: {again(self.name)} on a GPU, then this cell."


def when_recorded(name: str, show: Callable[[], Any]) -> Any:
    """What `show` gives, or where it raises NoRecord, an Awaited that says so.

    What else it raises, such as StaleRecord, goes on.
    """
    try:
        return show()
    except NoRecord:
        return Awaited(name)
