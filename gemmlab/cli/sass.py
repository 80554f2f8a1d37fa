"""sass: what the inner loop of a kernel spends its issue slots on."""

from __future__ import annotations

import argparse

from gemmlab.cli.common import OK, Commands, add_settings, rung_name, size
from gemmlab.ladder import written
from gemmlab.loading import load


def add(commands: Commands) -> None:
    parser = commands.add(
        "sass", run, "show what the inner loop of a kernel spends its issue slots on",
        "Reads the instructions that the compiler made; no GPU is needed.",
    )  # fmt: skip
    parser.add_argument("kernel", type=rung_name, help="a rung, such as 09_double_buffering")
    add_settings(parser)
    parser.add_argument("--arch", help="such as sm_86 (default: that of the GPU, else sm_90a)")
    parser.add_argument(
        "--lines", type=size, default=16, help="instructions to list (default: %(default)s)"
    )
    parser.add_argument(
        "--control", action="store_true",
        help="also what the assembler tells the scheduler: stalls, yields, barriers",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    from gemmlab.sass import loops

    kernel = load(options.kernel, options.arch, **dict(options.set))
    trip = loops.loop(kernel)
    settings = written(kernel.settings)
    print(f"{kernel.name} {settings}, {kernel.arch}: one trip through the inner loop")
    for name, slots in trip.mix.items():
        print(f"  {name:<16} {slots:6}  {100 * slots / len(trip):5.1f} %")
    print(f"  {'issue slots':<16} {len(trip):6}")
    print(f"  waits for registers: {trip.waits()} cycles, {trip.waits(reuse=False)} without reuse")
    print(f"  FFMAs with three registers of one bank: {trip.three_in_a_bank()}")
    print(f"  multiply-adds with reuse: {100 * trip.reuse_share:.1f} %")
    print(f"  of all cycles at most {100 * trip.share():.1f} % are multiply-adds")
    print()
    print(loops.listing(kernel, options.lines, control=options.control))
    return OK
