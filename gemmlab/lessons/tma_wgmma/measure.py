"""What is measured for this lesson: the way from one box to persistent clusters, rungs 16 to 18.

    python -m gemmlab record 18_steps

also lets some steps run without a pause for power and clock, counts what they move, and keeps the
bits of a small product; results/<gpu>/hopper_steps.csv. Roads that were not taken are steps too:
ROADS. Clock readings stand in `clock_readings`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gemmlab import ladder
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import Launch, Problem, Rung, Settings, Target
from gemmlab.ladder.shapes import ceil_div
from gemmlab.lessons.tma_wgmma import clock_readings
from gemmlab.lessons.tma_wgmma.rung import RUNG as TMA_WGMMA
from gemmlab.lessons.tma_wgmma.rung import SQUARE_BYTES
from gemmlab.measure import profiler
from gemmlab.measure.power import sustained
from gemmlab.records import ablations, roofs
from gemmlab.records.ablations import (
    HUGE,
    SQUARES,
    AblationStep,
    Shape,
    ablation,
    against_cublas,
    work_of,
)
from gemmlab.records.registry import POSITIVE, REPORTED, SIZE, TEXT, WITH_CUBLAS, Row

if TYPE_CHECKING:
    import pandas

WARP_SPECIALIZED = ladder.find("17_warp_specialized")
PERSISTENT = ladder.find("18_persistent")
HOPPER = (TMA_WGMMA, WARP_SPECIALIZED, PERSISTENT)
PAIRS = 8  # of samples, in turn with cuBLAS
BITS_SHAPE, BITS_SEED = (200, 328, 264), 18  # of the product whose bits are kept, tiles with edges
PACED, COUNTED = "paced", "counted"  # what else is measured of a step, at HUGE


def _step(
    title: str, rung: Rung, settings: Settings, shapes: tuple[Shape, ...] = SQUARES, **how
) -> AblationStep:
    return AblationStep(title=title, rung=rung, settings=settings, shapes=shapes, **how)


def _on_all_sms(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    """A block for each SM, also where fewer need no more rounds."""
    (launch,) = PERSISTENT.plan(problem, s, target)
    if launch.entry != "persistent":
        return [launch]
    of_a_cluster = launch.cluster[0]
    rows, columns = (
        side * tiles for side, tiles in zip(
            PERSISTENT.tile(s), PERSISTENT.cluster_tiles(s), strict=True
        )
    )  # fmt: skip
    tiles = ceil_div(problem.m, rows) * ceil_div(problem.n, columns)
    clusters = min(tiles, max(1, target.sm_count // of_a_cluster))
    return [replace(launch, grid=(clusters * of_a_cluster, 1, 1))]


def _ping_pong(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    """As 18_ping_pong.cu wants it: two warpgroups that multiply, a tile of 64 rows for each."""
    (launch,) = PERSISTENT.plan(problem, s, target)
    if launch.entry != "persistent":
        return [launch]
    one_more_group = 2 * SQUARE_BYTES  # of rooms
    return [replace(launch, block=(384, 1, 1), shared_bytes=launch.shared_bytes + one_more_group)]


BF16, NT, ALONE = {"DTYPE": 1}, {"OP_B": 1}, {"CLUSTER": 1}
AT_THE_END = {"EARLY_LAUNCH": 0}  # a launch begins when the one before has ended
AT_ONCE = {"SEND_LATER": 0}
WAY = (
    _step("a box, 64 rows and 64 columns", TMA_WGMMA, {"BM": 64, "BN": 64, "STAGES": 1}),
    _step("two warpgroups, 128×128", TMA_WGMMA, {"BN": 128, "STAGES": 1}),
    _step("four pairs of tiles", TMA_WGMMA, {"BN": 128}),
    _step("128×256", TMA_WGMMA, {}, also=(PACED,)),
    _step("a warp that only copies", WARP_SPECIALIZED, AT_THE_END, also=(PACED,)),
    _step("blocks that stay", PERSISTENT, ALONE | AT_THE_END | AT_ONCE, also=(COUNTED, PACED)),
    _step(
        "C sent while the next tile is multiplied", PERSISTENT, ALONE | AT_THE_END, also=(PACED,)
    ),
    _step("clusters of two", PERSISTENT, AT_THE_END, also=(COUNTED, PACED)),
    _step("launches that begin early", PERSISTENT, {}, also=(PACED,)),
)
TITLES = {"a warp that only copies": "C sent by tensor map; a warp that only copies"}
"""Of some rows: what readers see instead of the step."""

SQUARES_OF_1024, SQUARES_OF_2048 = (1024, 1024, 1024), (2048, 2048, 2048)
SMALL_TILES = (
    (WARP_SPECIALIZED, {"BM": 64, "BN": 128, "STAGES": 8}),
    (WARP_SPECIALIZED, {"BM": 64, "BN": 128, "STAGES": 8, **AT_THE_END}),
    (WARP_SPECIALIZED, {"BM": 128, "BN": 64, "STAGES": 8}),
    (TMA_WGMMA, {"BM": 64, "BN": 128, "STAGES": 6}),
    (PERSISTENT, {"BM": 64, "BN": 128, "STAGES": 8, **ALONE}),
    (WARP_SPECIALIZED, {"BM": 64, "BN": 128, "STAGES": 8, **BF16}),
)
OTHERS = (
    SQUARES_OF_2048, (4096, 7168, 2048), (4096, 4096, 8192), (8192, 8192, 4096),
    (16384, 16384, 16384),
)  # fmt: skip
THIN = (
    ((64, 4096, 7168), WARP_SPECIALIZED, {"BM": 64, "BN": 64, "STAGES": 8}),
    ((64, 4096, 7168), WARP_SPECIALIZED, {"BM": 64, "BN": 64, "STAGES": 8, "SPLIT": 2}),
    ((64, 4096, 7168), WARP_SPECIALIZED,
     {"BM": 64, "BN": 64, "STAGES": 8, "SPLIT": 2, **AT_THE_END}),
    ((128, 7168, 2048), WARP_SPECIALIZED, {"BM": 128, "BN": 64, "STAGES": 8}),
    ((128, 7168, 2048), PERSISTENT, {"BM": 128, "BN": 64, "STAGES": 8, "SHARE_A": 1}),
    ((128, 7168, 2048), PERSISTENT, {"BM": 128, "BN": 64, "STAGES": 8, "SHARE_A": 1, "CLUSTER": 4}),
)  # fmt: skip
SHAPES = (
    *(_step("small tiles", rung, tile, (SQUARES_OF_1024,)) for rung, tile in SMALL_TILES),
    *(_step("few rows", rung, tile, (shape,)) for shape, rung, tile in THIN),
    _step("other shapes", PERSISTENT, ALONE, OTHERS),
    _step("other shapes", PERSISTENT, {}, OTHERS),
    _step("other shapes", PERSISTENT, BF16, OTHERS),
    _step("other shapes", WARP_SPECIALIZED, {}, OTHERS[:1]),
    _step("other shapes", WARP_SPECIALIZED, AT_THE_END, OTHERS[:1]),
)
TYPES = tuple(
    _step(f"{rung.name[:2]}, {name}", rung, settings)
    for name, settings, some in (
        ("BF16", BF16, HOPPER), ("B transposed", NT, HOPPER),
        ("BF16, B transposed", BF16 | NT, (PERSISTENT,)),
        ("BF16, C in FP32", {**BF16, "OUT32": 1}, (PERSISTENT,)),
    )
    for rung in some
)  # fmt: skip
HILBERT = (
    ('#include "cluster.cuh"', '#include "cluster.cuh"\n#include "hilbert.cuh"'),
    ("= tile_at(tile, ", "= hilbert_at(tile, "),
)
ROADS = (
    _step("128×128, two blocks on an SM", TMA_WGMMA, {"BN": 128, "STAGES": 3}),
    _step("17 with tiles row by row", WARP_SPECIALIZED, {"GROUP": 1}, (HUGE,)),
    _step("tiles row by row", PERSISTENT, {"GROUP": 1}, also=(COUNTED, PACED)),
    _step("groups of 8", PERSISTENT, {"GROUP": 8}),
    _step("groups of 32", PERSISTENT, {"GROUP": 32}),
    _step("tiles by Hilbert's curve", PERSISTENT, {}, changes=HILBERT, also=(PACED,)),
    _step("a block on each SM", PERSISTENT, {}, plan=_on_all_sms),
    _step("clusters side by side, which share A", PERSISTENT, {"SHARE_A": 1}, also=(COUNTED,)),
    _step("no clusters", PERSISTENT, ALONE, also=(PACED,)),
    _step("three pairs of tiles", PERSISTENT, {"STAGES": 3}),
    _step("warpgroups in turn, each with its tile", PERSISTENT, {"BM": 64, **ALONE},
         file="18_ping_pong.cu", plan=_ping_pong, also=(PACED,)),
)  # fmt: skip
EVERY = (*WAY, *TYPES, *SHAPES, *ROADS)
MOVED = {  # column -> what Nsight Compute counts, caches cold
    "l2_bytes": "lts__t_bytes.sum",
    "l2_hit_pct": "lts__t_sector_hit_rate.pct",
    "dram_bytes": "dram__bytes_read.sum",
    "tma_sectors": "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum",
}
OF_PACE = (
    "sustained_tflops", "sustained_clock_mhz", "sustained_driver_clock_mhz", "sustained_power_w",
    "joules_per_tflop",
)  # fmt: skip


bits_of = partial(ablations.bits_of, shape=BITS_SHAPE, seed=BITS_SEED)


def _rows(step: AblationStep, kernel: Kernel, shape: Shape) -> Iterator[Row]:
    """What is moved stays empty where Nsight Compute does not count."""
    row = against_cublas(kernel, shape, PAIRS) | {"sha256": bits_of(kernel)}
    if PACED in step.also and shape == HUGE:
        row |= _paced(kernel)
    if COUNTED in step.also and shape == HUGE:
        row |= _moved(step)
    yield row


def _moved(step: AblationStep) -> Row:
    try:
        (counted,) = profiler.counters(
            step.rung, step.all_settings, [HUGE], tuple(MOVED.values()), step.path
        )
    except profiler.CountersUnavailable:
        return {}
    return {column: counted[metric] for column, metric in MOVED.items()}


def _paced(kernel: Kernel) -> Row:
    """What OF_PACE names, at HUGE."""
    pace = roofs.paced(sustained(work_of(kernel, HUGE)))
    return {
        "sustained_tflops": pace["tflops"], "sustained_clock_mhz": pace["sm_clock_mhz"],
        "sustained_driver_clock_mhz": pace["driver_clock_mhz"],
        "sustained_power_w": pace["power_w"], "joules_per_tflop": pace["joules_per_tflop"],
    }  # fmt: skip


TABLE = ablation(
    "18_steps", "hopper_steps.csv", EVERY,
    {
        **TEXT("step", "kernel", "settings"), **SIZE("m", "n", "k"),
        **POSITIVE("tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3", "cublas_tflops"),
        **REPORTED("sm_clock_mhz", "power_w", *OF_PACE, *MOVED), **TEXT("sha256"), **WITH_CUBLAS,
    },
    ("step", "kernel", "settings", "m", "n", "k"), _rows,
)  # fmt: skip
EVIDENCE = (TABLE, clock_readings.BY_STEPS, clock_readings.BY_BLOCKS)


def steps(*chosen: AblationStep) -> pandas.DataFrame:
    """What was recorded of these, or of WAY: a row for each step and shape, in their order.

    Columns: step, M×N×K, TFLOP/s, % of cuBLAS and its quartiles, that of cuBLAS, SM clock in MHz
    and power in W.
    """
    return shown(TABLE.rows_of(chosen or WAY))


def shown(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Rows of steps, with the columns and titles that readers see."""
    return ablations.shown(rows.replace({"step": TITLES}))
