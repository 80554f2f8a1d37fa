"""Finding a rung by its name."""

from __future__ import annotations

import difflib

from gemmlab.ladder.probes import CEILINGS, LEVELS, TENSOR_CEILING
from gemmlab.ladder.rung import Rung
from gemmlab.lessons import modules

RUNGS: tuple[Rung, ...] = tuple(
    sorted((lesson.RUNG for lesson in modules("rung")), key=lambda rung: rung.name)
)


class LadderError(Exception):
    """There is no such rung. The message names those there are."""


def find(name: str) -> Rung:
    """The rung called `name`. Raises LadderError, naming the nearest and all others."""
    if not isinstance(name, str):
        raise LadderError(f"a rung is named in text, such as {RUNGS[0].name!r}, not by {name!r}")
    for rung in RUNGS:
        if rung.name == name:
            return rung
    names = [rung.name for rung in RUNGS]
    if name in (CEILINGS.name, TENSOR_CEILING.name, LEVELS.name):
        raise LadderError(
            f"{name} is no matrix product: use gl.ceilings(); products: {', '.join(names)}"
        )
    hint = f"did you mean {near}? " if (near := _meant(name, names)) else ""
    raise LadderError(f"there is no rung {name!r}: {hint}The ladder has {', '.join(names)}")


def _meant(name: str, names: list[str]) -> str | None:
    """The one that the name is the number or the beginning of, else one that is spelled alike."""
    for candidates in (
        [known for known in names if name.isdecimal() and int(known.split("_")[0]) == int(name)],
        [known for known in names if name and known.startswith(name)],
        difflib.get_close_matches(name, names, n=1, cutoff=0.4),
    ):
        if len(candidates) == 1:
            return candidates[0]
    return None
