"""The exercises at the end of a notebook: they check an answer, and never give it away."""

from __future__ import annotations

import math

from .compiler import CompileError
from .kernel import from_source
from .simulator import UnknownInstruction


def check(answer: float | None, expected: float) -> None:
    """Say whether a number is right, to 1 %. None stands for a question not answered yet."""
    if answer is None:
        print("Not answered yet: put your number in place of None and run the cell again.")
    elif math.isclose(answer, expected, rel_tol=0.01):
        print(f"Right: {answer:g}.")
    else:
        print(f"Not yet: {answer:g} is too {'small' if answer < expected else 'large'}.")


def check_kernel(source: str, like: str, *, mistakes: bool = False, **settings: int) -> None:
    """Compile the reader's kernel, launch it as rung `like` is, and say what verification finds.

    mistakes: where its results are right, look for mistakes that hardware hides, such as races.
    """
    try:
        kernel = from_source(source, like, **settings)
        report = kernel.verify()
    except (CompileError, UnknownInstruction) as error:
        print(f"Not yet: {error}")
        return
    failed = [case for case in report.cases if not case.passed]
    if not failed:
        checked = kernel.check().cases if mistakes else []
        found = [case.message.split("; ")[0] for case in checked if not case.passed]
        if found:
            print(f"Not yet: all {len(report.cases)} cases pass, but there is a {found[0]}.")
        else:
            print(f"Right: all {len(report.cases)} cases pass.")
        return
    first = failed[0]
    print(
        f"Not yet: {len(failed)} of {len(report.cases)} cases fail, the first of them at "
        f"M={first.m}, N={first.n}, K={first.k}."
    )
