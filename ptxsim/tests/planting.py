"""A mistake as it is planted in a kernel, and who is to find it."""

from __future__ import annotations

from dataclasses import dataclass

CHECKS, VERIFICATION = frozenset({"checks"}), frozenset({"verification"})
BOTH = CHECKS | VERIFICATION


@dataclass(frozen=True)
class Mistake:
    """`old`, which stands there once, becomes `new` in the text of kernel `of` with its headers.

    `what`: the mistake in words. `found_by`: who must find it; where the checks do, the result may
    be wrong too, by the order of threads. `kinds`: parts of Finding.kind, all of which the checks
    must report. `shapes`: those at which it shows, if not at the usual ones. `change`: what differs
    in the launch.
    """

    name: str
    of: str
    what: str
    old: str
    new: str
    found_by: frozenset[str]
    kinds: tuple[str, ...] = ()
    shapes: tuple = ()
    change: dict | None = None
