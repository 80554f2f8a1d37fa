"""The orders of the FMAs of an outer product, and what loads and waits among them cost."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy
import pandas

from gemmlab.kernel.kernel import Kernel
from gemmlab.lessons.register_banks.measure import ORDERS
from gemmlab.records import roofs, runs
from gemmlab.sass import loops
from gemmlab.sass.inner_loop import MULTIPLY_ADD, SHARED_LOAD
from ptxsim.architectures import SIMULATED_ARCH, WARP
from ptxsim.occupancy import SM_PARTITIONS

BY_ROWS, SNAKING = ORDERS[0], ORDERS[2]


def places(order: str, rows: int, columns: int) -> list[tuple[int, int]]:
    """(row, column) of each sum in its turn: BY_ROWS, or SNAKING down a column and up the next."""
    if order == BY_ROWS:
        return [(i, j) for i in range(rows) for j in range(columns)]
    return [(rows - 1 - i if j % 2 else i, j) for j in range(columns) for i in range(rows)]


def turns(rows: int, columns: int) -> pandas.DataFrame:
    """Of both orders, one above the other: when each sum has its turn, from 0 on."""
    return pandas.concat({
        order: pandas.Series({at: n for n, at in enumerate(places(order, rows, columns))})
        .sort_index().unstack()
        for order in (BY_ROWS, SNAKING)
    })  # fmt: skip


def kept(order: str, rows: int, columns: int) -> int:
    """How many FMAs of one outer product share an operand of A or B with the one before."""
    return sum(
        place[0] == other[0] or place[1] == other[1]
        for place, other in pairwise(places(order, rows, columns))
    )


def uneven(table: pandas.DataFrame, most: float = 95.0) -> pandas.DataFrame:
    """Rows in which some SMs took longer for the same work; a launch ends with its slowest.

    Either the schedulers had warps in less than `most` percent of the cycles of the counted launch,
    or the speed of the timed one is less than `most` percent of what the issued instructions give.
    """
    issued = table["issue active, %"] / 100 * table["FFMA"] / table["issue slots"]
    gives, measured = issued * table["roof TFLOP/s"], table["measured TFLOP/s"]
    columns = ["tile", "order", "loads", "ptxas", "issue active, %", "active, %"]
    shown = table[columns].assign(
        **{"issued give TFLOP/s": gives.round(1), "measured TFLOP/s": measured}
    )
    return shown[(table["active, %"] < most) | (100 * measured / gives < most)]


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
