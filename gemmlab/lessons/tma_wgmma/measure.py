"""What is measured for this lesson: the way from one box to persistent clusters, rungs 16 to 18.

    python -m gemmlab record 18_steps

also lets some steps run without a pause for power and clock, counts what they move, and keeps the
bits of a small product; results/<gpu>/hopper_steps.csv. ROADS are steps that were not taken.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pandas

from gemmlab import ladder
from gemmlab.files import rows_beside
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import Launch, Problem, Settings, Target
from gemmlab.ladder.shapes import ceil_div
from gemmlab.lessons.tma_wgmma import clock_readings
from gemmlab.lessons.tma_wgmma.rung import SQUARE_BYTES, tiles_of
from gemmlab.measure import profiler
from gemmlab.measure.power import sustained
from gemmlab.records import ablations, roofs
from gemmlab.records.ablations import AblationStep, Shape, ablation, against_cublas, steps_beside
from gemmlab.records.registry import POSITIVE, REPORTED, SIZE, TEXT, WITH_CUBLAS, Row

PERSISTENT = ladder.find("18_persistent")
PAIRS = 8  # of samples, in turn with cuBLAS
BITS_SHAPE, BITS_SEED = (200, 328, 264), 18  # of the product whose bits are kept, tiles with edges
PACED, COUNTED = "paced", "counted"  # what else is measured of a step, at HUGE


def _on_all_sms(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    """A block for each SM, also where fewer need no more rounds."""
    (launch,) = PERSISTENT.plan(problem, s, target)
    if launch.entry != "persistent":
        return [launch]
    of_a_cluster, (down, across) = launch.cluster[0], PERSISTENT.cluster_tiles(s)
    tiles_down, tiles_across = tiles_of(problem, s)
    tiles = ceil_div(tiles_down, down) * ceil_div(tiles_across, across)
    clusters = min(tiles, max(1, target.sm_count // of_a_cluster))
    return [replace(launch, grid=(clusters * of_a_cluster, 1, 1))]


def _ping_pong(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    """As 18_ping_pong.cu wants it: two warpgroups that multiply, a tile of 64 rows for each."""
    (launch,) = PERSISTENT.plan(problem, s, target)
    if launch.entry != "persistent":
        return [launch]
    one_more_group = 2 * SQUARE_BYTES  # of buffers
    return [replace(launch, block=(384, 1, 1), shared_bytes=launch.shared_bytes + one_more_group)]


ALONE = {"CLUSTER": 1}
AT_THE_END = {"EARLY_LAUNCH": 0}  # a launch begins when the one before has ended
# What readers see instead of a step's title, where that is not the title.
TITLES = {row["title"]: row["shown"] for row in rows_beside(__file__, "steps.csv") if row["shown"]}
HILBERT = (
    ('#include "cluster_tiles.cuh"',
     '#include "hilbert.cuh"\n#define tile_at hilbert_at\n#include "cluster_tiles.cuh"'),
)  # fmt: skip
CHANGES = {"tiles by Hilbert's curve": HILBERT}
PLANS = {
    "a block on each SM": _on_all_sms, "warpgroups in turn, each with its tile": _ping_pong,
}  # fmt: skip
WAY, TYPES, SHAPES, ROADS = (
    tuple(
        replace(step, changes=CHANGES.get(step.title, ()), plan=PLANS.get(step.title))
        for step in steps_beside(__file__, group)
    )
    for group in ("way", "types", "shapes", "roads")
)
EVERY = (*WAY, *TYPES, *SHAPES, *ROADS)
MOVED = {  # column -> what Nsight Compute counts, caches cold
    "l2_bytes": "lts__t_bytes.sum",
    "l2_hit_pct": "lts__t_sector_hit_rate.pct",
    "dram_bytes": "dram__bytes_read.sum",
    "tma_sectors": "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum",
}
OF_PACE = {  # column of roofs.PACE -> that of a step
    "tflops": "sustained_tflops", "sm_clock_mhz": "sustained_clock_mhz",
    "driver_clock_mhz": "sustained_driver_clock_mhz", "power_w": "sustained_power_w",
    "joules_per_tflop": "joules_per_tflop",
}  # fmt: skip

bits_of = partial(ablations.bits_of, shape=BITS_SHAPE, seed=BITS_SEED)


def _rows(step: AblationStep, kernel: Kernel, shape: Shape) -> Iterator[Row]:
    """What is moved stays empty where Nsight Compute does not count."""
    row = against_cublas(kernel, shape, PAIRS) | {"sha256": bits_of(kernel)}
    if PACED in step.also and shape == ablations.HUGE:
        pace = roofs.paced(sustained(ablations.work_of(kernel, shape)))
        row |= {column: pace[name] for name, column in OF_PACE.items()}
    if COUNTED in step.also and shape == ablations.HUGE:
        row |= _moved(step)
    yield row


def _moved(step: AblationStep) -> Row:
    try:
        (counted,) = profiler.counters(
            step.rung, step.all_settings, [ablations.HUGE], tuple(MOVED.values()), step.path
        )
    except profiler.CountersUnavailable:
        return {}
    return {column: counted[metric] for column, metric in MOVED.items()}


TABLE = ablation(
    "18_steps", "hopper_steps.csv", EVERY,
    {
        **TEXT("step", "kernel", "settings"), **SIZE("m", "n", "k"),
        **POSITIVE("tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3", "cublas_tflops"),
        **REPORTED("sm_clock_mhz", "power_w", *OF_PACE.values(), *MOVED), **TEXT("sha256"),
        **WITH_CUBLAS,
    },
    ("step", "kernel", "settings", "m", "n", "k"), _rows,
)  # fmt: skip
EVIDENCE = (TABLE, clock_readings.BY_BLOCKS)


def shown(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Of TABLE, with the columns of ablations.SHOWN."""
    return ablations.shown(rows.replace({"step": TITLES}))
