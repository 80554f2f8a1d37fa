"""In how many passes the L1 cache answers the loads of 01_naive, and how these are spread.

    python -m gemmlab record 01_l1_passes

counts what L1 does at shapes that differ in one thing each; results/<gpu>/l1_passes.csv.
"""

from collections.abc import Iterable
from functools import partial

import numpy as np
import pandas

from gemmlab.kernel.kernel import Kernel
from gemmlab.lessons.naive.rung import RUNG
from gemmlab.measure import profiler
from gemmlab.records.registry import NUMBER, SIZE, Row, Say, Table, provenance
from gemmlab.records.runs import Measured, of_default
from ptxsim.architectures import WARP
from ptxsim.metrics import SECTOR_BYTES

NAME = "01_l1_passes"
SHAPES = {  # what sets it apart
    (512, 512, 512): "rows in one bank",
    (512, 512, 513): "rows in 32 banks",
    (16384, 64, 129): "rows in 32 banks, A passes by",
    (64, 16384, 129): "rows in 32 banks, A stays in L1",
}
METRICS = {  # column: what Nsight Compute counts for it
    "sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "missed": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_miss.sum",
    "tag_wavefronts": "l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld.sum",
    "data_wavefronts": "l1tex__data_pipe_lsu_wavefronts_cmd_read.sum",
    "conflicts": "l1tex__data_bank_conflicts_pipe_lsu_cmd_read.sum",
    "writebacks": "l1tex__lsu_writeback_active.sum",
}


def _measure(say: Say) -> list[Row]:
    """One launch at each of SHAPES. Raises CountersUnavailable."""
    settings, metrics = Measured(RUNG).settings, tuple(METRICS.values())
    counters = profiler.counters(RUNG, settings, list(SHAPES), metrics)
    say(f"{NAME}: {len(METRICS)} counters at {len(counters)} shapes")
    return [
        {"m": m, "n": n, "k": k, **{column: counted[name] for column, name in METRICS.items()}}
        for (m, n, k), counted in zip(SHAPES, counters, strict=True)
    ]


TABLE = Table(
    name=NAME, file="l1_passes.csv", key=("m", "n", "k"), measure=_measure,
    columns={**SIZE("m", "n", "k"), **NUMBER(*METRICS), **provenance("driver", "ncu")},
    fingerprint_of=partial(of_default, RUNG),
)  # fmt: skip
EVIDENCE = (TABLE,)


def l1_passes() -> pandas.DataFrame:
    """What L1 did per warp FMA of 01_naive, a row for each of SHAPES.

    sectors: looked up by loads; missed: not in L1; wavefronts of the tags and of the data;
    writebacks: passes in which data went back to registers.
    """
    table = TABLE.read()
    warp_fmas = table["m"] * table["n"] * table["k"] / WARP
    per_fma = table[[*METRICS]].astype(float).div(warp_fmas, axis=0)
    per_fma.columns = [name.replace("_", " ") for name in METRICS]
    shapes = [*table[["m", "n", "k"]].itertuples(index=False, name=None)]
    per_fma.index = pandas.Index([f"{m}×{n}×{k}" for m, n, k in shapes], name="M×N×K")
    return per_fma.round(2).assign(**{"what differs": [SHAPES[shape] for shape in shapes]})


# ---- traced --------------------------------------------------------------------------------------

BANKS, WORD_BYTES = 32, 4


def by_k(kernel: Kernel, ks: Iterable[int], array: str = "A") -> pandas.DataFrame:
    """How the loads of `array` by warp 0 of the first block are spread, a column for each K.

    Rows: means over the K loads. The fullest bank is that of which a load wants most words; lanes
    that want one word share it. For kernels that load an element of `array` a step, with 4 bytes a
    lane, as 01 and 02 do. Raises LookupError where there are fewer loads.
    """
    table = {}
    for k in ks:
        trace = kernel.trace(*kernel.rung.tile(kernel.settings), k)
        loads = [trace.warp_access(array, occurrence=at).addresses for at in range(k)]
        words = [np.unique(addresses // WORD_BYTES) for addresses in loads]
        table[f"K = {k}"] = {
            "sectors": np.mean([len(np.unique(each // SECTOR_BYTES)) for each in loads]),
            "words in the fullest bank": np.mean([np.bincount(w % BANKS).max() for w in words]),
        }
    return pandas.DataFrame(table)
