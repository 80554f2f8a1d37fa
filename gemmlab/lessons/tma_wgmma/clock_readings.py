"""The phases of blocks of 16 and 17, by readings of the SM's clock.

    python -m gemmlab record 17_blocks

puts marks into the kernels, which read the clock four times in every block, and keeps those of the
blocks of some SMs, in the last of many launches; results/<gpu>/hopper_blocks.csv.
"""

from pathlib import Path
from typing import Any

import numpy

from gemmlab import ladder
from gemmlab.cuda.device import require_gpu
from gemmlab.kernel import on_gpu
from gemmlab.kernel.fingerprint import Fingerprint, code_hash, of_rung
from gemmlab.kernel.operands import Operands
from gemmlab.ladder import Problem, Rung, Target
from gemmlab.measure.in_turn import make_sets
from gemmlab.records.ablations import AblationStep
from gemmlab.records.registry import TEXT, WHOLE, Row, Say, Table, provenance
from gemmlab.records.runs import LARGE

TMA_WGMMA, WARP_SPECIALIZED = map(ladder.find, ("16_tma_wgmma", "17_warp_specialized"))
NAME = "17_blocks"
PHASES = ("began", "first", "summed", "stored")
SMS = 16  # whose blocks are kept
WARM = 50  # launches before the one that is kept


def marks_in(path: Path) -> str:
    """The marks of a file, behind the read of the clock that they use."""
    return Path(__file__).with_name("read_clock.cuh").read_text("utf-8") + path.read_text("utf-8")


BLOCK_MARKS = marks_in(Path(__file__).with_name("block_marks.cuh"))
MEMORY = "extern __shared__ __align__(SWIZZLE_PERIOD) char memory[];"
FULL_16 = "mbarrier_wait(full + MBARRIER_BYTES * (k_tile % STAGES), k_tile / STAGES % 2);"
FULL_17 = "mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity);"


def _marked(rung: Rung, first: str, stored: str) -> AblationStep:
    """first: the line after which the first pair of tiles is there; stored: after which C is."""
    marks = {
        MEMORY: "BEGIN", first: "MARK(1, k_tile == 0)", "wgmma_wait<0>();": "MARK(2, true)",
        stored: "MARK(3, true)",
    }  # fmt: skip
    every = [(line, f"{line} {mark}") for line, mark in marks.items()]
    start = ('extern "C"', f'{BLOCK_MARKS}\nextern "C"')
    return AblationStep(title=rung.name, rung=rung, changes=(*every, start))


IN_BLOCKS = (
    _marked(TMA_WGMMA, FULL_16, "store_pairs(accumulators, C, m, tile_n, M, N);"),
    _marked(WARP_SPECIALIZED, FULL_17, "if (leader) tma_store_wait();"),
)


def launched(step: AblationStep) -> tuple[on_gpu.GpuKernels, int]:
    """A kernel with marks, launched until the GPU is warm, and how many blocks it has."""
    import cupy

    here, problem = require_gpu("Taking marks"), Problem(*LARGE)
    rung, settings, precision = step.rung, step.all_settings, step.rung.precision
    code = code_hash(rung.path, settings)
    kernels = on_gpu.loaded(step.source, rung.path.name, here.arch, settings, code)
    operands = Operands(problem, precision, *make_sets(problem, 1, precision)[0])
    launches = rung.launches(problem, settings, Target(here.arch, here.sm_count))
    for _ in range(WARM):
        kernels.run(launches, operands.values(1.0, 0.0))
    cupy.cuda.get_current_stream().synchronize()
    return kernels, launches[0].grid[0]


def _measure_blocks(say: Say) -> list[Row]:
    rows: list[Row] = []
    for marked in IN_BLOCKS:
        kernels, blocks = launched(marked)
        taken = kernels.variable("marks", (blocks, len(PHASES)), "int64")
        sms = kernels.variable("sms", (blocks,), "int32")
        rows += [{"kernel": marked.title} | row for row in rows_of(taken, sms)]
        say(f"{NAME}: {marked.title}, {len(rows)} rows")
    return rows


def rows_of(taken: numpy.ndarray, sms: numpy.ndarray) -> list[dict[str, int]]:
    """The blocks of the first SMS SMs, in their order on each: cycles since its first began.

    taken: (blocks, PHASES), cycles; sms: where each block ran.
    """
    rows = []
    for sm in range(SMS):
        (on_it,) = numpy.nonzero(sms == sm)
        for block in on_it[numpy.argsort(taken[on_it, 0])]:
            since = taken[block] - taken[on_it, 0].min()
            phases = dict(zip(PHASES, map(int, since), strict=True))
            rows.append({"block": int(block), "sm": sm} | phases)
    return rows


def _fingerprint_of(row: Any, on: Target) -> Fingerprint:
    rung = ladder.find(row.kernel)
    return of_rung(rung, rung.defaults, [Problem(*LARGE)], on)


BY_BLOCKS = Table(
    name=NAME, file="hopper_blocks.csv", key=("kernel", "block"),
    columns={
        **TEXT("kernel"), **WHOLE("block", "sm", *PHASES), **provenance("driver", "cuda"),
    },
    measure=_measure_blocks, fingerprint_of=_fingerprint_of,
)  # fmt: skip
