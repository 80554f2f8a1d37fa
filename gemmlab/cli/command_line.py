"""The commands and their arguments; and which error ends with which exit code."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable, Sequence

from gemmlab import files
from gemmlab._version import __version__
from gemmlab.cli import (
    arguments,
    bench,
    compiling,
    doctor,
    inner_loop,
    ladder_table,
    recording,
    sweep,
)
from gemmlab.cli.output import FAILED, OK, STOPPED, UNAVAILABLE, USAGE
from gemmlab.cli.recording import searching
from gemmlab.cuda.cublas import CublasError
from gemmlab.cuda.device import NoGpu, UnknownDevice, simulator_wanted
from gemmlab.cuda.disassembler import NoDisassembler, NoListing
from gemmlab.folders import NoCheckout
from gemmlab.kernel.compiler import CompileError, NoCompiler
from gemmlab.kernel.faults import GpuFault
from gemmlab.kernel.verify import VerificationError
from gemmlab.ladder import IllegalSetting, LadderError
from gemmlab.measure import profiler, timing
from gemmlab.products.choosing import TYPES
from gemmlab.records import runs
from gemmlab.records.registry import BadRecord, NoRecord, StaleRecord

DESCRIPTION = """\
Climb from the naive matrix product to kernels that beat cuBLAS.

With a GPU, kernels are measured here. Without one, they are verified in the simulator, and what was
recorded on another GPU is shown, labelled with it."""

EPILOG = """\
examples:
  python -m gemmlab doctor                         what is here, what is missing, what to do
  python -m gemmlab ladder                         every rung in one table
  python -m gemmlab ladder 16_tma_wgmma            these rungs alone
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
  0  all is well; of bench without a GPU: it is verified, also where no time of it is recorded
  1  a check failed: a wrong result, a stale record, a counter that differs, something missing,
     a damaged file, a folder that cannot be written
  2  the request is not possible: an unknown kernel, an illegal setting, a shape that takes too
     long or does not fit, a GEMMLAB_DEVICE that is not known
  3  it needs a GPU, or more of them, or a record that is not there
  130  stopped by Ctrl-C

environment:
  GEMMLAB_DEVICE=simulator     do without the GPU
  GEMMLAB_RECORDS=nvidia-h200  which folder of results/ to replay"""


def main(given: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (argparse exits with 2 by itself)."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal may have no "×"
    parser = _parser()
    options = parser.parse_args(given)
    if "run" not in options:  # no command is named
        parser.print_help()
        return OK
    try:
        simulator_wanted()  # a GEMMLAB_DEVICE that is not known is refused by every command
        code = options.run(options)
        sys.stdout.flush()
        return code
    except (
        LadderError, IllegalSetting, NoCheckout, timing.TimingError, UnknownDevice,
    ) as error:  # fmt: skip
        return _complain(error, USAGE)
    except (NoGpu, NoRecord) as error:
        return _complain(error, UNAVAILABLE)
    except (
        VerificationError, CompileError, NoCompiler, NoDisassembler, NoListing, CublasError,
        StaleRecord, BadRecord, files.NotWritten, GpuFault, profiler.CountersUnavailable,
        searching.NoTuner,
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
    commands = parser.add_subparsers(metavar="command")

    def command(name: str, run: Callable[[argparse.Namespace], int], help: str, more: str = ""):
        added = commands.add_parser(
            name,
            help=help,
            description=f"{help[0].upper()}{help[1:]}. {more}",
        )
        added.set_defaults(run=run)
        return added

    command("doctor", doctor.run, "say what is here, what is missing and what to do")
    climb = command(
        "ladder", ladder_table.run, "verify, count and measure or replay every rung, in one table",
        "The counters come from the simulator and are compared with the recorded ones. Each row is "
        "printed as soon as it is known.",
    )  # fmt: skip
    climb.add_argument(
        "rungs", nargs="*", type=arguments.rung, metavar="KERNEL",
        help="rungs, all if none is named",
    )  # fmt: skip

    one = command(
        "bench", bench.run, "verify one kernel and time it against cuBLAS at one shape",
        "Its settings are those that were the fastest in the recorded sweep at the nearest shape, "
        "if there is one. Without a GPU, the simulator verifies it and the recorded time is shown; "
        "where none is recorded it says so, and ends with 0 all the same.",
    )  # fmt: skip
    one.add_argument(
        "kernel",
        type=arguments.rung_or_auto,
        help="a rung, such as 01_naive; or auto, what gl.choose takes",
    )
    for size, meaning in (("m", "rows of A and C"), ("n", "columns of B and C"), ("k", "between")):
        one.add_argument(size, type=arguments.size, metavar=size.upper(), help=meaning)
    setting = {
        "metavar": "NAME=VALUE",
        "help": "a parameter of the kernel, such as BLOCK_X=16; may be repeated",
    }
    one.add_argument("--set", action="append", default=[], type=arguments.setting, **setting)
    dtype = {
        "choices": tuple(TYPES), "help": "of auto: what A and B are (default: float32)",
    }  # fmt: skip
    one.add_argument("--dtype", **dtype)

    many = command(
        "sweep", sweep.run, "time kernels at every shape, as CSV on standard output",
        f"The columns are {', '.join(timing.COLUMNS)}. Progress goes to standard error.",
    )  # fmt: skip
    many.add_argument(
        "kernels", nargs="*", metavar="KERNEL",
        help="rungs, all if none is named; or auto, what gl.choose takes for each shape",
    )  # fmt: skip
    many.add_argument("--dtype", **dtype)

    write = command(
        "record", recording.record, "measure on this GPU and write results/<gpu>/",
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
    write.add_argument("--list", action="store_true", help="list all names, and measure nothing")
    write.add_argument(
        "--shapes", nargs="+", type=arguments.shape, default=runs.SHAPES, metavar="MxNxK",
        help="record rungs only at these shapes, such as 1001x777x513 (default: all of the series)",
    )  # fmt: skip

    best = command(
        "tune", recording.tune,
        "time every legal setting of kernels on this GPU, or search among them",
        "Without a strategy as record tuning/KERNEL: writes results/<gpu>/tuning/<kernel>.csv and "
        "names the fastest setting of each. With one, it searches one kernel at one shape; a "
        "search that was stopped goes on where it was, and without a GPU the recorded sweep is "
        "searched.",
    )  # fmt: skip
    best.add_argument("kernels", nargs="*", metavar="KERNEL", help="rungs; all if none is named")
    best.add_argument("--strategy", choices=searching.STRATEGIES, help="how to search")
    best.add_argument(
        "--budget", type=arguments.size, metavar="N",
        help=f"of a search: settings that are tried at most (default: {searching.BUDGET})",
    )  # fmt: skip
    best.add_argument(
        "--shape",
        type=arguments.shape,
        metavar="MxNxK",
        help="of a search (default: 4096x4096x4096)",
    )
    best.add_argument("--seed", type=int, help="of a search, another way for each (default: 0)")

    ship = command(
        "compile", compiling.run, "compile all rungs with all settings, into kernels/compiled",
        "Writes kernels/compiled/: every rung with each of the settings that it ships.",
    )  # fmt: skip
    ship.add_argument(
        "--check", action="store_true", help="compare with what is there, and write nothing"
    )
    ship.add_argument(
        "--listings", action="store_true", help="only the SASS of the default settings"
    )

    inside = command(
        "sass", inner_loop.run, "show what the inner loop of a kernel spends its issue slots on",
        "Reads the instructions that the compiler made; no GPU is needed.",
    )  # fmt: skip
    inside.add_argument("kernel", type=arguments.rung, help="a rung, such as 09_double_buffering")
    inside.add_argument("--set", action="append", default=[], type=arguments.setting, **setting)
    inside.add_argument("--arch", help="such as sm_86 (default: that of the GPU, else sm_90a)")
    inside.add_argument(
        "--lines",
        type=arguments.size,
        default=16,
        help="instructions to list (default: %(default)s)",
    )
    inside.add_argument(
        "--control", action="store_true",
        help="also what the assembler tells the scheduler: stalls, yields, barriers",
    )  # fmt: skip
    return parser
