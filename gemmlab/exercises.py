"""The exercises at the end of a notebook: they check an answer, and never give it away."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from . import ladder
from .compiler import CompileError
from .kernel import Kernel, from_source
from .ladder import LadderError, Settings
from .simulator import LaunchError, PtxError, UnknownInstruction


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
    except (CompileError, LaunchError, PtxError, UnknownInstruction) as error:
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


# ---- planted mistakes ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Planted:
    """One mistake in the kernel of a rung: `old`, which stands there once, became `new`.

    `what`: the mistake in a sentence. `kind`: of what kernel.check() finds, None where it finds
    nothing and only verification shows it. `seen`: how it is found. `hint`: what to try next.
    """

    old: str
    new: str
    what: str
    kind: str | None
    seen: str
    hint: str
    settings: Settings = field(default_factory=dict)


PLANTED: dict[str, Planted] = {
    "02_coalescing": Planted(
        old="row >= M || col >= N",
        new="row > M || col >= N",
        what="the threads of row M, one past the last, do not return: the last row is M - 1",
        kind="out-of-bounds read",
        seen="kernel.check() and kernel.verify() both report accesses out of bounds of A and C",
        hint="kernel.check() names an element past the end of A. Which row is it in, and which "
        "line should have sent its thread away?",
    ),
    "03_shared_memory": Planted(
        old="__syncthreads();                         // nobody reads them any more",
        new="__syncwarp();                            // nobody reads them any more",
        what="__syncwarp() holds back the threads of one warp only, so a warp that is ahead "
        "overwrites tiles that others still read",
        kind="write-after-read race",
        seen="only kernel.check() sees the write-after-read race, every result is right",
        hint="kernel.check() names a line that writes and one that reads. What should stand "
        "between the read and the next step's write?",
        settings={"TILE": 16, "BK": 16},
    ),
    "05_thread_tile_2d": Planted(
        old="        } else {\n            load_tile<false",
        new="        } else if (!whole) {\n            load_tile<false",
        what="a block inside of C brings nothing in the last step where K is no multiple of BK, "
        "and multiplies the tiles of the step before once more",
        kind=None,
        seen="kernel.verify() fails where a block is whole and K is no multiple of BK; "
        "kernel.check() finds nothing, for every element that is read was written once",
        hint="compare the shapes that kernel.verify() passes with those that fail: which blocks "
        "are wrong, and what is special about K?",
        settings={"BM": 32, "BN": 32, "BK": 8, "TM": 4, "TN": 4},
    ),
    "09_double_buffering": Planted(
        old="wait_for_copies<STAGES - 2>",
        new="wait_for_copies<STAGES - 1>",
        what="STAGES - 1 groups may still be on the way after this wait, the stage that is "
        "multiplied next among them; at most STAGES - 2 may be",
        kind="read of a copy in flight",
        seen="kernel.check() sees the read of a copy in flight, and in the simulator, where copies "
        "arrive as late as they may, kernel.verify() fails too",
        hint="kernel.check() names the line that reads too early and the one that started the "
        "copy. Which line should have made sure that it has arrived?",
        settings={"BM": 64, "BN": 64, "WM": 32, "WN": 32, "STAGES": 3},
    ),
    "14_wmma": Planted(
        old="__syncthreads();                             // the stages are free",
        new="__syncwarp();                                // the stages are free",
        what="__syncwarp() holds back the threads of one warp only, so a warp that is ahead stores "
        "its sums where others still read tiles",
        kind="write-after-read race",
        seen="only kernel.check() sees the write-after-read race, every result is right",
        hint="kernel.check() names a line that writes and one that reads. What should stand "
        "between the last read of a tile and the first write of sums?",
        settings={"BM": 64, "BN": 64, "WM": 32, "WN": 32, "STAGES": 2},
    ),
}


def planted(name: str) -> Kernel:
    """The rung `name` with one mistake in it, its lines numbered as in the real file.

    Raises LadderError for a rung that has none.
    """
    mistake = _mistake(name)
    text = ladder.find(name).path.read_text(encoding="utf-8")
    return from_source(text.replace(mistake.old, mistake.new), name, **mistake.settings)


def find_mistake(kernel: Kernel, line: int | None) -> None:
    """Say whether `line` of a kernel from planted(...) is the mistake. None: not answered yet.

    Raises ValueError for another kernel, and for what is no line of it.
    """
    name = kernel.name
    mistake = _mistake(name)
    original = ladder.find(name).path.read_text(encoding="utf-8")
    if kernel.text != original.replace(mistake.old, mistake.new):
        raise ValueError(f"find_mistake takes the kernel that exercises.planted({name!r}) gave.")
    if line is None:
        print("Not answered yet: put the number of the line in place of None and run it again.")
        return
    number_of_lines = len(kernel.text.splitlines())
    if isinstance(line, bool) or not isinstance(line, int) or not 1 <= line <= number_of_lines:
        raise ValueError(f"line is {line!r}; {name}.cu has lines 1 to {number_of_lines}.")
    if line in changed_lines(original, kernel.text):
        print(f"Right: {mistake.what}. {mistake.seen[0].upper()}{mistake.seen[1:]}.")
    else:
        print(
            f"Not yet: line {line} is as it should be. {mistake.hint[0].upper()}{mistake.hint[1:]}"
        )


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


def _mistake(name: str) -> Planted:
    if name not in PLANTED:
        raise LadderError(
            f"no mistake is planted in {name!r}; there is one in {', '.join(PLANTED)}"
        )
    return PLANTED[name]
