"""Where the cycles of 16 to 19 went as recorded; what the checks find without a wait of 16."""

from collections.abc import Mapping
from math import prod

import pandas

from gemmlab import ladder
from gemmlab.analysis.counters import IN_L1
from gemmlab.files import rows_beside
from gemmlab.kernel.kernel import from_source
from gemmlab.ladder import Problem
from gemmlab.ladder.shapes import ceil_div
from gemmlab.lessons.tma_wgmma import clock_readings
from gemmlab.lessons.tma_wgmma.measure import TABLE, TITLES, WAY
from gemmlab.loading import load
from gemmlab.records import runs
from gemmlab.records.ablations import AblationStep, Shape
from gemmlab.records.roofs import WGMMA_TABLE, recorded_ceilings
from gemmlab.records.runs import LARGE, Measured

# From one reading of the clock to the next, and what it is called.
PHASES = {
    ("began", "first"): "prologue, until the first stage is full",
    ("first", "summed"): "mainloop",
    ("summed", "stored"): "epilogue: C is stored",
    ("stored", "next"): "until the next block begins",
}
# Of one SM in FP16: NVIDIA, "NVIDIA H100 Tensor Core GPU Architecture", which says it of the H100.
TENSOR_FLOP_PER_CYCLE = 4096
TILE = 128, 256  # rows and columns of C of a block, as was recorded
WGMMA = 64, 256, 16  # rows, columns and k of the instruction of 16 to 18 by default
SHARED_READS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op"
SM_CYCLES, WAVEFRONTS = IN_L1["SM cycles"], IN_L1["data wavefronts"]
SHARES = {
    "tflops": "TFLOP/s", "pct_cublas": "% of cuBLAS", "pct_cublas_q1": "from",
    "pct_cublas_q3": "to",
}  # fmt: skip


def phases(blocks: pandas.DataFrame | None = None) -> pandas.DataFrame:
    """Mean cycles of each phase, a row for each kernel, and the whole of a block.

    blocks: as clock_readings.BY_BLOCKS has them, which is the default. The last phase is of blocks
    that another follows on their SM.
    """
    blocks = clock_readings.BY_BLOCKS.read() if blocks is None else blocks
    blocks = blocks.sort_values(["kernel", "sm", "began"])
    blocks["next"] = blocks.groupby(["kernel", "sm"])["began"].shift(-1)
    for (start, stop), name in PHASES.items():
        blocks[name] = blocks[stop] - blocks[start]
    means = blocks.groupby("kernel")[list(PHASES.values())].mean()
    means["a block"] = means.sum(axis=1)
    return means


def wgmma_ceilings() -> pandas.DataFrame:
    """TFLOP/s of nothing but wgmma in FP16, and the clock of the SMs, by load."""
    return WGMMA_TABLE.read().query("dtype == 'float16'").pivot(
        index=["a_from", "width", "data"], columns="load", values=["tflops", "sm_clock_mhz"]
    )  # fmt: skip


def path(shape: Shape, *steps: AblationStep) -> pandas.DataFrame:
    """For plots.path: steps of this lesson's table at this shape (M, N, K); those of WAY are taken.

    predicted: of which rung a step is, and what of its settings is not the default.
    """
    rows = TABLE.rows_of(steps, shape, complete=False)
    return rows.assign(
        predicted=rows.apply(_of_rung, axis=1),
        taken=rows["step"].isin([step.title for step in WAY]), step=rows["step"].replace(TITLES),
    ).rename(columns=SHARES)[
        ["step", "predicted", "taken", *SHARES.values(), "gpu", "recorded"]
    ]  # fmt: skip


def _of_rung(row: pandas.Series) -> str:
    defaults = ladder.find(row["kernel"]).defaults
    settings = ladder.read_settings(row["settings"])
    changed = {name: value for name, value in settings.items() if defaults.get(name) != value}
    return f"{row['kernel']}{f', {ladder.listed(changed)}' if changed else ''}"


def operand_wavefronts(name: str) -> int:
    """Of shared memory: in which a block of 15 or 16 reads the operands of 64 along K, traced."""
    counts = []
    for k in (128, 192):
        counters = load(name).trace(*TILE, k).counters
        counts.append(sum(counters.get(f"{SHARED_READS}_{by}.sum", 0) for by in ("ld", "gmma")))
    return counts[1] - counts[0]


def account(*names: str) -> pandas.DataFrame:
    """A row for each of 15 to 18 at LARGE: cycles of an SM per wgmma (15: for as much by mma.sync).

    SM cycles: in which it had a warp, as counted; banks: wavefronts, a cycle each; floor: the MMAs
    at the highest rate of the instruction, which for wgmma is TENSOR_FLOP_PER_CYCLE and for
    mma.sync the recorded roof. Raises LadderError, NoRecord, StaleRecord.
    """
    rows, work = {}, prod(LARGE) / prod(WGMMA)
    for rung in map(ladder.find, names):
        _, counted = runs.counters_at(Measured(rung), *LARGE)
        rate = recorded_ceilings().flop_per_cycle(rung.precision.name) / sm_count()
        rows[rung.name] = {
            "SM cycles": counted[SM_CYCLES] / work, "banks": counted[WAVEFRONTS] / work,
            "floor": 2 * prod(WGMMA) / (TENSOR_FLOP_PER_CYCLE if rung.by_wgmma else rate),
        }  # fmt: skip
    return pandas.DataFrame(rows).T


def cycles(*names: str) -> pandas.DataFrame:
    """Where the cycles of all SMs went at LARGE, a column for each of 16 to 19, in percent.

    Full rate: TENSOR_FLOP_PER_CYCLE for each SM, of 8 bits twice as many; all tiles taken as
    equally long. Last the cycles of an SM that were counted, over the share of SMs that had a tile.
    Raises LadderError, NoRecord, StaleRecord.
    """
    return pandas.DataFrame({name: _cycles(ladder.find(name)) for name in names})


def _cycles(rung: ladder.Rung) -> dict[str, float]:
    sms, problem = sm_count(), Problem(*LARGE)
    _, counted = runs.counters_at(Measured(rung), *LARGE)
    rows, columns = rung.tile(rung.defaults)
    tiles = ceil_div(problem.m, rows) * ceil_div(problem.n, columns)
    busy = tiles / (ceil_div(tiles, sms) * sms)
    cycles = counted[SM_CYCLES] / sms / busy
    per_cycle = TENSOR_FLOP_PER_CYCLE * 2 // rung.precision.a.bytes
    products = problem.flop / sms / per_cycle / cycles
    return {
        "products at full rate": 100 * products, "SMs without a tile": 100 * (1 - busy),
        "the rest": 100 * (busy - products), "cycles": cycles,
    }  # fmt: skip


def sm_count() -> int:
    return runs.current()["gpu"]["sm_count"]


# What is left out of 16, and what may happen then: a piece of its file, and what is there instead.
LEFT_OUT = {
    f"{row['what']}: {row['may']}": (row["old"], row["new"])
    for row in rows_beside(__file__, "left_out.csv")
}


def left_out(
    name: str, changes: Mapping[str, tuple[str, str]], **settings: int
) -> pandas.DataFrame:
    """What check() finds first with each change {what: (piece, what stands in its place)} of the
    kernel of rung `name`. Raises ValueError where a piece does not stand there once."""
    text, rows = load(name, **settings).text, {}
    for what, (piece, other) in changes.items():
        if (times := text.count(piece)) != 1:
            raise ValueError(f"{piece!r} stands {times} times in {name}, it must stand there once")
        checked = from_source(text.replace(piece, other), name, **settings).check()
        kinds = [finding.kind for case in checked.cases for finding in case.findings]
        rows[what] = kinds[0] if kinds else "nothing"
    return pandas.Series(rows).to_frame("check() finds").rename_axis("left out or changed")
