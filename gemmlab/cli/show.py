"""show: a kernel in one piece, as it is for its settings."""

from __future__ import annotations

import argparse
import sys

from gemmlab.cli.common import OK, Commands, setting
from gemmlab.folders import kernel_file
from gemmlab.kernel.flat import counts, flat
from gemmlab.ladder import SIMULATED, find
from gemmlab.loading import load


def add(commands: Commands) -> None:
    parser = commands.add(
        "show", run, "print a kernel in one piece, for its settings",
        "Headers are in it, and of branches of #if only those that the settings take. Functions "
        "that nothing calls are left out. On standard error: its lines, with and without comments.",
    )  # fmt: skip
    parser.add_argument("kernel", help="a rung or a probe, such as 17_warp_specialized or 10_steps")
    parser.add_argument(
        "settings", nargs="*", type=setting, metavar="NAME=VALUE", help="such as BM=64"
    )
    parser.add_argument("--arch", help="such as sm_86 (default: that of the GPU, else sm_90a)")


def run(options: argparse.Namespace) -> int:
    settings, probe = dict(options.settings), kernel_file(f"{options.kernel}.cu")
    if probe.parent.name in ("kernels", "") or not probe.is_file():
        text = load(find(options.kernel).name, options.arch, **settings).listing().text + "\n"
    else:
        text = flat(probe, settings, options.arch or SIMULATED.arch)
    print(text, end="")
    lines, code = counts(text)
    print(f"{lines} lines, {code} of them code", file=sys.stderr)
    return OK
