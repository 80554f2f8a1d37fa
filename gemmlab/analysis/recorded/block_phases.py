"""Where the time of a block of 16 and of 17 went, and of an SM between two of its blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmlab.records.experiments import hopper_timeline, wgmma_ceilings
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
TILE = 128, 256  # rows and columns of C of a block, as was recorded


def phases(blocks: pandas.DataFrame | None = None) -> pandas.DataFrame:
    """Mean cycles of each phase, a row for each kernel, and the whole of a block.

    blocks: as hopper_timeline.blocks() gives, which is the default. The last phase is of blocks
    that another follows on their SM. Raises what registry.Table.read raises.
    """
    blocks = hopper_timeline.blocks() if blocks is None else blocks
    blocks = blocks.sort_values(["kernel", "sm", "began"])
    blocks["next"] = blocks.groupby(["kernel", "sm"])["began"].shift(-1)
    for (start, stop), name in PHASES.items():
        blocks[name] = blocks[stop] - blocks[start]
    found = blocks.groupby("kernel")[list(PHASES.values())].mean()
    found["a block"] = found.sum(axis=1)
    return found


def at_the_ceiling() -> float:
    """Cycles that wgmma alone takes for a block's part of C: at the recorded ceiling, from memory.

    Its speed and its clock were recorded together. Raises what registry.Table.read raises.
    """
    table = wgmma_ceilings.EVIDENCE.read()
    (row,) = table[
        (table.dtype == "float16") & (table.a_from == "shared memory") & (table.width == TILE[1])
        & (table.data == "random") & (table.load == "sustained")
    ].itertuples()  # fmt: skip
    flop_per_cycle = row.tflops * 1e12 / (row.sm_clock_mhz * 1e6) / row.sms
    return 2 * TILE[0] * TILE[1] * LARGE[2] / flop_per_cycle
