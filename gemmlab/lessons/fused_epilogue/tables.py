"""What an epilogue costs, fused and after cuBLAS: in passes over C, in bytes of DRAM, in time."""

from collections.abc import Sequence

import numpy as np
import pandas

from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder.activations import ACTIVATIONS
from gemmlab.lessons.fused_epilogue import epilogues
from gemmlab.records import roofs

MIB = 2**20


def through(kernel: Kernel, x: Sequence[float]) -> np.ndarray:
    """What the epilogue of a kernel of rung 11 makes of numbers, float32 (len(x),).

    They are its C, with an empty product: C = activation(0 + 1 · C).
    """
    numbers = np.asarray(x, np.float32).reshape(1, -1)
    return kernel(np.zeros((1, 0), "f4"), np.zeros((0, numbers.size), "f4"), numbers, beta=1.0)[0]


def moved_by_relu(table: pandas.DataFrame) -> pandas.DataFrame:
    """MiB of DRAM counted with ReLU, for the fused kernel and for kernels after the matmul."""
    chosen = [epilogues.FUSED, epilogues.ALONE, epilogues.OURS_BY_FOUR, epilogues.SEPARATE]
    rows = table.dropna(subset="dram_read_bytes").set_index("way").loc[chosen]
    counted = rows[["dram_read_bytes", "dram_write_bytes"]].set_axis(["read", "written"], axis=1)
    return (counted / MIB).rename(index=epilogues.SHOWN).rename_axis(None).round(0)


def over_k(table: pandas.DataFrame, side: int) -> pandas.DataFrame:
    """Where the time goes at M = N = side with bias and ReLU, in ms, a row for each K.

    The matmul is that of rung 10. `second kernel`: what one kernel by float4 adds to it; `fused
    epilogue`: what 11 takes longer than it. From ratios to 11, which was timed in turn with each.
    """
    rows = table[(table["activation"] == epilogues.CURVE_OF) & (table["m"] == side)]
    ratios = rows[rows["n"] == side].pivot(index="k", columns="way", values="ratio")
    fused = rows[(rows["n"] == side) & (rows["way"] == epilogues.FUSED)].set_index("k")["time_ms"]
    alone, followed = ratios[epilogues.ALONE], ratios[epilogues.OURS_BY_FOUR]
    return pandas.DataFrame({
        "matmul": alone * fused,
        "second kernel": (followed - alone) * fused,
        "fused epilogue": (1 - alone) * fused,
        "with a second kernel, times as long": followed,
    }).rename_axis("K")  # fmt: skip


def epilogue_percent(table: pandas.DataFrame) -> pandas.DataFrame:
    """What percentage of 11's time its epilogue takes, by activation and M×N×K.

    It is what rung 10, which has none, takes less; a bias is always added.
    """
    rows = table[table["way"] == epilogues.ALONE]
    shape = rows[["m", "n", "k"]].astype(str).agg("×".join, axis=1).rename("M×N×K")
    percent = (100 * (1 - rows["ratio"])).groupby([rows["activation"], shape]).first().unstack()
    return percent.loc[[activation for activation in ACTIVATIONS if activation in percent.index]]


def under_the_roofs(table: pandas.DataFrame, side: int) -> pandas.DataFrame:
    """The fused kernel with bias and ReLU at M = N = side, over K, beside the recorded ceilings."""
    chosen = (table["way"] == epilogues.FUSED) & (table["activation"] == epilogues.CURVE_OF)
    rows = table[chosen & (table["m"] == side) & (table["n"] == side)]
    ceilings, seconds = roofs.recorded_ceilings(), rows["time_ms"] / 1e3
    flops = 2 * rows["m"] * rows["n"] * rows["k"] / seconds
    stored = 4 * rows["m"] * rows["n"] / seconds
    return pandas.DataFrame({
        "K": rows["k"],
        "time, ms": rows["time_ms"],
        "TFLOP/s": flops / 1e12,
        "of the FP32 roof, %": 100 * flops / ceilings.flop_per_second,
        "C alone, % of the copy's rate": 100 * stored / ceilings.bytes_per_second,
    }).set_index("K")  # fmt: skip
