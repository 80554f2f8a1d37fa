"""Predictions and exercises of a notebook: they check an answer, and never give it away."""

import html
import math
from difflib import SequenceMatcher
from typing import cast

import numpy as np
import pandas

from gemmlab import ladder
from gemmlab.kernel.kernel import Kernel, from_source
from gemmlab.ladder.rung import Planted
from gemmlab.report import Shown
from ptxsim import CompileError, LaunchError, PtxError, UnknownInstruction, launch
from ptxsim.metrics import METRICS

WAITING = "Waiting for your number: replace None above and run this cell again."
REFUSED = (CompileError, LaunchError, PtxError, UnknownInstruction)
NO_NUMBER = "Not yet: {!r} is not a number, such as 16 or 2.5."


def check(answer: float | None, expected: float) -> None:
    """Say whether a number is right, to 1 %. None stands for a question not answered yet."""
    if answer is None:
        print("Not answered yet: put your number in place of None and run the cell again.")
    elif not _is_number(answer):
        print(NO_NUMBER.format(answer))
    elif math.isclose(answer, expected, rel_tol=0.01):
        print(f"Right: {answer:g}.")
    else:
        print(f"Not yet: {answer:g} is too {_side(answer, expected)}.")


def prediction(yours: float | None, measured: float, what: str) -> None:
    """Compare a reader's prediction with what was counted or timed, to 1 %.

    what: the quantity in words, with its unit. None stands for no prediction, which `unanswered`
    shows.
    """
    answer = f"{what}: {measured:,g}"
    if yours is None:
        from IPython.display import display

        display(unanswered(answer))
    elif not _is_number(yours):
        print(NO_NUMBER.format(yours))
    elif math.isclose(yours, measured, rel_tol=0.01):
        print(f"{answer}, as you predicted.")
    elif yours > 0 and measured > 0:
        factor = max(yours / measured, measured / yours)
        print(f"{answer}. Your {yours:,g} is {factor:,.3g} times too {_side(yours, measured)}.")
    else:
        print(f"{answer}. Your {yours:,g} is too {_side(yours, measured)}.")


def unanswered(answer: str) -> Shown:
    """What stands for a prediction without a number. The answer is a click away on a page, where
    nobody can run the cell; a terminal does not have it."""
    fold = f"<details><summary>Answer</summary>{html.escape(answer)}</details>"
    return Shown(WAITING, f"<p>{WAITING}</p>{fold}")


def folded(table: pandas.DataFrame, *predictions: float | None) -> pandas.DataFrame | Shown:
    """A table that has the answers of predictions: in a fold until each of them has a number."""
    if all(map(_is_number, predictions)):
        return table
    fold = f"<details><summary>What came out</summary>{table._repr_html_()}</details>"
    return Shown("What came out is folded until there is a number.", fold)


def _is_number(answer: object) -> bool:
    numbers = (int, float, np.integer, np.floating)
    return isinstance(answer, numbers) and not isinstance(answer, bool) and not math.isnan(answer)


def _side(answer: float, right: float) -> str:
    return "small" if answer < right else "large"


def check_kernel(
    source: str, like: str, *, mistakes: bool = False, conflicts: bool = False, **settings: int
) -> None:
    """Compile the reader's kernel, launch it as rung `like` is, and say what verification finds.

    On a GPU the simulator's checks come first: what may fault there is told and not launched.
    mistakes: where its results are right, look for mistakes that hardware hides, such as races.
    conflicts: and count bank conflicts, of one tile; there shall be none.
    """
    try:
        kernel = from_source(source, like, None, **settings)
        report = kernel.verify()
    except REFUSED as error:
        print(f"Not yet: {error}")
        return
    count, failed = len(report.cases), [case for case in report.cases if not case.passed]
    if failed:
        first = failed[0]
        where = f"M={first.m}, N={first.n}, K={first.k}"
        met = f": {first.findings[0]}" if first.findings else ""
        print(f"Not yet: {len(failed)} of {count} cases fail, the first of them at {where}{met}.")
        return
    checked = kernel.check().cases if mistakes else []
    but = [f"there is a {case.message.split('; ')[0]}" for case in checked if not case.passed]
    if not but and conflicts and (more := _conflicts(kernel)):
        but = [f"of the wavefronts of one tile {more} are bank conflicts"]
    passed = f"all {count} cases pass"
    print(f"Not yet: {passed}, but {but[0]}." if but else f"Right: {passed}.")


def _conflicts(kernel: Kernel) -> int:
    """Of the accesses to shared memory for one tile of C, two steps of a tile along K."""
    rows, columns = kernel.rung.tile(kernel.settings)
    counted = kernel.trace(rows, columns, 2 * max(1, kernel.rung.depth(kernel.settings))).counters
    metrics = (METRICS["shared", "load"][-1], METRICS["shared", "store"][-1])
    return sum(counted[metric] for metric in metrics)


def check_launch(
    source: str, entry: str, grid: tuple[int, int, int], block: tuple[int, int, int], args: list,
    expected: np.ndarray,
) -> None:  # fmt: skip
    """Launch the reader's kernel in the simulator, and say whether it does what it should.

    args: as simulator.launch takes them; the last array among them is what the kernel writes, and
    is compared with `expected`, element by element.
    """
    try:
        run = launch(source, entry, grid, block, args, check=True)
    except REFUSED as error:
        print(f"Not yet: {error}")
        return
    written = [arg for arg in args if isinstance(arg, np.ndarray)][-1]
    wrong = int((written != expected).sum())
    if run.findings:
        print(f"Not yet: {run.findings[0]}.")
    elif wrong:
        print(f"Not yet: {wrong:,} of {expected.size:,} elements are wrong.")
    else:
        print(f"Right: all {expected.size:,} elements are as they should be.")


# ---- planted mistakes ----------------------------------------------------------------------------


def planted(name: str) -> Kernel:
    """The rung `name` with one mistake in it, its lines numbered as in the real file. Raises
    LadderError for a name that is not there."""
    rung = ladder.find(name)
    mistake, text = cast(Planted, rung.planted), rung.path.read_text(encoding="utf-8")
    return from_source(text.replace(mistake.old, mistake.new), name, None, **mistake.settings)


def find_mistake(kernel: Kernel, line: int | None) -> None:
    """Say whether `line` of a kernel from planted(...) is the mistake. None: not answered yet."""
    mistake = cast(Planted, kernel.rung.planted)
    original = kernel.rung.path.read_text(encoding="utf-8")
    if line is None:
        print("Not answered yet: put the number of the line in place of None and run it again.")
    elif line in changed_lines(original, kernel.text):
        print(f"Right: {mistake.what}. {mistake.seen[0].upper()}{mistake.seen[1:]}.")
    else:
        hint = mistake.hint[0].upper() + mistake.hint[1:]
        print(f"Not yet: line {line} is as it should be. {hint}")


def changed_lines(before: str, after: str) -> set[int]:
    """The numbers of the lines of `after` that differ; of removed ones, those next to the gap."""
    old, new = before.splitlines(), after.splitlines()
    changed = set()
    for kind, _, _, start, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "delete":
            changed |= {start, start + 1} & set(range(1, len(new) + 1))
        elif kind != "equal":
            changed |= set(range(start + 1, end + 1))
    return changed
