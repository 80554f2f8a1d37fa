"""The command line: python -m gemmlab doctor, ladder, bench, sweep, record, tune, compile, sass."""

from __future__ import annotations

import argparse
import errno
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import starmap

from gemmlab import files
from gemmlab._version import __version__
from gemmlab.analysis import known_differences
from gemmlab.cuda import headers
from gemmlab.cuda.cublas import CublasError
from gemmlab.cuda.device import (
    NoGpu,
    UnknownDevice,
    arch_of,
    gpu,
    simulator_wanted,
    software_versions,
    why_no_gpu,
)
from gemmlab.cuda.disassembler import NoDisassembler, NoListing
from gemmlab.distributed.gpus.runner import NotEnoughGpus
from gemmlab.distributed.team import RankFailed
from gemmlab.folders import NoCheckout, require_checkout
from gemmlab.kernel import prebuilt
from gemmlab.kernel.compiler import CompileError, NoCompiler
from gemmlab.kernel.faults import GpuFault
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.trace import Trace
from gemmlab.kernel.verify import VerificationError
from gemmlab.ladder import (
    RUNGS,
    SINGLE,
    IllegalSetting,
    LadderError,
    Problem,
    Settings,
    find,
    listed,
    written,
)
from gemmlab.ladder.shape_set import EVERY_PROBLEM
from gemmlab.loading import Shape, load, tile_parameters
from gemmlab.measure import profiler, timing
from gemmlab.products.choosing import TYPES, Row, choose, taken
from gemmlab.records import best_by_shape, registry, runs, tuning
from gemmlab.records.registry import BadRecord, NoRecord, StaleRecord
from gemmlab.records.runs import device
from gemmlab.sass import listings
from gemmlab.search.command import BUDGET, Wanted
from gemmlab.search.command import run as search
from gemmlab.search.tuner import STRATEGIES, NoTuner
from gemmlab.simulator.counters import TIMING_DEPENDENT

OK, FAILED, USAGE, UNAVAILABLE = 0, 1, 2, 3
STOPPED = 130  # as a shell says of a command that Ctrl-C ended
AUTO = "auto"  # in place of a rung: what gl.choose takes
COUNT_SHAPE = (512, 512, 512)  # small enough for the simulator, and recorded

DESCRIPTION = """\
Climb from the naive matrix product to kernels that beat cuBLAS.

With a GPU, kernels are measured here. Without one, they are verified in the simulator, and what was
recorded on another GPU is shown, labelled with it."""

EPILOG = """\
examples:
  python -m gemmlab doctor                         what is here, what is missing, what to do
  python -m gemmlab ladder                         every rung in one table
  python -m gemmlab bench 01_naive 1024 1024 1024  one kernel, one shape (M N K)
  python -m gemmlab bench 01_naive 512 512 512 --set BLOCK_X=16 --set BLOCK_Y=16
  python -m gemmlab bench auto 64 4096 4096        what gl.matmul takes for a shape
  python -m gemmlab sweep > results.csv            every rung at every shape, as CSV
  python -m gemmlab sweep auto                     the same of what gl.matmul takes
  python -m gemmlab record 02_coalescing           measure again and write results/<gpu>/
  python -m gemmlab tune 05_thread_tile_2d         time every legal setting of it
  python -m gemmlab tune 10_register_banks --strategy genetic --budget 20    search them
  python -m gemmlab sass 09_double_buffering       its inner loop, instruction by instruction
  python -m gemmlab compile --check                are the compiled kernels that ship up to date?

exit codes:
  0  all is well
  1  a check failed: a wrong result, a stale record, a counter that differs, something missing,
     a damaged file, a folder that cannot be written
  2  the request is not possible: an unknown kernel, an illegal setting, a shape that takes too
     long or does not fit, a GEMMLAB_DEVICE that is not known
  3  it needs a GPU, or more of them, or a record that is not there
  130  stopped by Ctrl-C

environment:
  GEMMLAB_DEVICE=simulator     do without the GPU
  GEMMLAB_RECORDS=nvidia-h200  which folder of results/ to replay"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (argparse exits with 2 by itself)."""
    options = _parser().parse_args(arguments)
    try:
        simulator_wanted()  # a GEMMLAB_DEVICE that is not known is refused by every command
        code = options.run(options)
        sys.stdout.flush()
        return code
    except (
        LadderError, IllegalSetting, NoCheckout, timing.TimingError, UnknownDevice,
    ) as error:  # fmt: skip
        return _complain(error, USAGE)
    except (NoGpu, NotEnoughGpus, NoRecord) as error:
        return _complain(error, UNAVAILABLE)
    except (
        VerificationError, CompileError, NoCompiler, NoDisassembler, NoListing, CublasError,
        StaleRecord, BadRecord, files.NotWritten, GpuFault, profiler.CountersUnavailable, NoTuner,
        RankFailed,
    ) as error:  # fmt: skip
        return _complain(error, FAILED)
    except BrokenPipeError:  # the reader of the output, such as `head`, has had enough
        _mute()
        return OK
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _mute()
        where = error.filename or "standard output"
        return _complain(f"{where} cannot be written ({error.strerror}).", FAILED)
    except KeyboardInterrupt:
        return _complain("stopped", STOPPED)


def _mute() -> None:
    """What is left of the output goes nowhere: Python would complain of it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(problem: object, code: int) -> int:
    print(f"gemmlab: {problem}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gemmlab",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gemmlab {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(name: str, run: Callable[[argparse.Namespace], int], help: str, more: str = ""):
        added = commands.add_parser(
            name,
            help=help,
            description=f"{help[0].upper()}{help[1:]}. {more}",
        )
        added.set_defaults(run=run)
        return added

    command("doctor", doctor, "say what is here, what is missing and what to do")
    command(
        "ladder", ladder, "verify, count and measure or replay every rung, in one table",
        "The counters come from the simulator and are held against the recorded ones.",
    )  # fmt: skip

    one = command(
        "bench", bench, "verify one kernel and time it against cuBLAS at one shape",
        "Its settings are those that were the fastest in the recorded sweep at the nearest shape, "
        "if there is one. Without a GPU, the simulator verifies it and the recorded time is shown.",
    )  # fmt: skip
    one.add_argument(
        "kernel", type=_rung_or_auto, help="a rung, such as 01_naive; or auto, what gl.choose takes"
    )
    for size, meaning in (("m", "rows of A and C"), ("n", "columns of B and C"), ("k", "between")):
        one.add_argument(size, type=_size, metavar=size.upper(), help=meaning)
    setting = {
        "metavar": "NAME=VALUE",
        "help": "a parameter of the kernel, such as BLOCK_X=16; may be repeated",
    }
    one.add_argument("--set", action="append", default=[], type=_setting, **setting)
    dtype = {
        "choices": tuple(TYPES), "help": "of auto: what A and B are (default: float32)",
    }  # fmt: skip
    one.add_argument("--dtype", **dtype)

    many = command(
        "sweep", sweep, "time kernels at every shape, as CSV on standard output",
        f"The columns are {', '.join(timing.COLUMNS)}. Progress goes to standard error.",
    )  # fmt: skip
    many.add_argument(
        "kernels", nargs="*", metavar="KERNEL",
        help="rungs, all if none is named; or auto, what gl.choose takes for each shape",
    )  # fmt: skip
    many.add_argument("--dtype", **dtype)

    write = command(
        "record", record, "measure on this GPU and write results/<gpu>/",
        "Each name is written as soon as it is done. What is measured again replaces what was "
        "recorded of it; the rest stays. Without names it measures what lacks, so it goes on after "
        "an interruption, and leaves out, with the reason, what cannot run on this GPU.",
    )  # fmt: skip
    write.add_argument(
        "names", nargs="*", metavar="NAME",
        help="rungs, 00_ceilings, 00_tensor_ceiling, 00_levels, 00_chains, 10_fma_order (all of "
        "these if none is named); tuning/RUNG, best_by_shape/RUNG, stalls/RUNG, path/RUNG, or "
        "tuning, stalls and so on for those of every rung; epilogue, batches, 01_l1_passes; "
        "21_multi_gpu, which needs two GPUs",
    )  # fmt: skip
    write.add_argument(
        "--shapes", nargs="+", type=_shape, default=runs.SHAPES, metavar="MxNxK",
        help="record rungs only at these shapes, such as 1001x777x513 (default: all of the series)",
    )  # fmt: skip

    best = command(
        "tune", tune, "time every legal setting of kernels on this GPU, or search among them",
        "Without a strategy as record tuning/KERNEL: writes results/<gpu>/tuning/<kernel>.csv and "
        "names the fastest setting of each. With one, it searches one kernel at one shape; a "
        "search that was stopped goes on where it was, and without a GPU the recorded sweep is "
        "searched.",
    )  # fmt: skip
    best.add_argument("kernels", nargs="*", metavar="KERNEL", help="rungs; all if none is named")
    best.add_argument("--strategy", choices=STRATEGIES, help="how to search")
    best.add_argument(
        "--budget", type=_size, metavar="N",
        help=f"of a search: settings that are tried at most (default: {BUDGET})",
    )  # fmt: skip
    best.add_argument(
        "--shape", type=_shape, metavar="MxNxK", help="of a search (default: 4096x4096x4096)"
    )
    best.add_argument("--seed", type=int, help="of a search, another way for each (default: 0)")

    ship = command(
        "compile", compile_all, "compile all rungs with all settings, into kernels/compiled",
        "Writes kernels/compiled/: every rung with each of the settings that it ships.",
    )  # fmt: skip
    ship.add_argument(
        "--check", action="store_true", help="compare with what is there, and write nothing"
    )
    ship.add_argument(
        "--listings", action="store_true", help="only the SASS of the default settings"
    )

    inside = command(
        "sass", sass, "show what the inner loop of a kernel spends its issue slots on",
        "Reads the instructions that the compiler made; no GPU is needed.",
    )  # fmt: skip
    inside.add_argument("kernel", type=_rung, help="a rung, such as 09_double_buffering")
    inside.add_argument("--set", action="append", default=[], type=_setting, **setting)
    inside.add_argument("--arch", help="such as sm_86 (default: that of the GPU, else sm_90a)")
    inside.add_argument(
        "--lines", type=_size, default=16, help="instructions to list (default: %(default)s)"
    )
    inside.add_argument(
        "--control", action="store_true",
        help="also what the assembler tells the scheduler: stalls, yields, barriers",
    )  # fmt: skip
    return parser


def _size(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def _rung(name: str) -> str:
    try:
        return find(name).name
    except LadderError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _rung_or_auto(name: str) -> str:
    return name if name == AUTO else _rung(name)


def _shape(text: str) -> tuple[int, int, int]:
    sizes = text.lower().split("x")
    if len(sizes) != 3:
        raise argparse.ArgumentTypeError(f"{text!r} is not MxNxK, such as 512x512x512")
    m, n, k = (_size(size) for size in sizes)
    return m, n, k


def _setting(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value.lstrip("-").isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, such as BLOCK_X=16")
    return name, int(value)


def _say(line: str) -> None:
    """A line on standard error that leaves a progress bar whole."""
    from tqdm.auto import tqdm

    tqdm.write(line, file=sys.stderr)


# ---- bench, sweep, record ------------------------------------------------------------------------


def bench(options: argparse.Namespace) -> int:
    shape, given = (options.m, options.n, options.k), dict(options.set)
    if options.kernel == AUTO:
        return _bench_auto(shape, given, options.dtype or SINGLE.name)
    if options.dtype:
        raise IllegalSetting(
            f"--dtype is for auto; {options.kernel} multiplies what its parameters say, such as "
            "--set DTYPE=1 of 15_mma_sync"
        )
    kernel, why = _for_bench(options.kernel, shape, given)
    recorded = None
    if gpu() is None:  # looked up first: verification takes its time
        kernel, why, recorded = _with_record(kernel, why, shape, given)
    print(device())
    _print_bench(kernel, why, shape, recorded)
    return OK


def _bench_auto(shape: Shape, given: Settings, dtype: str) -> int:
    if given:
        raise IllegalSetting(
            f"auto chooses the settings; name a rung to give {listed(given)} yourself"
        )
    chosen = choose(shape, dtype)
    print(device(), f"auto: {chosen}", sep="\n")
    kernel, found = load(chosen.rung, **chosen.settings), None
    if gpu() is None:
        try:
            found = _recorded(kernel, shape)
        except NoRecord:
            raise NoRecord(
                f"no time of it is recorded at {chosen.problem}; measuring that needs a GPU."
            ) from None
    _print_bench(kernel, "as chosen", shape, found)
    return OK


def _print_bench(
    kernel: Kernel, why: str, shape: Shape, recorded: tuple[str, list[str]] | None
) -> None:
    """That it passes, and how long it takes: measured here if nothing recorded is given."""
    report = timing.require_verified(kernel)
    print(f"{kernel.name} {written(kernel.settings)}: pass ({len(report.cases)} cases)")
    print(f"  its settings: {why}")
    source, lines = recorded or ("measured here", _lines(timing.compare(kernel, *shape)))
    print("M={} N={} K={} {}, {}".format(*shape, kernel.dtype, source), *lines, sep="\n")


def _for_bench(name: str, shape: Shape, given: Settings) -> tuple[Kernel, str]:
    """The kernel as given, or with what the sweep says of the shape, or as it is; and why so."""
    if tile_parameters(find(name), given):
        return load(name, **given), "as given"
    try:
        kernel = load(name, shape=shape, **given)
    except (NoRecord, StaleRecord) as error:
        kernel = load(name, **given)
        return kernel, kernel.note or f"the default. {error}"
    return kernel, kernel.note


def _with_record(
    kernel: Kernel, why: str, shape: Shape, given: Settings
) -> tuple[Kernel, str, tuple[str, list[str]]]:
    """The kernel if a time of it is recorded, else with its default; why, and what is recorded."""
    try:
        return kernel, why, _recorded(kernel, shape)
    except NoRecord:
        if tile_parameters(kernel.rung, given):
            raise
    default = load(kernel.name, **given)
    told = f"the default. No time is recorded of {written(kernel.settings)}, {why}"
    return default, told, _recorded(default, shape)


def _recorded(kernel: Kernel, shape: Shape) -> tuple[str, list[str]]:
    """Where a time of the kernel is recorded, and the lines that show it.

    Raises NoRecord, saying what the record lacks, and StaleRecord.
    """
    missing = None
    for look in (_from_runs, _from_tuned, _from_sweep):
        try:
            return look(kernel, shape)
        except NoRecord as error:
            missing = missing or error
    raise missing


def _from_runs(kernel: Kernel, shape: Shape) -> tuple[str, list[str]]:
    run = runs.replay_at(kernel, *shape)
    return f"recorded on {run.gpu}, {run.recorded[:10]}", _lines(run)


def _from_tuned(kernel: Kernel, shape: Shape) -> tuple[str, list[str]]:
    row = best_by_shape.of(kernel, shape)
    source = f"recorded with the settings for each shape on {row['gpu']}, {row['recorded'][:10]}"
    share = timing.Spread(*(row[f"pct_cublas{q}"] / 100 for q in ("_q3", "_q1", "", "_q3")))
    return source, _rates(kernel, 1e3 * row["tflops"], 1e3 * row["cublas_tflops"], _percent(share))


def _from_sweep(kernel: Kernel, shape: Shape) -> tuple[str, list[str]]:
    row = tuning.of(kernel, shape)
    source = f"recorded in the sweep of all settings on {row['gpu']}, {row['recorded'][:10]}"
    cublas = timing.gflops(*shape, row["cublas_ms"])
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


def sweep(options: argparse.Namespace) -> int:
    names = options.kernels or [rung.name for rung in RUNGS]
    for name in names:
        if name != AUTO:
            find(name)  # before any of the others is measured
    if gpu() is None:
        runs.current()  # a file that cannot be read is told once
    found, code = [], OK
    for name in names:
        try:
            found += (
                _auto_runs(options.dtype or SINGLE.name)
                if name == AUTO
                else map(timing.timed, _runs(load(name)))
            )
        except (NoRecord, StaleRecord, IllegalSetting) as error:
            _say(f"gemmlab: left out: {error}")
            if isinstance(error, StaleRecord):
                code = FAILED
            elif isinstance(error, NoRecord):
                code = code or UNAVAILABLE
    if found:
        timing.as_table(found).to_csv(sys.stdout, index=False, float_format="%.6g")
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
            _say(f"{kernel.name} {item.m}x{item.n}x{item.k}: left out, {item.reason}")


def _auto_runs(dtype: str) -> Iterator[timing.Timed]:
    """What gl.choose takes: replayed at every recorded shape, or measured at those of the series.

    Raises NoRecord.
    """
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
            kernel = load(chosen.rung, **chosen.settings)
            measured = timing.compare(kernel, *problem.shape, batch=problem.batch)
        except timing.TimingError as error:
            _say(f"{AUTO} at {problem}: left out, {error}")
        else:
            yield replace(timing.timed(measured), kernel=AUTO)


def _replayed(row: Row) -> timing.Timed:
    def time_ms(tflops: float) -> float:
        return row.problem.flop / (tflops * 1e9)

    return timing.Timed(
        AUTO, row.dtype, row.problem, time_ms(row.tflops),
        time_ms(row.cublas_tflops), 100 * row.share, "pass", row.gpu, row.recorded,
    )  # fmt: skip


def record(options: argparse.Namespace) -> int:
    from gemmlab.records import recorder

    print(recorder.record(options.names, options.shapes, _say))
    return OK


def tune(options: argparse.Namespace) -> int:
    if options.strategy is not None:
        return _search(options)
    for name in ("budget", "shape", "seed"):
        if getattr(options, name) is not None:
            raise IllegalSetting(f"--{name} is for a search: give --strategy too")
    from gemmlab.records import recorder

    kernels = options.kernels or [rung.name for rung in RUNGS]
    print(recorder.record([f"tuning/{name}" for name in kernels], runs.SHAPES, _say))
    return OK


def _search(options: argparse.Namespace) -> int:
    if len(options.kernels) != 1:
        raise IllegalSetting(
            f"a search is of one kernel, not of {len(options.kernels)}: name it, such as "
            "tune 10_register_banks --strategy genetic"
        )
    (name,) = options.kernels
    wanted = Wanted(
        name, options.shape or runs.LARGE, options.strategy, options.budget or BUDGET,
        options.seed or 0,
    )  # fmt: skip
    print(*search(wanted, _say), sep="\n")
    return OK


# ---- compile -------------------------------------------------------------------------------------


def compile_all(options: argparse.Namespace) -> int:
    if not options.check:
        require_checkout("Compiling for the sliders")
        files.require_writable(prebuilt.FOLDER)
    stale = _compile_listings(options.check)
    for name in () if options.listings else prebuilt.NAMES:
        compiled = prebuilt.build(name, prebuilt.all_settings(name))
        if not options.check:
            prebuilt.write(compiled, prebuilt.path_of(name))
            print(f"{prebuilt.path_of(name).name}: {len(compiled)} compiled kernels")
        elif not prebuilt.alike(compiled, prebuilt.stored(name)):
            stale += 1
            print(f"{prebuilt.path_of(name).name}: stale, run `make compiled`")
        else:
            print(f"{prebuilt.path_of(name).name}: {len(compiled)} kernels, up to date")
    return FAILED if stale else OK


def _compile_listings(check: bool) -> int:
    """Make or check the listings of all rungs, and return how many are stale."""
    stale = 0
    for rung in RUNGS:
        name = listings.path_of(rung.name).name
        if not check:
            prebuilt.write(listings.make(rung), listings.path_of(rung.name))
            print(f"{name}: the SASS of the default settings")
        elif not listings.is_current(rung):
            stale += 1
            print(f"{name}: stale, run `python -m gemmlab compile --listings`")
        else:
            print(f"{name}: up to date")
    return stale


# ---- sass ----------------------------------------------------------------------------------------


def sass(options: argparse.Namespace) -> int:
    from gemmlab.sass import loops

    kernel = load(options.kernel, options.arch, **dict(options.set))
    trip = loops.loop(kernel)
    settings = written(kernel.settings)
    print(f"{kernel.name} {settings}, {kernel.arch}: one trip through the inner loop")
    for name, slots in trip.mix.items():
        print(f"  {name:<16} {slots:6}  {100 * slots / len(trip):5.1f} %")
    print(f"  {'issue slots':<16} {len(trip):6}")
    print(f"  waits for registers: {trip.waits()} cycles, {trip.waits(reuse=False)} without reuse")
    print(f"  FFMAs with three registers of one bank: {trip.three_in_a_bank()}")
    print(f"  multiply-adds with reuse: {100 * trip.reuse_share:.1f} %")
    print(f"  of all cycles at most {100 * trip.share():.1f} % are multiply-adds")
    print()
    print(loops.listing(kernel, options.lines, control=options.control))
    return OK


# ---- ladder --------------------------------------------------------------------------------------


def ladder(options: argparse.Namespace) -> int:
    import pandas
    from tqdm.auto import tqdm

    print(device())
    rows, code = [], OK
    for rung in tqdm(RUNGS, desc="ladder", unit="rung", leave=False, disable=None):
        try:
            kernel = load(rung.name)
        except IllegalSetting as error:  # nothing of it runs on this GPU
            rows.append({"rung": rung.name, "note": str(error)})
            continue
        row, failed = _rung_row(kernel)
        rows.append(row | ({"note": kernel.note} if kernel.note else {}))
        code = FAILED if failed else code
    table = pandas.DataFrame(rows)
    if "note" in table:
        table["note"] = table.pop("note")  # the last column
    print(table.to_string(index=False, na_rep="-"))
    return code


def _rung_row(kernel: Kernel) -> tuple[dict[str, object], bool]:
    """One row of the table, and whether a check failed."""
    report = kernel.verify()
    row: dict[str, object] = {"rung": kernel.name, "verify": "pass" if report.passed else "FAIL"}
    if not report.passed:
        return row, True
    trace = kernel.trace(*COUNT_SHAPE)
    row["sectors/load"] = round(_sectors_per_load(trace.counters), 2)
    row["counters"], failed = _against_record(kernel, trace)
    try:
        if gpu() is None:
            run = runs.replay_at(kernel, *runs.LARGE)
        else:
            run = timing.compare(kernel, *runs.LARGE)
    except BadRecord:  # the first line of the output tells
        return row, True
    except (NoRecord, StaleRecord, timing.TimingError) as error:
        _say(f"gemmlab: {error}")
        return row, failed
    row |= {
        "GFLOP/s": round(run.gflops),
        "% of cuBLAS": round(100 * run.ratio.median, 1),
        "GPU": run.gpu,
        "recorded": run.recorded[:10],
    }
    return row, failed


def _sectors_per_load(counters: dict[str, int]) -> float:
    loads = counters["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]
    return counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] / loads


def _against_record(kernel: Kernel, trace: Trace) -> tuple[str, bool]:
    """How the simulated counters compare with the recorded ones, and whether any differ that are
    not known to."""
    try:
        of_arch = arch_of(tuple(runs.current()["gpu"]["compute_capability"]))
        _, recorded = runs.counters_at(kernel, *COUNT_SHAPE)
    except StaleRecord:
        return "stale record", True
    except BadRecord:
        return "damaged record", True
    except NoRecord:
        return "no record", False
    if kernel.arch != of_arch:  # other instructions
        return f"no record for {kernel.arch}", False
    counters, known = trace.counters, known_differences.of(trace)
    for difference in known:
        _say(f"{kernel.name}: {difference.metric}: {difference.why}")
    compared = (counters.keys() & recorded.keys()) - TIMING_DEPENDENT
    differ = [
        name
        for name in compared
        if not known_differences.is_known(trace, name, recorded[name] - counters[name])
    ]
    for name in sorted(differ):
        _say(f"{kernel.name}: {name} is {counters[name]} here, {recorded[name]} recorded")
    found = [f"{len(differ)} differ"] if differ else []
    if known:
        found.append(f"{len(known)} known difference" + "s" * (len(known) > 1))
    return ", ".join(found) or "as recorded", bool(differ)


# ---- doctor --------------------------------------------------------------------------------------


def doctor(options: argparse.Namespace) -> int:
    """Print what is here; 1 if something is missing that even the simulator needs."""
    code = OK
    for needed, good, what, advice in _findings():
        mark = "ok" if good else ("MISSING" if needed else "-")
        print(f"{mark:<8}{what}" + ("" if good or not advice else f"\n        {advice}"))
        if needed and not good:
            code = FAILED
    print(f"        {device()}")
    return code


def _findings() -> Iterator[tuple[bool, bool, str, str]]:
    """(is it needed without a GPU too, is it here, what it is, what to do if it is not)."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield True, sys.version_info >= (3, 10), f"Python {version}", "Install Python 3.10 or newer."
    install = (
        "Run `make lab`, which installs everything into .venv; or in an environment of your own, "
        'in a clone of the repository, pip install -e ".[simulator]".'
    )
    for package in ("numpy", "cupy", "pandas", "matplotlib", "tqdm", "pynvml", "ipywidgets"):
        yield True, importlib.util.find_spec(package) is not None, f"package {package}", install
    versions = software_versions()
    nvrtc = versions.get("nvrtc")
    yield True, nvrtc is not None, f"NVRTC {nvrtc or '(the compiler)'}", install
    folder = headers.folder()
    lacking = headers.missing(folder)
    yield (
        False,
        not lacking,
        f"CUDA's headers: {' and '.join(lacking) + ' not ' if lacking else ''}in {folder}"
        if folder
        else "CUDA's headers (none found)",
        f"14_wmma needs them wherever it is compiled anew: {headers.INSTALL}.",
    )
    has_lab = importlib.util.find_spec("jupyterlab") is not None
    yield False, has_lab, "JupyterLab", install

    here = gpu()
    if here is None:
        yield (
            False,
            False,
            f"GPU: {why_no_gpu()}",
            ("Not needed: kernels run in the simulator, and recorded times are replayed."),
        )
    else:
        memory = f"{here.memory_bytes / 2**30:.0f} GiB"
        yield False, True, f"GPU {here.name}, {here.arch}, {here.sm_count} SMs, {memory}", ""
        yield False, True, f"driver {here.driver}, CUDA {here.cuda}", ""
        cublas = versions.get("cublas")
        yield (
            False,
            cublas is not None,
            f"cuBLAS {cublas or ''}",
            ("Timing needs it: install the CUDA toolkit's libraries."),
        )
    ncu = profiler.ncu_version()
    yield (
        False,
        ncu is not None,
        f"Nsight Compute {ncu or '(ncu)'}",
        ("Only `record` needs it, for hardware counters; it comes with the CUDA toolkit."),
    )
    sanitizer = shutil.which("compute-sanitizer")
    yield (
        False,
        sanitizer is not None,
        "compute-sanitizer",
        ("Optional: it finds races and bad addresses on a GPU; it comes with the CUDA toolkit."),
    )
    yield from _records()


def _records() -> Iterator[tuple[bool, bool, str, str]]:
    """Findings about results/: whose records are there, and which of those read are refused."""
    from gemmlab.records import recorder

    there = registry.gpus()
    advice = "Without a GPU no times can be shown: get results/ from the repository."
    yield False, bool(there), f"records: {', '.join(there) or 'none'}", advice
    if not there:
        return
    try:
        registry.replayed()
    except NoRecord as error:
        yield True, False, str(error), "Name one of these, or unset GEMMLAB_RECORDS."
        return
    for refused in recorder.refused():
        yield True, False, str(refused), ""
