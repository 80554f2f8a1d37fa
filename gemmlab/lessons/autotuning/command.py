"""tune: time every legal setting of kernels, or search among them; see gemmlab.cli.common."""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

from gemmlab.cuda.device import NoGpu, gpu, why_no_gpu
from gemmlab.folders import require_checkout
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
        "Without a strategy as record tuning/KERNEL: writes results/<gpu>/tuning/<kernel>.csv and "
        "names the fastest setting of each. With one, it searches one kernel at one shape; a "
        "search that was stopped goes on where it was, and without a GPU the recorded sweep is "
        "searched.",
    )  # fmt: skip
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help="rungs; all if none is named")
    parser.add_argument("--strategy", choices=STRATEGIES, help="how to search")
    parser.add_argument(
        "--budget", type=commands.size, metavar="N",
        help=f"of a search: settings that are tried at most (default: {BUDGET})",
    )  # fmt: skip
    parser.add_argument(
        "--shape", type=commands.shape, metavar="MxNxK",
        help="of a search (default: 4096x4096x4096)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, help="of a search, another way for each (default: 0)")


def _run(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    if options.strategy is not None:
        return _search(options, say)
    for name in ("budget", "shape", "seed"):
        if getattr(options, name) is not None:
            raise IllegalSetting(f"--{name} is for a search: give --strategy too")
    from gemmlab.records import recorder

    kernels = [find(name).name for name in options.kernels] or [rung.name for rung in RUNGS]
    require_checkout("Recording")
    if gpu() is None:
        raise NoGpu(
            f"Timing every setting needs a GPU: {why_no_gpu()} Without one, a search goes through "
            f"the recorded sweep: tune {kernels[0]} --strategy genetic"
        )
    print(recorder.record([f"tuning/{name}" for name in kernels], runs.SHAPES, say))
    return 0


def _search(options: argparse.Namespace, say: Callable[[str], None]) -> int:
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
    print(*search(wanted, say), sep="\n")
    return 0
