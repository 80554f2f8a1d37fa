"""What the warps of a rung wait for: Nsight Compute's stall reasons, recorded at a few shapes.

    python -m gemmlab record stalls                      # of every rung
    python -m gemmlab record stalls/02_coalescing        # of one

One CSV file holds them, results/<gpu>/stalls.csv, a row for each rung and shape (see
gemmlab.records.registry). They have a file of their own, and not a place among the counters of the
runs, so that they can be counted without timing a rung again.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from gemmlab import ladder
from gemmlab.cuda.device import require_gpu, software_versions
from gemmlab.ladder.problem import BATCHES
from gemmlab.measure import profiler
from gemmlab.measure.timing import now
from gemmlab.records.registry import BATCH, COUNTED, DATE, SIZE, TEXT, Say, Table
from gemmlab.records.runs import LARGE, Measured, of_default
from gemmlab.records.tuning import SIZES, sizes_of

SHAPES = ((256, 256, 256), (512, 512, 512), (1001, 777, 513), LARGE)
"""(M, N, K) at which they are counted of every rung."""

MORE = {"11_fused_epilogue": ((8192, 8192, 64),)}
"""Of some also here: where little is multiplied for each element of C. Of a rung that takes batches
also at BATCHES."""

GROUP = "stalls"
REASONS = {
    "selected": "nothing: it starts an instruction",
    "not_selected": "its turn: another warp was chosen",
    "wait": "the fixed latency of its last instruction",
    "long_scoreboard": "data of global memory, by way of L1",
    "short_scoreboard": "data of shared memory",
    "lg_throttle": "room in the queue for global memory",
    "mio_throttle": "room in the queue for shared memory",
    "tex_throttle": "room in the queue for textures",
    "math_pipe_throttle": "an arithmetic unit that is taken",
    "dispatch_stall": "the dispatcher, as for register banks",
    "barrier": "the other warps at a barrier",
    "membar": "a memory fence",
    "no_instruction": "its next instruction to be fetched",
    "branch_resolving": "the target of a branch",
    "imc_miss": "a constant that is not in its cache",
    "gmma": "registers of a warpgroup's product",
    "sleeping": "nothing: it sleeps or yields",
    "drain": "its stores, after its end",
    "misc": "something else",
}
"""What a warp can be doing in a cycle: the name in a metric, and what the warp waits for.

In short, after "Warp Stall Reasons" in NVIDIA's Kernel Profiling Guide of Nsight Compute. Data and
queue of shared memory are also those of special functions and of other slow instructions.
"""

OF_WGMMA = {
    "barrier": "its warpgroup's products, or a barrier",
    "long_scoreboard": "the phase of an mbarrier",
}
"""What two of them are, most of it, in rungs that multiply by `wgmma`.

The loop of 17 has no barrier, and most of its warps' time is counted as one all the same: only the
instructions that order products and wait for them are left. 16 to 18 load nothing from global
memory, as counted: only the polls of mbarriers are left.
"""

OF_SM_90 = ("gmma",)  # other GPUs do not have it
ISSUE_ACTIVE = "smsp__issue_active.avg.pct_of_peak_sustained_active"
METRICS = {  # column: what Nsight Compute counts for it; reasons are warps for each issue
    "issue_active_pct": ISSUE_ACTIVE,
    **{reason: f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
       for reason in REASONS},
}  # fmt: skip
COLUMNS = {
    **TEXT("rung"), **SIZE("m", "n", "k"), **COUNTED(*METRICS), **TEXT("code", "gpu", "driver"),
    **TEXT("ncu"), **DATE("recorded"), **BATCH("batch"),
}  # fmt: skip


def evidence(rung: ladder.Rung) -> Table:
    """What is kept of a rung."""
    return Table(
        name=f"{GROUP}/{rung.name}", file="stalls.csv", remake=partial(record, rung.name),
        key=("rung", "m", "n", "k", "batch"), columns=COLUMNS, part=("rung", rung.name),
        fingerprint_of=lambda row, on: of_default(rung, row, on),
    )  # fmt: skip


def shapes_of(rung: ladder.Rung) -> tuple[tuple[int, ...], ...]:
    """(M, N, K, batch) at which they are counted of a rung."""
    batches = [(*one.shape, one.batch) for one in BATCHES] if rung.batch > 1 else []
    return (*map(sizes_of, (*SHAPES, *MORE.get(rung.name, ()))), *batches)


def record(name: str, say: Say) -> Path:
    """Count the stall reasons of a rung with its default settings; returns the file.

    Rows of other rungs stay. Raises LadderError, NoGpu, CountersUnavailable.
    """
    import pandas

    rung, here = ladder.find(name), require_gpu("Counting")
    settings = Measured(rung).settings
    context = {
        "gpu": here.name, "driver": software_versions()["driver"],
        "ncu": profiler.ncu_version(), "recorded": now(),
    }  # fmt: skip
    missing = () if here.compute_capability == (9, 0) else OF_SM_90
    metrics = [metric for column, metric in METRICS.items() if column not in missing]
    shapes = list(shapes_of(rung))
    found = profiler.counters(rung, settings, shapes, metrics)
    rows = [
        {"rung": name, **dict(zip(SIZES, shape, strict=True)), **_row(counted), **context}
        for shape, counted in zip(shapes, found, strict=True)
    ]
    say(f"{name}: stall reasons at {len(rows)} shapes")
    return evidence(rung).write(pandas.DataFrame(rows), here.slug)


def _row(counted: dict[str, int | float]) -> dict[str, Any]:
    return {column: counted.get(metric) for column, metric in METRICS.items()}
