"""Which element each lane of a warp holds in 15_mma_sync, of any type that it multiplies."""

import numpy as np

import ptxsim
from gemmlab.cuda.options import options_for
from gemmlab.folders import kernel_file
from gemmlab.ladder import Precision, Settings
from gemmlab.ladder.probes import LANES_PROBE, lanes_macros
from gemmlab.ladder.probes import MMA_TYPES as TYPES
from ptxsim.architectures import WARP

PROBE = kernel_file(f"{LANES_PROBE}.cu")
ROWS = 16  # of A, and columns of what is drawn
BASE, DIGITS = 4, 4  # of numbers that are written in digits which all types hold


def by_mma(dtype: int = 0) -> dict[str, np.ndarray]:
    """For "A", "B" and "C" the (row, column) of each element that a lane holds: (32, places, 2).

    Of A one piece of 16 rows, as deep as an instruction; of B as deep, and the columns of a row of
    128 bytes; of C the sums of their product. Found by 15_lanes.cu in the simulator.
    """
    precision = TYPES[dtype]
    macros = lanes_macros(dtype, precision)
    columns = macros["BN"]
    a_shape, b_shape = (ROWS, macros["BK"]), (macros["BK"], columns)
    elements: dict[str, list[np.ndarray]] = {"A": [], "B": []}
    for axis in (0, 1):
        a, b, _ = _run(macros, *(
            np.indices(shape)[axis].astype(precision.a.bits) for shape in (a_shape, b_shape)
        ))  # fmt: skip
        for name, words in (("A", a), ("B", b)):
            elements[name].append(words.reshape(WARP, -1).view(precision.a.bits))
    held_of_c = []
    weights = BASE ** np.arange(DIGITS)
    for axis, size in enumerate((ROWS, columns)):  # C is the row, or the column, of each element
        a, b = np.zeros(a_shape), np.zeros(b_shape)
        digits = np.arange(size)[:, None] // weights % BASE
        a[:, :DIGITS] = digits if axis == 0 else weights
        b[:DIGITS] = weights[:, None] if axis == 0 else digits.T
        _, _, c = _run(macros, _stored(a, precision), _stored(b, precision))
        held_of_c.append(c.reshape(WARP, -1))
    every = {name: np.stack(both, axis=-1).astype(int) for name, both in elements.items()}
    return every | {"C": np.stack(held_of_c, axis=-1).astype(int)}


def _stored(numbers: np.ndarray, precision: Precision) -> np.ndarray:
    element = precision.a
    if element.unit_roundoff == 0:  # its encode has a scale
        return numbers.astype(element.storage)
    return element.encode(numbers.astype(np.float32), element.storage)


def _run(macros: Settings, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, ...]:
    """The words of A and of B, and the sums: a row for each lane."""
    down, across = macros["WM"] // 16, macros["WN"] // 8
    accumulator_type = TYPES[macros["DTYPE"]].accumulate.storage
    of_a, of_b = (np.zeros((WARP, size), np.uint32) for size in (4 * down, 2 * across))
    of_c = np.zeros((WARP, 4 * down * across), accumulator_type)
    ptxsim.launch(
        PROBE, "lanes", (1, 1, 1), (WARP, 1, 1),
        [*(np.ascontiguousarray(matrix).view(np.uint32) for matrix in (A, B)), of_a, of_b, of_c],
        shared_bytes=A.nbytes + B.nbytes, options=options_for(macros),
    )  # fmt: skip
    return of_a, of_b, of_c


def holder_of_c(row: int, column: int) -> tuple[int, int]:
    """The lane that holds an element of a warp's part of C in FP16, and 0 to 3 for c[0] to c[3]."""
    held = by_mma()["C"]
    ((lane, place),) = np.argwhere((held == (row % ROWS, column % 8)).all(axis=-1))
    return int(lane), int(place) % 4
