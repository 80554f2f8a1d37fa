"""How a box lies in shared memory after a copy by tensor map, and which thread holds which sum.

Found by running 16_layouts.cu in the simulator, where both are as on an H200.
"""

from __future__ import annotations

import numpy as np

import ptxsim
from gemmlab.cuda.options import options_for
from gemmlab.folders import kernel_file
from gemmlab.lessons.tma_wgmma.rung import GROUP_THREADS, SQUARE

PROBE = kernel_file("16_layouts.cu")
SWIZZLE_BYTES = {"none": 128, "32B": 32, "64B": 64, "128B": 128}  # the widest row of a box
CHUNK = 8  # elements of 16 bytes, which a swizzle moves as a whole
ROWS = 8  # of a box, after which every swizzle has begun anew


def in_shared_memory(swizzle: str) -> np.ndarray:
    """int (places,): the chunk of 16 bytes that lies at each place, of a box of ROWS rows.

    The box is as wide as the swizzle takes it; its chunks count along its rows, row by row.
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


def sums() -> np.ndarray:
    """int (128, 32): of the 64×64 sums of a warpgroup, row * 64 + column of each that a thread has.

    A thread's sums come in their order. C is its own numbering: A has the row and a 1, B has 64 and
    the column, and whatever the tensor cores add is exact.
    """
    a, b = np.zeros((SQUARE, SQUARE), np.float16), np.zeros((SQUARE, SQUARE), np.float16)
    a[:, 0], a[:, 1] = np.arange(SQUARE), 1
    b[0], b[1] = SQUARE, np.arange(SQUARE)
    held = np.full((GROUP_THREADS, 32), np.nan, np.float32)
    maps = [ptxsim.TensorMap(one, one.shape, swizzle="128B") for one in (a, b)]
    ptxsim.launch(
        PROBE, "sums", (1, 1, 1), (GROUP_THREADS, 1, 1), [*maps, held], options=options_for({}),
        by_symbol=True,
    )  # fmt: skip
    return held.astype(int)
