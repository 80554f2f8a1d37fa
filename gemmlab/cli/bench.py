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
    if options.kernel == AUTO:
        return _auto(shape, given, options.dtype or SINGLE.name)
    if options.dtype:
        raise IllegalSetting(
            f"--dtype is for auto; {options.kernel} multiplies what its parameters say, such as "
            "--set DTYPE=1 of 15_mma_sync"
        )
    if gpu() is not None:
        kernel, why = _for_bench(options.kernel, shape, given)
        print(device())
        _print_bench(kernel, why, shape)
        return OK
    registry.replayed()  # a choice of records that are not there is refused
    kernel, why = _for_bench(options.kernel, shape, given)
    kernel, why, recorded = _with_record(kernel, why, shape, given)
    print(device())
    _print_bench(kernel, why, shape, recorded)
    return OK


def _auto(shape: Shape, given: Given, dtype: str) -> int:
    if given:
        raise IllegalSetting(
            f"auto chooses the settings; name a rung to give {listed(given)} yourself"
        )
    chosen = choose(shape, dtype)
    print(device(), f"auto: {chosen}", sep="\n")
    settings: Given = chosen.settings
    kernel = load(chosen.rung, **settings)
    _print_bench(kernel, "as chosen", shape, None if gpu() else _recorded(kernel, shape))
    return OK


def _print_bench(
    kernel: Kernel, why: str, shape: Shape, recorded: Recorded | NoRecord | None = None
) -> None:
    """That it passes, and how long it takes: measured here if nothing recorded is given."""
    report = timing.require_verified(kernel)
    print(f"{kernel.name} {written(kernel.settings)}: pass ({len(report.cases)} cases)")
    print(f"  its settings: {why}")
    if isinstance(recorded, NoRecord):
        print(f"  no time to show: {recorded}")
        return
    source, lines = recorded or ("measured here", _lines(timing.compare(kernel, *shape)))
    print("M={} N={} K={} {}, {}".format(*shape, kernel.dtype, source), *lines, sep="\n")


def _for_bench(name: str, shape: Shape, given: Given) -> tuple[Kernel, str]:
    """The kernel as given, or with what the sweep says of the shape, or as it is; and why so."""
    if tile_parameters(find(name), given):
        return load(name, **given), "as given"
    try:
        kernel = load(name, shape=shape, **given)
    except (NoRecord, StaleRecord) as error:
        kernel = load(name, **given)
        reason = error if isinstance(error, StaleRecord) else "No sweep of its settings is recorded"
        return kernel, kernel.note or f"the default. {reason}"
    return kernel, kernel.note


def _with_record(
    kernel: Kernel, why: str, shape: Shape, given: Given
) -> tuple[Kernel, str, Recorded | NoRecord]:
    """The kernel, or its default where a time of that alone is recorded; why, and what is recorded.

    Raises StaleRecord.
    """
    recorded = _recorded(kernel, shape)
    if isinstance(recorded, NoRecord) and not tile_parameters(kernel.rung, given):
        default = load(kernel.name, **given)
        if not isinstance(of_default := _recorded(default, shape), NoRecord):
            because = f"the default. No time is recorded of {written(kernel.settings)}, {why}"
            return default, because, of_default
    return kernel, why, recorded


def _recorded(kernel: Kernel, shape: Shape) -> Recorded | NoRecord:
    """Where a time of the kernel is recorded, and the lines that show it; or why there is none.

    Raises StaleRecord.
    """
    missing: NoRecord | None = None
    for look in (_from_runs, _from_tuned, _from_sweep):
        try:
            return look(kernel, shape)
        except NoRecord as error:
            missing = missing or error
    if missing and kernel.settings == settings_for(kernel.rung, {}):
        return missing  # it names the shapes that are recorded
    sizes = "×".join(map(str, shape))
    return NoRecord(f"none is recorded at {sizes} with these settings; measuring that needs a GPU.")


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
    cublas = timing.gflops(run.m, run.n, run.k, run.cublas_ms.median)
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
