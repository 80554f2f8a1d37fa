"""The conditions on a rung's settings as tables, for a page that cannot call Python.

A condition reads few of the parameters, and answers for their values alone. Which ones it reads is
watched: it is asked with all values of those that it has read so far, until it reads no others.
Then its answers to these are its answers to everything, also of a rung with millions of choices.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, product

from gemmlab.ladder import Constraint, Rung, Settings

FAMILY = "family"  # stands for the parameters that a rung's families give values together


def tables(rung: Rung) -> dict:
    """How a page finds what Rung.broken says, as a dict for JSON.

    "together": names of the parameters that families give values; "families": these values, a list
    for each family; "no_family": the end of the sentence for others. Without families the first two
    are empty. "rules": in the order in which they are asked, each with "reads": names of parameters
    or FAMILY for the number of the family; "answers": ends of sentences, the first one empty;
    "cells": pairs (which answer, how many times in a row), for all values of `reads`, the last one
    changing the fastest.
    """
    together = list(rung.families[0]) if rung.families else []
    return {
        "together": together,
        "families": [[one[name] for name in together] for one in rung.families],
        "no_family": _no_family(rung),
        "rules": [_rule(rung, one) for one in rung.constraints],
    }


def _no_family(rung: Rung) -> str:
    """Asked of settings that are in none: of each parameter another family's value."""
    if not rung.families:
        return ""
    values = {one.name: one.legal for one in rung.parameters}
    for found in product(*(values[name] for name in rung.families[0])):
        mixed = dict(zip(rung.families[0], found, strict=True))
        if mixed not in rung.families:
            return rung.broken(rung.defaults | mixed) or ""
    return ""


def _rule(rung: Rung, constraint: Constraint) -> dict:
    reads: list[str] = []
    while True:
        asked = [_asked(constraint, settings) for settings in _choices(rung, reads)]
        seen = set().union(*(read for _, read in asked))
        if rung.families and seen & set(rung.families[0]):
            seen = {FAMILY} | seen - set(rung.families[0])
        if seen <= set(reads):
            break
        order = [FAMILY, *(one.name for one in rung.parameters)]
        reads = [name for name in order if name in seen | set(reads)]
    said = [answer for answer, _ in asked]
    answers = ["", *dict.fromkeys(filter(None, said))]
    cells = [(answer, len(list(every))) for answer, every in groupby(map(answers.index, said))]
    return {"reads": reads, "answers": answers, "cells": cells}


def _choices(rung: Rung, reads: list[str]) -> Iterator[Settings]:
    """All values of some parameters, the others with their defaults, or as the first family has
    them."""
    legal = {one.name: one.legal for one in rung.parameters}
    base = rung.defaults | (rung.families[0] if rung.families else {})
    every = [
        rung.families if name == FAMILY else [{name: value} for value in legal[name]]
        for name in reads
    ]
    for found in product(*every):
        yield base | {name: value for part in found for name, value in part.items()}


class _Watched(dict):
    """Settings that note which of them are read."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> int:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, otherwise=None):
        if name in self:  # else a macro of a step, which no reader can set
            self.read.add(name)
        return super().get(name, otherwise)

    def _all(self) -> set[str]:
        self.read |= set(self)
        return self.read

    def __iter__(self):
        self._all()
        return super().__iter__()

    def keys(self):
        self._all()
        return super().keys()

    def values(self):
        self._all()
        return super().values()

    def items(self):
        self._all()
        return super().items()


def _asked(constraint: Constraint, settings: Settings) -> tuple[str, set[str]]:
    """What a condition says, empty where it is met, and which parameters it read for that."""
    watched = _Watched(settings)
    try:
        return constraint.broken(watched) or "", watched.read
    except ZeroDivisionError:  # it counts on one before it, which these settings break
        return "", watched.read
