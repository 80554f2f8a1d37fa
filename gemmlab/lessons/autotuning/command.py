"""tune: time every legal setting of kernels; see gemmlab.cli.common."""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

from gemmlab.ladder import RUNGS, find


def add(commands: Any) -> None:
    parser = commands.add(
        "tune", partial(_run, say=commands.say), "time every legal setting of kernels on this GPU",
        "It does the same as record tuning/KERNEL: it writes results/<gpu>/tuning/<kernel>.csv and "
        "names the fastest setting of each kernel.",
    )  # fmt: skip
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help="rungs (default: all)")


def _run(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    from gemmlab.records import recorder

    kernels = [find(name).name for name in options.kernels] or [rung.name for rung in RUNGS]
    print(recorder.record([f"tuning/{name}" for name in kernels], say))
    return 0
