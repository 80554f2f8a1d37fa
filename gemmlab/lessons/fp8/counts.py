"""What a block does for 128 of K: what the tensor cores take, and what is asked of the rest."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from gemmlab.cuda.architectures import WARP
from gemmlab.cuda.occupancy import SM_PARTITIONS
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder.precision import BLOCK
from gemmlab.lessons.tma_wgmma.block_phases import TENSOR_FLOP_PER_CYCLE
from gemmlab.simulator.counters import SECTOR_BYTES

if TYPE_CHECKING:
    import pandas

DEPTHS = 4 * BLOCK, 8 * BLOCK  # of K: what one has more than the other is of the steps alone
ADDITIONS = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
COPIED = "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum"


def of_a_step(*kernels: Kernel) -> pandas.DataFrame:
    """A column for each kernel; traced, of one block and 128 of K, first and last steps left out.

    Rows: FLOP; bytes copied to the block's shared memory; FLOP for each of them; cycles of the
    tensor cores at their full rate; cycles in which each of the SM's schedulers starts a float32
    multiply-add. For kernels by wgmma, of 8 and 16 bits.
    """
    import pandas

    found = {}
    for kernel in kernels:
        (rows, columns), (down, across) = (
            of(kernel.settings) for of in (kernel.rung.tile, kernel.rung.cluster_tiles)
        )
        short, long = (kernel.trace(rows * down, columns * across, k) for k in DEPTHS)
        steps = (DEPTHS[1] - DEPTHS[0]) // BLOCK * prod(long.grid)
        added, copied = (
            (long.counters.get(one, 0) - short.counters.get(one, 0)) / steps
            for one in (ADDITIONS, COPIED)
        )
        flop = 2 * rows * columns * BLOCK
        per_cycle = TENSOR_FLOP_PER_CYCLE * 2 // kernel.precision.a.bytes
        found[kernel.name] = {
            "FLOP": flop, "bytes copied": copied * SECTOR_BYTES,
            "FLOP per byte": flop / (copied * SECTOR_BYTES),
            "cycles of the tensor cores": flop / per_cycle,
            "cycles of float32 additions": added / WARP / SM_PARTITIONS,
        }  # fmt: skip
    return pandas.DataFrame(found)
