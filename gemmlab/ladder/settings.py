"""Settings of a rung: its tile parameters with a value for each, and which of them go together.

A constraint is a named condition, with the sentence for settings that break it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral

from ptxsim.architectures import (
    MAX_REGISTERS_PER_THREAD,
    MAX_THREADS_PER_BLOCK,
    REGISTERS_PER_SM,
    STATIC_SHARED_BYTES,
    WARP,
)

Settings = dict[str, int]

# How parts of a product along K are added: what the values of the parameter JOIN mean.
JOINS = (
    "alone", "a second kernel", "atomics", "the last arriver", "every part", "a cluster",
    "stream-K",
)  # fmt: skip
ALONE, SECOND_KERNEL, ATOMICS, LAST_ARRIVER, EVERY_PART, CLUSTER, STREAM_K = range(len(JOINS))


class IllegalSetting(Exception):
    """A parameter value or a launch that a rung cannot have. The message says what is legal."""


@dataclass(frozen=True)
class Parameter:
    """A macro of the kernel file that the reader may set. A sweep tries its values, unless it is
    not `tuned`: then it says what is computed, not how. Where it is no `macro`, the launch alone
    depends on it."""

    name: str
    default: int
    legal: tuple[int, ...]
    meaning: str
    tuned: bool = True
    macro: bool = True


def is_whole(value: object) -> bool:
    """Whether it is a whole number, of Python or of another library; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def written(settings: Settings) -> str:
    """Settings for a line or a column of a table: "TILE=32 BK=64"."""
    return " ".join(f"{name}={value}" for name, value in settings.items())


def read_settings(text: str) -> Settings:
    """Settings that `written` wrote."""
    return {name: int(value) for name, value in (pair.split("=") for pair in text.split())}


def listed(settings: Settings) -> str:
    """Settings in words: "TILE=32, BK=64"."""
    return ", ".join(f"{name}={value}" for name, value in settings.items())


# ---- which settings go together ------------------------------------------------------------------

FLOAT_BYTES = 4
ADDRESSES = 20  # registers that a thread needs for indices and pointers, a low estimate

Number = Callable[[Settings], int]


@dataclass(frozen=True)
class Constraint:
    """`broken` says why settings do not meet it, as the end of a sentence; None where they do."""

    name: str
    broken: Callable[[Settings], str | None]

    def where(self, applies: Callable[[Settings], bool]) -> Constraint:
        """The same, of settings alone to which it applies."""
        return Constraint(self.name, lambda s: self.broken(s) if applies(s) else None)


def whole_block(threads: Number) -> Constraint:
    """A block has at least a warp and at most what fits."""

    def broken(s: Settings) -> str | None:
        if (count := threads(s)) > MAX_THREADS_PER_BLOCK:
            return f"makes {count} threads per block, at most {MAX_THREADS_PER_BLOCK} fit"
        if count < WARP:
            return f"makes {count} threads per block, less than one warp of {WARP}"
        return None

    return Constraint("threads per block", broken)


def shared_memory(needed: Number, most: int) -> Constraint:
    """A block needs at most so many bytes of shared memory."""

    def broken(s: Settings) -> str | None:
        if (count := needed(s)) > most:
            return f"needs {count} bytes of shared memory, a block has {most}"
        return None

    return Constraint("shared memory", broken)


def enough_registers(
    needed: Number,
    contents: Callable[[Settings], str],
    threads: Number,
    blocks: Number = lambda s: 1,
) -> Constraint:
    """The registers of all threads of so many blocks fit on an SM, by a low estimate."""

    def broken(s: Settings) -> str | None:
        at_once, count = blocks(s), threads(s)
        there = min(MAX_REGISTERS_PER_THREAD, REGISTERS_PER_SM // (count * at_once))
        if needed(s) + ADDRESSES <= there:
            return None
        at_a_time = f", {at_once} of them at a time" if at_once > 1 else ""
        return (
            f"needs about {needed(s) + ADDRESSES} registers per thread: {contents(s)} and "
            f"addresses; blocks of {count} threads{at_a_time} leave {there}"
        )

    return Constraint("registers", broken)


def fits(
    threads: Number,
    sums: Callable[[Settings], tuple[int, int]],
    shared_floats: Number,
    blocks: Number = lambda s: 1,
) -> tuple[Constraint, ...]:
    """A block whose threads each hold sums of so many rows and columns of C fits on an SM."""

    def needed(s: Settings) -> int:
        rows, columns = sums(s)
        return rows * columns + rows + columns

    def contents(s: Settings) -> str:
        rows, columns = sums(s)
        return f"{rows}×{columns} sums, a column, a row"

    return (
        whole_block(threads),
        shared_memory(lambda s: FLOAT_BYTES * shared_floats(s), STATIC_SHARED_BYTES),
        enough_registers(needed, contents, threads, blocks),
    )
