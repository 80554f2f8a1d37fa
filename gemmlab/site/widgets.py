"""Sliders and players on pages: what stands where a cell shows one, and the files behind it all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tqdm import tqdm

from gemmlab.site import labs, players
from gemmlab.site.interactive import LAB, Call


def placeholder(call: Call, root: str) -> str:
    """HTML of the sliders or the player as they first stand. Raises what labs.placeholder raises.

    root: from the page to the folder that `write` got.
    """
    if call.function == LAB:
        return labs.placeholder(call.kernel.name, call.kernel.settings, root)
    return players.placeholder(call, root)


def write(folder: Path) -> None:
    """Write what all of them need into `folder`. Raises what labs.write and players.write raise."""
    labs.write(folder, lambda items, total: _bar(items, total, "pictures of sliders"))
    players.write(folder, lambda items, total: _bar(items, total, "frames of players"))


def _bar(items: Iterable, total: int, what: str) -> Iterable:
    return tqdm(items, desc=what, total=total, leave=False)
