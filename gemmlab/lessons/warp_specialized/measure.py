"""What is measured for this lesson: the two changes from 16 to 17, each alone.

    python -m gemmlab record hopper_ablations/roles

Lessons above compare two more things, which stand here, too: whether registers move between
warpgroups, and whether launches overlap.
"""

from dataclasses import replace
from functools import partial

from gemmlab.ladder import Launch, Problem, Rung, Settings, Target
from gemmlab.ladder.launch import MapOf
from gemmlab.lessons.tma_wgmma.measure import AT_THE_END
from gemmlab.lessons.tma_wgmma.rung import GROUP_ROWS, ROW_BYTES, SQUARE_BYTES
from gemmlab.lessons.tma_wgmma.rung import RUNG as TMA_WGMMA
from gemmlab.lessons.warp_specialized import comparisons
from gemmlab.lessons.warp_specialized.rung import RUNG
from gemmlab.records.ablations import AblationStep, Shape
from gemmlab.records.runs import LARGE


def _sends_c(problem: Problem, s: Settings, target: Target) -> list[Launch]:
    """16 with a tensor map of C and two buffers for each warpgroup, as 17 has them."""
    (launch,) = TMA_WGMMA.plan(problem, s, target)
    if launch.entry != TMA_WGMMA.entry(s):
        return [launch]
    columns = ROW_BYTES // TMA_WGMMA.precision_of(s).c.bytes
    buffers = s["BM"] // GROUP_ROWS * min(2, s["BN"] // columns)
    map_of_c = MapOf("C", (GROUP_ROWS, columns), "128B")
    return [
        replace(
            launch, shared_bytes=launch.shared_bytes + buffers * SQUARE_BYTES,
            args=(*launch.args[:2], map_of_c, *launch.args[2:]),
        )
    ]  # fmt: skip


STORE = "store_pairs(accumulators, C, m, tile_n, M, N);"
SEND = """store_accumulators(accumulators, shared.store_buffers[warpgroup], map_c, m, tile_n,
                           warpgroup);"""
C_BY_MAP = (  # 16 sends C as 17 does
    ('#include "register_epilogue.cuh"',
     '#include "register_epilogue.cuh"\n#include "tma_epilogue.cuh"'),
    ("Stage stages[STAGES];",
     "Stage stages[STAGES];\n    StoreBuffer store_buffers[BM / WARPGROUP_ROWS][STORE_BUFFERS];"),
    ("ElementC* __restrict__ C,",
     "const __grid_constant__ TensorMap map_c, ElementC* __restrict__ C,"),
    ("prefetch_tensor_map(map_b);",
     "prefetch_tensor_map(map_b);\n        prefetch_tensor_map(map_c);"),
    (STORE, f"{SEND}\n    if (threadIdx.x % WARPGROUP_THREADS == 0) tma_store_wait();"),
)  # fmt: skip
C_BY_THREADS = (  # 17 stores C as 16 does
    ('#include "tma_epilogue.cuh"',
     '#include "tma_epilogue.cuh"\n#include "register_epilogue.cuh"'),
    (SEND, STORE), ("if (leader) tma_store_wait();", ""),
)  # fmt: skip
ROLES = (
    AblationStep(title="16", rung=TMA_WGMMA),
    AblationStep(title="16, C sent by tensor map", rung=TMA_WGMMA, changes=C_BY_MAP, plan=_sends_c),
    AblationStep(
        title="17, C stored by its threads", rung=RUNG, settings=AT_THE_END, changes=C_BY_THREADS
    ),
    AblationStep(title="17", rung=RUNG, settings=AT_THE_END),
)
EVIDENCE = (comparisons.asked("roles", [ROLES]),)

# ---- what lessons above compare, too -------------------------------------------------------------

REGISTERS_STAY = (("deallocate_registers();", ""), (" allocate_registers();", ""))
MANY_ROWS, FEW_ROWS = (128, 7168, 2048), (64, 4096, 7168)
NARROW = {"BM": 64, "BN": 64, "STAGES": 8}


def registers_of(rung: Rung) -> comparisons.Comparison:
    """Whether registers move, with launches that do not overlap."""
    step, number = partial(AblationStep, rung=rung, settings=AT_THE_END), rung.name[:2]
    stays = step(title=f"{number}, registers stay", changes=REGISTERS_STAY)
    return step(title=f"{number}, registers move"), stays


def overlap_of(rung: Rung, shape: Shape, settings: Settings) -> comparisons.Comparison:
    step, number = partial(AblationStep, rung=rung, shapes=(shape,)), rung.name[:2]
    return (
        step(title=f"{number}, one launch after the other", settings=settings | AT_THE_END),
        step(title=f"{number}, launches overlap", settings=settings),
    )


OVERLAP = {  # of 17, by shape
    LARGE: overlap_of(RUNG, LARGE, {}),
    FEW_ROWS: overlap_of(RUNG, FEW_ROWS, NARROW | {"SPLIT": 2}),
    MANY_ROWS: overlap_of(RUNG, MANY_ROWS, NARROW | {"BM": 128}),
}
