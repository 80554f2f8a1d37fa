"""The roofs of a GPU, launched and timed: memory level by level, FP32, and tensor cores.

Each probe's result is compared with that of a NumPy twin of its kernel before it is timed.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gemmlab.cuda.device import GpuState, require_gpu
from gemmlab.cuda.options import options_for
from gemmlab.kernel.fingerprint import Fingerprint, fingerprint
from gemmlab.kernel.on_gpu import loaded
from gemmlab.ladder import HALF, ElementType, Launch, Precision, Problem, Read, Settings, probes
from gemmlab.measure.in_turn import wait
from gemmlab.measure.power import Pace, SmClock, Work, clock_mhz
from gemmlab.measure.timing import Spread
from ptxsim.compile.nvrtc import signals_kept

COPY_BYTES = 2 * 2**30  # of each of the two arrays; far beyond any L2
SAMPLES = 30
ITERATIONS = 2048  # of the loops of arithmetic; some 10 ms
CHECK_ITERATIONS = 3
# Exact in few bits, so that the check can round once where the GPU rounds once: a product of a
# 24-bit and a 10-bit number, and its sum with 0.5, fit in float64's 53 bits.
MULTIPLIER, ADDEND = -1 + 2**-10, 0.5
BYTES = 16  # of a piece, which a thread reads with one instruction
SAMPLE_BYTES = {True: 4 * 2**30, False: 128 * 2**20}  # of one launch, read together; of each block
# As many steps as a product with a K of 8192 in FP16 has, and the tiles of C of some milliseconds.
STEPS, TILES = 128, 8
ROWS, ROW_BYTES = 128, 128  # of A in one step: 64 rows for each warpgroup, and bytes along K
CHECK_TILES, CHECK_STEPS = 2, 3  # of few enough whole numbers that FP8's sums are exact, too


class CeilingsError(RuntimeError):
    """A ceiling kernel returned something wrong, so its time means nothing."""


@dataclass(frozen=True)
class Roof:
    """One measured ceiling. Work is bytes, read plus written, or floating-point operations."""

    per_second: Spread  # work per second, over the launches
    work: int  # in one launch
    state: GpuState  # its SM clock is the one that the SMs counted


def of_ceilings(sm_count: int) -> Fingerprint:
    """What measures the roofs on a GPU with so many SMs."""
    launches = probes.COPY.launch(sm_count), probes.CEILINGS.launch(sm_count)
    return fingerprint(probes.CEILINGS.path, probes.CEILINGS.macros, launches)


def of_probe(probe: probes.Probe, macros: Settings, sm_count: int) -> Fingerprint:
    """Of a probe with one kernel."""
    return fingerprint(probe.path, macros, [probe.launch(sm_count)])


def of_levels(sm_count: int) -> Fingerprint:
    """What reads the levels of memory on a GPU with so many SMs."""
    reads = {
        f"{level}, {name}": value
        for level, read in probes.READS.items()
        for name, value in asdict(read).items()
    }
    launches = [read.launch(sm_count) for read in probes.READS.values()]
    return fingerprint(probes.LEVELS.path, reads, launches)


def compiled(entry: str, macros: Settings, path: Path) -> Any:
    """The kernel `entry` of a probe's file, ready to launch. Raises what CuPy's compiler raises."""
    import cupy

    module = cupy.RawModule(code=path.read_text("utf-8"), options=options_for(macros))
    with signals_kept():
        return module.get_function(entry)


def time_launches(launch: Callable[[], None], work: int, label: str) -> Roof:
    """Time SAMPLES launches, enqueued behind a warm-up that keeps the GPU busy meanwhile."""
    import cupy

    stream, clock = cupy.cuda.get_current_stream(), SmClock()
    for _ in range(3):
        launch()
    samples = []
    before = clock.read()
    for _ in range(SAMPLES):
        start = stream.record()
        launch()
        samples.append((start, stream.record()))
    after = clock.read()
    elapsed_ms, state = wait(samples, label)
    state = replace(state, sm_clock_mhz=clock_mhz(before.get(), after.get()))
    return Roof(Spread.of([work / (each / 1000) for each in elapsed_ms], max), work, state)


def whole_numbers(
    seed: int, a: tuple[int, ...], b: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """A and B of these shapes: float32, whole numbers from -7 to 7. All types hold them, and the
    sums over the checks are exact, in any order."""
    random = np.random.default_rng(seed)
    return random.integers(-7, 8, a).astype("f4"), random.integers(-7, 8, b).astype("f4")


def _require_equal(got: Any, expected: Any, name: str) -> None:
    """Raise CeilingsError unless all elements of two CuPy arrays are equal."""
    if not bool((got == expected).all()):
        raise CeilingsError(f"{name} differ from NumPy's.")


# ---- 00_ceilings.cu ------------------------------------------------------------------------------


def measure_copy(shape: Launch) -> Roof:
    """The memory roof with this launch shape. Raises CeilingsError if the copy differs from the
    original."""
    import cupy

    free = cupy.cuda.runtime.memGetInfo()[0]
    count = min(COPY_BYTES, free // 4) // 16  # float4 elements
    original = cupy.random.RandomState(1).uniform(-1, 1, 4 * count, dtype=cupy.float32)
    target = cupy.full(4 * count, cupy.nan, dtype=cupy.float32)
    kernel = compiled(probes.COPY.entry, {}, probes.COPY.path)

    def launch() -> None:
        kernel(shape.grid, shape.block, (original, target, np.int64(count)))

    launch()
    _require_equal(target, original, "The copies of 00_ceilings.cu")
    return time_launches(launch, 2 * 16 * count, "copy")


def measure_fma(shape: Launch, macros: Settings) -> Roof:
    """The FP32 roof with this launch shape and these macros (CHAINS and UNROLL). Raises
    CeilingsError if a few iterations differ from NumPy, rounded once per multiply-add."""
    import cupy

    threads, blocks = math.prod(shape.block), math.prod(shape.grid)
    out = cupy.full((blocks, threads), cupy.nan, dtype=cupy.float32)
    kernel = compiled(probes.CEILINGS.entry, macros, probes.CEILINGS.path)

    def launch(iterations: int = ITERATIONS) -> None:
        scalars = (np.int32(iterations), np.float32(MULTIPLIER), np.float32(ADDEND))
        kernel(shape.grid, shape.block, (out, *scalars))

    launch(CHECK_ITERATIONS)
    expected = cupy.asarray(fma_chain(threads, CHECK_ITERATIONS, **macros))
    _require_equal(out, expected, "The multiply-adds of 00_ceilings.cu")
    work = 2 * out.size * macros["CHAINS"] * macros["UNROLL"] * ITERATIONS
    return time_launches(launch, work, "multiply-adds")


def fma_chain(threads: int, iterations: int, CHAINS: int, UNROLL: int) -> np.ndarray:
    """What each thread of a block of fma_chain stores, float32: a NumPy twin of the kernel."""
    thread = np.arange(threads)[:, None] + np.arange(CHAINS)
    x = thread.astype(np.float32) * np.float32(2**-7)
    for _ in range(iterations * UNROLL):
        x = (x.astype(np.float64) * MULTIPLIER + ADDEND).astype(np.float32)
    total = np.zeros(threads, dtype=np.float32)
    for chain in range(CHAINS):
        total += x[:, chain]
    return total


# ---- tensor cores, by mma.sync -------------------------------------------------------------------


def measure_tensor_ceiling() -> Roof:
    """The roof of mma.sync on the GPU here, FP16 with FP32 sums. Raises CeilingsError."""
    return measure_mma(probes.TENSOR_CEILING, probes.TENSOR_CEILING.macros, HALF)


def measure_mma(probe: probes.Probe, macros: Settings, precision: Precision) -> Roof:
    """The roof of mma.sync on the GPU here, of the type that `macros` say. Raises CeilingsError if
    a few iterations differ from NumPy."""
    import cupy

    shape = probe.launch(require_gpu("Measuring the ceiling of tensor cores").sm_count)
    warps = math.prod(shape.grid) * math.prod(shape.block) // 32
    out = cupy.zeros((warps, 32), precision.accumulate.storage)
    lanes = tuple(map(cupy.asarray, mma_lanes(precision, macros["CHAINS"])))
    more = (np.uint32(0),) if probe is probes.MMA_CEILINGS else ()
    kernel = compiled(probe.entry, macros, probe.path)

    def launch(iterations: int = ITERATIONS) -> None:
        kernel(shape.grid, shape.block, (out, *lanes, np.int32(iterations), *more))

    launch(CHECK_ITERATIONS)
    expected = mma_chain(precision, CHECK_ITERATIONS, macros["CHAINS"], macros["UNROLL"])
    _require_equal(out, cupy.asarray(expected), f"The {precision.name} products of {probe.name}.cu")
    steps = macros["CHAINS"] * macros["UNROLL"] * ITERATIONS
    flop = Problem(*probes.mma_shape(precision)).flop
    return time_launches(launch, flop * steps * warps, f"mma.sync {precision.name}")


def mma_operands(precision: Precision, chains: int) -> tuple[np.ndarray, np.ndarray]:
    """A (16, K) and B (chains, K, 8) of one mma.sync, as whole_numbers."""
    m, n, k = probes.mma_shape(precision)
    return whole_numbers(5, (m, k), (chains, k, n))


def mma_lanes(precision: Precision, chains: int) -> tuple[np.ndarray, np.ndarray]:
    """The registers of mma_operands, uint32 (4, 32) and (2 * chains, 32).

    Of a row of A and of a column of B, eight words of 32 bits: lane 4 g + t holds words t and t + 4
    of rows g and g + 8 of A, and of column g of B.
    """
    a, b = mma_operands(precision, chains)
    of_rows, of_columns = words(a, precision.a), words(b.swapaxes(1, 2), precision.b)
    g, t = np.divmod(np.arange(32), 4)
    in_a = [of_rows[g + row, t + word] for word in (0, 4) for row in (0, 8)]
    in_b = [chain[g, t + word] for chain in of_columns for word in (0, 4)]
    return np.array(in_a), np.array(in_b)


def words(matrix: Any, element: ElementType) -> Any:
    """A matrix of floats as rows of 32-bit words of a type, in NumPy or CuPy, as it came."""
    whole = element.unit_roundoff == 0  # its encode has a scale
    stored = matrix.astype(element.storage) if whole else element.encode(matrix, element.storage)
    return (stored if stored.flags.c_contiguous else stored.copy()).view("u4")


def mma_chain(precision: Precision, iterations: int, chains: int, unroll: int) -> np.ndarray:
    """What each lane of a warp of mma_chain stores, (32,): a NumPy twin of the kernels. Lane 4 g +
    t adds rows g and g + 8 of all products, at columns 2 t and 2 t + 1."""
    a, b = (each.astype(np.int64) for each in mma_operands(precision, chains))
    sums = (a @ b).sum(axis=0) * (iterations * unroll)
    both = sums[:8] + sums[8:]
    return (both[:, 0::2] + both[:, 1::2]).reshape(32).astype(precision.accumulate.storage)


# ---- the levels of memory ------------------------------------------------------------------------


def measure_levels() -> dict[str, Roof]:
    """The roof of each level of READS on the GPU here, in bytes per second read. Raises
    NoGpu, and CeilingsError where a sum differs from NumPy's."""
    sm_count = require_gpu("Measuring the levels of memory").sm_count
    return {level: _measure_level(level, read, sm_count) for level, read in probes.READS.items()}


def trip(read: Read, shape: Launch) -> int:
    """Pieces of 16 bytes that all that read a set read before they go on."""
    return read.ahead * shape.block[0] * (shape.grid[0] if read.together else 1)


def pieces(read: Read, shape: Launch, set_bytes: int) -> int:
    """As many pieces as fit the set, in whole trips."""
    return set_bytes // BYTES // trip(read, shape) * trip(read, shape)


def _measure_level(level: str, read: Read, sm_count: int) -> Roof:
    import cupy

    shape = read.launch(sm_count)
    threads, blocks = math.prod(shape.block), math.prod(shape.grid)
    free = cupy.cuda.runtime.memGetInfo()[0]
    count = pieces(read, shape, min(read.set_bytes, free // 2))
    rounds = max(1, SAMPLE_BYTES[read.together] // (BYTES * count))
    numbers = cupy.empty((count, 4), dtype=cupy.float32)
    of_a_trip = cupy.random.RandomState(3).randint(0, 4, (trip(read, shape), 4)).astype("float32")
    numbers.reshape(-1, *of_a_trip.shape)[:] = of_a_trip  # the same in every trip, to save memory
    out = cupy.full((blocks, threads), cupy.nan, dtype=cupy.float32)
    kernel = compiled(read.entry, read.macros, probes.LEVELS.path)
    if shape.shared_bytes > 48 * 2**10:
        kernel.max_dynamic_shared_size_bytes = shape.shared_bytes

    def launch() -> None:
        arguments = (numbers, out, np.int64(count), np.int32(rounds))
        kernel(shape.grid, shape.block, arguments, shared_mem=shape.shared_bytes)

    launch()
    expected = sums(numbers, read, blocks, threads, rounds)
    _require_equal(out, expected, f"{level}: the sums of 00_levels.cu")
    work = BYTES * count * rounds * (1 if read.together else blocks)
    return time_launches(launch, work, level)


def sums(numbers: Any, read: Read, blocks: int, threads: int, rounds: int) -> Any:
    """What each thread of each block stores, float32 (blocks or 1, threads), of `numbers`, float32
    (pieces, 4), whole and small: a twin of the kernels for NumPy's arrays and CuPy's."""
    readers = blocks if read.together else 1
    return rounds * numbers.sum(axis=1).reshape(-1, readers, threads).sum(axis=0)


# ---- tensor cores, by wgmma ----------------------------------------------------------------------


@dataclass(frozen=True)
class WgmmaCeiling:
    """One way to start wgmma: of which type, as wide as B's `columns`, A from where."""

    dtype: int  # as rung 15 numbers types
    columns: int = 256
    in_registers: bool = False

    @property
    def precision(self) -> Precision:
        return probes.MMA_TYPES[self.dtype]

    @property
    def macros(self) -> dict[str, int]:
        return {
            "DTYPE": self.dtype, "COLUMNS": self.columns, "A_IN_REGISTERS": int(self.in_registers),
        }  # fmt: skip

    def fingerprint(self, sm_count: int) -> Fingerprint:
        """Of what is measured on a GPU with so many SMs."""
        return of_probe(probes.WGMMA_CEILINGS, self.macros, sm_count)

    @property
    def step(self) -> Problem:
        """What a block multiplies in one step."""
        return Problem(ROWS, self.columns, ROW_BYTES // self.precision.a.bytes)


def wgmma_operands(ceiling: WgmmaCeiling) -> tuple[np.ndarray, np.ndarray]:
    """A (M, K) and B by columns (N, K) of one step, as whole_numbers."""
    m, n, k = ceiling.step.shape
    return whole_numbers(17, (m, k), (n, k))


def wgmma_chain(ceiling: WgmmaCeiling, steps: int) -> np.ndarray:
    """What each thread of a block stores, float32: a NumPy twin of the kernel.

    Of the 64 rows of its warpgroup, lane 4 g + t of warp w has the sums of rows 16 w + g and 8
    below, in columns 2 t and 2 t + 1 of every eight.
    """
    a, b = wgmma_operands(ceiling)
    sums = (a @ b.T) * steps
    thread = np.arange(probes.WGMMA_CEILINGS.launch(1).block[0])
    row, pair = thread // 32 * 16 + thread % 32 // 4, thread % 4
    of_pairs = sums.reshape(len(a), -1, 4, 2).sum(axis=(1, 3))
    return of_pairs[row, pair] + of_pairs[row + 8, pair]


def measure_wgmma(ceiling: WgmmaCeiling, zeros: bool, pace: Callable[[Work], Pace]) -> Pace:
    """Its pace on random numbers from -1 to 1, or on zeros, on the GPU here. Raises NoGpu, and
    CeilingsError if a small check differs from NumPy."""
    import cupy

    here, element = require_gpu("Measuring the ceilings of wgmma"), ceiling.precision.a
    shape, path = probes.WGMMA_CEILINGS.launch(here.sm_count), probes.WGMMA_CEILINGS.path
    code = ceiling.fingerprint(here.sm_count).code
    kernels = loaded(path.read_text("utf-8"), path.name, here.arch, ceiling.macros, code)
    function = kernels.function(shape)
    out = cupy.zeros((here.sm_count, shape.block[0]), "f4")

    def launch(a: Any, b: Any, tiles: int, steps: int) -> None:
        function(shape.grid, shape.block, (out, a, b, np.int32(tiles), np.int32(steps)))

    a, b = (words(cupy.asarray(matrix), element) for matrix in wgmma_operands(ceiling))
    launch(a, b, CHECK_TILES, CHECK_STEPS)
    expected = cupy.asarray(wgmma_chain(ceiling, CHECK_STEPS))
    _require_equal(out, expected, f"The products of {path.name} with {ceiling}")
    m, n, k = ceiling.step.shape
    random = cupy.random.RandomState(17)

    def data(rows: int) -> Any:
        return (
            cupy.zeros((rows, k), "f4") if zeros else random.uniform(-1, 1, (rows, k), dtype="f4")
        )

    a, b = (words(data(rows), element) for rows in (m, n))
    flop = ceiling.step.flop * TILES * STEPS * here.sm_count
    return pace(Work(lambda: launch(a, b, TILES, STEPS), flop))
