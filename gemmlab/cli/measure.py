"""bench, sweep, ladder, record: one kernel at one shape, many as CSV or side by side, what is kept.

Without a GPU recorded times are shown. bench also verifies shapes of which no time is recorded, and
says that there is none.
"""

import argparse
import sys
from typing import Any

from tqdm.auto import tqdm

from gemmlab import ladder
from gemmlab.cli import common
from gemmlab.cli.common import AUTO, FAILED, OK, UNAVAILABLE, USAGE, Commands, say
from gemmlab.cuda.device import gpu
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import RUNGS, IllegalSetting, Problem
from gemmlab.loading import load, tile_parameters
from gemmlab.measure import timing
from gemmlab.products.choosing import TYPES, choose
from gemmlab.records import best_by_shape, registry, runs
from gemmlab.records.registry import NoRecord, Row, StaleRecord

Shape = tuple[int, int, int]


def add(commands: Commands) -> None:
    parser = commands.add(
        "bench", _bench, "verify one kernel and time it against cuBLAS at one shape",
        "Uses the settings that were the fastest in the recorded sweep at the nearest shape, if "
        "there is one. Without a GPU, the simulator verifies the kernel and the recorded time is "
        "shown; if none is recorded, bench says so and still exits with 0.",
    )  # fmt: skip
    parser.add_argument(
        "kernel", help="a rung, such as 01_naive; or auto: the rung that gl.choose takes"
    )
    for name, meaning in (("m", "rows of A, C"), ("n", "columns of B, C"), ("k", "columns of A")):
        parser.add_argument(name, type=common.size, metavar=name.upper(), help=meaning)
    common.add_settings(parser)
    parser.add_argument(
        "--dtype", choices=tuple(TYPES), help="for auto: the type of A and B (default: float32)"
    )

    parser = commands.add(
        "sweep", _sweep, "time kernels at every shape and print CSV",
        f"The columns are {', '.join(timing.COLUMNS)}. Progress goes to standard error.",
    )  # fmt: skip
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help="rungs (default: all)")

    parser = commands.add(
        "ladder", _ladder, "verify every rung, and time it or replay its time at 4096×4096×4096",
        "Prints one table, each row as soon as it is known.",
    )  # fmt: skip
    parser.add_argument("rungs", nargs="*", metavar="KERNEL", help="rungs (default: all)")

    parser = commands.add(
        "record", _record, "measure on this GPU and write results/<gpu>/",
        "Writes each result as soon as it is measured. A new result replaces the old record of the "
        "same name; all others stay. Without names it measures what is missing, so after an "
        "interruption it goes on; what this GPU cannot run is left out, with the reason.",
    )  # fmt: skip
    parser.add_argument(
        "names", nargs="*", metavar="NAME",
        help="a name that --list prints: a rung, 00_ceilings, tuning/RUNG, best_by_shape/RUNG, "
        "stalls/RUNG and so on; `tuning` means tuning/RUNG of every rung. Default: the rungs, and "
        "experiments that take little time. 21_multi_gpu needs two GPUs",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="print all names and measure nothing")


# ---- bench ---------------------------------------------------------------------------------------


def _bench(options: argparse.Namespace) -> int:
    shape, given = (options.m, options.n, options.k), dict(options.set)
    if gpu() is None:
        registry.replayed()  # a choice of records that are not there is refused
    if options.kernel == AUTO:
        if given:
            raise IllegalSetting(
                f"auto chooses the settings itself: to set {ladder.listed(given)}, name a rung"
            )
        chosen = choose(shape, options.dtype or ladder.SINGLE.name)
        settings: dict[str, Any] = chosen.settings
        choices = [(load(chosen.rung, **settings), f"auto: {chosen}")]
    elif options.dtype:
        raise IllegalSetting(
            f"--dtype is only for auto; parameters set the type of {options.kernel}, such as --set "
            "DTYPE=1 of 15_mma_sync"
        )
    else:
        choices = _choices(options.kernel, shape, given)
    print(runs.device())
    _print_bench(choices, shape)
    return OK


def _choices(name: str, shape: Shape, given: dict[str, Any]) -> list[tuple[Kernel, str]]:
    """The kernel as given, or as the sweep says for the shape and then as it is; each with why."""
    default = load(name, **given)
    if tile_parameters(default.rung, given):
        return [(default, "as given")]
    try:
        kernel = load(name, shape=shape, **given)
    except (NoRecord, StaleRecord) as error:
        return [(default, default.note or f"the default. {error}")]
    reason = f"No time is recorded of {ladder.written(kernel.settings)}, {kernel.note}"
    return [(kernel, kernel.note), (default, default.note or f"the default. {reason}")]


def _print_bench(choices: list[tuple[Kernel, str]], shape: Shape) -> None:
    """That one passes and how long it takes: without a GPU the first of which that is recorded.
    Raises StaleRecord."""
    (kernel, why), *_ = choices
    source, row, missing = "measured here", Row(), ""
    for choice in choices if gpu() is None else ():
        try:
            source, row = _recorded(choice[0], shape)
            kernel, why = choice
            break
        except NoRecord as error:
            missing = missing or str(error)
    report = timing.require_verified(kernel)
    print(f"{kernel.name} {ladder.written(kernel.settings)}: pass ({len(report.cases)} cases)")
    print(f"  its settings: {why}")
    if missing and not row:
        print(f"  no time to show: {missing}")
        return
    row = row or runs.cells_of(timing.compare(kernel, *shape), Problem(*shape))
    print("M={} N={} K={} {}, {}".format(*shape, kernel.dtype, source))
    for name, tflops in ((kernel.name, row["tflops"]), ("cuBLAS", row["cublas_tflops"])):
        time_ms = Problem(*shape).flop / (1e9 * tflops)
        print(f"  {name:<18} median {time_ms:.4g} ms  {1e3 * tflops:9.1f} GFLOP/s")
    share = "{pct_cublas:.2f} % ({pct_cublas_q1:.2f} to {pct_cublas_q3:.2f})"
    print("  share of cuBLAS ", share.format_map(row))
    print("  against itself   {noise_q1:.2f} to {noise_q3:.2f} % (the noise)".format_map(row))
    units = {"sm_clock_mhz": "MHz", "power_w": "W", "temperature_c": "°C"}
    state = [f"{row[name]:.0f} {unit}" for name, unit in units.items() if (row[name] or 0) > 0]
    print(f"  the GPU meanwhile: {', '.join(state) or 'not reported'}")


def _recorded(kernel: Kernel, shape: Shape) -> tuple[str, Row]:
    """Where a time of the kernel is recorded, and what is. Raises NoRecord, StaleRecord."""
    try:
        run = runs.replay_at(kernel, *shape)
        return f"recorded on {run.gpu}, {run.recorded[:10]}", runs.cells_of(run, run.problem)
    except NoRecord as error:
        try:
            row = best_by_shape.of(kernel, shape).to_dict()
        except NoRecord:
            raise error from None  # it names what is recorded
    where = f"{row['gpu']}, {row['recorded'][:10]}"
    return f"recorded with the settings for each shape on {where}", row


# ---- sweep ---------------------------------------------------------------------------------------


def _sweep(options: argparse.Namespace) -> int:
    rungs = [ladder.find(name) for name in options.kernels] or RUNGS
    if gpu() is None:
        runs.current()  # a file that cannot be read is told once
    measured: list[timing.Measurement] = []
    code = OK
    for rung in rungs:
        try:
            measured += runs.measured(load(rung.name), runs.SHAPES, say)
        except (NoRecord, StaleRecord, IllegalSetting) as error:
            say(f"gemmlab: left out: {error}")
            if isinstance(error, StaleRecord):
                code = FAILED
            elif isinstance(error, NoRecord):
                code = code or UNAVAILABLE
    if measured:
        timing.table(measured).to_csv(sys.stdout, index=False, float_format="%.6g")
        return code
    return code or USAGE


# ---- ladder --------------------------------------------------------------------------------------

ROW = "{:<26}  {:>6}  {:>9}  {:>11}  {:<21}  {}"
HEADS = ("rung", "verify", "GFLOP/s", "% of cuBLAS", "GPU", "recorded")


def _ladder(options: argparse.Namespace) -> int:
    rungs = [ladder.find(name) for name in options.rungs] or RUNGS
    print(runs.device())
    print(ROW.format(*HEADS), flush=True)
    code = OK
    for rung in tqdm(rungs, desc="ladder", unit="rung", leave=False, disable=None):
        cells: list[object] = [rung.name, *["-"] * 5]
        try:
            kernel = load(rung.name)
            if kernel.verify().passed:
                cells[1] = "pass"
                run = (runs.replay_at if gpu() is None else timing.compare)(kernel, *runs.LARGE)
                share = f"{100 * run.ratio.median:.1f}"
                cells[2:] = round(run.gflops), share, run.gpu, run.recorded[:10]
            else:
                cells[1], code = "FAIL", FAILED
        except (IllegalSetting, NoRecord, StaleRecord, timing.TimingError) as error:
            say(f"gemmlab: {error}")
            code = FAILED if isinstance(error, StaleRecord) else code
        tqdm.write(ROW.format(*cells))  # a line on standard output that leaves the bar whole
        sys.stdout.flush()
    return code


# ---- record --------------------------------------------------------------------------------------


def _record(options: argparse.Namespace) -> int:
    from gemmlab.records import recorder

    if options.list:
        print(*(evidence.name for evidence in recorder.evidence()), sep="\n")
    else:
        print(recorder.record(options.names, say))
    return OK
