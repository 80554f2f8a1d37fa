"""By what factor a rung is faster than another, and what a block's step along K costs."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping

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


KINDS = {  # how an instruction of PTX begins -> what it is counted as
    "fma": "multiply-adds",
    "ld.shared": "shared loads",
    "st.shared": "shared stores",
    "ld.global": "global loads",
    "cp.async": "copies, groups, waits",
    "bar": "barriers",
}
REST = "all else"


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
            product = _product(kernel)
            spent = counted[IN_L1["SM cycles"]] / (blocks * steps)
            rows.append(
                {
                    "M×N×K": f"{m}×{n}×{k}", "kernel": kernel.name, "blocks": blocks,
                    "steps": steps, "cycles of a step": round(spent),
                    "for the product": round(product), "besides": round(spent - product),
                }
            )  # fmt: skip
    return pandas.DataFrame(rows)


def _product(kernel: Kernel) -> float:
    rows, columns = kernel.rung.tile(kernel.settings)
    return rows * columns * kernel.settings["BK"] / LIMITS[base(SIMULATED.arch)].fp32_lanes


def instructions(kernels: Mapping[str, Kernel]) -> pandas.DataFrame:
    """Instructions of PTX that a warp executes for one step, a row for each of `kernels`.

    Simulated: what a product of four steps executes more than one of two, halved.
    """
    table = pandas.DataFrame({name: _per_step(kernel) for name, kernel in kernels.items()}).T
    return table.assign(together=table.sum(axis=1)).astype(int)


def _per_step(kernel: Kernel) -> dict[str, float]:
    many, few = (Counter(_executed(kernel, steps)) for steps in (4, 2))
    return {kind: (many[kind] - few[kind]) / 2 for kind in (*KINDS.values(), REST)}


def barriers(kernel: Kernel, steps: int) -> int:
    """Barriers that a warp meets in a product of one block and so many steps along K."""
    return _executed(kernel, steps).count(KINDS["bar"])


def _executed(kernel: Kernel, steps: int) -> list[str]:
    """The kinds of all instructions of warp 0, in a product of one block."""
    rows, columns = kernel.rung.tile(kernel.settings)
    run = kernel.trace(rows, columns, steps * kernel.settings["BK"]).run
    codes = [step.opcode for step in run.instructions()]
    return [next((KINDS[kind] for kind in KINDS if code.startswith(kind)), REST) for code in codes]
