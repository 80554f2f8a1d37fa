"""Rungs side by side: where their cycles go, and sizes of products."""

import math

import pandas

from gemmlab.analysis import counters
from gemmlab.analysis.recorded import stalls
from gemmlab.loading import load
from gemmlab.records import runs
from ptxsim.architectures import WARP


def against(before: str, after: str) -> pandas.DataFrame:
    """How many times as fast as rung `before` rung `after` is, at every size that both have.

    Beside it, of both the blocks and warps for each SM. Raises LadderError, NoRecord, StaleRecord.
    """
    sms = runs.current()["gpu"]["sm_count"]
    speeds, rest = [], {}
    for name in (before, after):
        kernel = load(name)
        table = kernel.benchmark()
        squares = table[(table.kernel == name) & (table.m == table.n) & (table.n == table.k)]
        speeds.append(squares.set_index("m").gflops)
        number = name.partition("_")[0]
        launches = {n: kernel.launches(kernel.problem(n, n, n))[0] for n in squares.m}
        blocks = pandas.Series({n: math.prod(launch.grid) for n, launch in launches.items()})
        threads = pandas.Series({n: math.prod(launch.block) for n, launch in launches.items()})
        rest[f"blocks for each SM, {number}"] = blocks / sms
        rest[f"warps for each SM, {number}"] = blocks * (threads // WARP) / sms
    factor = f"{after.partition('_')[0]} over {before.partition('_')[0]}"
    return pandas.DataFrame({factor: speeds[1] / speeds[0]} | rest).dropna()


def account(*names: str, shape: tuple[int, int, int] = runs.LARGE) -> pandas.DataFrame:
    """Where the cycles of an SM went at (M, N, K): cycles per warp FMA, and percent of them.

    Rows: FP32 units, banks and schedulers at work, all. Raises what side_by_side and stalls raise.
    """
    counted = counters.side_by_side(*names, shape=shape)
    busy = counted.loc[["FP32 units busy, %", "data banks busy, %"]]
    busy.loc["schedulers"] = stalls(*names, shape=shape).loc["issue active"]
    busy.loc["all cycles"] = 100.0
    busy.index = ["FP32 units (the floor)", "data banks", *busy.index[2:]]
    cycles = busy / 100 * counted.loc[f"SM cycles {counters.UNIT}"]
    columns = {"cycles": cycles.round(3), "%": busy.round(1)}
    return pandas.concat(columns, axis=1).swaplevel(axis=1)[list(names)]
