"""What Nsight Compute recorded of a rung, section by section, beside the simulator: Markdown.

The sections, and where a metric stands in them, follow NVIDIA's section files of Nsight Compute and
its Kernel Profiling Guide. The numbers are those of results/<gpu>/runs.json and stalls.csv, which
were read by metric name; no report of the window is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from gemmlab.analysis import counters, known_differences
from gemmlab.analysis import recorded as recorded_stalls
from gemmlab.analysis.counters import ACTIVE_WARPS
from gemmlab.analysis.judgement import TRAFFIC
from gemmlab.kernel.fingerprint import code_hash
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.trace import Trace
from gemmlab.ladder import RUNGS, SIMULATED, find
from gemmlab.ladder.launch import Launch, multiplying
from gemmlab.loading import load
from gemmlab.measure import profiler
from gemmlab.notebook.heat import heat
from gemmlab.records import runs, stalls
from gemmlab.records.registry import RUNS, NoRecord, replayed
from gemmlab.records.runs import Measured
from gemmlab.report import number
from gemmlab.simulator.counters import FMA_METRIC, HMMA_METRIC, METRICS, TIMING_DEPENDENT
from gemmlab.site import cache

WALK = "05_thread_tile_2d"  # the rung that docs/nsight_compute.md walks through
SMALL = (512, 512, 512)
"""(M, N, K) of a rung whose blocks do not all do alike: a large product of it takes the simulator
minutes."""
MOST_LINES = 8  # of a kernel's source
NONE = "–"
_WINDOW = "in the window, and its metric"

# Where a metric stands in the window: the section's identifier, as --section takes it, and there.
PLACES = {
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("SpeedOfLight", "Compute (SM) Throughput"),
    stalls.ISSUE_ACTIVE: ("SchedulerStats", "One or More Eligible"),
    ACTIVE_WARPS: ("Occupancy", "Achieved Occupancy"),
    "dram__bytes_read.sum": ("MemoryWorkloadAnalysis", "Device Memory: Load"),
    "dram__bytes_write.sum": ("MemoryWorkloadAnalysis", "Device Memory: Store"),
    **{
        metric: ("MemoryWorkloadAnalysis", f"{table}: {row} {operation.title()}, {column}")
        for (space, operation), metrics in METRICS.items()
        for table, row in [
            ("L1/TEX Cache" if space == "global" else "Shared Memory", space.title())
        ]
        for metric, column in zip(
            metrics,
            ("Requests", "Sectors")
            if space == "global"
            else ("Instructions", "Wavefronts", "Bank Conflicts"),
            strict=True,
        )
    },
}
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
BY_NAME = "by name"  # what is asked for with --metrics alone
# What a metric counts, in words; judgement.TRAFFIC has those of requests, sectors and wavefronts.
MEANINGS = {
    **TRAFFIC,
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "how busy the SMs' busiest unit was, %",
    "dram__bytes_read.sum": "bytes read from DRAM",
    "dram__bytes_write.sum": "bytes written to DRAM",
    "lts__t_bytes.sum": "bytes through L2",
    "l1tex__t_bytes.sum": "bytes through L1, in whole sectors",
    "l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld.sum": "global loads, passes of L1's tags",
    "l1tex__data_pipe_lsu_wavefronts.sum": "all passes of the data banks of L1 and shared memory",
    "sm__cycles_active.sum": "cycles, of all SMs together",
    FMA_METRIC: "fused multiply-adds, of threads",
    HMMA_METRIC: "products of tensor cores, of warps",
    "sm__inst_executed_pipe_tensor_op_gmma.sum": "wgmma, of warps",
    "sm__sass_data_bytes_mem_shared_op_gmma.sum": "wgmma, bytes of shared memory read",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum": "wgmma, wavefronts",
    "smsp__sass_inst_executed_op_tma_ld.sum": "copies of boxes from global memory (TMA)",
    "smsp__sass_inst_executed_op_tma_st.sum": "copies of boxes to global memory (TMA)",
    "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum": "sectors that they take",
    "l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_st.sum": "sectors that they take",
    stalls.ISSUE_ACTIVE: "a scheduler's cycles in which it started an instruction, %",
    ACTIVE_WARPS: "warps on an SM, % of those it can have",
}


@dataclass
class Report:
    """One recorded launch of a rung with its default settings at a shape (M, N, K).

    Raises NoRecord and StaleRecord where a table needs what is not recorded.
    """

    name: str

    @cached_property
    def kernel(self) -> Kernel:
        return load(self.name)

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        return runs.LARGE if counters.all_alike(self.kernel, *runs.LARGE) else SMALL

    @cached_property
    def recorded(self) -> dict[str, float]:
        """Metric -> value, of the counters and of the stall reasons."""
        _, found = runs.counters_at(self.kernel, *self.shape)
        return {**found, stalls.ISSUE_ACTIVE: self._stalls["issue_active_pct"]}

    @cached_property
    def _stalls(self) -> dict[str, float | str]:
        return recorded_stalls.row(self.kernel.rung, self.shape).dropna().to_dict()

    @cached_property
    def _launch(self) -> Launch:
        """The one that the profiler counts."""
        launches = self.kernel.rung.launches(
            self.kernel.problem(*self.shape), self.kernel.settings, SIMULATED
        )
        return launches[multiplying(launches)]

    @cached_property
    def _resources(self) -> dict:
        return self.kernel.resources().iloc[0].to_dict()

    @cached_property
    def _traced(self) -> tuple[Trace, int]:
        return counters.traced(self.kernel, *self.shape)

    @cached_property
    def simulated(self) -> dict[str, int]:
        """Metric -> what the simulator counts of the same product."""
        trace, times = self._traced
        return {metric: times * count for metric, count in trace.counters.items()}

    def where_from(self) -> str:
        """A sentence: which launch, on what, when, by which version."""
        made = runs.entry(self.kernel)["provenance"]
        shape, entry = "×".join(map(str, self.shape)), self._launch.entry
        return (
            f"`{self.name}` at M×N×K = {shape}, kernel `{entry}`, caches cold, on one "
            f"{made['gpu']} with Nsight Compute {made['ncu']}; counters of "
            f"{made['recorded'][:10]}, stall reasons of {self._stalls['recorded'][:10]}."
        )

    def command(self) -> str:
        """What profiles that launch in full, with its source."""
        lines = (
            f"CUPY_CACHE_DIR=build/{self.name} CUPY_CACHE_SAVE_CUDA_SOURCE=1 \\",
            "  ncu --set full --clock-control none \\",
            f"      --import-source yes --source-folders build/{self.name},kernels \\",
            f"      --kernel-name {self._launch.entry} --launch-count 1 -o build/{self.name} \\",
            f"      .venv/bin/python -m gemmlab.measure.profiler {self.name} "
            + "x".join(map(str, self.shape)),
        )
        return "\n".join(["```shell", *lines, "```"])

    def section(self, identifier: str) -> str:
        """The table of metrics of one section, or of those asked for BY_NAME."""
        rows = []
        for metric in (*profiler.metrics_of(self.kernel.rung), stalls.ISSUE_ACTIVE):
            section, place = PLACES.get(metric, (BY_NAME, ""))
            seen = self.recorded.get(metric) or self.simulated.get(metric)
            if section == identifier and seen:
                rows.append((place, metric))
        first = "what it counts, and the metric" if identifier == BY_NAME else _WINDOW
        return _table(
            (first, "recorded", "simulator", "difference"),
            [(_place(_words(place, metric), metric), *self._values(metric))
             for place, metric in rows],
            numbers=(1, 2),
        )  # fmt: skip

    def _values(self, metric: str) -> tuple[str, str, str]:
        """Recorded, simulated, and what is to be said of the two."""
        recorded, simulated = self.recorded[metric], self.simulated.get(metric)
        if simulated is None:
            return number(recorded), NONE, "needs a GPU"
        return number(recorded), number(simulated), self._difference(metric, recorded - simulated)

    def _difference(self, metric: str, more: float) -> str:
        if not more:
            return "equal"
        signed = f"{'+' if more > 0 else '−'}{number(abs(more))}"
        if metric in TIMING_DEPENDENT:
            return f"{signed}: accesses that met in a bank"
        trace, times = self._traced
        for one in known_differences.of(trace):
            if one.metric == metric and one.explains(trace, more / times):
                return f"{signed}: {one.why}"
        return f"{signed}: not explained"

    def stalls(self) -> str:
        """The section WarpStateStats: each reason, as a ratio and as a share."""
        ratios = {name: self._stalls[name] for name in stalls.REASONS if name in self._stalls}
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
        rows.append(("all, cycles of a warp for each instruction it starts", f"{total:.2f}", ""))
        heads = ("in the window: what the warp waits for", "per issue", "of all")
        return _table(heads, rows, numbers=(1, 2))

    def source(self) -> str:
        """The section SourceCounters: the lines that cost most, as the simulator counts them."""
        trace, times = self._traced
        table = heat(trace).table
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

    def launch(self) -> str:
        """The section LaunchStats: from the launch and the compiler, for no record has them."""
        takes = self._resources
        blocks = math.prod(self._launch.grid)
        dynamic = self._launch.shared_bytes
        at_once = takes["blocks per SM"] * runs.current()["gpu"]["sm_count"]
        rows = [
            ("Grid Size", "grid_size", "blocks", blocks),
            ("Block Size", "block_size", "threads", math.prod(self._launch.block)),
            ("Registers Per Thread", "registers_per_thread", "as compiled",
             takes["registers per thread"]),
            ("Static Shared Memory Per Block", "shared_mem_per_block_static", "bytes",
             takes["shared bytes per block"] - dynamic),
            ("Dynamic Shared Memory Per Block", "shared_mem_per_block_dynamic", "bytes", dynamic),
            ("Waves Per SM", "waves_per_multiprocessor",
             "blocks over those that the GPU holds at once", blocks / at_once),
        ]  # fmt: skip
        return _table(
            (_WINDOW, "compiler and launch"),
            [(_place(f"{place}, {words}", f"launch__{metric}"), number(value))
             for place, metric, words, value in rows],
            numbers=(1,),
        )  # fmt: skip

    def occupancy(self) -> str:
        """The section Occupancy: what could be on an SM, and what was."""
        takes = self._resources
        achieved = self.recorded[ACTIVE_WARPS]
        rows = [
            (_place("Theoretical Occupancy", "sm__maximum_warps_per_active_cycle_pct"),
             f"blocks on an SM: {takes['blocks per SM']}, by {takes['limited by']}",
             f"{100 * takes['occupancy']:.2f} %"),
            (_place("Achieved Occupancy", ACTIVE_WARPS), "recorded", f"{achieved:.2f} %"),
        ]  # fmt: skip
        return _table((_WINDOW, "from", "of all warps an SM can have"), rows, numbers=(2,))

    def parts(self) -> dict[str, str]:
        """Everything in Markdown: the command, where the numbers are from, and all tables."""
        tables = {one: self.table(one) for one in TITLES.values()}
        return {
            "command": f"{self.command()}\n\n{self.where_from()}",
            **tables,
            "by-name": self.section(BY_NAME),
        }

    def table(self, identifier: str) -> str:
        """The table of a section, by what --section calls it."""
        special = {
            "WarpStateStats": self.stalls, "SourceCounters": self.source,
            "LaunchStats": self.launch, "Occupancy": self.occupancy,
        }  # fmt: skip
        return special[identifier]() if identifier in special else self.section(identifier)


def _others() -> str:
    """A folded part for each other rung with all its tables; a sentence where it has no record."""
    found = []
    for rung in RUNGS:
        if rung.name == WALK:
            continue
        try:
            parts = _kept(rung.name)
            text = "\n\n".join([
                parts["command"],
                *(f"**{title}**\n\n{parts[one]}" for title, one in TITLES.items()),
                f"**Metrics that are asked for by name**\n\n{parts['by-name']}",
            ])  # fmt: skip
        except NoRecord as error:
            text = str(error)
        found.append(f"{{.folded}}\n### {rung.name}\n\n{text}")
    return "\n\n".join(found)


def _kept(name: str) -> dict[str, str]:
    """The parts of a rung: large products take the simulator seconds, so they are made once."""
    rung = find(name)
    records = [(replayed() / file).read_bytes() for file in (RUNS, stalls.evidence(rung).file)]
    key = cache.key_of(
        name, code_hash(rung.path, Measured(rung).settings), records, cache.code_of(__name__)
    )
    shelf = cache.Shelf(cache.FOLDER / "nsight" / name)
    found = shelf.get(key, lambda: {"parts": Report(name).parts(), "pictures": []})["parts"]
    shelf.prune([key])
    return found


def _reason(name: str) -> str:
    """A reason as the window heads it: "Stall MIO Throttle"."""
    words = [word.upper() if word in ("lg", "mio", "imc", "gmma") else word.title()
             for word in name.split("_")]  # fmt: skip
    return " ".join(["Stall", *words] if name != "selected" else words)


def _place(words: str, metric: str) -> str:
    """Where a metric stands in the window, and below it its name."""
    return f"{words}<br>`{metric}`"


def _words(place: str, metric: str) -> str:
    """Where it stands, and what it counts, where the place does not say that."""
    if metric in TRAFFIC and place:
        return place
    return ", ".join(filter(None, (place, MEANINGS[metric])))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int]) -> str:
    """A table of Markdown; columns of `numbers` stand right."""
    rule = ["---:" if at in numbers else "---" for at in range(len(heads))]
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows)]
    return "\n".join(["{.metrics}", *lines])


PARTS: dict[str, Callable[[], str]] = {
    **{f"nsight-{one}": partial(lambda one: _kept(WALK)[one], one)
       for one in ("command", *TITLES.values(), "by-name")},
    "nsight-rungs": _others,
}  # fmt: skip
"""The parts of docs/nsight_compute.md that are made: mark -> Markdown."""
