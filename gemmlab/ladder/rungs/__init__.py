"""The rungs themselves, a file for each family. A new rung is one entry in one of these.

An entry's `plan` decides grid and block. untiled has the simplest; shapes is what families share.
"""

from gemmlab.ladder.rungs import (
    fp8,
    fp32_summit,
    hopper,
    irregular,
    mma_sync,
    register_banks,
    tensor_cores,
    tiled,
    untiled,
    warp_tiled,
)

RUNGS = (
    *untiled.RUNGS, *tiled.RUNGS, *warp_tiled.RUNGS, *register_banks.RUNGS, *irregular.RUNGS,
    *tensor_cores.RUNGS, *mma_sync.RUNGS, *hopper.RUNGS, *fp8.RUNGS, *fp32_summit.RUNGS,
)  # fmt: skip
