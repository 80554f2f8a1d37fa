"""Nsight Compute's stall reasons of the warps of a rung, recorded at a few shapes.

    python -m gemmlab record stalls                      # of every rung
    python -m gemmlab record stalls/02_coalescing        # of one

They stand in results/<gpu>/stalls.csv, and not among the counters of the runs, so that they can be
counted without timing a rung again.
"""

from functools import partial

from gemmlab import ladder
from gemmlab.cuda.device import require_gpu
from gemmlab.files import rows_beside
from gemmlab.ladder.problem import BATCHES
from gemmlab.measure import profiler
from gemmlab.records.registry import BATCH, COUNTED, SIZE, TEXT, Row, Say, Table, provenance
from gemmlab.records.runs import LARGE, Measured, of_default
from gemmlab.records.tuning import SIZES, sizes_of

# (M, N, K) at which they are counted of every rung; of some also where little is multiplied for
# each element of C. Of a rung that takes batches also at BATCHES.
SHAPES = ((256, 256, 256), (512, 512, 512), (1001, 777, 513), LARGE)
MORE = {"11_fused_epilogue": ((8192, 8192, 64),)}

GROUP = "stalls"
# What a warp can be doing in a cycle: the name in a metric, and what the warp waits for. In short,
# after "Warp Stall Reasons" in NVIDIA's Kernel Profiling Guide of Nsight Compute. Data and queue of
# shared memory are also those of special functions and of other slow instructions.
_ROWS = rows_beside(__file__, "stall_reasons.csv")
REASONS = {row["reason"]: row["meaning"] for row in _ROWS}
# What two of them are, most of it, in rungs that multiply by `wgmma`. The loop of 17 has no
# barrier, and most of its warps' time is counted as one all the same: only the instructions that
# order products and wait for them are left. 16 to 18 load nothing from global memory, as counted:
# only the polls of mbarriers are left.
OF_WGMMA = {row["reason"]: row["by_wgmma"] for row in _ROWS if row["by_wgmma"]}
OF_SM_90 = ("gmma",)  # other GPUs do not have it
ISSUE_ACTIVE = "smsp__issue_active.avg.pct_of_peak_sustained_active"
METRICS = {  # column: what Nsight Compute counts for it; reasons are warps for each issue
    "issue_active_pct": ISSUE_ACTIVE,
    **{reason: f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
       for reason in REASONS},
}  # fmt: skip
COLUMNS = {
    **TEXT("rung"), **SIZE("m", "n", "k"), **COUNTED(*METRICS), **provenance("driver", "ncu"),
    **BATCH("batch"),
}  # fmt: skip


def evidence(rung: ladder.Rung) -> Table:
    """What is kept of a rung."""
    return Table(
        name=f"{GROUP}/{rung.name}", file="stalls.csv", measure=partial(_measure, rung),
        key=("rung", "m", "n", "k", "batch"), columns=COLUMNS, part=("rung", rung.name),
        fingerprint_of=partial(of_default, rung),
    )  # fmt: skip


def shapes_of(rung: ladder.Rung) -> tuple[tuple[int, ...], ...]:
    """(M, N, K, batch) at which they are counted of a rung."""
    batches = [(*problem.shape, problem.batch) for problem in BATCHES] if rung.batch > 1 else []
    return (*map(sizes_of, (*SHAPES, *MORE.get(rung.name, ()))), *batches)


def _measure(rung: ladder.Rung, say: Say) -> list[Row]:
    """Of a rung with its default settings. Raises CountersUnavailable."""
    missing = () if require_gpu("Counting").compute_capability == (9, 0) else OF_SM_90
    metrics = [metric for column, metric in METRICS.items() if column not in missing]
    shapes = list(shapes_of(rung))
    counters = profiler.counters(rung, Measured(rung).settings, shapes, metrics)
    say(f"{rung.name}: stall reasons at {len(shapes)} shapes")
    return [
        {"rung": rung.name, **dict(zip(SIZES, shape, strict=True))}
        | {column: counted.get(metric) for column, metric in METRICS.items()}
        for shape, counted in zip(shapes, counters, strict=True)
    ]
