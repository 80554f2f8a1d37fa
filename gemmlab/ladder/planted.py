"""Mistakes that are planted in the kernels of rungs, for readers to find."""

from __future__ import annotations

from dataclasses import dataclass, field

from gemmlab.ladder.settings import Settings


@dataclass(frozen=True)
class Planted:
    """One mistake in the kernel of a rung: `old`, which stands there once, became `new`.

    `what`: the mistake in a sentence. `kind`: of what kernel.check() finds, None where it finds
    nothing and only verification shows it. `seen`: how it is found. `hint`: what to try next.
    """

    old: str
    new: str
    what: str
    kind: str | None
    seen: str
    hint: str
    settings: Settings = field(default_factory=dict)
