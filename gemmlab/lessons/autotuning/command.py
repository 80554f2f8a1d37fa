"""tune: time every legal setting of kernels, or search among them; see gemmlab.cli.common."""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

from gemmlab.cuda.device import NoGpu, gpu, why_no_gpu
from gemmlab.ladder import RUNGS, IllegalSetting, find
from gemmlab.lessons.autotuning.searching import BUDGET, Wanted
from gemmlab.lessons.autotuning.searching import run as search
from gemmlab.lessons.autotuning.tuner import STRATEGIES, NoTuner
from gemmlab.records import runs

EXIT_CODES = {NoTuner: 1}


def add(commands: Any) -> None:
    parser = commands.add(
        "tune", partial(_run, say=commands.say),
        "time every legal setting of kernels on this GPU, or search among them",
        "Without --strategy it does the same as record tuning/KERNEL: it writes "
        "results/<gpu>/tuning/<kernel>.csv and names the fastest setting of each kernel. With "
        "--strategy it searches one kernel at one shape; without a GPU in the recorded sweep.",
    )  # fmt: skip
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help="rungs (default: all)")
    parser.add_argument("--strategy", choices=STRATEGIES, help="the search strategy")
    parser.add_argument(
        "--budget", type=commands.size, metavar="N",
        help=f"the most settings that a search tries (default: {BUDGET})",
    )  # fmt: skip
    parser.add_argument(
        "--shape", type=commands.shape, metavar="MxNxK",
        help="the shape of a search (default: 4096x4096x4096)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, help="the random seed of a search (default: 0)")


def _run(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    if options.strategy is not None:
        return _search(options, say)
    for name in ("budget", "shape", "seed"):
        if getattr(options, name) is not None:
            raise IllegalSetting(f"--{name} belongs to a search: add --strategy")
    from gemmlab.records import recorder

    kernels = [find(name).name for name in options.kernels] or [rung.name for rung in RUNGS]
    if gpu() is None:
        raise NoGpu(
            f"Timing every setting needs a GPU: {why_no_gpu()} Without one, you can search in the "
            f"recorded sweep: tune {kernels[0]} --strategy genetic"
        )
    print(recorder.record([f"tuning/{name}" for name in kernels], runs.SHAPES, say))
    return 0


def _search(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    if len(options.kernels) != 1:
        raise IllegalSetting(
            f"a search needs one kernel, and {len(options.kernels)} are named; for example: tune "
            "10_register_banks --strategy genetic"
        )
    (name,) = options.kernels
    wanted = Wanted(
        name, options.shape or runs.LARGE, options.strategy, options.budget or BUDGET,
        options.seed or 0,
    )  # fmt: skip
    print(*search(wanted, say), sep="\n")
    return 0
