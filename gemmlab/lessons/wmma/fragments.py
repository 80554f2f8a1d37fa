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


def as_documented() -> dict[str, bool]:
    """Whether `by_wmma` is, for "A", "B" and "C", the layout of two mma.sync of 16×8×16.

    NVIDIA's Parallel Thread Execution ISA, "Matrix Fragments for mma.m16n8k16": lane 4 g + t holds
    rows g and g + 8 of A at columns 2 t, 2 t + 1, and these plus 8; B by columns in the same way; C
    as A.
    """
    g, t = np.divmod(np.arange(LANES)[:, None], 4)
    place = np.arange(8)
    pair, low, right = place % 2, place // 2 % 2, place // 4
    by_rows = (g + 8 * low) * PIECE + 2 * t + pair + 8 * right
    by_columns = (2 * t + pair + 8 * low) * PIECE + g + 8 * right
    documented = {"A": by_rows, "B": by_columns, "C": by_rows}
    held = by_wmma()
    return {
        name: all(
            (held[name][:, at : at + 8] == layout).all() for at in range(0, held[name].shape[1], 8)
        )
        for name, layout in documented.items()
    }


def lanes_of(held: np.ndarray) -> np.ndarray:
    """int (16, 16): the lane that holds each element, from one of the arrays of `by_wmma`."""
    lanes = np.full(PIECE * PIECE, -1)
    lanes[held] = np.arange(len(held))[:, None]
    return lanes.reshape(PIECE, PIECE)
