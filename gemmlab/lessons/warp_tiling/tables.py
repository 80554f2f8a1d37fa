"""What a block's step along K, of BK elements, costs: cycles that a GPU counted, instructions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from gemmlab.analysis.counters import IN_L1
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import SIMULATED
from gemmlab.records import runs
from ptxsim.architectures import LIMITS, base

if TYPE_CHECKING:
    import pandas

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

    Where several blocks share an SM, its cycles are divided among them. `for the product` is what
    the multiply-adds of the step take of it if its lanes never pause; `besides` is the rest. Of
    float32 kernels with a parameter BK. Raises NoRecord and StaleRecord.
    """
    import pandas

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
    """Cycles of an SM for the multiply-adds of a step, at one for each of its lanes."""
    rows, columns = kernel.rung.tile(kernel.settings)
    return rows * columns * kernel.settings["BK"] / LIMITS[base(SIMULATED.arch)].fp32_lanes


def instructions(kernels: Mapping[str, Kernel]) -> pandas.DataFrame:
    """Instructions of PTX that a warp executes for one step, a row for each of `kernels`.

    Columns: those of KINDS, all else, together. Counted in the simulator, as what a product of four
    steps executes more than one of two, so that what stands outside of the loop is left out.
    """
    import pandas

    table = pandas.DataFrame({name: _per_step(one) for name, one in kernels.items()}).T
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
    return [_kind(step.opcode) for step in run.instructions()]


def _kind(opcode: str) -> str:
    return next((kind for start, kind in KINDS.items() if opcode.startswith(start)), REST)
