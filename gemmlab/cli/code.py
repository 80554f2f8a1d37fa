"""show, sass, compile: a kernel's text, its inner loop, and the compiled code that ships."""

import argparse
import sys

from gemmlab.cli import common
from gemmlab.cli.common import OK, Commands
from gemmlab.folders import KERNELS, kernel_file
from gemmlab.kernel import prebuilt
from gemmlab.kernel.flat import counts, flat
from gemmlab.kernel.kernel import arch_for, arch_here
from gemmlab.ladder import RUNGS, find, require_compiled, settings_for, written
from gemmlab.loading import load
from gemmlab.sass import loops


def add(commands: Commands) -> None:
    commands.add(
        "compile", _compile, "compile all rungs into kernels/compiled",
        "Writes kernels/compiled/: every rung with all settings that the project ships compiled.",
    )  # fmt: skip

    parser = commands.add(
        "sass", _sass, "show how the inner loop of a kernel uses its issue slots",
        "Reads the machine code that the compiler generates; no GPU is needed.",
    )  # fmt: skip
    parser.add_argument("kernel", help="a rung, such as 09_double_buffering")
    common.add_settings(parser)
    common.add_arch(parser)

    parser = commands.add(
        "show", _show, "print a kernel in one piece, for its settings",
        "Includes the headers, and only those branches of #if that the settings take. Functions "
        "that nothing calls are left out. Standard error has the number of lines.",
    )  # fmt: skip
    parser.add_argument("kernel", help="a rung or a probe, such as 17_warp_specialized or 10_steps")
    parser.add_argument(
        "settings", nargs="*", type=common.setting, metavar="NAME=VALUE", help="such as BM=64"
    )
    common.add_arch(parser)


def _compile(options: argparse.Namespace) -> int:
    for rung in RUNGS:
        prebuilt.write(loops.make_listing(rung), loops.path_of(rung.name))
        print(f"{rung.name}: machine code written")
    for name in prebuilt.NAMES:
        prebuilt.write(prebuilt.build(name), prebuilt.path_of(name))
        print(f"{name}: written")
    return OK


def _sass(options: argparse.Namespace) -> int:
    kernel = load(options.kernel, options.arch, **dict(options.set))
    trip = loops.loop(kernel)
    settings = written(kernel.settings)
    print(f"{kernel.name} {settings}, {kernel.arch}: one trip through the inner loop")
    for name, slots in trip.mix.items():
        print(f"  {name:<16} {slots:6}  {100 * slots / len(trip):5.1f} %")
    print(f"  {'issue slots':<16} {len(trip):6}")
    print(f"  waits for registers: {trip.waits()} cycles")
    print(f"  multiply-adds with reuse: {100 * trip.reuse_share:.1f} %")
    print(f"  of all cycles at most {100 * trip.share():.1f} % are multiply-adds")
    print()
    print(loops.listing(kernel, lines=16))
    return OK


def _show(options: argparse.Namespace) -> int:
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
