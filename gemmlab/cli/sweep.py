"""sweep: times at every shape, as CSV, measured or replayed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import starmap
from typing import Any

from gemmlab.cli.common import AUTO, FAILED, OK, UNAVAILABLE, USAGE, Commands, add_dtype, say
from gemmlab.cuda.device import gpu
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import RUNGS, SINGLE, IllegalSetting, Problem, find
from gemmlab.ladder.problem import EVERY_PROBLEM
from gemmlab.loading import load
from gemmlab.measure import timing
from gemmlab.products.choosing import Row, choose, taken
from gemmlab.records import registry, runs
from gemmlab.records.registry import NoRecord, StaleRecord


def add(commands: Commands) -> None:
    parser = commands.add(
        "sweep", run, "time kernels at every shape, as CSV on standard output",
        f"The columns are {', '.join(timing.COLUMNS)}. Progress goes to standard error.",
    )  # fmt: skip
    parser.add_argument(
        "kernels", nargs="*", metavar="KERNEL",
        help="rungs, all if none is named; or auto, what gl.choose takes for each shape",
    )  # fmt: skip
    add_dtype(parser)


def run(options: argparse.Namespace) -> int:
    names = options.kernels or [rung.name for rung in RUNGS]
    for name in names:
        if name != AUTO:
            find(name)  # before any of the others is measured
    if gpu() is None:
        runs.current()  # a file that cannot be read is told once
    rows: list[dict[str, Any]] = []
    code = OK
    for name in names:
        try:
            rows += (
                _auto_runs(options.dtype or SINGLE.name)
                if name == AUTO
                else map(timing.timed, _runs(load(name)))
            )
        except (NoRecord, StaleRecord, IllegalSetting) as error:
            say(f"gemmlab: left out: {error}")
            if isinstance(error, StaleRecord):
                code = FAILED
            elif isinstance(error, NoRecord):
                code = code or UNAVAILABLE
    if rows:
        timing.as_table(rows).to_csv(sys.stdout, index=False, float_format="%.6g")
        return code
    return code or USAGE


def _runs(kernel: Kernel) -> Iterator[timing.Measurement]:
    if gpu() is None:
        yield from runs.replay(kernel)
        return
    from tqdm.auto import tqdm

    shapes = tqdm(runs.SHAPES, desc=kernel.name, unit="shape", leave=False)
    for item in timing.sweep(kernel, shapes):
        if isinstance(item, timing.Measurement):
            yield item
        else:
            say(f"{kernel.name} {item.m}x{item.n}x{item.k}: left out, {item.reason}")


def _auto_runs(dtype: str) -> Iterator[dict[str, Any]]:
    """What gl.choose takes: replayed at every recorded shape, or measured at those of the series.
    Raises NoRecord."""
    if gpu() is None:
        rows = taken(dtype).values()
        if not rows:
            again = registry.again("best_by_shape")
            raise NoRecord(
                f"nothing is recorded of what {AUTO} takes in {dtype}; {again} on a GPU."
            )
        yield from map(_replayed, rows)
        return
    from tqdm.auto import tqdm

    problems = dict.fromkeys((*starmap(Problem, runs.SHAPES), *EVERY_PROBLEM))
    for problem in tqdm(problems, desc=AUTO, unit="shape", leave=False):
        chosen = choose(problem, dtype)
        try:
            if chosen.one_by_one:
                raise timing.TimingError("its products one after the other are no single launch")
            settings: dict[str, Any] = chosen.settings
            kernel = load(chosen.rung, **settings)
            measured = timing.compare(kernel, *problem.shape, batch=problem.batch)
        except timing.TimingError as error:
            say(f"{AUTO} at {problem}: left out, {error}")
        else:
            yield timing.timed(measured) | {"kernel": AUTO}


def _replayed(row: Row) -> dict[str, Any]:
    flop = row.problem.flop
    return {
        "kernel": AUTO, "dtype": row.dtype, **vars(row.problem),
        "time_ms": flop / (row.tflops * 1e9), "cublas_ms": flop / (row.cublas_tflops * 1e9),
        "pct_cublas": 100 * row.share, "verify": "pass", "gpu": row.gpu, "recorded": row.recorded,
    }  # fmt: skip
