"""What the inner loops of the rungs spend their issue slots on, beside their recorded speed."""

from __future__ import annotations

from collections.abc import Iterable

import pandas

from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import RUNGS, SINGLE
from gemmlab.loading import load
from gemmlab.records import roofs, runs
from gemmlab.records.registry import of_each
from gemmlab.sass import loops
from gemmlab.sass.inner_loop import CLASSES, MULTIPLY_ADD
from ptxsim.architectures import SIMULATED_ARCH

FIRST = "05_thread_tile_2d"  # the first to use each register several times in a row


def issue_slots(kernels: Iterable[Kernel] | None = None) -> pandas.DataFrame:
    """One row for each kernel, of its inner loop on sm_90a and its recorded speed at 4096³.

    Of one trip, or of as many as a pair of tiles takes: the issue slots, in all and by class; the
    cycles that FFMAs wait for registers, as Loop.waits() counts them, and if no operand were
    reused; the FFMAs that read three registers of one bank. In percent: FFMAs over issue slots,
    FFMAs that mark an operand for reuse. The prediction is the recorded FMA roof times FFMAs over
    slots and waits; it leaves out all that memory and barriers cost, and rests on the rule of
    issue_slots.waits().

    kernels: float32 ones; if None, all recorded rungs from 05_thread_tile_2d on. Raises ValueError
    for others, BadRecord, and what sass.loop() raises. Kernels without a current record are left
    out, and named; where nothing is left, raises NoRecord or StaleRecord.
    """
    if kernels is None:
        at = [rung.name for rung in RUNGS].index(FIRST)
        rungs = [rung for rung in RUNGS[at:] if rung.precision is SINGLE]
        rungs = list(filter(runs.is_recorded, rungs)) or rungs
        kernels = [load(rung.name, SIMULATED_ARCH) for rung in rungs]
    return pandas.DataFrame(of_each(kernels, _row))


def _row(kernel: Kernel) -> dict[str, object]:
    if kernel.rung.precision is not SINGLE:
        raise ValueError(f"{kernel.name} is {kernel.dtype}; the table is of float32 kernels")
    roof, run = roofs.recorded_ceilings(), runs.replay_at(kernel, *runs.LARGE)
    trip = loops.loop(kernel, SIMULATED_ARCH)
    predicted = trip.share() * roof.flop_per_second / 1e12
    measured = run.gflops / 1e3
    return {
        "kernel": kernel.name, "issue slots": len(trip), "FFMA": trip.mix[MULTIPLY_ADD],
        **{name: trip.mix[name] for name in CLASSES if name != MULTIPLY_ADD},
        "waits": trip.waits(), "waits without reuse": trip.waits(reuse=False),
        "three in a bank": trip.three_in_a_bank(),
        "FFMA, % of slots": round(100 * trip.slot_share, 1),
        "FFMA with reuse, %": round(100 * trip.reuse_share, 1),
        "predicted TFLOP/s": round(predicted, 1), "measured TFLOP/s": round(measured, 1),
        "measured, % of predicted": round(100 * measured / predicted, 1),
        "predicted, % of roof": round(100 * trip.share(), 1),
        "measured, % of roof": round(1e14 * measured / roof.flop_per_second, 1),
        "gpu": run.gpu, "recorded": run.recorded,
    }  # fmt: skip
