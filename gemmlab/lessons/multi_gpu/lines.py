"""The lines of gemmlab/lessons/multi_gpu/schedules.py in which a schedule's steps are made."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from gemmlab.lessons.multi_gpu.steps import Schedule
from gemmlab.report import Listing

MARK = "# the steps of a "


def schedule_lines(maker: Callable[..., Schedule]) -> Listing:
    """From the mark in a maker's source to the end of that block, with the numbers of the file.

    Raises ValueError for a function without a mark.
    """
    source, first = inspect.getsourcelines(maker)
    begins = [at for at, line in enumerate(source) if line.strip().startswith(MARK)]
    if not begins:
        raise ValueError(f"{maker.__name__} has no line that begins with {MARK!r}")
    at = begins[0]
    margin = len(source[at]) - len(source[at].lstrip())
    kept = [source[at]]
    for line in source[at + 1 :]:
        if line.strip() and len(line) - len(line.lstrip()) < margin:
            break
        kept.append(line)
    text = "".join(line[margin:] if line.strip() else line for line in kept)
    text = "\n".join(line.partition("  # fmt")[0].rstrip() for line in text.rstrip().split("\n"))
    numbers = tuple(range(first + at, first + at + text.count("\n") + 1))
    return Listing(text, "python", numbers)
