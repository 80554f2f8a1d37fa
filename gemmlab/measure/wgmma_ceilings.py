"""The ceilings of wgmma: nothing but the instruction, compared with a NumPy twin, then paced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmlab.cuda.device import require_gpu
from gemmlab.kernel.fingerprint import Fingerprint, fingerprint
from gemmlab.kernel.on_gpu import loaded
from gemmlab.ladder import Precision, Problem
from gemmlab.ladder.probes import MMA_TYPES as TYPES
from gemmlab.ladder.probes import WGMMA_CEILINGS
from gemmlab.measure.ceilings import CeilingsError
from gemmlab.measure.power import Pace, Work

# As many steps as a product with a K of 8192 in FP16 has, and the tiles of C of some milliseconds.
STEPS, TILES = 128, 8
ROWS, ROW_BYTES = 128, 128  # of A in one step: 64 rows for each warpgroup, and bytes along K
CHECK_TILES, CHECK_STEPS = 2, 3  # of few enough whole numbers that FP8's sums are exact, too


@dataclass(frozen=True)
class Ceiling:
    """One way to start wgmma: of which type, as wide as B's `columns`, A from where."""

    dtype: int  # as rung 15 numbers types
    columns: int = 256
    in_registers: bool = False

    @property
    def precision(self) -> Precision:
        return TYPES[self.dtype]

    @property
    def macros(self) -> dict[str, int]:
        return {
            "DTYPE": self.dtype, "COLUMNS": self.columns, "A_IN_REGISTERS": int(self.in_registers),
        }  # fmt: skip

    def fingerprint(self, sm_count: int) -> Fingerprint:
        """Of what is measured on a GPU with so many SMs."""
        return fingerprint(WGMMA_CEILINGS.path, self.macros, [WGMMA_CEILINGS.launch(sm_count)])

    @property
    def step(self) -> Problem:
        """What a block multiplies in one step."""
        return Problem(ROWS, self.columns, ROW_BYTES // self.precision.a.bytes)


def operands(ceiling: Ceiling) -> tuple[np.ndarray, np.ndarray]:
    """A (M, K) and B by columns (N, K) of one step: float32, whole numbers from -7 to 7.

    All types hold them, and the sums over the check are exact, in any order.
    """
    m, n, k = ceiling.step.shape
    numbers = np.random.default_rng(17).integers(-7, 8, (m + n) * k).astype("f4")
    return numbers[: m * k].reshape(m, k), numbers[m * k :].reshape(n, k)


def words(matrix: Any, precision: Precision) -> Any:
    """A matrix of floats as rows of 32-bit words of a type, in NumPy or CuPy, as it came."""
    return precision.a.encode(matrix, precision.a.storage).view("u4")


def chain(ceiling: Ceiling, steps: int) -> np.ndarray:
    """What each thread of a block stores, float32: a NumPy twin of the kernel.

    Of the 64 rows of its warpgroup, lane 4 g + t of warp w has the sums of rows 16 w + g and 8
    below, in columns 2 t and 2 t + 1 of every eight.
    """
    a, b = operands(ceiling)
    sums = (a @ b.T) * steps
    thread = np.arange(WGMMA_CEILINGS.launch(1).block[0])
    row, pair = thread // 32 * 16 + thread % 32 // 4, thread % 4
    of_pairs = sums.reshape(len(a), -1, 4, 2).sum(axis=(1, 3))
    return of_pairs[row, pair] + of_pairs[row + 8, pair]


def measure(ceiling: Ceiling, zeros: bool, pace: Callable[[Work], Pace]) -> Pace:
    """Its pace on random numbers from -1 to 1, or on zeros, on the GPU here.

    Raises NoGpu, and CeilingsError if a small check differs from NumPy.
    """
    import cupy

    probe = WGMMA_CEILINGS
    here = require_gpu("Measuring the ceilings of wgmma")
    shape = probe.launch(here.sm_count)
    text = probe.path.read_text("utf-8")
    code = ceiling.fingerprint(here.sm_count).code
    kernels = loaded(text, probe.path.name, here.arch, ceiling.macros, code)
    function = kernels.function(shape)
    out = cupy.zeros(shape.block[0] * here.sm_count, "f4")

    def launch(a: Any, b: Any, tiles: int, steps: int) -> None:
        counts = np.int32(tiles), np.int32(steps)
        function(shape.grid, shape.block, (out, a, b, *counts))

    a, b = (words(cupy.asarray(matrix), ceiling.precision) for matrix in operands(ceiling))
    launch(a, b, CHECK_TILES, CHECK_STEPS)
    expected = cupy.asarray(chain(ceiling, CHECK_STEPS))
    if not bool((out.reshape(here.sm_count, -1) == expected).all()):
        raise CeilingsError(f"The products of {probe.name}.cu with {ceiling} differ from NumPy's.")
    m, n, k = ceiling.step.shape
    random = cupy.random.RandomState(17)
    a, b = (
        words(
            cupy.zeros((rows, k), "f4") if zeros else random.uniform(-1, 1, (rows, k), dtype="f4"),
            ceiling.precision,
        )
        for rows in (m, n)
    )
    flop = ceiling.step.flop * TILES * STEPS * here.sm_count
    return pace(Work(lambda: launch(a, b, TILES, STEPS), flop))
