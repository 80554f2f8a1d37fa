"""The command line: its help, its commands, and which error ends with which exit code."""

import argparse
import os
import sys
from collections.abc import Sequence

from gemmlab._version import __version__
from gemmlab.cli import code, doctor, measure
from gemmlab.cli.common import FAILED, OK, STOPPED, UNAVAILABLE, USAGE, Commands
from gemmlab.cuda.cublas import CublasError
from gemmlab.cuda.device import NoGpu, UnknownDevice, simulator_wanted
from gemmlab.cuda.disassembler import NoDisassembler, NoListing
from gemmlab.kernel.faults import GpuFault
from gemmlab.kernel.flat import NotFlat
from gemmlab.kernel.verify import VerificationError
from gemmlab.ladder import IllegalSetting, LadderError
from gemmlab.lessons import modules
from gemmlab.measure import profiler, timing
from gemmlab.records.registry import BadRecord, NoRecord, StaleRecord
from ptxsim import CompileError, NoCompiler

COMMANDS = (doctor, measure, code, *modules("command"))
EXIT_CODES: dict[type[Exception], int] = {
    **dict.fromkeys(
        (LadderError, IllegalSetting, timing.TimingError, UnknownDevice), USAGE
    ),
    **dict.fromkeys((NoGpu, NoRecord), UNAVAILABLE),
    **dict.fromkeys((
        VerificationError, CompileError, NoCompiler, NoDisassembler, NoListing, CublasError,
        StaleRecord, BadRecord, GpuFault, profiler.CountersUnavailable, NotFlat,
    ), FAILED),
}  # fmt: skip

DESCRIPTION = """\
Climb from the naive matrix product to kernels that beat cuBLAS.

With a GPU, kernels are timed here. Without one, they are verified in the simulator, and times that
were recorded on another GPU are shown, with its name."""

EPILOG = """\
exit codes:
  0  success; for bench without a GPU: the kernel passed, whether or not a time of it is recorded
  1  a check failed: a wrong result, a stale record, a missing package, a damaged file, a folder
     that cannot be written
  2  the arguments are not possible: an unknown kernel, an illegal setting, a shape that takes too
     long or does not fit, an unknown GEMMLAB_DEVICE
  3  the command needs a GPU, or more GPUs, or a record that does not exist
  130  stopped by Ctrl-C

environment:
  GEMMLAB_DEVICE=simulator     ignore the GPU
  GEMMLAB_RECORDS=nvidia-h200  replay only this folder of results/"""


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
    except tuple(EXIT_CODES) as error:
        kinds = (kind for kind in EXIT_CODES if isinstance(error, kind))
        return _complain(error, EXIT_CODES[next(kinds)])
    except BrokenPipeError:  # the reader of the output, such as `head`, has had enough
        _mute()
        return OK
    except OSError as error:  # such as a disk that is full, or a folder of somebody else
        _mute()
        return _complain(error, FAILED)
    except KeyboardInterrupt:
        return _complain("stopped", STOPPED)


def _mute() -> None:
    """The rest of the output goes nowhere: Python would complain of it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(problem: object, code: int) -> int:
    print(f"gemmlab: {problem}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gemmlab", description=DESCRIPTION, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"gemmlab {__version__}")
    commands = Commands(parser)
    for command in COMMANDS:
        command.add(commands)
    return parser
