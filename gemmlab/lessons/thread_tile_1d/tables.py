"""Two rungs over the sizes of square products: how much faster, and how full the GPU is."""

import math

import pandas

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
