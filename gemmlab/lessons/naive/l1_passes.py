"""In how many passes the L1 cache answers the requests of 01_naive, and why: counted.

    python -m gemmlab record 01_l1_passes

counts what L1 does at shapes that differ in one thing each; results/<gpu>/l1_passes.csv holds it
(see gemmlab.records.registry).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gemmlab import ladder
from gemmlab.cuda.device import require_gpu, software_versions
from gemmlab.measure import profiler
from gemmlab.measure.timing import now
from gemmlab.records.registry import DATE, NUMBER, SIZE, TEXT, Say, Table
from gemmlab.records.runs import Measured, of_default
from ptxsim.architectures import WARP

if TYPE_CHECKING:
    import pandas

NAME, RUNG = "01_l1_passes", "01_naive"
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
COLUMNS = {
    **SIZE("m", "n", "k"), **NUMBER(*METRICS), **TEXT("code", "gpu", "driver", "ncu"),
    **DATE("recorded"),
}  # fmt: skip


def record(say: Say) -> Path:
    """Count one launch at each of SHAPES; returns the file. Raises NoGpu, CountersUnavailable."""
    import pandas

    rung, here = ladder.find(RUNG), require_gpu("Counting")
    context = {
        "gpu": here.name, "driver": software_versions()["driver"],
        "ncu": profiler.ncu_version(), "recorded": now(),
    }  # fmt: skip
    settings, wanted = Measured(rung).settings, tuple(METRICS.values())
    found = profiler.counters(rung, settings, list(SHAPES), wanted)
    rows = [
        {"m": m, "n": n, "k": k, **{column: one[name] for column, name in METRICS.items()}}
        for (m, n, k), one in zip(SHAPES, found, strict=True)
    ]
    say(f"{NAME}: {len(METRICS)} counters at {len(rows)} shapes")
    return EVIDENCE.write(pandas.DataFrame(rows).assign(**context), here.slug)


EVIDENCE = Table(
    name=NAME, file="l1_passes.csv", remake=record, key=("m", "n", "k"), columns=COLUMNS,
    fingerprint_of=lambda row, on: of_default(ladder.find(RUNG), row, on),
)  # fmt: skip


def l1_passes() -> pandas.DataFrame:
    """What L1 did per warp FMA of 01_naive, a row for each of SHAPES.

    Sectors that loads looked up, and those that L1 did not have; wavefronts of the tags and of the
    data; how many of the latter are bank conflicts; and in how many passes data went back to
    registers; what differs: of SHAPES. Raises what registry.Table.read raises.
    """
    table = EVIDENCE.read()
    warp_fmas = table["m"] * table["n"] * table["k"] / WARP
    found = table[[*METRICS]].astype(float).div(warp_fmas, axis=0)
    found.columns = [name.replace("_", " ") for name in METRICS]
    found.insert(0, "M×N×K", [f"{m}×{n}×{k}" for m, n, k in table[["m", "n", "k"]].to_numpy()])
    there = [SHAPES.get(tuple(row), "") for row in table[["m", "n", "k"]].to_numpy()]
    return found.set_index("M×N×K").round(2).assign(**{"what differs": there})
