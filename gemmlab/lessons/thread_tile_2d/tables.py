"""The two changes from 04 to 05 apart: the outputs of a thread, and the tile of a block."""

import pandas

from gemmlab.loading import load
from gemmlab.records import tuning

STEPS = (  # rung, rows of a block, whether on the way to 05, and what it changes
    ("04_thread_tile_1d", 32, True, "04 as it is: 16×1 outputs per thread, blocks of 32×64"),
    ("05_thread_tile_2d", 32, True, "8×4 outputs per thread"),
    ("05_thread_tile_2d", 128, True, "blocks of 128×64: 05 as it is"),
    ("04_thread_tile_1d", 128, False, "blocks of 128×64 with 16×1 outputs per thread"),
)


def steps() -> pandas.DataFrame:
    """From 04 to 05 at 4096×4096×4096, as the sweeps have it: a table for gl.plots.path.

    Below each name stands what it takes of an SM. Raises NoRecord, StaleRecord.
    """
    rows = []
    for name, block, taken, step in STEPS:
        kernel = load(name, BM=block)
        record, (of_sm,) = tuning.of(kernel), kernel.resources().to_dict("records")
        rows.append({
            "step": step, "taken": taken, "TFLOP/s": record["gflops"] / 1e3,
            "% of cuBLAS": record["pct_cublas"], "gpu": record["gpu"],
            "recorded": record["recorded"],
            "predicted": f"{of_sm['registers per thread']} registers per thread; blocks per SM: "
                         f"{of_sm['blocks per SM']}, of {of_sm['threads per block']} threads",
        })  # fmt: skip
    return pandas.DataFrame(rows)
