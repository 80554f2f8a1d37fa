"""record: measure on this GPU and keep it."""

from __future__ import annotations

import argparse

from gemmlab.cli.common import OK, Commands, say, shape
from gemmlab.records import runs


def add(commands: Commands) -> None:
    parser = commands.add(
        "record", run, "measure on this GPU and write results/<gpu>/",
        "Each name is written as soon as it is done. What is measured again replaces what was "
        "recorded of it; the rest stays. Without names it measures what is missing, so it goes on "
        "after an interruption, and leaves out, with the reason, what cannot run on this GPU.",
    )  # fmt: skip
    parser.add_argument(
        "names", nargs="*", metavar="NAME",
        help="as --list has them: a rung, 00_ceilings, tuning/RUNG, best_by_shape/RUNG, "
        "stalls/RUNG and so on, or tuning alone for those of every rung; if none is named, the "
        "rungs and what takes little time. 21_multi_gpu needs two GPUs",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="list all names, and measure nothing")
    parser.add_argument(
        "--shapes", nargs="+", type=shape, default=runs.SHAPES, metavar="MxNxK",
        help="record rungs only at these shapes, such as 1001x777x513 (default: all of the series)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    from gemmlab.records import recorder

    if options.list:
        print(*(evidence.name for evidence in recorder.evidence()), sep="\n")
    else:
        print(recorder.record(options.names, options.shapes, say))
    return OK
