"""Nsight Compute's records of one rung, section by section, beside the simulator: Markdown.

The sections, and where a metric stands in them, follow NVIDIA's section files of Nsight Compute and
its Kernel Profiling Guide. The numbers are those of results/<gpu>/runs.json and stalls.csv, which
were read by metric name; no report of the window is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial

from gemmlab.analysis import counters
from gemmlab.analysis import recorded as recorded_stalls
from gemmlab.analysis.counters import ACTIVE_WARPS
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.trace import Trace
from gemmlab.ladder import SIMULATED
from gemmlab.ladder.launch import Launch, multiplying
from gemmlab.loading import load
from gemmlab.measure import profiler
from gemmlab.notebook.heat import Heat
from gemmlab.records import runs, stalls
from gemmlab.report import number
from ptxsim.metrics import FMA_METRIC, METRICS, TIMING_DEPENDENT

WALK = "05_thread_tile_2d"  # the rung that docs/nsight_compute.md walks through
MOST_LINES = 8  # of a kernel's source
_WINDOW = "in the window, and its metric"

# Where a metric stands in the window: the section's identifier, as --section takes it, and there.
PLACES = {
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("SpeedOfLight", "Compute (SM) Throughput"),
    stalls.ISSUE_ACTIVE: ("SchedulerStats", "One or More Eligible"),
    "dram__bytes_read.sum": ("MemoryWorkloadAnalysis", "Device Memory: Load"),
    "dram__bytes_write.sum": ("MemoryWorkloadAnalysis", "Device Memory: Store"),
    **{
        metric: ("MemoryWorkloadAnalysis", f"{table} {operation.title()}, {column}")
        for (space, operation), metrics in METRICS.items()
        for table, columns in [
            ("L1/TEX Cache: Global", ("Requests", "Sectors")) if space == "global"
            else ("Shared Memory: Shared", ("Instructions", "Wavefronts", "Bank Conflicts"))
        ]
        for metric, column in zip(metrics, columns, strict=True)
    },
}  # fmt: skip
# The sections of the walk, in the window's order, and what --section calls them.
TITLES = {
    "GPU Speed Of Light Throughput": "SpeedOfLight",
    "Memory Workload Analysis": "MemoryWorkloadAnalysis",
    "Scheduler Statistics": "SchedulerStats",
    "Warp State Statistics": "WarpStateStats",
    "Source Counters": "SourceCounters",
    "Launch Statistics": "LaunchStats",
    "Occupancy": "Occupancy",
}
BY_NAME = "by-name"  # what is read with --metrics alone
# What a metric counts, in words, where its place does not say it.
MEANINGS = {
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "utilization of the SMs' busiest unit, %",
    "dram__bytes_read.sum": "bytes read from DRAM",
    "dram__bytes_write.sum": "bytes written to DRAM",
    "lts__t_bytes.sum": "bytes through L2",
    "l1tex__t_bytes.sum": "bytes through L1, in whole sectors",
    "l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld.sum": "global loads, passes of L1's tags",
    "l1tex__data_pipe_lsu_wavefronts.sum": "all passes of the data banks of L1 and shared memory",
    "sm__cycles_active.sum": "cycles, of all SMs together",
    FMA_METRIC: "fused multiply-adds, of threads",
    stalls.ISSUE_ACTIVE: "a scheduler's cycles in which it issued an instruction, %",
}


@cache
def kernel() -> Kernel:
    return load(WALK)


@cache
def traced() -> tuple[Trace, int]:
    """What the simulator traced, and how many times that is the whole product."""
    return counters.traced(kernel(), *runs.LARGE)


@cache
def stall_row() -> dict[str, float | str]:
    return recorded_stalls.row(kernel().rung, runs.LARGE).dropna().to_dict()


@cache
def recorded() -> dict[str, float]:
    """Metric -> value, of the counters and of the stall reasons."""
    _, values = runs.counters_at(kernel(), *runs.LARGE)
    return {**values, stalls.ISSUE_ACTIVE: stall_row()["issue_active_pct"]}


@cache
def simulated() -> dict[str, int]:
    """Metric -> what the simulator counts of the same product."""
    trace, times = traced()
    return {metric: times * count for metric, count in trace.counters.items()}


@cache
def _launch() -> Launch:
    """The one that the profiler counts."""
    launches = kernel().rung.launches(kernel().problem(*runs.LARGE), kernel().settings, SIMULATED)
    return launches[multiplying(launches)]


@cache
def _resources() -> dict:
    return kernel().resources().iloc[0].to_dict()


def command() -> str:
    """What profiles that launch in full, with its source; and a sentence on what was recorded."""
    entry, made = _launch().entry, runs.entry(kernel())["provenance"]
    shape = "×".join(map(str, runs.LARGE))
    return f"""\
```shell
CUPY_CACHE_DIR=build/{WALK} CUPY_CACHE_SAVE_CUDA_SOURCE=1 \\
  ncu --set full --clock-control none \\
      --import-source yes --source-folders build/{WALK},kernels \\
      --kernel-name {entry} --launch-count 1 -o build/{WALK} \\
      .venv/bin/python -m gemmlab.measure.profiler {WALK} {"x".join(map(str, runs.LARGE))}
```

`{WALK}` at M×N×K = {shape}, kernel `{entry}`, caches cold, on one {made["gpu"]} with \
Nsight Compute {made["ncu"]}; counters of {made["recorded"][:10]}, stall reasons of \
{stall_row()["recorded"][:10]}."""


def section(identifier: str) -> str:
    """The table of metrics of one section, or of those read BY_NAME."""
    rows = []
    for metric in (*profiler.metrics_of(kernel().rung), stalls.ISSUE_ACTIVE):
        where, place = PLACES.get(metric, (BY_NAME, ""))
        if where != identifier or metric == ACTIVE_WARPS:
            continue
        if not (recorded().get(metric) or simulated().get(metric)):
            continue
        words = [place, MEANINGS.get(metric, "")]
        rows.append((_place(", ".join(filter(None, words)), metric), *_values(metric)))
    first = "count, and its metric" if identifier == BY_NAME else _WINDOW
    return _table((first, "recorded", "simulator", "difference"), rows, numbers=(1, 2))


def _values(metric: str) -> tuple[str, str, str]:
    """Recorded, simulated, and what is to be said of the two."""
    if metric not in simulated():
        return number(recorded()[metric]), "–", "needs a GPU"
    more = recorded()[metric] - simulated()[metric]
    why = "collisions with other traffic" if metric in TIMING_DEPENDENT else "not explained"
    signed = f"{'+' if more > 0 else '−'}{number(abs(more))}: {why}"
    return number(recorded()[metric]), number(simulated()[metric]), signed if more else "equal"


def warp_states() -> str:
    """The section WarpStateStats: each reason, as a ratio and as a share."""
    ratios = {name: stall_row()[name] for name in stalls.REASONS if name in stall_row()}
    total = sum(ratios.values())
    large = sorted(
        (name for name in ratios if 100 * ratios[name] / total >= recorded_stalls.LEAST),
        key=ratios.get, reverse=True,
    )  # fmt: skip
    rows = [
        (_place(f"{_reason(name)}, {stalls.REASONS[name]}", stalls.METRICS[name]),
         f"{ratios[name]:.2f}", f"{100 * ratios[name] / total:.1f} %")
        for name in large
    ]  # fmt: skip
    rest = total - sum(ratios[name] for name in large)
    rows.append((recorded_stalls.REST, f"{rest:.2f}", f"{100 * rest / total:.1f} %"))
    rows.append(("all cycles of a warp for each instruction that it issues", f"{total:.2f}", ""))
    heads = ("in the window: state of the warp", "per issue", "of all")
    return _table(heads, rows, numbers=(1, 2))


def source_counters() -> str:
    """The section SourceCounters: the lines that cost most, as the simulator counts them."""
    trace, times = traced()
    table = Heat(trace).table
    table = table[(table["sectors"] > 0) | (table["wavefronts"] > 0)]
    most = table[["sectors_share", "wavefronts_share"]].max(axis=1).nlargest(MOST_LINES).index
    rows = [
        (number(row["line"]), f"`{row['source'].strip().replace('|', chr(92) + '|')}`",
         *(f"{number(times * row[kind])} ({row[f'{kind}_share']:.0f} %)" if row[kind] else ""
           for kind in ("sectors", "wavefronts")))
        for _, row in table.loc[sorted(most)].iterrows()
    ]  # fmt: skip
    heads = ("line", "source", "sectors of global memory", "wavefronts of shared memory")
    return _table(heads, rows, numbers=(0, 2, 3))


def launch() -> str:
    """The section LaunchStats: from the launch and the compiler, for no record has them."""
    takes, planned = _resources(), _launch()
    blocks, dynamic = math.prod(planned.grid), planned.shared_bytes
    at_once = takes["blocks per SM"] * runs.current()["gpu"]["sm_count"]
    rows = [
        ("Grid Size, blocks", "grid_size", blocks),
        ("Block Size, threads", "block_size", math.prod(planned.block)),
        ("Registers Per Thread, as compiled", "registers_per_thread",
         takes["registers per thread"]),
        ("Static Shared Memory Per Block, bytes", "shared_mem_per_block_static",
         takes["shared bytes per block"] - dynamic),
        ("Dynamic Shared Memory Per Block, bytes", "shared_mem_per_block_dynamic", dynamic),
        ("Waves Per SM, blocks over those that the GPU holds at once", "waves_per_multiprocessor",
         blocks / at_once),
    ]  # fmt: skip
    rows = [(_place(words, f"launch__{metric}"), number(value)) for words, metric, value in rows]
    return _table((_WINDOW, "compiler and launch"), rows, numbers=(1,))


def occupancy() -> str:
    """The section Occupancy: what could be on an SM, and what was."""
    takes = _resources()
    rows = [
        (_place("Theoretical Occupancy", "sm__maximum_warps_per_active_cycle_pct"),
         f"blocks on an SM: {takes['blocks per SM']}, by {takes['limited by']}",
         f"{100 * takes['occupancy']:.2f} %"),
        (_place("Achieved Occupancy", ACTIVE_WARPS), "recorded",
         f"{recorded()[ACTIVE_WARPS]:.2f} %"),
    ]  # fmt: skip
    return _table((_WINDOW, "from", "of all warps an SM can have"), rows, numbers=(2,))


def _reason(name: str) -> str:
    """A reason as the window heads it: "Stall MIO Throttle"."""
    words = [word.upper() if word in ("lg", "mio") else word.title() for word in name.split("_")]
    return " ".join(["Stall", *words] if name != "selected" else words)


def _place(words: str, metric: str) -> str:
    """Where a metric stands in the window, and below it its name."""
    return f"{words}<br>`{metric}`"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int]) -> str:
    """A table of Markdown; columns of `numbers` stand right."""
    rule = ["---:" if at in numbers else "---" for at in range(len(heads))]
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows)]
    return "\n".join(["{.metrics}", *lines])


PARTS: dict[str, Callable[[], str]] = {
    "nsight-command": command,
    **{f"nsight-{name}": partial(section, name) for name in (*TITLES.values(), BY_NAME)},
    "nsight-WarpStateStats": warp_states, "nsight-SourceCounters": source_counters,
    "nsight-LaunchStats": launch, "nsight-Occupancy": occupancy,
}  # fmt: skip
"""The parts of docs/nsight_compute.md that are made: mark -> Markdown."""
