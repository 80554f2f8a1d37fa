"""The lines of Python in each part of the project, beside its budget.

    python -m tools.size

All lines of *.py count. Ends with 1 where a part is over its budget.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from gemmlab.folders import ROOT

BUDGETS: dict[str, tuple[int, tuple[str, ...]]] = {  # lines at most, and of which folders
    "core": (16_000, ("gemmlab",)),
    "lessons": (16_000, ("gemmlab/lessons",)),
    "tools": (2_000, ("tools",)),
    "ptxsim": (15_000, ("ptxsim/src",)),
    "tests": (30_000, ("tests", "ptxsim/tests")),
}


def lines(folders: tuple[str, ...], counts: Callable[[Path], bool] = lambda path: True) -> int:
    """Of the Python files below these folders of the checkout that count."""
    return sum(
        len(path.read_text(encoding="utf-8").splitlines())
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if counts(path)
    )


def sizes() -> dict[str, int]:
    """The lines of each part of BUDGETS. The core is gemmlab without its lessons."""
    of_parts = {name: lines(folders) for name, (_, folders) in BUDGETS.items()}
    return of_parts | {"core": of_parts["core"] - of_parts["lessons"]}


def main() -> int:
    over = False
    for name, count in sizes().items():
        budget = BUDGETS[name][0]
        over |= count > budget
        print(f"{name:8} {count:7,} of {budget:7,}{' is over' if count > budget else ''}")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
