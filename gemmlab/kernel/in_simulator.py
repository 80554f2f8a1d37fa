"""The launches of a product in the simulator, one after the other, and how long they may take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import ptxsim
from gemmlab.kernel import layout
from gemmlab.ladder import Problem
from gemmlab.ladder.launch import (
    MATRICES,
    POINTERS,
    Argument,
    Launch,
    MapOf,
    Workspace,
    multiplying,
)
from ptxsim import Finding, TakesTooLong

NOT_CLEARED = "workspace not cleared"  # a Finding's kind
PATIENCE_S = 120.0  # for one product
SMALL_S = 8.0  # for a small product; the longest of a rung takes a fiftieth of that
SMALL, HUGE = 2**22, 2**34  # multiply-adds; a huge product takes minutes ...
TRIAL, TRIAL_MARGIN = (1024, 2048, 32), 4  # ... which is seen by a part of it, with a margin


def run(
    source: str | Path,
    launches: Sequence[Launch],
    values: dict[str, Any],
    *,
    blocks: list[tuple[int, int, int]] | None = None,
    **how: Any,
) -> list[ptxsim.Run]:
    """Run them on NumPy arrays, which are changed in place; one Run each.

    `values`: what the names among the arguments stand for, an array perhaps marked as
    simulator.uninitialised or simulator.read_only. `blocks`: run only these of the launch that
    multiplies, and no other launch. `how`: for ptxsim.launch, whose errors it raises.
    """
    memory: dict[str, Any] = {}
    zeroed: set[str] = set()
    spans = {name: _spanned(value) for name, value in values.items()}
    for one in (one for launch in launches for one in launch.args):
        if isinstance(one, Workspace) and one.name not in memory:
            words = np.zeros(-(-one.bytes // 4), "V4")  # for pointers to numbers of any type
            memory[one.name] = words if one.zeroed else ptxsim.uninitialised(words)
            if one.zeroed:
                zeroed.add(one.name)

    def argument(one: Argument):
        if isinstance(one, Workspace):
            return memory[one.name]
        if isinstance(one, MapOf):
            return ptxsim.TensorMap(_plain(values[one.matrix]), one.box, swizzle=one.swizzle)
        if one in POINTERS:
            matrix = MATRICES[POINTERS.index(one)]
            spanned, first = spans[matrix]
            return ptxsim.Pointers(spanned, first + layout.starts(_plain(values[matrix])))
        spanned, first = spans[one]
        if first:
            return ptxsim.Part(spanned, first)
        return spanned

    done = []
    for launch in launches if blocks is None else [launches[multiplying(launches)]]:
        args = [argument(one) for one in launch.args]
        done.append(
            ptxsim.launch(
                source, launch.entry, launch.grid, launch.block, args,
                shared_bytes=launch.shared_bytes, blocks=blocks, by_symbol=True,
                names=tuple(map(_name, launch.args)), **how,
            )
        )  # fmt: skip
    if blocks is None:
        done[-1].findings.extend(_not_cleared(source, launches[-1].entry, zeroed, memory))
    return done


def _not_cleared(
    source: str | Path, entry: str, zeroed: set[str], memory: dict[str, Any]
) -> Iterator[Finding]:
    """Workspaces that should be zeros after the last launch, kernel `entry`, and are not."""
    text = source if isinstance(source, str) else source.read_text(encoding="utf-8")
    lines = text.splitlines()
    line = next((at for at, one in enumerate(lines, 1) if one.startswith(f"{entry}(")), 1)
    for name in sorted(zeroed):
        left = np.flatnonzero(memory[name].view(np.uint32))
        if left.size:
            what = f"{name}[{left[0]}], which the next product must find as 0, is not 0"
            yield Finding(NOT_CLEARED, entry, line, (0, 0, 0), (0, 0, 0), what, 1)


def _name(one: Argument) -> str:
    """What findings and traces call it: a matrix by its letter, however it is given."""
    if one in POINTERS:
        return MATRICES[POINTERS.index(one)]
    if isinstance(one, str):
        return one
    return one.matrix if isinstance(one, MapOf) else one.name


def _plain(value):
    """The array of a marked argument."""
    return value if isinstance(value, np.ndarray) else value.array


def _spanned(value):
    """The memory that an array spans, marked as it is, and where it begins in it.

    Other values, and arrays without gaps, as they are.
    """
    if value is None or isinstance(value, np.generic):
        return value, 0
    memory, first = layout.flat(_plain(value))
    if memory is _plain(value):
        return value, 0
    return memory if isinstance(value, np.ndarray) else replace(value, array=memory), first


def within_limit(
    name: str,
    problem: Problem,
    limit_s: float | None,
    run: Callable[[float | None], list[ptxsim.Run]],
) -> list[ptxsim.Run]:
    """What run(limit_s) gives. Raises TakesTooLong, which says what to do."""
    small = _is_small(problem)
    if limit_s is not None and small:
        limit_s = min(limit_s, SMALL_S)
    try:
        return run(limit_s)
    except TakesTooLong as error:
        raise _too_long(name, problem, small, limit_s, error.how_long) from None


RunPart = Callable[["Problem", float], "list[ptxsim.Run]"]
"""Runs a smaller product within so many seconds."""


def require_time(name: str, problem: Problem, limit_s: float | None, run: RunPart) -> None:
    """Raise TakesTooLong for a product that is hopeless, before anything of its size is made.

    run(problem, limit_s) runs a smaller one, of which the time of the whole is estimated.
    """
    if limit_s is None or problem.flop // 2 <= HUGE:
        return
    expected_s = _expected_s(problem, limit_s, run)
    if expected_s > limit_s:
        raise _too_long(name, problem, False, limit_s, f"about {expected_s / 60:,.1f} minutes")


def _is_small(problem: Problem) -> bool:
    return problem.flop // 2 <= SMALL


def _expected_s(problem: Problem, limit_s: float, run: RunPart) -> float:
    """How long a huge product takes at the least: from a part of it.

    The part is less well filled than the whole: hence TRIAL_MARGIN.
    """
    sizes = {
        axis: min(getattr(problem, axis), most) for axis, most in zip("mnk", TRIAL, strict=True)
    }
    part = replace(problem, batch=1, **sizes)
    whole = problem.flop / part.flop / TRIAL_MARGIN
    seconds = 0.0
    first = replace(part, m=7, n=5, k=3)
    for one in (first, part):  # once for what is done once for a kernel
        seconds = max(SMALL_S, limit_s / whole)
        with suppress(TakesTooLong):  # otherwise it takes so long at the least
            seconds = sum(done.elapsed_s for done in run(one, seconds))
    return seconds * whole


def _too_long(
    name: str, problem: Problem, small: bool, limit_s: float, how_long: str
) -> TakesTooLong:
    product = f"{name} at M={problem.m} N={problem.n} K={problem.k}"
    wait = "use a kernel from gl.load or gl.from_source with limit_s = None, which waits for it"
    if small:
        return TakesTooLong(
            f"{product} was given up after {limit_s:g} seconds in the simulator, where a rung "
            "takes a fraction of one. Look for a loop that goes on for too long or for ever; if it "
            f"is just slow, {wait}"
        )
    return TakesTooLong(
        f"{product} would take {how_long} in the simulator, with a limit of {limit_s:g} seconds. "
        "Take smaller matrices, trace some blocks only, as "
        f"gl.load({name!r}).trace(M, N, K, blocks=[(0, 0, 0)]) does, or {wait}"
    )
