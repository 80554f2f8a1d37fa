"""show: a kernel in one piece, as it is for its settings."""

from __future__ import annotations

import argparse
import sys

from gemmlab.cli.common import OK, Commands, setting
from gemmlab.folders import KERNELS, kernel_file
from gemmlab.kernel.flat import counts, flat
from gemmlab.kernel.kernel import arch_for, arch_here
from gemmlab.ladder import find, require_compiled, settings_for


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
    name, settings, arch = options.kernel, dict(options.settings), options.arch
    if arch:
        require_compiled(arch)
    path = kernel_file(f"{name}.cu")
    if path.parent == KERNELS:  # where rungs are, and what is not there
        rung = find(name)
        path, settings = rung.path, settings_for(rung, settings)
        arch = arch or arch_for(rung)
    text = flat(path, settings, arch or arch_here())
    print(text, end="")
    lines, code = counts(text)
    print(f"{lines} lines, {code} of them code", file=sys.stderr)
    return OK
