"""A block's registers by role, and its stores of C."""

import re

import pandas

from gemmlab.kernel.kernel import Kernel
from gemmlab.loading import load

GROUP_THREADS = 128  # setmaxnreg is for a whole warpgroup
MOVED = re.compile(r"setmaxnreg\.(inc|dec)\.sync\.aligned\.u32 (\d+)")
TILE = 128, 256  # rows and columns of C of a block
STORES = {  # what a row counts -> the metrics that count it, by threads and by TMA
    "store instructions": (
        "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", "smsp__sass_inst_executed_op_tma_st.sum",
    ),
    "sectors stored": (
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
        "l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_st.sum",
    ),
}  # fmt: skip


def register_budget(kernel: Kernel) -> pandas.DataFrame:
    """Threads of the producer and of the consumers, and registers of each: at the launch, as the
    assembler gives them, and after setmaxnreg. kernel: one that moves registers."""
    moved = dict(MOVED.findall(kernel.compiled.ptx))
    rows, columns = kernel.rung.tile(kernel.settings)
    (launch, *_) = kernel.launches(kernel.problem(rows, columns, GROUP_THREADS))
    return pandas.DataFrame({
        "threads": [GROUP_THREADS, launch.block[0] - GROUP_THREADS],
        "registers at the launch": kernel.compiled.entries[launch.entry].registers,
        "after setmaxnreg": [int(moved["dec"]), int(moved["inc"])],
    }, index=["producer", "consumers"])  # fmt: skip


def stores(*names: str) -> pandas.DataFrame:
    """A column for 16 and 17: what it takes to store a tile of C, counted in the simulator."""
    counted = {name: load(name).trace(*TILE, 64).counters for name in names}
    return pandas.DataFrame({
        name: {what: sum(of.get(metric, 0) for metric in by) for what, by in STORES.items()}
        for name, of in counted.items()
    })  # fmt: skip
