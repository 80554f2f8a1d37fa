"""The lines of Python in each part of the project, beside its budget.

    python -m tools.size

All lines of *.py count. A part that is over its budget may not grow: ends with 1 where one does.
"""

from __future__ import annotations

import sys

from gemmlab.folders import ROOT

BUDGETS: dict[str, tuple[int, tuple[str, ...]]] = {  # lines at most, and of which folders
    "core": (16_000, ("gemmlab",)),
    "lessons": (16_000, ("gemmlab/lessons",)),
    "tools": (2_000, ("tools",)),
    "ptxsim": (15_000, ("ptxsim/src",)),
    "tests": (30_000, ("tests", "ptxsim/tests")),
}

# Of a part over its budget, which may not grow.
REACHED = {"core": 17_304, "ptxsim": 19_073}


def lines(folders: tuple[str, ...]) -> int:
    """Of the Python files below these folders of the checkout."""
    return sum(
        len(path.read_text(encoding="utf-8").splitlines())
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
    )


def sizes() -> dict[str, int]:
    """The lines of each part of BUDGETS. The core is gemmlab without its lessons."""
    of_parts = {name: lines(folders) for name, (_, folders) in BUDGETS.items()}
    return of_parts | {"core": of_parts["core"] - of_parts["lessons"]}


def main() -> int:
    has_grown = False
    for name, count in sizes().items():
        budget = BUDGETS[name][0]
        most = REACHED.get(name, budget)
        has_grown |= count > most
        note = f" is over, and above {most:,}" if count > most else " is over"
        print(f"{name:8} {count:7,} of {budget:7,}{note if count > budget else ''}")
    return int(has_grown)


if __name__ == "__main__":
    sys.exit(main())
