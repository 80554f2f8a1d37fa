"""Nsight Compute's recorded counters beside the simulator's, and per warp FMA.

A warp FMA is one FMA instruction of a warp: 32 multiply-adds, one of each lane. Tensor cores do
more with one instruction; their counts, too, are for 32 multiply-adds.
"""

import math
from collections.abc import Mapping
from weakref import WeakKeyDictionary

import pandas

from gemmlab import ladder
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.trace import Trace
from gemmlab.records import runs
from gemmlab.records.roofs import recorded_ceilings
from ptxsim.architectures import LIMITS, WARP, base
from ptxsim.metrics import FMA_METRIC, METRICS, SECTOR_BYTES, TIMING_DEPENDENT

UNIT = "per warp FMA"
# Column of per_warp_fma -> what it counts. The L1 cache first looks the lines of a request up in
# its tags, then reads them out of its 32 banks of data; each takes one or more wavefronts.
IN_L1 = {
    "sectors": METRICS["global", "load"][1],
    "tag wavefronts": "l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld.sum",
    "data wavefronts": "l1tex__data_pipe_lsu_wavefronts.sum",
    "SM cycles": "sm__cycles_active.sum",
}
# Rows of side_by_side per warp FMA, and the levels of memory whose bytes it compares.
PER_WARP_FMA = {
    "global loads": METRICS["global", "load"][0],
    "global sectors": IN_L1["sectors"],
    "shared loads": METRICS["shared", "load"][0],
    "shared stores": METRICS["shared", "store"][0],
    "data wavefronts": IN_L1["data wavefronts"],
    "SM cycles": IN_L1["SM cycles"],
}
LEVELS = {
    "L2": ("lts__t_bytes.sum",),
    "DRAM": ("dram__bytes_read.sum", "dram__bytes_write.sum"),
}
SHARED = {
    what.format(f"{operation}s"): metric
    for operation in ("load", "store")
    for what, metric in zip(
        ("{}", "wavefronts of {}", "conflicts of {}"), METRICS["shared", operation], strict=True
    )
}
ACTIVE_WARPS = "sm__warps_active.avg.pct_of_peak_sustained_active"


def compare(kernel: Kernel, m: int, n: int, k: int) -> pandas.DataFrame:
    """The counters of a recorded shape (M, N, K): simulated here, and as the GPU had them.

    Columns: metric, simulator, the GPU's name, equal. Counters that are 0 in both are left out, and
    those that are not the same in two runs on a GPU: see collisions. Raises NoRecord and
    StaleRecord.
    """
    frame, gpu_name = _beside(kernel, m, n, k, timing_dependent=False)
    frame = frame[frame[["simulator", gpu_name]].any(axis=1)].reset_index(drop=True)
    return frame.assign(equal=frame["simulator"] == frame[gpu_name])


def collisions(kernel: Kernel, m: int, n: int, k: int) -> pandas.DataFrame:
    """Wavefronts and bank conflicts of shared memory at a recorded shape (M, N, K).

    Columns: metric, simulator, the GPU's name, and what the GPU counted more. The simulator counts
    conflicts among the lanes of a warp. The GPU also counts where an access met other traffic in
    the banks, which depends on timing. Raises NoRecord and StaleRecord.
    """
    frame, gpu_name = _beside(kernel, m, n, k, timing_dependent=True)
    return frame.assign(more=frame[gpu_name] - frame["simulator"])


def _beside(
    kernel: Kernel, m: int, n: int, k: int, timing_dependent: bool
) -> tuple[pandas.DataFrame, str]:
    """The counters that both have, and the name of the GPU, which heads its column."""
    gpu_name, recorded = runs.counters_at(kernel, m, n, k)
    rows = [
        (metric, value, recorded[metric])
        for metric, value in simulated(kernel, m, n, k).items()
        if metric in recorded and (metric in TIMING_DEPENDENT) == timing_dependent
    ]
    return pandas.DataFrame(rows, columns=["metric", "simulator", gpu_name]), gpu_name


def simulated(kernel: Kernel, m: int, n: int, k: int) -> dict[str, int]:
    """All counters of a product, as the simulator has them: kept for the kernel."""
    by_shape = _simulated.setdefault(kernel, {})
    if (m, n, k) not in by_shape:
        trace, times = traced(kernel, m, n, k)
        by_shape[m, n, k] = {name: times * count for name, count in trace.counters.items()}
    return dict(by_shape[m, n, k])


_simulated: WeakKeyDictionary[Kernel, dict] = WeakKeyDictionary()


def traced(kernel: Kernel, m: int, n: int, k: int, seed: int = 0) -> tuple[Trace, int]:
    """A trace, and how often its counters make those of the product. Where all blocks do alike, one
    is traced, with the others of its cluster, and counts as all of them."""
    rows, columns = kernel.rung.tile(kernel.settings)
    tiles, whole = m // rows * (n // columns), m % rows == n % columns == 0
    alike = whole and math.prod(kernel.grid(m, n, k)) == tiles
    trace = kernel.trace(m, n, k, seed=seed, blocks=[(0, 0, 0)] if alike else None)
    together = math.prod(kernel.rung.product(kernel.settings).cluster)
    return trace, math.prod(trace.grid) // together if alike else 1


def per_warp_fma(kernel: Kernel) -> pandas.DataFrame:
    """Recorded counters per warp FMA.

    A row for each shape whose counters were recorded: M, N, K, and the keys of IN_L1. The kernel is
    in float32. Raises NoRecord and StaleRecord.
    """
    rows = []
    for counted in runs.entry(kernel)["counters"]:
        metrics = counted["metrics"]
        warp_fmas = metrics[FMA_METRIC] / WARP
        amounts = {name: metrics[metric] / warp_fmas for name, metric in IN_L1.items()}
        rows.append({size: counted[size.lower()] for size in "MNK"} | amounts)
    return pandas.DataFrame(rows).round(2)


def shared_per_warp_fma(kernels: Mapping[str, Kernel], m: int, n: int, k: int) -> pandas.DataFrame:
    """What kernels ask of shared memory at a shape, simulated, per warp FMA.

    A column for each of `kernels`, under its name there: loads and stores, the wavefronts that they
    take, and how many of these are bank conflicts.
    """
    counted = {name: simulated(kernel, m, n, k) for name, kernel in kernels.items()}
    columns = {
        name: {what: metrics[metric] for what, metric in SHARED.items()}
        for name, metrics in counted.items()
    }
    return pandas.DataFrame(columns) / (m * n * k / WARP)


def load_intensity(kernels: Mapping[str, Kernel], m: int, n: int, k: int) -> pandas.DataFrame:
    """FLOP for each byte that loads from global memory ask for, and that they move, simulated.

    A row for each of `kernels`, under its name there, for a product of m×n×k. Loads move whole
    sectors, however little of them lanes ask for.
    """
    rows = {}
    for name, kernel in kernels.items():
        lines = kernel.trace(m, n, k).lines.query("space == 'global' and op == 'load'")
        asked, moved = lines["bytes_asked"].sum(), SECTOR_BYTES * lines["sectors"].sum()
        rows[name] = {"FLOP per byte asked": 2 * m * n * k / asked,
                      "FLOP per byte moved": 2 * m * n * k / moved}  # fmt: skip
    return pandas.DataFrame(rows).T


def side_by_side(*names: str, shape: tuple[int, int, int] = runs.LARGE) -> pandas.DataFrame:
    """What a GPU counted of rungs at one recorded shape (M, N, K), a column for each rung.

    Per warp FMA: loads, sectors, wavefronts, cycles of an SM. In percent of an SM's cycles, how
    busy its FP32 units were (of float32 rungs), and the data banks of L1 and shared memory, which
    deliver a wavefront a cycle. FLOP for each byte that L2 and DRAM moved, and their bytes per
    second, in percent of how fast L2 can be read, where that is recorded, and of a copy (see
    records.roofs). The share of warps that an SM had of those it can have. Raises LadderError,
    NoRecord, StaleRecord.
    """
    return pandas.DataFrame({name: _counted(ladder.find(name), shape) for name in names})


def _counted(rung: ladder.Rung, shape: tuple[int, int, int]) -> dict[str, float]:
    _, counted = runs.counters_at(runs.Measured(rung), *shape)
    seconds = runs.replay_at(runs.Measured(rung), *shape).time_ms.median / 1e3
    multiply_adds = math.prod(shape)
    warp_fmas = multiply_adds / WARP
    rows = {f"{name} {UNIT}": counted[metric] / warp_fmas for name, metric in PER_WARP_FMA.items()}
    cycles = counted[IN_L1["SM cycles"]]
    if rung.precision is ladder.SINGLE:
        units = LIMITS[base(ladder.SIMULATED.arch)].fp32_lanes
        rows["FP32 units busy, %"] = 100 * counted[FMA_METRIC] / units / cycles
    rows["data banks busy, %"] = 100 * counted[IN_L1["data wavefronts"]] / cycles
    moved = bytes_moved(counted)
    for level, amount in moved.items():
        rows[f"FLOP per byte of {level}"] = 2 * multiply_adds / amount
    roofs = recorded_ceilings()
    if l2 := roofs.read_rate("L2"):
        rows["L2, % of its ceiling"] = 100 * moved["L2"] / seconds / l2
    rows["DRAM, % of a copy"] = 100 * moved["DRAM"] / seconds / roofs.bytes_per_second
    rows["active warps, %"] = counted[ACTIVE_WARPS]
    return rows


def bytes_moved(counted: Mapping[str, float]) -> dict[str, float]:
    """By each of LEVELS, from the counters of a launch."""
    return {level: sum(map(counted.__getitem__, names)) for level, names in LEVELS.items()}
