"""record and tune: what is measured on this GPU and kept, or searched."""

from __future__ import annotations

import argparse

from gemmlab.cli.output import OK, say
from gemmlab.cuda.device import NoGpu, gpu, why_no_gpu
from gemmlab.folders import require_checkout
from gemmlab.ladder import RUNGS, IllegalSetting, find
from gemmlab.lessons import modules
from gemmlab.records import runs

(searching,) = modules("searching")


def record(options: argparse.Namespace) -> int:
    from gemmlab.records import recorder

    if options.list:
        print(*(one.name for one in recorder.evidence()), sep="\n")
    else:
        print(recorder.record(options.names, options.shapes, say))
    return OK


def tune(options: argparse.Namespace) -> int:
    if options.strategy is not None:
        return _search(options)
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
    return OK


def _search(options: argparse.Namespace) -> int:
    if len(options.kernels) != 1:
        raise IllegalSetting(
            f"a search is of one kernel, not of {len(options.kernels)}: name it, such as "
            "tune 10_register_banks --strategy genetic"
        )
    (name,) = options.kernels
    wanted = searching.Wanted(
        name, options.shape or runs.LARGE, options.strategy, options.budget or searching.BUDGET,
        options.seed or 0,
    )  # fmt: skip
    print(*searching.run(wanted, say), sep="\n")
    return OK
