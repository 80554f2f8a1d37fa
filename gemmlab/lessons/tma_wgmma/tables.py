"""The steps of 16 as recorded, and what the simulator tells of its layouts and its waits."""

from pathlib import Path

import numpy as np
import pandas

import ptxsim
from gemmlab import ladder
from gemmlab.analysis.counters import PER_WARP_FMA
from gemmlab.cuda.options import options_for
from gemmlab.folders import kernel_file
from gemmlab.kernel.kernel import from_source
from gemmlab.ladder import Problem
from gemmlab.ladder.shapes import ceil_div
from gemmlab.lessons.tma_wgmma import clock_readings
from gemmlab.lessons.tma_wgmma.rung import GROUP_THREADS, SQUARE
from gemmlab.lessons.tma_wgmma.rung import RUNG as TMA_WGMMA
from gemmlab.records import runs
from gemmlab.records.roofs import WGMMA_TABLE
from gemmlab.records.runs import LARGE, Measured

# From one reading of the clock to the next, and what it is called.
PHASES = {
    ("began", "first"): "until the first tiles are there",
    ("first", "summed"): "steps along K",
    ("summed", "stored"): "C on its way",
    ("stored", "next"): "until the next block begins",
}
# Of one SM in FP16: NVIDIA, "NVIDIA H100 Tensor Core GPU Architecture", which says it of the H100.
TENSOR_FLOP_PER_CYCLE = 4096
TILE = 128, 256  # rows and columns of C of a block, as was recorded
SM_CYCLES = PER_WARP_FMA["SM cycles"]
SHARES = {
    "tflops": "TFLOP/s", "pct_cublas": "% of cuBLAS", "pct_cublas_q1": "from",
    "pct_cublas_q3": "to",
}  # fmt: skip


def phases(blocks: pandas.DataFrame | None = None) -> pandas.DataFrame:
    """Mean cycles of each phase, a row for each kernel, and the whole of a block.

    blocks: as clock_readings.blocks() gives, which is the default. The last phase is of blocks that
    another follows on their SM.
    """
    blocks = clock_readings.blocks() if blocks is None else blocks
    blocks = blocks.sort_values(["kernel", "sm", "began"])
    blocks["next"] = blocks.groupby(["kernel", "sm"])["began"].shift(-1)
    for (start, stop), name in PHASES.items():
        blocks[name] = blocks[stop] - blocks[start]
    means = blocks.groupby("kernel")[list(PHASES.values())].mean()
    means["a block"] = means.sum(axis=1)
    return means


def at_full_rate() -> int:
    """Cycles in which the tensor cores of an SM can multiply a block's part of C."""
    return 2 * TILE[0] * TILE[1] * LARGE[2] // TENSOR_FLOP_PER_CYCLE


def wgmma_ceilings() -> pandas.DataFrame:
    """The recorded ceilings of wgmma, a row for each shape of the instruction, type and load."""
    return WGMMA_TABLE.read()


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


PROBE = kernel_file("16_layouts.cu")
SWIZZLE_BYTES = {"none": 128, "32B": 32, "64B": 64, "128B": 128}  # the widest row of a box
CHUNK = 8  # elements of 16 bytes, which a swizzle moves as a whole
ROWS = 8  # of a box, after which every swizzle has begun anew


def in_shared_memory(swizzle: str) -> np.ndarray:
    """int (places,): the chunk of 16 bytes that lies at each place, of a box of ROWS rows.

    Its chunks count row by row; the box is as wide as the swizzle takes it.
    """
    columns = SWIZZLE_BYTES[swizzle] // 2
    numbers = np.arange(ROWS * columns, dtype=np.uint16).reshape(ROWS, columns)
    lies = np.zeros(numbers.size, np.uint16)
    ptxsim.launch(
        PROBE, "box", (1, 1, 1), (GROUP_THREADS, 1, 1),
        [ptxsim.TensorMap(numbers, numbers.shape, swizzle=swizzle), lies, numbers.nbytes],
        shared_bytes=numbers.nbytes, options=options_for({}), by_symbol=True,
    )  # fmt: skip
    return lies.reshape(-1, CHUNK)[:, 0].astype(int) // CHUNK


def accumulators() -> np.ndarray:
    """int (128, 32): row * 64 + column of each of the 64×64 sums of a warpgroup that a thread has.

    C is its own numbering: A has the row and a 1, B has 64 and the column.
    """
    a, b = np.zeros((SQUARE, SQUARE), np.float16), np.zeros((SQUARE, SQUARE), np.float16)
    a[:, 0], a[:, 1] = np.arange(SQUARE), 1
    b[0], b[1] = SQUARE, np.arange(SQUARE)
    held = np.full((GROUP_THREADS, 32), np.nan, np.float32)
    maps = [ptxsim.TensorMap(matrix, matrix.shape, swizzle="128B") for matrix in (a, b)]
    ptxsim.launch(
        PROBE, "sums", (1, 1, 1), (GROUP_THREADS, 1, 1), [*maps, held], options=options_for({}),
        by_symbol=True,
    )  # fmt: skip
    return held.astype(int)


SMALL = {"BM": 128, "BN": 64, "STAGES": 2, "GROUP": 2}
# A piece that stands once in the kernel's file, what is there instead, and what may happen then.
LEFT_OUT = pandas.read_csv(Path(__file__).with_name("left_out.csv"), keep_default_na=False)


def left_out() -> pandas.DataFrame:
    """A row for each of LEFT_OUT: what may happen without it, and what the checks find."""
    rows, text = {}, TMA_WGMMA.path.read_text(encoding="utf-8")
    for line in LEFT_OUT.itertuples():
        kernel = from_source(text.replace(line.old, line.new), TMA_WGMMA.name, **SMALL)
        kinds = [finding.kind for case in kernel.check().cases for finding in case.findings]
        rows[line.what] = {"then": line.may, "the checks find": kinds[0] if kinds else "nothing"}
    return pandas.DataFrame.from_dict(rows, orient="index").rename_axis("left out")
