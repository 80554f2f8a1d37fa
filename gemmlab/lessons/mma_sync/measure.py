"""What is measured for this lesson: the steps from 14_wmma to 15_mma_sync, and 15 of each type.

    python -m gemmlab record 15_steps
    python -m gemmlab record 15_types

The first also paces each step, and counts cycles, bytes of L2 and wavefronts;
results/<gpu>/mma_steps.csv. The second counts cycles, measures mma.sync of each type from registers
beside it, and keeps the bits of a small product; results/<gpu>/mma_types.csv.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial

import pandas

from gemmlab import ladder
from gemmlab.kernel.fingerprint import code_hash, shortened
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import Settings
from gemmlab.ladder.probes import MMA_CEILINGS
from gemmlab.ladder.probes import MMA_TYPES as TYPES
from gemmlab.lessons.mma_sync.rung import RUNG
from gemmlab.measure import profiler
from gemmlab.measure.ceilings import measure_mma
from gemmlab.records import ablations, runs
from gemmlab.records.ablations import AblationStep, Shape, ablation, against_cublas, steps_beside
from gemmlab.records.registry import POSITIVE, REPORTED, SIZE, TEXT, WHOLE, WITH_CUBLAS, Kind, Row
from gemmlab.records.roofs import LOADS, cells_of_roof
from gemmlab.records.runs import LARGE
from ptxsim.metrics import SECTOR_BYTES

# 0: not measured, as at other shapes than LARGE, or before there was the column.
OR_ZERO = Kind("a number from 0 on", r"[-+.\deE]+", -1, unnamed="0")
CYCLES = "sm__cycles_active.sum"
COUNTERS = {  # summed over all SMs, of one launch at LARGE
    "sm_cycles": CYCLES,
    "l2_bytes": "lts__t_bytes.sum",
    "load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "wavefronts": "l1tex__data_pipe_lsu_wavefronts.sum",
}
PACES = {  # -> what is kept of a gemmlab.measure.power.Pace; the clock is counted by the SMs
    "burst_tflops": ("burst", lambda pace: pace.flop_per_second / 1e12),
    "burst_mhz": ("burst", lambda pace: pace.sm_clock_mhz),
    "sustained_tflops": ("sustained", lambda pace: pace.flop_per_second / 1e12),
    "sustained_mhz": ("sustained", lambda pace: pace.sm_clock_mhz),
    "sustained_w": ("sustained", lambda pace: pace.power_w),
}

# Steps that are changes of the rung's text.
CHANGES = {
    "no fragments ahead": (
        ("    load_fragments(fragments[0], read_address, index_a, index_b, 0);\n", ""),
        ("            if (k_step == K_STEPS - 1) {\n",
         "            load_fragments(fragments[0], read_address, index_a, index_b, k_step);\n"
         "            if (k_step == K_STEPS - 1) {\n"),
        ("            load_fragments(fragments[(k_step + 1) % 2], read_address, index_a, index_b,\n"
         "                           (k_step + 1) % K_STEPS);\n", ""),
        ("multiply(accumulators, fragments[k_step % 2]);",
         "multiply(accumulators, fragments[0]);"),
    ),
}  # fmt: skip
STEPS = tuple(replace(step, changes=CHANGES.get(step.title, ())) for step in steps_beside(__file__))


def _rows(step: AblationStep, kernel: Kernel, shape: Shape) -> Iterator[Row]:
    """Raises CountersUnavailable."""
    work = ablations.work_of(kernel, shape)
    paces = {load: pace(work) for load, pace in LOADS.items()}
    yield (
        against_cublas(kernel, shape)
        | {name: of(paces[load]) for name, (load, of) in PACES.items()}
        | counted(step, shape, COUNTERS)
    )


def counted(step: AblationStep, shape: Shape, metrics: dict[str, str]) -> Row:
    """Counters of one launch at LARGE, by column; 0 at other shapes."""
    if shape != LARGE:
        return dict.fromkeys(metrics, 0)
    (counted,) = profiler.counters(
        step.rung, step.all_settings, [shape], tuple(metrics.values()), step.path
    )
    return {name: counted[metric] for name, metric in metrics.items()}


BY_STEPS = ablation(
    "15_steps", "mma_steps.csv", STEPS,
    {
        **TEXT("file", "settings"), **SIZE("m", "n", "k"),
        **POSITIVE("tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3", "cublas_tflops"),
        **REPORTED("sm_clock_mhz", "power_w"), **SIZE("registers"), **WHOLE("spilled_bytes"),
        **OR_ZERO(*PACES, *COUNTERS), **WITH_CUBLAS,
    },
    ("file", "settings", "m", "n", "k"), _rows,
)  # fmt: skip


def steps() -> pandas.DataFrame:
    """The steps in their order, as they were recorded at LARGE.

    predicted: what was expected of the change; taken: whether it was kept. Clocks are those that
    the SMs counted. Of one launch: thousands of cycles of an SM, bytes of L2 for each that loads
    move.
    """
    rows = BY_STEPS.rows_of(STEPS, LARGE)
    table = rows[["step"]].assign(
        predicted=[step.predicted for step in STEPS], taken=[step.taken for step in STEPS]
    )
    labels = {
        "tflops": "TFLOP/s", "pct_cublas": "% of cuBLAS",
        "burst_tflops": "burst TFLOP/s", "burst_mhz": "burst MHz",
        "sustained_tflops": "sustained TFLOP/s", "sustained_mhz": "sustained MHz",
    }  # fmt: skip
    table = table.join(rows[[*labels]].rename(columns=labels))
    table["1000 cycles"] = rows["sm_cycles"] / (1e3 * runs.current()["gpu"]["sm_count"])
    table["L2 bytes per byte loaded"] = rows["l2_bytes"] / (SECTOR_BYTES * rows["load_sectors"])
    return table.join(rows[["gpu", "recorded"]])


def title_of(name: str) -> str:
    """Which step a rung is, with its default settings."""
    as_it_is = (step for step in STEPS if not (step.settings or step.file))
    return next(step.title for step in as_it_is if step.rung.name == name)


# ---- types ---------------------------------------------------------------------------------------

NAMES = tuple(precision.name for precision in TYPES)  # in the order of DTYPE
BITS_SHAPE, BITS_SEED = (130, 150, 170), 15  # of the product whose bits are kept, tiles with edges
TILES: dict[str, Settings] = {  # besides the defaults: what was fastest, by type
    "tf32": {"BK": 32},
    "int8": {"BK": 128},
    "float8_e4m3": {"BN": 128, "WN": 32, "BK": 64},
    "float8_e5m2": {"BN": 128, "WN": 32, "BK": 64},
}
# On Hopper mma.sync of FP8 is two of FP16, so it stands under their roof. Its own chain shows none:
# the assembler computes products that do not change once for several steps.
CEILING_OF = {"float8_e4m3": "float16", "float8_e5m2": "float16"}

bits_of = partial(ablations.bits_of, shape=BITS_SHAPE, seed=BITS_SEED)


@cache
def _ceiling(number: int) -> Row:
    """What is kept of mma.sync of a type. Raises CeilingsError."""
    macros = MMA_CEILINGS.macros | {"DTYPE": number}
    cells = cells_of_roof(measure_mma(MMA_CEILINGS, macros, TYPES[number]))
    code = shortened(code_hash(MMA_CEILINGS.path, macros))
    return {
        "ceiling_tflops": cells["tflops"], "ceiling_mhz": cells["sm_clock_mhz"],
        "ceiling_code": code,
    }  # fmt: skip


def _rows_of_type(step: AblationStep, kernel: Kernel, shape: Shape) -> Iterator[Row]:
    """Raises CeilingsError, CountersUnavailable."""
    ceiling = _ceiling(NAMES.index(CEILING_OF.get(step.title, step.title)))
    cycles = counted(step, shape, {"sm_cycles": CYCLES})
    yield against_cublas(kernel, shape) | ceiling | cycles | {"sha256": bits_of(kernel)}


BY_TYPES = ablation(
    "15_types", "mma_types.csv",
    [
        AblationStep(
            title=dtype, rung=RUNG,
            settings=ladder.settings_for(RUNG, {"DTYPE": number} | TILES.get(dtype, {})),
        )
        for number, dtype in enumerate(NAMES)
    ],
    {
        **TEXT("dtype", "settings"), **SIZE("m", "n", "k"),
        **POSITIVE("tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3"),
        **POSITIVE("cublas_tflops", "ceiling_tflops", "ceiling_mhz"),
        **REPORTED("sm_clock_mhz", "power_w"), **OR_ZERO("sm_cycles"),
        **TEXT("sha256", "code", "ceiling_code"), **WITH_CUBLAS,
    },
    ("dtype", "settings", "m", "n", "k"), _rows_of_type,
)  # fmt: skip
EVIDENCE = (BY_STEPS, BY_TYPES)
