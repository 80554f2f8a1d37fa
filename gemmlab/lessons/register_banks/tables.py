"""The orders of the FMAs of an outer product, and what loads and waits among them cost."""

import math
import re
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy
import pandas

from gemmlab.kernel.kernel import Kernel
from gemmlab.lessons.register_banks.measure import ORDERS
from gemmlab.records import roofs, runs
from gemmlab.sass import loops
from gemmlab.sass.inner_loop import MULTIPLY_ADD, SHARED_LOAD, Loop, class_of
from ptxsim.architectures import SIMULATED_ARCH, WARP
from ptxsim.occupancy import SM_PARTITIONS

BY_ROWS, SNAKING = ORDERS[0], ORDERS[2]


def places(order: str, rows: int, columns: int) -> list[tuple[int, int]]:
    """(row, column) of each sum in its turn: BY_ROWS, or SNAKING up a column and down the next."""
    if order == BY_ROWS:
        return [(i, j) for i in range(rows) for j in range(columns)]
    return [(i if j % 2 else rows - 1 - i, j) for j in range(columns) for i in range(rows)]


def kept(order: str, rows: int, columns: int) -> int:
    """How many FMAs of one outer product share an operand of A or B with the one before."""
    return sum(
        place[0] == other[0] or place[1] == other[1]
        for place, other in pairwise(places(order, rows, columns))
    )


def loads_ahead(loop: Loop) -> list[tuple[int, int]]:
    """For each load from shared memory of a trip: the FMAs before it, and those before its use.

    The use is the first instruction that reads what it loads; the FMAs between hide its latency.
    """
    trip = loop.instructions * 2  # what the end of a trip loads is used in the next one
    before = [0, *accumulate(class_of(instruction) == MULTIPLY_ADD for instruction in trip)]
    loads = []
    for at, instruction in enumerate(loop.instructions):
        loaded = re.match(r"R(\d+)", instruction.operands[0]) if instruction.operands else None
        if class_of(instruction) != SHARED_LOAD or not loaded:
            continue
        width = next((n for n in (4, 2) if f"{32 * n}" in instruction.opcode.split(".")), 1)
        registers = range(int(loaded[1]), int(loaded[1]) + width)
        used = next(
            n for n in range(at + 1, len(trip))
            if any(read.register in registers for read in trip[n].reads)
        )  # fmt: skip
        loads.append((before[at], before[used]))
    return loads


def change_of_tiles(loop: Loop) -> int:
    """The FMAs of a trip before its last wait for the next tiles, at a barrier or an mbarrier."""
    waits = [
        at for at, instruction in enumerate(loop.instructions)
        if instruction.operation == "BAR" or "TRYWAIT" in instruction.opcode
    ]  # fmt: skip
    before = loop.instructions[: waits[-1]]
    return sum(class_of(instruction) == MULTIPLY_ADD for instruction in before)


@dataclass(frozen=True)
class Costs:
    """Cycles beyond its issue slot: of a wait for a bank, and of a load. `residual`: what no fit
    explains, as a share of all cycles."""

    wait: float
    load: float
    residual: float


def costs(table: pandas.DataFrame) -> Costs:
    """Fitted to the rows of fma_order() that have loads, by least squares."""
    rows = table[table["loads"] > 0]
    cycles = rows["FFMA"] * rows["roof TFLOP/s"] / rows["measured TFLOP/s"]
    accumulators = rows["tile"].map(lambda tile: math.prod(map(int, tile.split("×"))))
    causes = numpy.stack([rows["waits"], rows["FFMA"] / accumulators * rows["loads"]], axis=1)
    beyond = cycles - rows["issue slots"]
    fitted, *_ = numpy.linalg.lstsq(causes, beyond, rcond=None)
    residual = numpy.sqrt(numpy.mean((causes @ fitted - beyond) ** 2)) / cycles.mean()
    return Costs(float(fitted[0]), float(fitted[1]), float(residual))


def budget(kernel: Kernel, costs: Costs) -> pandas.DataFrame:
    """Where the speed of a float32 kernel goes at 4096³, cause by cause, from the roof down.

    TFLOP/s: each row adds a cause to those above. cycles: of one SM, for a pair of tiles, as the
    inner loop has them, the last counted. One block is on an SM at a time; a last wave of blocks
    that is not full costs time, and no cycles of an SM at work. Raises NoRecord and StaleRecord.
    """
    trip = loops.loop(kernel, SIMULATED_ARCH)
    roof, run = roofs.recorded_ceilings(), runs.replay_at(kernel, *runs.LARGE)
    m, n, k = runs.LARGE
    blocks = math.prod(kernel.grid(m, n, k))
    sms = runs.current()["gpu"]["sm_count"]
    full = blocks / (math.ceil(blocks / sms) * sms)
    adds, slots = trip.mix[MULTIPLY_ADD], len(trip)
    waits = trip.waits()
    loads = costs.load * trip.mix[SHARED_LOAD]
    cycles = {
        "FFMAs alone": adds,
        "all issue slots": slots,
        "waits for banks": slots + waits,
        "what loads cost beyond their slots": slots + waits + loads,
    }
    # Each part of an SM starts at most one instruction a cycle.
    warps = math.prod(kernel.rung.block(kernel.settings)) / WARP / SM_PARTITIONS
    _, counted = runs.counters_at(kernel, m, n, k)
    active = counted["sm__cycles_active.sum"] / (blocks * k // kernel.settings["BK"])
    rate = roof.flop_per_second / 1e12
    rows = {what: (rate * adds / some, some * warps) for what, some in cycles.items()}
    rows["the last wave"] = rate * adds / (slots + waits + loads) * full, math.nan
    rows["recorded"] = run.gflops / 1e3, active
    return pandas.DataFrame(rows, index=["TFLOP/s", "cycles"]).T
