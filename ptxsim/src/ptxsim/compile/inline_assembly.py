"""What ptxas has accepted of the PTX that sources hold as inline assembly.

NVRTC passes it on as it stands, so that it takes ptxas to find a mistake in it. A statement that
ptxas has accepted once, in other registers of the same kind, it will accept again.
"""

from __future__ import annotations

import re

_STATEMENT = re.compile(r"// begin inline asm\n(.*?)// end inline asm", re.S)
_REGISTER = re.compile(r"%(r|rd|rs|rq|f|fd|p|h|hh)\d+\b")
# What declares a name, a register for example, or is a label: to have it twice is a mistake.
_DECLARES = re.compile(r"(?:^|[;{}\n])\s*(?:\.\w+|[\w$]+\s*:)")
# What depends on the rest of the kernel, too.
_DEPENDS = re.compile(r"\bsetmaxnreg\b")
_IN_SOURCE = re.compile(r"\basm\b[^;]*;")

_accepted: set[tuple[str, str]] = set()  # (architecture, statement)
_seen_in_sources: set[tuple[str, str]] = set()


def accept(source: str, ptx: str, arch: str) -> None:
    """Remember the statements of a text that ptxas has accepted for `arch`."""
    _accepted.update((arch, form) for form in _forms(ptx))
    _seen_in_sources.update((arch, text) for text in _IN_SOURCE.findall(source))


def is_accepted(ptx: str, arch: str) -> bool:
    """Whether ptxas has accepted all statements for `arch` before."""
    return all((arch, form) in _accepted and _stands_alone(form) for form in _forms(ptx))


def is_new(source: str, arch: str) -> bool:
    """Whether CUDA C++ has inline assembly that was in no accepted source, as far as one sees."""
    return any((arch, text) not in _seen_in_sources for text in _IN_SOURCE.findall(source))


def _forms(ptx: str) -> set[str]:
    return {_REGISTER.sub(r"%\1", text.strip()) for text in set(_STATEMENT.findall(ptx))}


def _stands_alone(form: str) -> bool:
    """Whether it is right wherever it stands, however often."""
    return not _DEPENDS.search(form) and (not _DECLARES.search(form) or _in_one_pair(form))


def _in_one_pair(form: str) -> bool:
    """Whether all of it is in one pair of braces, which is a scope of its own."""
    depth, closed = 0, []
    for at, character in enumerate(form):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            closed.append(at)
    return closed == [len(form) - 1]
