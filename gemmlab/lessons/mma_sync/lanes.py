"""Which element each lane of a warp holds in 15_mma_sync, in FP16."""

import numpy as np

import ptxsim
from gemmlab.cuda.options import options_for
from gemmlab.folders import kernel_file
from gemmlab.ladder.probes import LANES_MACROS, LANES_PROBE
from ptxsim.architectures import WARP

PROBE = kernel_file(f"{LANES_PROBE}.cu")
ROWS, COLUMNS, DEPTH = (LANES_MACROS[side] for side in ("BM", "BN", "BK"))


def by_mma() -> dict[str, np.ndarray]:
    """For "A", "B" and "C" the (row, column) of each element that a lane holds: (32, places, 2).

    Of A one piece of 16 rows, as deep as an instruction; of B as deep, and the columns of a row of
    128 bytes; of C the sums of their product. Found by 15_lanes.cu in the simulator, of matrices
    whose elements are their own numbers.
    """
    shapes = (ROWS, DEPTH), (DEPTH, COLUMNS)
    of_a, of_b, _ = _run(*(np.arange(m * n, dtype=np.uint16).reshape(m, n) for m, n in shapes))
    a, b = (np.zeros(shape, np.float16) for shape in shapes)
    a[:, 0], a[:, 1] = np.arange(ROWS) * COLUMNS, 1
    b[0], b[1] = 1, np.arange(COLUMNS)
    _, _, of_c = _run(a, b)
    numbers = {
        "A": (of_a.view(np.uint16), DEPTH), "B": (of_b.view(np.uint16), COLUMNS),
        "C": (of_c, COLUMNS),
    }  # fmt: skip
    return {
        name: np.stack(np.divmod(held.astype(int), wide), axis=-1)
        for name, (held, wide) in numbers.items()
    }


def _run(A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, ...]:
    """The words of A and of B, and the sums: a row for each lane."""
    down, across = ROWS // 16, COLUMNS // 8
    of_a, of_b = (np.zeros((WARP, size), np.uint32) for size in (4 * down, 2 * across))
    of_c = np.zeros((WARP, 4 * down * across), np.float32)
    ptxsim.launch(
        PROBE, "lanes", (1, 1, 1), (WARP, 1, 1),
        [*(matrix.view(np.uint32) for matrix in (A, B)), of_a, of_b, of_c],
        shared_bytes=A.nbytes + B.nbytes, options=options_for(LANES_MACROS),
    )  # fmt: skip
    return of_a, of_b, of_c


def holder_of_c(row: int, column: int) -> tuple[int, int]:
    """The lane that holds an element of a warp's part of C, and 0 to 3 for c[0] to c[3]."""
    held = by_mma()["C"]
    ((lane, place),) = np.argwhere((held == (row % ROWS, column % 8)).all(axis=-1))
    return int(lane), int(place) % 4
