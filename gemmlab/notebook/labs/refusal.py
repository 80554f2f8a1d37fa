"""What the lab answers to settings that do not go together: the reason, and the nearest that do.

The sentences stand here as formats, for the lab of a page fills in the same ones.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from gemmlab import ladder
from gemmlab.ladder import Rung, Settings

NO_PICTURE = "No picture: {reason}"
REASON = "{settings} {broken}."
NEAREST = "The nearest"
NEAREST_WITH = "The nearest with {moved}"
NOTHING_WITH = "Nothing legal has {moved}. The nearest"
CHANGE = "from {name}={value} to {name}={other}"
USE = "Use {changes}"


@dataclass(frozen=True)
class Refusal:
    """`words`: the whole sentence. `changes`: the settings that cure it; none where none can."""

    words: str
    changes: Settings


def refusal(rung: Rung, settings: Settings, moved: Collection[str], reason: str) -> Refusal:
    """Why there is no picture of these settings, and the nearest legal ones.

    moved: the parameters of the last move, which these keep if they can. reason: a sentence.
    """
    near = ladder.nearest(rung, settings, keep=moved)
    changes = {name: value for name, value in near.items() if value != settings[name]}
    words = NO_PICTURE.format(reason=reason)
    return Refusal(f"{words} {_way_out(settings, changes, moved)}" if changes else words, changes)


def reason_of(rung: Rung, settings: Settings) -> str:
    """Why settings do not go together, as a sentence; empty where they do."""
    broken = rung.broken(settings)
    return REASON.format(settings=ladder.listed(settings), broken=broken) if broken else ""


def _way_out(settings: Settings, changes: Settings, moved: Collection[str]) -> str:
    """What the nearest legal settings change, and whether they keep the last move."""
    wanted = ladder.listed({name: settings[name] for name in moved})
    begin = NEAREST_WITH if moved else NEAREST
    if changes.keys() & set(moved):
        begin = NOTHING_WITH
    steps = (
        CHANGE.format(name=name, value=settings[name], other=value)
        for name, value in changes.items()
    )
    return f"{begin.format(moved=wanted)}: {', '.join(steps)}."
