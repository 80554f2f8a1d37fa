"""Who waits for whom in 16 and in 17, by readings of the SM's clock.

    python -m gemmlab record 17_timeline
    python -m gemmlab record 17_blocks

Both put marks into the kernels, and keep those of the last of many launches. The first follows the
roles of one block; results/<gpu>/hopper_timeline.csv. Its marks cost time themselves: what they
tell is the order and the proportions. The second reads the clock four times in every block, and
keeps the blocks of some SMs; results/<gpu>/hopper_blocks.csv.
"""

from pathlib import Path
from typing import Any

import numpy
import pandas

from gemmlab import ladder
from gemmlab.cuda.device import require_gpu
from gemmlab.kernel import on_gpu
from gemmlab.kernel.fingerprint import Fingerprint, code_hash, of_rung
from gemmlab.kernel.operands import Operands
from gemmlab.ladder import Problem, Rung, Target
from gemmlab.measure.in_turn import make_sets
from gemmlab.records.ablations import AblationStep
from gemmlab.records.registry import REPORTED, SIZE, TEXT, WHOLE, Row, Say, Table, provenance
from gemmlab.records.runs import LARGE

TMA_WGMMA, WARP_SPECIALIZED = map(ladder.find, ("16_tma_wgmma", "17_warp_specialized"))
STEPS_NAME, BLOCKS_NAME = "17_timeline", "17_blocks"
STEPS = LARGE[2] // 64
ROLES = ("warpgroup 0", "warpgroup 1", "producer")
EVENTS = ("goes_on", "done", "met")
PHASES = ("began", "first", "summed", "stored")
SMS = 16  # whose blocks are kept
WARM = 50  # launches before the one that is kept


def marks_in(path: Path) -> str:
    """The marks of a file, behind the read of the clock that they use."""
    return Path(__file__).with_name("read_clock.cuh").read_text("utf-8") + path.read_text("utf-8")


STEP_MARKS, BLOCK_MARKS = (
    marks_in(Path(__file__).with_name(name)) for name in ("step_marks.cuh", "block_marks.cuh")
)
MEMORY = "extern __shared__ __align__(SWIZZLE_PERIOD) char memory[];"
FULL_16 = "mbarrier_wait(full + MBARRIER_BYTES * (k_tile % STAGES), k_tile / STAGES % 2);"
FULL_17 = "mbarrier_wait(full + MBARRIER_BYTES * state.stage, state.parity);"

Marks = tuple[tuple[str, str], ...]  # lines of a kernel, and what stands after them


def _marked(rung: Rung, marks: str, after: Marks) -> AblationStep:
    every = [(line, f"{line} {mark}") for line, mark in ((MEMORY, "BEGIN"), *after)]
    start = ('extern "C"', f'{marks}\nextern "C"')
    return AblationStep(title=rung.name, rung=rung, changes=(*every, start))


def _phases(first: str, stored: str) -> Marks:
    """first: the line after which the first pair of tiles is there; stored: after which C is."""
    return (
        (first, "MARK(1, k_tile == 0)"), ("wgmma_wait<0>();", "MARK(2, true)"),
        (stored, "MARK(3, true)"),
    )  # fmt: skip


STORED_16 = "store_pairs(accumulators, C, m, tile_n, M, N);"
STORED_17 = "if (leader) tma_store_wait();"
IN_STEPS = (
    _marked(TMA_WGMMA, STEP_MARKS, (
        (FULL_16, "MARK(0)"), ("wgmma_wait<PENDING>();", "MARK(1)"),
        ("copy_k_tile(shared, map_a, map_b, tile_m, tile_n, next);", "MARK(2)"),
    )),
    _marked(WARP_SPECIALIZED, STEP_MARKS, (
        (FULL_17, "MARK(0)"), ("wgmma_wait<1>();", "MARK(1)"),
        ("mbarrier_wait(empty + MBARRIER_BYTES * state.stage, state.parity ^ 1);", "MARK(0)"),
        ("copy_b<BN>(shared_address(stage.b), map_b, k, tile_n, stage_full);", "MARK(1)"),
    )),
)  # fmt: skip
IN_BLOCKS = (
    _marked(TMA_WGMMA, BLOCK_MARKS, _phases(FULL_16, STORED_16)),
    _marked(WARP_SPECIALIZED, BLOCK_MARKS, _phases(FULL_17, STORED_17)),
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


def _measure_steps(say: Say) -> list[Row]:
    rows: list[Row] = []
    for marked in IN_STEPS:
        kernels, _ = launched(marked)
        taken = kernels.variable("marks", (len(ROLES), STEPS, len(EVENTS)), "int64")
        began = kernels.variable("began", (1,), "int64")[0]
        for role, of_role in zip(ROLES, taken, strict=True):
            since = 0  # the last mark of the step before
            for step, clocks in enumerate(of_role, start=1):
                if not clocks.any():
                    continue
                read = {
                    event: int(clock - began) if clock else None
                    for event, clock in zip(EVENTS, clocks, strict=True)
                }
                about = {"kernel": marked.title, "role": role, "step": step, "waits": since}
                rows.append(about | read)
                since = read["met"] or read["done"]
        say(f"{STEPS_NAME}: {marked.title}, {len(rows)} rows")
    return rows


def _measure_blocks(say: Say) -> list[Row]:
    rows: list[Row] = []
    for marked in IN_BLOCKS:
        kernels, blocks = launched(marked)
        taken = kernels.variable("marks", (blocks, len(PHASES)), "int64")
        sms = kernels.variable("sms", (blocks,), "int32")
        rows += [{"kernel": marked.title} | row for row in rows_of(taken, sms)]
        say(f"{BLOCKS_NAME}: {marked.title}, {len(rows)} rows")
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


BY_STEPS = Table(
    name=STEPS_NAME, file="hopper_timeline.csv", key=("kernel", "role", "step"),
    columns={
        **TEXT("kernel", "role"), **SIZE("step"), **WHOLE("waits", "goes_on", "done"),
        **REPORTED("met"), **provenance("driver", "cuda"),
    },
    measure=_measure_steps, fingerprint_of=_fingerprint_of,
)  # fmt: skip
BY_BLOCKS = Table(
    name=BLOCKS_NAME, file="hopper_blocks.csv", key=("kernel", "block"),
    columns={
        **TEXT("kernel"), **WHOLE("block", "sm", *PHASES), **provenance("driver", "cuda"),
    },
    measure=_measure_blocks, fingerprint_of=_fingerprint_of,
)  # fmt: skip


def marks() -> pandas.DataFrame:
    """As recorded: kernel, role, step from 1 on, and cycles since the block began.

    waits: it is done with the step before; goes_on: it has its stage; done: the products of the
    step before are there, or the copies are started; met: all threads have met, of 16 alone.
    """
    return BY_STEPS.read()[["kernel", "role", "step", "waits", *EVENTS]]


def blocks() -> pandas.DataFrame:
    """As recorded: kernel, block, sm, and cycles since the first block on that SM began.

    first: its first pair of tiles is there; summed: all sums are; stored: C is on its way.
    """
    return BY_BLOCKS.read()[["kernel", "block", "sm", *PHASES]]
