"""Where the time of a block of 16 and of 17 went, and of an SM between two of its blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmlab.lessons.tma_wgmma import clock_readings
from gemmlab.records.runs import LARGE

if TYPE_CHECKING:
    import pandas

# From one reading of the clock to the next, and what it is called.
PHASES = {
    ("began", "first"): "until the first tiles are there",
    ("first", "summed"): "steps along K",
    ("summed", "stored"): "C on its way",
    ("stored", "next"): "until the next block begins",
}
# Of one SM in FP16: NVIDIA, "NVIDIA H100 Tensor Core GPU Architecture", which says it of the H100.
TENSOR_FLOP_PER_CYCLE = 4096
TILE = 128, 256  # rows and columns of C of a block, as was recorded


def phases(blocks: pandas.DataFrame | None = None) -> pandas.DataFrame:
    """Mean cycles of each phase, a row for each kernel, and the whole of a block.

    blocks: as clock_readings.blocks() gives, which is the default. The last phase is of blocks
    that another follows on their SM. Raises what registry.Table.read raises.
    """
    blocks = clock_readings.blocks() if blocks is None else blocks
    blocks = blocks.sort_values(["kernel", "sm", "began"])
    blocks["next"] = blocks.groupby(["kernel", "sm"])["began"].shift(-1)
    for (start, stop), name in PHASES.items():
        blocks[name] = blocks[stop] - blocks[start]
    found = blocks.groupby("kernel")[list(PHASES.values())].mean()
    found["a block"] = found.sum(axis=1)
    return found


def at_full_rate() -> int:
    """Cycles in which the tensor cores of an SM can multiply a block's part of C."""
    return 2 * TILE[0] * TILE[1] * LARGE[2] // TENSOR_FLOP_PER_CYCLE
