"""The command line: python -m gemmlab doctor, ladder, bench, sweep, record, tune, compile, sass."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence

from gemmlab import listings, outer_products, profiler, records, shipped, timing
from gemmlab.compiler import CompileError, NoCompiler
from gemmlab.cublas import CublasError
from gemmlab.device import NoGpu, device, gpu, record_files, software_versions, why_no_gpu
from gemmlab.disassembly import NoDisassembler, NoListing
from gemmlab.kernel import Kernel, load
from gemmlab.ladder import (
    CEILINGS_NAME,
    RUNGS,
    TENSOR_CEILING,
    IllegalSetting,
    LadderError,
    written,
)
from gemmlab.simulator.counters import TIMING_DEPENDENT
from gemmlab.verify import VerificationError

OK, FAILED, USAGE, UNAVAILABLE = 0, 1, 2, 3
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
  python -m gemmlab sweep > results.csv            every rung at every shape, as CSV
  python -m gemmlab record 02_coalescing           measure again and write results/<gpu>.json
  python -m gemmlab tune 05_thread_tile_2d         time every legal setting of it
  python -m gemmlab sass 09_double_buffering       its inner loop, instruction by instruction
  python -m gemmlab compile --check                are the compiled kernels that ship up to date?

exit codes:
  0  all is well
  1  a check failed: a wrong result, a stale record, a counter that differs, something missing
  2  the request is not possible: an unknown kernel, an illegal setting, a shape that takes too
     long or does not fit
  3  it needs a GPU, or a record that is not there

environment:
  GEMMLAB_DEVICE=simulator     do without the GPU
  GEMMLAB_RECORDS=nvidia-h200  which file of results/ to replay"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (argparse exits with 2 by itself)."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except (LadderError, IllegalSetting, timing.TimingError) as error:
        return _complain(error, USAGE)
    except (NoGpu, records.NoRecord) as error:
        return _complain(error, UNAVAILABLE)
    except (
        VerificationError, CompileError, NoCompiler, NoDisassembler, NoListing, CublasError,
        records.StaleRecord, records.BadRecord,
    ) as error:  # fmt: skip
        return _complain(error, FAILED)
    except BrokenPipeError:  # the reader of the output, such as `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return _complain("stopped", 130)


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
        "Without a GPU, the simulator verifies it and the recorded time is shown.",
    )  # fmt: skip
    one.add_argument("kernel", help="a rung, such as 01_naive")
    for size, meaning in (("m", "rows of A and C"), ("n", "columns of B and C"), ("k", "between")):
        one.add_argument(size, type=_size, metavar=size.upper(), help=meaning)
    setting = {
        "metavar": "NAME=VALUE",
        "help": "a parameter of the kernel, such as BLOCK_X=16; may be repeated",
    }
    one.add_argument("--set", action="append", default=[], type=_setting, **setting)

    many = command(
        "sweep", sweep, "time kernels at every shape, as CSV on standard output",
        f"The columns are {', '.join(timing.COLUMNS)}. Progress goes to standard error.",
    )  # fmt: skip
    many.add_argument("kernels", nargs="*", metavar="KERNEL", help="rungs; all if none is named")

    write = command(
        "record", record, "measure kernels on this GPU and write results/<gpu>.json",
        "Each rung is written as soon as it is done. A rung measured again replaces what was "
        "recorded of it; other rungs stay.",
    )  # fmt: skip
    write.add_argument(
        "kernels", nargs="*", metavar="KERNEL",
        help="rungs, or measurements: "
        f"{CEILINGS_NAME}, {TENSOR_CEILING.name}, {outer_products.NAME}; all if none is named",
    )  # fmt: skip
    write.add_argument(
        "--shapes", nargs="+", type=_shape, default=records.SHAPES, metavar="MxNxK",
        help="record only these shapes, such as 1001x777x513 (default: all of the series)",
    )  # fmt: skip

    best = command(
        "tune", tune, "time every legal setting of kernels on this GPU and write the sweeps",
        "Writes results/<gpu>-sweeps/<kernel>.csv and names the fastest setting of each.",
    )  # fmt: skip
    best.add_argument("kernels", nargs="*", metavar="KERNEL", help="rungs; all if none is named")

    ship = command(
        "compile", compile_all, "compile all rungs with all settings, into kernels/compiled",
        "Writes kernels/compiled/: every rung with each of its legal settings.",
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
    inside.add_argument("kernel", help="a rung, such as 09_double_buffering")
    inside.add_argument("--set", action="append", default=[], type=_setting, **setting)
    inside.add_argument("--arch", help="such as sm_86 (default: that of the GPU, else sm_90a)")
    inside.add_argument(
        "--lines", type=_size, default=16, help="instructions to list (default: %(default)s)"
    )
    return parser


def _size(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


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
    kernel = load(options.kernel, **dict(options.set))
    shape = (options.m, options.n, options.k)
    print(device())
    report = timing.require_verified(kernel)
    settings = written(kernel.settings)
    print(f"{kernel.name} {settings}: pass ({len(report.cases)} cases)")
    if gpu() is not None:
        run, source = timing.compare(kernel, *shape), "measured here"
    else:
        run = records.replay_at(kernel, *shape)
        source = f"recorded on {run.gpu}, {run.recorded[:10]}"
    print(f"M={run.m} N={run.n} K={run.k} {run.dtype}, {source}")
    cublas = timing.gflops(*shape, run.cublas_ms.median)
    print(f"  {kernel.name:<16} {_times(run.time_ms)}  {run.gflops:9.1f} GFLOP/s")
    print(f"  {'cuBLAS':<16} {_times(run.cublas_ms)}  {cublas:9.1f} GFLOP/s")
    print(f"  share of cuBLAS  {_percent(run.ratio)}")
    print(f"  against itself   {_percent(run.noise)} (the noise)")
    print(f"  the GPU meanwhile: {_state(run)}")
    return OK


def _state(run: timing.Measurement) -> str:
    figures = ((run.sm_clock_mhz, "MHz"), (run.power_w, "W"), (run.temperature_c, "°C"))
    known = [f"{value:.0f} {unit}" for value, unit in figures if value is not None]
    return ", ".join(known) or "not reported"


def _times(spread: timing.Spread) -> str:
    return f"median {spread.median:.4g} ms ({spread.q1:.4g} to {spread.q3:.4g})"


def _percent(spread: timing.Spread) -> str:
    return f"{100 * spread.median:.2f} % ({100 * spread.q1:.2f} to {100 * spread.q3:.2f})"


def _chosen(names: Sequence[str]) -> list[Kernel]:
    return [load(name) for name in (names or [rung.name for rung in RUNGS])]


def sweep(options: argparse.Namespace) -> int:
    kernels = _chosen(options.kernels)
    runs = [run for kernel in kernels for run in _runs(kernel)]
    timing.table(runs).to_csv(sys.stdout, index=False, float_format="%.6g")
    return OK


def _runs(kernel: Kernel) -> Iterator[timing.Measurement]:
    if gpu() is None:
        yield from records.replay(kernel)
        return
    from tqdm.auto import tqdm

    shapes = tqdm(records.SHAPES, desc=kernel.name, unit="shape", leave=False)
    for item in timing.sweep(kernel, shapes):
        if isinstance(item, timing.Measurement):
            yield item
        else:
            _say(f"{kernel.name} {item.m}x{item.n}x{item.k}: left out, {item.reason}")


def record(options: argparse.Namespace) -> int:
    from gemmlab import recorder

    print(recorder.record(options.kernels, options.shapes, _say))
    return OK


def tune(options: argparse.Namespace) -> int:
    from gemmlab import sweeps

    print(sweeps.record(options.kernels or [rung.name for rung in RUNGS], _say))
    return OK


# ---- compile -------------------------------------------------------------------------------------


def compile_all(options: argparse.Namespace) -> int:
    stale = _compile_listings(options.check)
    for name in () if options.listings else shipped.NAMES:
        compiled = shipped.build(name, shipped.all_settings(name))
        if not options.check:
            shipped.write(compiled, shipped.path_of(name))
            print(f"{shipped.path_of(name).name}: {len(compiled)} compiled kernels")
        elif not shipped.alike(compiled, shipped.stored(name)):
            stale += 1
            print(f"{shipped.path_of(name).name}: stale, run `make compiled`")
        else:
            print(f"{shipped.path_of(name).name}: {len(compiled)} kernels, up to date")
    return FAILED if stale else OK


def _compile_listings(check: bool) -> int:
    """Make or check the listings of all rungs, and return how many are stale."""
    stale = 0
    for rung in RUNGS:
        name = listings.path_of(rung.name).name
        if not check:
            listings.write(listings.make(rung), listings.path_of(rung.name))
            print(f"{name}: the SASS of the default settings")
        elif not listings.is_current(rung):
            stale += 1
            print(f"{name}: stale, run `python -m gemmlab compile --listings`")
        else:
            print(f"{name}: up to date")
    return stale


# ---- sass ----------------------------------------------------------------------------------------


def sass(options: argparse.Namespace) -> int:
    from gemmlab import sass

    kernel = load(options.kernel, **dict(options.set))
    arch = options.arch or kernel.arch
    trip = sass.loop(kernel, arch)
    settings = written(kernel.settings)
    print(f"{kernel.name} {settings}, {arch}: one trip through the inner loop")
    for name, slots in trip.mix.items():
        print(f"  {name:<16} {slots:6}  {100 * slots / len(trip):5.1f} %")
    print(f"  {'issue slots':<16} {len(trip):6}")
    print(f"  waits for registers: {trip.waits()} cycles, {trip.waits(reuse=False)} without reuse")
    print(f"  FFMAs with three registers of one bank: {trip.three_in_a_bank()}")
    print(f"  multiply-adds with reuse: {100 * trip.reuse_share:.1f} %")
    print(f"  of all cycles at most {100 * trip.share():.1f} % are multiply-adds")
    print()
    print(sass.listing(kernel, options.lines, arch=arch))
    return OK


# ---- ladder --------------------------------------------------------------------------------------


def ladder(options: argparse.Namespace) -> int:
    import pandas

    print(device())
    rows, code = [], OK
    for kernel in _chosen([]):
        row, failed = _rung_row(kernel)
        rows.append(row)
        code = FAILED if failed else code
    print(pandas.DataFrame(rows).to_string(index=False, na_rep="-"))
    return code


def _rung_row(kernel: Kernel) -> tuple[dict[str, object], bool]:
    """One row of the table, and whether a check failed."""
    report = kernel.verify()
    row: dict[str, object] = {"rung": kernel.name, "verify": "pass" if report.passed else "FAIL"}
    if not report.passed:
        return row, True
    counters = kernel.trace(*COUNT_SHAPE).counters
    row["sectors/load"] = round(_sectors_per_load(counters), 2)
    row["counters"], failed = _against_record(kernel, counters)
    try:
        if gpu() is None:
            run = records.replay_at(kernel, *records.LARGE)
        else:
            run = timing.compare(kernel, *records.LARGE)
    except (records.NoRecord, records.StaleRecord, timing.TimingError) as error:
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


def _against_record(kernel: Kernel, counters: dict[str, int]) -> tuple[str, bool]:
    """How the simulated counters compare with the recorded ones, and whether any differ."""
    try:
        _, recorded = records.counters_at(kernel, *COUNT_SHAPE)
    except records.StaleRecord:
        return "stale record", True
    except records.NoRecord:
        return "no record", False
    compared = (counters.keys() & recorded.keys()) - TIMING_DEPENDENT
    differ = [name for name in compared if counters[name] != recorded[name]]
    for name in sorted(differ):
        _say(f"{kernel.name}: {name} is {counters[name]} here, {recorded[name]} recorded")
    return (f"{len(differ)} differ", True) if differ else ("as recorded", False)


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
    install = "Run `make lab`, which installs everything into .venv."
    for package in ("numpy", "cupy", "pandas", "matplotlib", "tqdm", "pynvml", "ipywidgets"):
        yield True, importlib.util.find_spec(package) is not None, f"package {package}", install
    versions = software_versions()
    nvrtc = versions.get("nvrtc")
    yield True, nvrtc is not None, f"NVRTC {nvrtc or '(the compiler)'}", install
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
    files = ", ".join(record_files())
    yield (
        False,
        bool(files),
        f"records: {files or 'none'}",
        ("Without a GPU no times can be shown: get results/ from the repository."),
    )
