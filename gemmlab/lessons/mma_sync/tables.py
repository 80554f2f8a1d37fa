"""What the types of 15_mma_sync do to a product: bits, range, and errors against float64, computed.

The operands of all types are the same random numbers from -1 to 1, as each type holds them; whole
numbers are 128 times as large, and what comes of them is divided again.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas

from gemmlab import ladder
from gemmlab.analysis.counters import bytes_moved
from gemmlab.kernel.bounds import error_bound, reference
from gemmlab.kernel.operands import random_matrix
from gemmlab.ladder import Precision
from gemmlab.ladder.probes import MMA_TYPES as TYPES
from gemmlab.lessons.mma_sync import measure
from gemmlab.loading import load
from gemmlab.records import runs
from gemmlab.records.roofs import LOADS, recorded_ceilings
from gemmlab.records.runs import Measured
from gemmlab.sass import loops
from gemmlab.sass.inner_loop import MULTIPLY_ADD

NAME = "15_mma_sync"
SIDE = 16  # rows and columns of C
FRACTION = {  # bits of sign, exponent and fraction that a product keeps of an operand
    "float16": (1, 5, 10), "bfloat16": (1, 8, 7), "tf32": (1, 8, 10), "int8": (1, 0, 7),
    "float8_e4m3": (1, 4, 3), "float8_e5m2": (1, 5, 2),
}  # fmt: skip
LARGEST = {  # finite number
    "float16": 65504.0, "bfloat16": (2 - 2.0**-7) * 2.0**127, "tf32": (2 - 2.0**-10) * 2.0**127,
    "int8": 127.0, "float8_e4m3": 448.0, "float8_e5m2": 57344.0,
}  # fmt: skip


def errors_of(dtype: int, k: int, side: int = SIDE) -> tuple[float, float, float]:
    """Mean errors of a product of side×side×k with this DTYPE, against float64.

    Of the exact product, what rounding the operands does; what the kernel adds; what verification
    allows it to add at most.
    """
    precision = TYPES[dtype]
    each = precision.a.bytes
    kernel = load(NAME, BM=64, BN=128, WM=32, WN=32, BK=64 // each, DTYPE=dtype)
    wide = [random_matrix(*shape, seed=k + at) for at, shape in enumerate(((side, k), (k, side)))]
    scale = 2.0**7 if precision.a.unit_roundoff == 0 else 1.0
    stored = [precision.a.encode(matrix, precision.a.storage) for matrix in wide]
    C = precision.c.decode(kernel(*stored)) / scale**2
    A, B = (held(matrix, precision) / scale for matrix in stored)
    meant, exact = (reference(*pair, None, 1, 0) for pair in (wide, (A, B)))
    numbers = (precision.a.decode(matrix) for matrix in stored)
    bound = error_bound(*numbers, None, 1.0, 0.0, precision) / scale**2
    return abs(exact - meant).mean(), abs(C - exact).mean(), bound.mean()


def held(stored: np.ndarray, precision: Precision) -> np.ndarray:
    """What the tensor cores see of stored elements, in float64: of TF32, 10 bits of fraction."""
    if precision.name == "tf32":
        return (stored.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(float)
    return precision.a.decode(stored)


def table(k: int = 256) -> pandas.DataFrame:
    """A row for each type: bits, the largest number, C, and mean errors at one K."""
    rows, names = {}, ("error of operands", "of the kernel", "bound of that")
    for dtype, precision in enumerate(TYPES):
        sign, exponent, fraction = FRACTION[precision.name]
        errors = (f"{error:.2g}" for error in errors_of(dtype, k))
        rows[precision.name] = {
            "sign, exponent, fraction": f"{sign}, {exponent}, {fraction}",
            "largest": f"{LARGEST[precision.name]:.3g}", "C": precision.c.name,
            **dict(zip(names, errors, strict=True)),
        }  # fmt: skip
    return pandas.DataFrame(rows).T


def instructions_of_steps(titles: Sequence[str]) -> pandas.DataFrame:
    """Steps from 14 to 15 by title: cycles and L2 bytes as recorded, instructions as compiled.

    Instructions: of a warp in one trip through the main loop, without those that tensor cores
    execute.
    """
    recorded, by_title = measure.steps().set_index("step"), {s.title: s for s in measure.STEPS}
    table = recorded.loc[[*titles], ["1000 cycles", "L2 bytes per byte loaded"]]
    mixes = [loops.loop(by_title[title].kernel()).mix for title in titles]
    table["other instructions"] = [sum(mix.values()) - mix[MULTIPLY_ADD] for mix in mixes]
    return table


def tensor_paces(*names: str) -> pandas.DataFrame:
    """14 and 15 at LARGE in FP16, in a burst and sustained: a row for each rung and load.

    The SMs counted the clock. MMAs: at the ceiling of mma.sync. L2: of a counted launch.
    """
    steps, roofs = measure.steps().set_index("step"), recorded_ceilings()
    flop, per_cycle = 2 * math.prod(runs.LARGE), roofs.flop_per_cycle(ladder.HALF.name)
    rows = {}
    for name in names:
        row = steps.loc[measure.title_of(name)]
        _, counted = runs.counters_at(Measured(ladder.find(name)), *runs.LARGE)
        bytes_per_flop = bytes_moved(counted)["L2"] / flop
        for state in LOADS:
            per_second, clock_mhz = 1e12 * row[f"{state} TFLOP/s"], row[f"{state} MHz"]
            rows[name, state] = {
                "TFLOP/s": per_second / 1e12,
                "SM clock, MHz": clock_mhz,
                "MMAs, % of cycles": 100 * per_second / (1e6 * clock_mhz) / per_cycle,
                "L2, % of its ceiling": 100 * per_second * bytes_per_flop / roofs.read_rate("L2"),
            }
    return pandas.DataFrame(rows).T
