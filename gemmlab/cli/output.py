"""Exit codes, and lines on standard error."""

from __future__ import annotations

import sys

OK, FAILED, USAGE, UNAVAILABLE = 0, 1, 2, 3
STOPPED = 130  # as a shell says of a command that Ctrl-C ended


def say(line: str) -> None:
    """A line on standard error that leaves a progress bar whole."""
    from tqdm.auto import tqdm

    tqdm.write(line, file=sys.stderr)
