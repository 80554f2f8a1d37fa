"""What the GPU's own instructions say of a kernel: its inner loop, slot by slot, without a GPU.

SASS is what the GPU executes; ptxas, the second half of the compiler, makes it of PTX.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from . import listings, records, roofline
from .disassembly import disassemble, parse, section
from .issue_slots import CLASSES, MULTIPLY_ADD, Loop, inner_loop
from .kernel import Kernel, load
from .ladder import RUNGS, WARP, require_arch
from .sass_view import LoopView

if TYPE_CHECKING:
    import pandas

FIRST = "05_thread_tile_2d"  # the first to use each register several times in a row


def analyse(cubin: bytes, entry: str | None = None, adds_per_tile: int | None = None) -> Loop:
    """The inner loop of kernel `entry` in a cubin, of the only kernel if None.

    For adds_per_tile see issue_slots.inner_loop. Raises NoDisassembler, and NoListing where there
    is no such kernel or no such loop.
    """
    return _loop(section(disassemble(cubin), entry), adds_per_tile)


def loop(kernel: Kernel, arch: str | None = None) -> Loop:
    """The inner loop of a kernel, as compiled for `arch`; if None, for its own.

    For sm_90a and a rung as it is, with its default settings, the SASS comes with the project, and
    neither compiler nor disassembler is needed. Raises CompileError, NoCompiler, NoDisassembler,
    NoListing, IllegalSetting.
    """
    arch = arch or kernel.arch
    require_arch(kernel.rung, kernel.settings, arch)
    lines = listings.of(kernel.rung, kernel.text, kernel.settings, arch)
    return _loop(lines, adds_per_tile(kernel))


def adds_per_tile(kernel: Kernel) -> int | None:
    """Multiply-add instructions of a warp for one pair of tiles; None where these have no depth BK.

    An FFMA is one multiply-add of each lane, and a tensor core's instruction a whole MMA_SHAPE.
    """
    rows, columns = kernel.rung.tile(kernel.settings)
    warps = math.prod(kernel.rung.block(kernel.settings)) // WARP
    each = WARP if kernel.rung.dtype == "float32" else math.prod(roofline.MMA_SHAPE)
    depth = kernel.settings.get("BK")
    return depth and rows * columns * depth // (warps * each)


@lru_cache(maxsize=64)
def _loop(lines: str, adds: int | None) -> Loop:
    return inner_loop(parse(lines), adds)


def listing(
    kernel: Kernel, lines: int = 24, start: int | None = None, arch: str | None = None
) -> LoopView:
    """Some instructions of the inner loop, as text and as HTML, with the banks that they read.

    start: the issue slot of the trip to begin with, from 0 on; the first multiply-add if None.
    Raises ValueError for slots that there are not, and what loop() raises.
    """
    return LoopView(loop(kernel, arch), lines, start)


def table(kernels: Iterable[Kernel] | None = None) -> pandas.DataFrame:
    """One row for each kernel, of its inner loop on sm_90a and its recorded speed at 4096³.

    Of one trip, or of as many as a pair of tiles takes: the issue slots, in all and by class; the
    cycles that FFMAs wait for registers, as Loop.waits() counts them, and if no operand were
    reused; the FFMAs that read three registers of one bank. In percent: FFMAs over issue slots,
    FFMAs that mark an operand for reuse. The prediction is the recorded FMA roof times FFMAs over
    slots and waits; it leaves out all that memory and barriers cost, and rests on the rule of
    issue_slots.waits().

    kernels: float32 ones; if None, all rungs from 05_thread_tile_2d on. Raises ValueError for
    others, NoRecord and StaleRecord, and what loop() raises.
    """
    import pandas

    if kernels is None:
        at = [rung.name for rung in RUNGS].index(FIRST)
        kernels = [load(rung.name) for rung in RUNGS[at:] if rung.dtype == "float32"]
    return pandas.DataFrame([_row(kernel) for kernel in kernels])


def _row(kernel: Kernel) -> dict[str, object]:
    if kernel.rung.dtype != "float32":
        raise ValueError(f"{kernel.name} is {kernel.rung.dtype}; the table is of float32 kernels")
    roof, run = roofline.recorded_ceilings(), records.replay_at(kernel, *records.LARGE)
    trip = loop(kernel, listings.ARCH)
    predicted = trip.share() * roof.flop_per_second / 1e12
    measured = run.gflops / 1e3
    return {
        "kernel": kernel.name,
        "issue slots": len(trip),
        "FFMA": trip.mix[MULTIPLY_ADD],
        **{name: trip.mix[name] for name in CLASSES if name != MULTIPLY_ADD},
        "waits": trip.waits(),
        "waits without reuse": trip.waits(reuse=False),
        "three in a bank": trip.three_in_a_bank(),
        "FFMA, % of slots": round(100 * trip.slot_share, 1),
        "FFMA with reuse, %": round(100 * trip.reuse_share, 1),
        "predicted TFLOP/s": round(predicted, 1),
        "measured TFLOP/s": round(measured, 1),
        "measured, % of predicted": round(100 * measured / predicted, 1),
        "predicted, % of roof": round(100 * trip.share(), 1),
        "measured, % of roof": round(1e14 * measured / roof.flop_per_second, 1),
        "gpu": run.gpu,
        "recorded": run.recorded,
    }
