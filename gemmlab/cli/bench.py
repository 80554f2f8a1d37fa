"""bench: verify one kernel and time it, or show what is recorded of it.

Without a GPU it verifies at shapes of which no time is recorded, too, and says that there is none.
"""

from __future__ import annotations

import argparse
from typing import Any

from gemmlab.cli.common import AUTO, OK, Commands, add_dtype, add_settings, rung_or_auto, size
from gemmlab.cuda.device import gpu
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import SINGLE, IllegalSetting, Problem, find, listed, settings_for, written
from gemmlab.loading import load, tile_parameters
from gemmlab.measure import timing
from gemmlab.products.choosing import choose
from gemmlab.records import best_by_shape, registry, runs, tuning
from gemmlab.records.registry import NoRecord, StaleRecord
from gemmlab.records.runs import device

Shape = tuple[int, int, int]
Given = dict[str, Any]  # settings of the command line, by name
Recorded = tuple[str, list[str]]  # of which GPU and day, and the lines that show the time


def add(commands: Commands) -> None:
    parser = commands.add(
        "bench", run, "verify one kernel and time it against cuBLAS at one shape",
        "Its settings are those that were the fastest in the recorded sweep at the nearest shape, "
        "if there is one. Without a GPU, the simulator verifies it and the recorded time is shown; "
        "where none is recorded it says so, and ends with 0 all the same.",
    )  # fmt: skip
    parser.add_argument(
        "kernel", type=rung_or_auto,
        help="a rung, such as 01_naive; or auto, what gl.choose takes",
    )  # fmt: skip
    for name, meaning in (("m", "rows of A and C"), ("n", "columns of B and C"), ("k", "between")):
        parser.add_argument(name, type=size, metavar=name.upper(), help=meaning)
    add_settings(parser)
    add_dtype(parser)


def run(options: argparse.Namespace) -> int:
    shape, given = (options.m, options.n, options.k), dict(options.set)
    if gpu() is None:
        registry.replayed()  # a choice of records that are not there is refused
    about = [str(device())]
    if options.kernel == AUTO:
        if given:
            raise IllegalSetting(
                f"auto chooses the settings; name a rung to give {listed(given)} yourself"
            )
        chosen = choose(shape, options.dtype or SINGLE.name)
        about.append(f"auto: {chosen}")
        settings: Given = chosen.settings
        choices = [(load(chosen.rung, **settings), "as chosen")]
    elif options.dtype:
        raise IllegalSetting(
            f"--dtype is for auto; {options.kernel} multiplies what its parameters say, such as "
            "--set DTYPE=1 of 15_mma_sync"
        )
    else:
        choices = _choices(options.kernel, shape, given)
    print(*about, sep="\n")
    _print_bench(choices, shape)
    return OK


def _choices(name: str, shape: Shape, given: Given) -> list[tuple[Kernel, str]]:
    """The kernel as given, or as the sweep says for the shape and then as it is; each with why."""
    if tile_parameters(find(name), given):
        return [(load(name, **given), "as given")]
    default, choices = load(name, **given), []
    try:
        kernel = load(name, shape=shape, **given)
    except StaleRecord as error:
        reason = str(error)
    except NoRecord:
        reason = "No sweep of its settings is recorded"
    else:
        choices = [(kernel, kernel.note)]
        reason = f"No time is recorded of {written(kernel.settings)}, {kernel.note}"
    return [*choices, (default, default.note or f"the default. {reason}")]


def _print_bench(choices: list[tuple[Kernel, str]], shape: Shape) -> None:
    """That one passes and how long it takes: without a GPU the first of which that is recorded.
    Raises StaleRecord."""
    (kernel, why), *_ = choices
    source, lines = "measured here", list[str]()
    missing: NoRecord | None = None
    for choice in choices if gpu() is None else ():
        try:
            source, lines = _recorded(choice[0], shape)
            kernel, why = choice
            break
        except NoRecord as error:
            missing = missing or error
    report = timing.require_verified(kernel)
    print(f"{kernel.name} {written(kernel.settings)}: pass ({len(report.cases)} cases)")
    print(f"  its settings: {why}")
    if missing and not lines:
        print(f"  no time to show: {missing}")
        return
    lines = lines or _lines(timing.compare(kernel, *shape))
    print("M={} N={} K={} {}, {}".format(*shape, kernel.dtype, source), *lines, sep="\n")


def _recorded(kernel: Kernel, shape: Shape) -> Recorded:
    """Where a time of the kernel is recorded, and the lines that show it. Raises NoRecord,
    StaleRecord."""
    missing = []
    for look in (_from_runs, _from_tuned, _from_sweep):
        try:
            return look(kernel, shape)
        except NoRecord as error:
            missing.append(error)
    if kernel.settings == settings_for(kernel.rung, {}):
        raise missing[0]  # it names the shapes that are recorded
    sizes = "×".join(map(str, shape))
    raise NoRecord(f"none is recorded at {sizes} with these settings; measuring that needs a GPU.")


def _from_runs(kernel: Kernel, shape: Shape) -> Recorded:
    run = runs.replay_at(kernel, *shape)
    return f"recorded on {run.gpu}, {run.recorded[:10]}", _lines(run)


def _from_tuned(kernel: Kernel, shape: Shape) -> Recorded:
    row = best_by_shape.of(kernel, shape)
    source = f"recorded with the settings for each shape on {row['gpu']}, {row['recorded'][:10]}"
    share = timing.Spread(*(row[f"pct_cublas{q}"] / 100 for q in ("_q3", "_q1", "", "_q3")))
    return source, _rates(kernel, 1e3 * row["tflops"], 1e3 * row["cublas_tflops"], _percent(share))


def _from_sweep(kernel: Kernel, shape: Shape) -> Recorded:
    row = tuning.of(kernel, shape)
    source = f"recorded in the sweep of all settings on {row['gpu']}, {row['recorded'][:10]}"
    cublas = Problem(*shape).flop / (row["cublas_ms"] * 1e6)
    return source, _rates(kernel, row["gflops"], cublas, f"{row['pct_cublas']:.2f} %")


def _rates(kernel: Kernel, ours: float, cublas: float, share: str) -> list[str]:
    return [
        f"  {kernel.name:<16} {ours:9.1f} GFLOP/s",
        f"  {'cuBLAS':<16} {cublas:9.1f} GFLOP/s",
        f"  share of cuBLAS  {share}",
    ]


def _lines(run: timing.Measurement) -> list[str]:
    cublas = run.problem.flop / (run.cublas_ms.median * 1e6)
    return [
        f"  {run.kernel:<16} {_times(run.time_ms)}  {run.gflops:9.1f} GFLOP/s",
        f"  {'cuBLAS':<16} {_times(run.cublas_ms)}  {cublas:9.1f} GFLOP/s",
        f"  share of cuBLAS  {_percent(run.ratio)}",
        f"  against itself   {_percent(run.noise)} (the noise)",
        f"  the GPU meanwhile: {_state(run)}",
    ]


def _state(run: timing.Measurement) -> str:
    figures = ((run.sm_clock_mhz, "MHz"), (run.power_w, "W"), (run.temperature_c, "°C"))
    known = [f"{value:.0f} {unit}" for value, unit in figures if value is not None]
    return ", ".join(known) or "not reported"


def _times(spread: timing.Spread) -> str:
    return f"median {spread.median:.4g} ms ({spread.q1:.4g} to {spread.q3:.4g})"


def _percent(spread: timing.Spread) -> str:
    return f"{100 * spread.median:.2f} % ({100 * spread.q1:.2f} to {100 * spread.q3:.2f})"
