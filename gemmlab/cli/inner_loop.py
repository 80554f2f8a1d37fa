"""sass: what the inner loop of a kernel spends its issue slots on."""

from __future__ import annotations

import argparse

from gemmlab.cli.output import OK
from gemmlab.ladder import written
from gemmlab.loading import load


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
