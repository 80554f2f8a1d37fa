"""What sliders answer to settings without a picture: the reason, and the nearest that have one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from gemmlab import ladder
from gemmlab.ladder import Rung, Settings


@dataclass(frozen=True)
class Refusal:
    """`words`: the whole sentence. `changes`: the settings that cure it; none where none can."""

    words: str
    changes: Settings


def refusal(
    rung: Rung,
    settings: Settings,
    moved: Collection[str],
    reason: str,
    among: Collection[Settings] | None = None,
) -> Refusal:
    """Why there is no picture of these settings, and the nearest legal ones.

    moved: the parameters of the last move, which these keep if they can. reason: a sentence.
    among: the settings that a page has a picture of, where that is not all that are legal.
    """
    near = ladder.nearest(rung, settings, keep=moved, among=among)
    changes = {name: value for name, value in near.items() if value != settings[name]}
    words = f"No picture: {reason}"
    if changes:
        words += f" {_way_out(settings, changes, moved, among is None)}"
    return Refusal(words, changes)


def reason_of(rung: Rung, settings: Settings) -> str:
    """Why settings do not go together, as a sentence; empty where they do."""
    broken = rung.broken(settings)
    return f"{ladder.listed(settings)} {broken}." if broken else ""


def _way_out(settings: Settings, changes: Settings, moved: Collection[str], of_all: bool) -> str:
    """What the nearest settings change, and whether they keep the last move."""
    wanted = ladder.listed({name: settings[name] for name in moved})
    here = "" if of_all else " that this page has"
    begin = f"The nearest with {wanted}{here}" if moved else f"The nearest{here}"
    if changes.keys() & set(moved):
        nothing = (
            f"Nothing legal has {wanted}" if of_all else f"This page has nothing with {wanted}"
        )
        begin = f"{nothing}. The nearest"
    steps = (f"from {name}={settings[name]} to {name}={value}" for name, value in changes.items())
    return f"{begin}: {', '.join(steps)}."
