"""By what factor a rung is faster than another, and what a block's step along K costs."""

import math
from collections.abc import Iterable

import pandas

from gemmlab import ladder
from gemmlab.analysis.counters import IN_L1
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import SIMULATED, Problem
from gemmlab.records import runs
from ptxsim.architectures import LIMITS, base

SHAPE = ("m", "n", "k")


def over_shapes(table: pandas.DataFrame, name: str, before: str) -> pandas.DataFrame:
    """Rung `name` over rung `before`, a row for each shape (M×N×K) that both have in `table`.

    table: as benchmark() gives, of both, one under the other. blocks: of rung `name` by default.
    """
    rung, sms = ladder.find(name), runs.current()["gpu"]["sm_count"]
    times = {
        kernel: rows.set_index([*SHAPE])["time_ms"] for kernel, rows in table.groupby("kernel")
    }
    rows = {}
    for shape, factor in (times[before] / times[name]).dropna().round(3).items():
        blocks = math.prod(rung.launches(Problem(*shape), rung.defaults, SIMULATED)[0].grid)
        rows[str(Problem(*shape))] = {
            "blocks": blocks, "blocks for each SM": round(blocks / sms, 2), "times as fast": factor,
        }  # fmt: skip
    return pandas.DataFrame.from_dict(rows, orient="index").rename_axis("M×N×K")


def cycles(
    kernels: Iterable[Kernel], shapes: Iterable[tuple[int, int, int]] = ((512, 512, 512),)
) -> pandas.DataFrame:
    """Recorded cycles of an SM for one step of one block, a row for each shape (M, N, K) and rung.

    Several blocks on an SM share its cycles. `for the product`: what the multiply-adds take if no
    lane pauses. Of float32 kernels with a parameter BK. Raises NoRecord and StaleRecord.
    """
    kernels = list(kernels)
    rows = []
    for m, n, k in shapes:
        for kernel in kernels:
            _, counted = runs.counters_at(kernel, m, n, k)
            blocks = math.prod(kernel.grid(m, n, k))
            steps = math.ceil(k / kernel.settings["BK"])
            rows_of_c, columns = kernel.rung.tile(kernel.settings)
            lanes = LIMITS[base(SIMULATED.arch)].fp32_lanes
            product = rows_of_c * columns * kernel.settings["BK"] / lanes
            spent = counted[IN_L1["SM cycles"]] / (blocks * steps)
            rows.append(
                {
                    "M×N×K": f"{m}×{n}×{k}", "kernel": kernel.name, "blocks": blocks,
                    "steps": steps, "cycles of a step": round(spent),
                    "for the product": round(product), "besides": round(spent - product),
                }
            )  # fmt: skip
    return pandas.DataFrame(rows)


def barriers(kernel: Kernel, steps: int) -> int:
    """Barriers that a warp meets in a product of one block and so many steps along K."""
    rows, columns = kernel.rung.tile(kernel.settings)
    run = kernel.trace(rows, columns, steps * kernel.settings["BK"]).run
    return sum(step.opcode.startswith("bar") for step in run.instructions())
