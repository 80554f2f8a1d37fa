"""How fast each level of memory can be read: the probes of 00_levels.cu, launched and timed.

What a thread stores, the sum of what it read, is held to NumPy's before it is timed.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING

from gemmlab.cuda.device import require_gpu
from gemmlab.kernel.fingerprint import Fingerprint, fingerprint
from gemmlab.ladder import LEVELS, Launch, Read
from gemmlab.measure.ceilings import CeilingsError, Roof, compiled, time_launches

if TYPE_CHECKING:
    import numpy

BYTES = 16  # of a piece, which a thread reads with one instruction
SAMPLE_BYTES = {True: 4 * 2**30, False: 128 * 2**20}  # of one launch, read together; of each block


def of_levels(sm_count: int) -> Fingerprint:
    """What reads the levels on a GPU with so many SMs."""
    reads = {
        f"{level}, {name}": value
        for level, read in LEVELS.reads.items()
        for name, value in asdict(read).items()
    }
    launches = [read.launch(sm_count) for read in LEVELS.reads.values()]
    return fingerprint(LEVELS.path, reads, launches)


def measure_levels() -> dict[str, Roof]:
    """The roof of each level of LEVELS.reads on the GPU here, in bytes per second read.

    Raises NoGpu, and CeilingsError where a sum differs from NumPy's or memory lacks.
    """
    sm_count = require_gpu("Measuring the levels of memory").sm_count
    return {level: _measure(level, read, sm_count) for level, read in LEVELS.reads.items()}


def trip(read: Read, shape: Launch) -> int:
    """Pieces of 16 bytes that all that read a set read before they go on."""
    return read.ahead * shape.block[0] * (shape.grid[0] if read.together else 1)


def pieces(read: Read, shape: Launch, set_bytes: int) -> int:
    """As many pieces as fit the set, in whole trips."""
    return set_bytes // BYTES // trip(read, shape) * trip(read, shape)


def _measure(level: str, read: Read, sm_count: int) -> Roof:
    import cupy
    import numpy

    shape = read.launch(sm_count)
    threads, blocks = math.prod(shape.block), math.prod(shape.grid)
    free = cupy.cuda.runtime.memGetInfo()[0]
    count = pieces(read, shape, min(read.set_bytes, free // 2))
    if not count:
        raise CeilingsError(
            f"Reading {level} needs {2 * BYTES * trip(read, shape) / 1e6:.1f} MB of this GPU's "
            f"memory, and {free / 1e6:.1f} MB are free: end what else runs there."
        )
    rounds = max(1, SAMPLE_BYTES[read.together] // (BYTES * count))
    numbers = cupy.empty((count, 4), dtype=cupy.float32)
    whole = cupy.random.RandomState(3).randint(0, 4, (trip(read, shape), 4)).astype("float32")
    numbers.reshape(-1, *whole.shape)[:] = whole  # the same in every trip, to need no more memory
    out = cupy.full((blocks, threads), cupy.nan, dtype=cupy.float32)
    kernel = compiled(read.entry, read.macros, LEVELS.path)
    if shape.shared_bytes > 48 * 2**10:
        kernel.max_dynamic_shared_size_bytes = shape.shared_bytes

    def launch() -> None:
        arguments = (numbers, out, numpy.int64(count), numpy.int32(rounds))
        kernel(shape.grid, shape.block, arguments, shared_mem=shape.shared_bytes)

    launch()
    if not bool((out == sums(numbers, read, blocks, threads, rounds)).all()):
        raise CeilingsError(f"The sums of 00_levels.cu differ from NumPy's: {level}.")
    work = BYTES * count * rounds * (1 if read.together else blocks)
    return time_launches(launch, work, level)


def sums(
    numbers: numpy.ndarray, read: Read, blocks: int, threads: int, rounds: int
) -> numpy.ndarray:
    """What each thread of each block stores, float32 (blocks or 1, threads), of `numbers`, float32
    (pieces, 4), whole and small: a twin of the kernels for NumPy's arrays and CuPy's."""
    readers = blocks if read.together else 1
    return rounds * numbers.sum(axis=1).reshape(-1, readers, threads).sum(axis=0)
