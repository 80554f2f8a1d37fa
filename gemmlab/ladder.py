"""The ladder: every rung with its file, its parameters, its launch shape and its limits.

This is the one list. Notebooks, tests, sweeps and records read it. A new rung is one entry here,
one `.cu` file, one notebook and one recording.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from math import log2
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "kernels"
NOTEBOOKS = ROOT / "notebooks"
RESULTS = ROOT / "results"

FLOAT32_BYTES = 4
WARP = 32
MAX_THREADS = 1024  # per block, on every architecture
MAX_GRID = (2**31 - 1, 65535, 65535)  # blocks along x, y and z

Settings = dict[str, int]


class LadderError(Exception):
    """There is no such rung. The message names those there are."""


class IllegalSetting(Exception):
    """A parameter value or a launch that a rung cannot have. The message says what is legal."""


@dataclass(frozen=True)
class Parameter:
    """A macro of the kernel file that the reader may set."""

    name: str
    default: int
    legal: tuple[int, ...]
    meaning: str


@dataclass(frozen=True)
class Launch:
    """The shape of a launch: blocks, threads per block, bytes of dynamic shared memory."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0


@dataclass(frozen=True)
class Rung:
    """One kernel of the ladder: C = alpha * A @ B + beta * C.

    All from the shape (m, n, k) and the settings: `tile` is the rows and columns of C that one
    block computes, `grid` and `block` are the launch shape, `limit` says why settings do not go
    together, `model_bytes` is what the rung's idea asks of global memory.
    """

    name: str
    title: str
    idea: str
    entry: str
    parameters: tuple[Parameter, ...]
    tile: Callable[[Settings], tuple[int, int]]
    grid: Callable[[int, int, int, Settings], tuple[int, int, int]]
    block: Callable[[Settings], tuple[int, int, int]]
    limit: Callable[[Settings], str | None]
    model_bytes: Callable[[int, int, int, Settings], int]
    minimum_arch: tuple[int, int] = (7, 0)
    dtype: str = "float32"

    @property
    def path(self) -> Path:
        return KERNELS / f"{self.name}.cu"

    @property
    def notebook(self) -> Path:
        return NOTEBOOKS / f"{self.name}.ipynb"

    def launch(self, m: int, n: int, k: int, settings: Settings) -> Launch:
        """The launch for C of m rows and n columns; raises IllegalSetting if no grid covers it."""
        grid = self.grid(m, n, k, settings)
        for blocks, limit, axis in zip(grid, MAX_GRID, "xyz", strict=True):
            if blocks > limit:
                raise IllegalSetting(
                    f"{self.name} at {m}×{n}×{k} needs {blocks} blocks along {axis}, "
                    f"a grid has at most {limit}: choose larger blocks"
                )
        return Launch(grid, self.block(settings))


@dataclass(frozen=True)
class Ceilings:
    """The two probes of 00_ceilings: a copy and a chain of fused multiply-adds."""

    name: str = "00_ceilings"
    copy_entry: str = "copy"
    fma_entry: str = "fma_chain"
    macros: Settings = field(default_factory=lambda: {"CHAINS": 16, "UNROLL": 32})

    @property
    def path(self) -> Path:
        return KERNELS / f"{self.name}.cu"

    def copy_launch(self, sm_count: int) -> Launch:
        return Launch((sm_count * 64, 1, 1), (1024, 1, 1))

    def fma_launch(self, sm_count: int) -> Launch:
        return Launch((sm_count * 2, 1, 1), (1024, 1, 1))


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


# --- the rungs --------------------------------------------------------------------------------

POWERS = tuple(2**i for i in range(11))


def _block_xy(meaning_x: str, meaning_y: str) -> tuple[Parameter, ...]:
    return (
        Parameter("BLOCK_X", 64, POWERS, f"threads of a block along x, {meaning_x}"),
        Parameter("BLOCK_Y", 8, POWERS, f"threads of a block along y, {meaning_y}"),
    )


def _whole_warps(settings: Settings) -> str | None:
    threads = settings["BLOCK_X"] * settings["BLOCK_Y"]
    if threads > MAX_THREADS:
        return f"makes {threads} threads per block, at most {MAX_THREADS} fit"
    if threads < WARP:
        return f"makes {threads} threads per block, less than one warp of {WARP}"
    return None


def _block_of(settings: Settings) -> tuple[int, int, int]:
    return settings["BLOCK_X"], settings["BLOCK_Y"], 1


def _no_reuse(m: int, n: int, k: int, settings: Settings) -> int:
    """Every thread reads a row of A and a column of B, and writes one element."""
    return FLOAT32_BYTES * (2 * m * n * k + m * n)


RUNGS: tuple[Rung, ...] = (
    Rung(
        name="01_naive",
        title="Naive",
        idea="one thread, one element; a warp walks down a column",
        entry="naive",
        parameters=_block_xy("down the rows of C", "along the columns of C"),
        tile=lambda s: (s["BLOCK_X"], s["BLOCK_Y"]),
        grid=lambda m, n, k, s: (ceil_div(m, s["BLOCK_X"]), ceil_div(n, s["BLOCK_Y"]), 1),
        block=_block_of,
        limit=_whole_warps,
        model_bytes=_no_reuse,
    ),
    Rung(
        name="02_coalescing",
        title="Coalescing",
        idea="the same, with the warp along a row",
        entry="coalescing",
        parameters=_block_xy("along the columns of C", "down the rows of C"),
        tile=lambda s: (s["BLOCK_Y"], s["BLOCK_X"]),
        grid=lambda m, n, k, s: (ceil_div(n, s["BLOCK_X"]), ceil_div(m, s["BLOCK_Y"]), 1),
        block=_block_of,
        limit=_whole_warps,
        model_bytes=_no_reuse,
    ),
)

CEILINGS = Ceilings()
CEILINGS_NAME = CEILINGS.name


# --- looking up -------------------------------------------------------------------------------


def find(name: str) -> Rung:
    """The rung called `name`. Raises LadderError, naming the nearest and all others."""
    for rung in RUNGS:
        if rung.name == name:
            return rung
    names = [rung.name for rung in RUNGS]
    if name == CEILINGS.name:
        raise LadderError(
            f"{name} is no matrix product: use gl.ceilings(); products: {', '.join(names)}"
        )
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}? " if near else ""
    raise LadderError(f"there is no rung {name!r}: {hint}The ladder has {', '.join(names)}")


def settings_for(rung: Rung, given: Settings) -> Settings:
    """The rung's parameters with defaults filled in.

    Raises IllegalSetting, with the reason and the nearest legal choice, for a parameter that the
    rung does not have, a value that it cannot take, and values that do not go together.
    """
    known = {parameter.name: parameter for parameter in rung.parameters}
    for name in given:
        if name not in known:
            raise IllegalSetting(f"{rung.name} has no parameter {name}; it has {', '.join(known)}")
    settings = {name: given.get(name, parameter.default) for name, parameter in known.items()}
    for name, value in settings.items():
        if isinstance(value, bool) or not isinstance(value, int) or value not in known[name].legal:
            legal = ", ".join(str(v) for v in known[name].legal)
            raise IllegalSetting(
                f"{rung.name}: {name}={value!r} is not legal, the values are {legal}"
                + (f"; {_nearest(rung, settings)}" if isinstance(value, int) and value > 0 else "")
            )
    if reason := rung.limit(settings):
        raise IllegalSetting(f"{rung.name}: {_text(settings)} {reason}; {_nearest(rung, settings)}")
    return settings


def legal_settings(rung: Rung) -> list[Settings]:
    """Every combination of parameter values that the rung takes."""
    names = [parameter.name for parameter in rung.parameters]
    every = product(*(parameter.legal for parameter in rung.parameters))
    combinations = [dict(zip(names, values, strict=True)) for values in every]
    return [settings for settings in combinations if rung.limit(settings) is None]


def _nearest(rung: Rung, wanted: Settings) -> str:
    """The legal combination that changes the fewest parameters, and those the least."""

    def distance(settings: Settings):
        steps = [abs(log2(settings[name] / wanted[name])) for name in wanted]
        return sum(step > 0 for step in steps), sum(steps)

    return f"the nearest legal choice is {_text(min(legal_settings(rung), key=distance))}"


def _text(settings: Settings) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())
