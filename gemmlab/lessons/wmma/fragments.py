"""Which element of a 16×16 piece each lane of a warp holds, once WMMA has loaded it."""

import numpy as np

import ptxsim
from gemmlab.folders import kernel_file
from gemmlab.kernel.compiler import options_for
from gemmlab.ladder import PIECES_PROBE
from gemmlab.ladder.probes import PIECE

PROBE = kernel_file(f"{PIECES_PROBE}.cu")
LANES = 32


def by_wmma() -> dict[str, np.ndarray]:
    """For "A", "B" and "C" the numbers, row * 16 + column, that each lane holds: int (32, places).

    Found by 14_fragments.cu in the simulator. Of A and B every lane holds its eight elements twice,
    in places 0 to 7 and 8 to 15.
    """
    numbers = np.arange(PIECE * PIECE).reshape(PIECE, PIECE)
    held = {name: np.full((LANES, places), np.nan, np.float32)
            for name, places in {"A": 16, "B": 16, "C": 8}.items()}  # fmt: skip
    halves = [numbers.astype(np.float16), numbers.astype(np.float16)]
    ptxsim.launch(
        PROBE, "fragments", (1, 1, 1), (LANES, 1, 1),
        [*halves, numbers.astype(np.float32), *held.values()], options=options_for({}),
    )  # fmt: skip
    return {name: values.astype(int) for name, values in held.items()}


def lanes_of(held: np.ndarray) -> np.ndarray:
    """int (16, 16): the lane that holds each element, from one of the arrays of `by_wmma`."""
    lanes = np.full(PIECE * PIECE, -1)
    lanes[held] = np.arange(len(held))[:, None]
    return lanes.reshape(PIECE, PIECE)
