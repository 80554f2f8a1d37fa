"""The launches of a product in the simulator, one after the other, and how long they may take."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import ptxsim
from gemmlab.kernel import layout
from gemmlab.ladder import Launch, MapOf, Problem, Workspace
from gemmlab.ladder.launch import MATRICES, POINTERS, Argument, multiplying
from ptxsim import Finding, TakesTooLong

PATIENCE_S = 120.0  # for one product
SMALL_S = 8.0  # for a small product; the longest of a rung takes a fiftieth of that
SMALL = 2**22  # multiply-adds
RATE = 2**29  # multiply-adds per second: no kernel of the ladder is simulated faster
LIMIT = "use a kernel from gl.load or gl.from_source with limit_s = None, which waits for it"


class KernelMistake(Exception):
    """The simulator met mistakes of the kernel, such as an access out of bounds: `findings`."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("; ".join(map(str, self.findings)))


def findings_of(runs: Iterable[ptxsim.Run]) -> tuple[Finding, ...]:
    """Of all launches."""
    return tuple(finding for run in runs for finding in run.findings)


def run(
    source: str | Path, launches: Sequence[Launch], values: dict[str, Any], *,
    blocks: list[tuple[int, int, int]] | None = None, **how: Any,
) -> list[ptxsim.Run]:  # fmt: skip
    """Run them on NumPy arrays, which are changed in place; one Run each.

    `values`: what the names among the arguments stand for, an array perhaps marked as
    ptxsim.uninitialised or ptxsim.read_only. `blocks`: run only these of the launch that
    multiplies, and no other launch but those that prepare its operands. `how`: for ptxsim.launch,
    whose errors it raises.
    """
    spans = {name: _spanned(value) for name, value in values.items()}
    arguments = [argument for launch in launches for argument in launch.args]
    # The first one of a name counts. Its words are for pointers to numbers of any type.
    spaces = {each.name: each for each in arguments[::-1] if isinstance(each, Workspace)}
    memory: dict[str, Any] = {}
    for name, space in spaces.items():
        words = np.zeros(-(-space.bytes // 4), "V4")
        memory[name] = words if space.zeroed else ptxsim.uninitialised(words)

    def value_of(argument: Argument) -> Any:
        if isinstance(argument, Workspace):
            return memory[argument.name]
        if isinstance(argument, MapOf):
            array = argument.view(_plain(values[argument.matrix]))
            array = array.view(np.uint8) if array.dtype == np.int8 else array  # which maps lack
            swizzle, element = argument.swizzle, argument.element
            return ptxsim.TensorMap(array, argument.box, swizzle=swizzle, element=element)
        if isinstance(argument, int):
            return argument
        if argument in POINTERS:
            matrix = _name(argument)
            spanned, first = spans[matrix]
            return ptxsim.Pointers(spanned, first + layout.starts(_plain(values[matrix])))
        spanned, first = spans[argument]
        return ptxsim.Part(spanned, first) if first else spanned

    if blocks is not None:
        launches = launches[: multiplying(launches) + 1]
    runs = [
        ptxsim.launch(
            source, launch.entry, launch.grid, launch.block, list(map(value_of, launch.args)),
            shared_bytes=launch.shared_bytes, blocks=None if launch.prepares else blocks,
            by_symbol=True, names=tuple(map(_name, launch.args)), **how,
        )
        for launch in launches
        if launch.prepares or blocks is None or launch is launches[-1]
    ]  # fmt: skip
    if blocks is None:
        zeroed = {name: memory[name] for name, space in spaces.items() if space.zeroed}
        runs[-1].findings.extend(_not_cleared(source, launches[-1].entry, zeroed))
    return runs


def _not_cleared(
    source: str | Path, entry: str, zeroed: dict[str, np.ndarray]
) -> Iterator[Finding]:
    """Workspaces that should be zeros after the last launch, kernel `entry`, and are not."""
    text = source if isinstance(source, str) else source.read_text(encoding="utf-8")
    lines = enumerate(text.splitlines(), 1)
    line = next((number for number, words in lines if words.startswith(f"{entry}(")), 1)
    for name, words in sorted(zeroed.items()):
        left = np.flatnonzero(words.view(np.uint32))
        if left.size:
            message = f"{name}[{left[0]}], which the next product must find as 0, is not 0"
            yield Finding("workspace not cleared", entry, line, (0, 0, 0), (0, 0, 0), message, 1)


def _name(argument: Argument) -> str:
    """What findings and traces call it: a matrix by its letter, however it is given."""
    if isinstance(argument, str):
        return MATRICES[POINTERS.index(argument)] if argument in POINTERS else argument
    if isinstance(argument, int):
        return str(argument)
    return argument.matrix if isinstance(argument, MapOf) else argument.name


def _plain(value: Any) -> Any:
    """The array of a marked argument."""
    return value if isinstance(value, np.ndarray) else value.array


def _spanned(value: Any) -> tuple[Any, int]:
    """The memory that an array spans, marked as it is, and where it begins in it. Other values, and
    arrays without gaps, as they are."""
    if value is None or isinstance(value, np.generic):
        return value, 0
    memory, first = layout.flat(_plain(value))
    if memory is _plain(value):
        return value, 0
    return memory if isinstance(value, np.ndarray) else replace(value, array=memory), first


# ---- how long it may take ------------------------------------------------------------------------


def within_limit(
    name: str, problem: Problem, limit_s: float | None, run: Callable[..., list[ptxsim.Run]]
) -> list[ptxsim.Run]:
    """What run(limit_s=...) gives. Raises TakesTooLong, which says what to do."""
    small = problem.flop // 2 <= SMALL
    if limit_s is not None and small:
        limit_s = min(limit_s, SMALL_S)
    try:
        return run(limit_s=limit_s)
    except TakesTooLong as error:
        if not small:
            raise _too_long(name, problem, limit_s, error.how_long) from None
        raise TakesTooLong(
            f"{name} at M={problem.m} N={problem.n} K={problem.k} was given up after {limit_s:g} "
            "seconds in the simulator, where a rung takes a fraction of one. Look for a loop that "
            f"goes on for too long or for ever; if it is just slow, {LIMIT}"
        ) from None


def require_time(name: str, problem: Problem, limit_s: float | None) -> None:
    """Raise TakesTooLong for a product that is hopeless, before anything of its size is made."""
    least_s = problem.flop / 2 / RATE
    if limit_s is not None and least_s > limit_s:
        raise _too_long(name, problem, limit_s, f"more than {least_s / 60:,.0f} minutes")


def _too_long(name: str, problem: Problem, limit_s: float | None, how_long: str) -> TakesTooLong:
    return TakesTooLong(
        f"{name} at M={problem.m} N={problem.n} K={problem.k} would take {how_long} in the "
        f"simulator, with a limit of {limit_s:g} seconds. Take smaller matrices, trace some blocks "
        f"only, as gl.load({name!r}).trace(M, N, K, blocks=[(0, 0, 0)]) does, or {LIMIT}"
    )
