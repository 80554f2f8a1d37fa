"""The roofs of a GPU, launched and timed: a copy, multiply-adds in FP32, and on tensor cores.

Each probe's result is held to a NumPy twin of its kernel before it is timed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gemmlab.cuda.device import GpuState, require_gpu
from gemmlab.kernel.compiler import options_for
from gemmlab.kernel.fingerprint import Fingerprint, fingerprint
from gemmlab.ladder import CEILINGS, TENSOR_CEILING, Launch, Precision, Problem
from gemmlab.ladder.probes import MMA_CEILINGS, MMA_SHAPE, mma_shape
from gemmlab.measure.in_turn import wait
from gemmlab.measure.power import SmClock, clock_mhz
from gemmlab.measure.timing import Spread
from ptxsim.compile.nvrtc import signals_kept

if TYPE_CHECKING:
    from pathlib import Path

    import numpy

COPY_BYTES = 2 * 2**30  # of each of the two arrays; far beyond any L2
SAMPLES = 30
ITERATIONS = 2048  # of the FMA loop; some 10 ms
CHECK_ITERATIONS = 3
# Exact in few bits, so that the check can round once where the GPU rounds once: a product of a
# 24-bit and a 10-bit number, and its sum with 0.5, fit in float64's 53 bits.
MULTIPLIER, ADDEND = -1 + 2**-10, 0.5


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
    launches = CEILINGS.copy_launch(sm_count), CEILINGS.fma_launch(sm_count)
    return fingerprint(CEILINGS.path, CEILINGS.macros, launches)


def of_tensor_ceiling(sm_count: int) -> Fingerprint:
    """What measures the roof of the tensor cores on a GPU with so many SMs."""
    launches = [TENSOR_CEILING.launch(sm_count)]
    return fingerprint(TENSOR_CEILING.path, TENSOR_CEILING.macros, launches)


def compiled(entry: str, macros: dict[str, int], path: Path):
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


def measure_copy(shape: Launch) -> Roof:
    """The memory roof with this launch shape.

    Raises CeilingsError if the copy differs from the original.
    """
    import cupy
    import numpy

    free = cupy.cuda.runtime.memGetInfo()[0]
    count = min(COPY_BYTES, free // 4) // 16  # float4 elements
    original = cupy.random.RandomState(1).uniform(-1, 1, 4 * count, dtype=cupy.float32)
    target = cupy.full(4 * count, cupy.nan, dtype=cupy.float32)
    kernel = compiled(CEILINGS.copy_entry, {}, CEILINGS.path)

    def launch() -> None:
        kernel(shape.grid, shape.block, (original, target, numpy.int64(count)))

    launch()
    if not bool((original == target).all()):
        raise CeilingsError("The copy of 00_ceilings.cu differs from its original.")
    return time_launches(launch, 2 * 16 * count, "copy")


def measure_fma(shape: Launch, macros: dict[str, int]) -> Roof:
    """The FP32 roof with this launch shape and these macros (CHAINS and UNROLL).

    Raises CeilingsError if a few iterations differ from NumPy, rounded once per multiply-add.
    """
    import cupy
    import numpy

    threads, blocks = math.prod(shape.block), math.prod(shape.grid)
    out = cupy.full(threads * blocks, cupy.nan, dtype=cupy.float32)
    kernel = compiled(CEILINGS.fma_entry, macros, CEILINGS.path)

    def launch(iterations: int = ITERATIONS) -> None:
        scalars = (numpy.int32(iterations), numpy.float32(MULTIPLIER), numpy.float32(ADDEND))
        kernel(shape.grid, shape.block, (out, *scalars))

    launch(CHECK_ITERATIONS)
    expected = fma_chain(threads, CHECK_ITERATIONS, **macros)
    if not bool((out.reshape(blocks, threads) == cupy.asarray(expected)).all()):
        raise CeilingsError("The multiply-adds of 00_ceilings.cu differ from NumPy's.")
    work = 2 * out.size * macros["CHAINS"] * macros["UNROLL"] * ITERATIONS
    return time_launches(launch, work, "multiply-adds")


def measure_tensor_ceiling() -> Roof:
    """The roof of mma.sync on the GPU here, FP16 with FP32 sums.

    Raises CeilingsError if a few iterations differ from NumPy.
    """
    import cupy
    import numpy

    macros = TENSOR_CEILING.macros
    shape = TENSOR_CEILING.launch(require_gpu("Measuring the ceiling of tensor cores").sm_count)
    warps = math.prod(shape.grid) * math.prod(shape.block) // 32
    out = cupy.full(32 * warps, cupy.nan, dtype=cupy.float32)
    lanes = tuple(cupy.asarray(each) for each in mma_lanes(**macros))
    kernel = compiled(TENSOR_CEILING.entry, macros, TENSOR_CEILING.path)

    def launch(iterations: int = ITERATIONS) -> None:
        kernel(shape.grid, shape.block, (out, *lanes, numpy.int32(iterations)))

    launch(CHECK_ITERATIONS)
    expected = mma_chain(CHECK_ITERATIONS, **macros)
    if not bool((out.reshape(warps, 32) == cupy.asarray(expected)).all()):
        raise CeilingsError("The products of 00_tensor_ceiling.cu differ from NumPy's.")
    steps = macros["CHAINS"] * macros["UNROLL"] * ITERATIONS
    return time_launches(launch, Problem(*MMA_SHAPE).flop * steps * warps, "mma.sync")


def measure_mma_ceiling(dtype: int, precision: Precision) -> Roof:
    """The roof of mma.sync on the GPU here, of the type that DTYPE of 00_mma_ceilings says.

    Raises CeilingsError if a few iterations differ from NumPy.
    """
    import cupy
    import numpy

    probe, macros = MMA_CEILINGS, MMA_CEILINGS.macros(dtype)
    shape = probe.launch(require_gpu("Measuring the ceiling of tensor cores").sm_count)
    warps = math.prod(shape.grid) * math.prod(shape.block) // 32
    out = cupy.zeros(32 * warps, precision.accumulate.storage)
    lanes = tuple(cupy.asarray(each) for each in typed_lanes(precision, macros["CHAINS"]))
    kernel = compiled(probe.entry, macros, probe.path)

    def launch(iterations: int = ITERATIONS) -> None:
        scalars = (numpy.int32(iterations), numpy.uint32(0))
        kernel(shape.grid, shape.block, (out, *lanes, *scalars))

    launch(CHECK_ITERATIONS)
    expected = typed_chain(precision, CHECK_ITERATIONS, macros["CHAINS"], macros["UNROLL"])
    if not bool((out.reshape(warps, 32) == cupy.asarray(expected)).all()):
        raise CeilingsError(
            f"The {precision.name} products of {probe.name}.cu differ from NumPy's."
        )
    steps = macros["CHAINS"] * macros["UNROLL"] * ITERATIONS
    flop = Problem(*mma_shape(precision)).flop
    return time_launches(launch, flop * steps * warps, f"mma.sync {precision.name}")


def typed_operands(precision: Precision, chains: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """A (16, K) and B (chains, K, 8) of one mma.sync: float32, whole numbers from -7 to 7.

    All types hold them, and the sums over the check are exact, in any order.
    """
    import numpy

    m, n, k = mma_shape(precision)
    numbers = numpy.random.default_rng(5).integers(-7, 8, m * k + chains * k * n)
    a, b = numbers[: m * k], numbers[m * k :]
    return a.reshape(m, k).astype("f4"), b.reshape(chains, k, n).astype("f4")


def typed_lanes(precision: Precision, chains: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """The registers of typed_operands, uint32 (4, 32) and (2 * chains, 32).

    Of a row of A and of a column of B, eight words of 32 bits: lane 4 g + t holds words t and t + 4
    of rows g and g + 8 of A, and of column g of B.
    """
    import numpy

    def words(matrix, element):
        whole = element.unit_roundoff == 0  # its encode has a scale
        stored = (
            matrix.astype(element.storage) if whole else element.encode(matrix, element.storage)
        )
        return numpy.ascontiguousarray(stored).view(numpy.uint32)

    a, b = typed_operands(precision, chains)
    of_rows, of_columns = words(a, precision.a), words(b.swapaxes(1, 2), precision.b)
    g, t = numpy.divmod(numpy.arange(32), 4)
    in_a = [of_rows[g + row, t + word] for word in (0, 4) for row in (0, 8)]
    in_b = [chain[g, t + word] for chain in of_columns for word in (0, 4)]
    return numpy.array(in_a), numpy.array(in_b)


def typed_chain(precision: Precision, iterations: int, chains: int, unroll: int) -> numpy.ndarray:
    """What each lane of a warp of 00_mma_ceilings stores, (32,): a NumPy twin of the kernel."""
    import numpy

    a, b = (each.astype(numpy.int64) for each in typed_operands(precision, chains))
    sums = (a @ b).sum(axis=0) * (iterations * unroll)
    both = sums[:8] + sums[8:]
    return (both[:, 0::2] + both[:, 1::2]).reshape(32).astype(precision.accumulate.storage)


def mma_operands(CHAINS: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """A, float16 (16, 16), and B of each chain, float16 (CHAINS, 16, 8): small whole numbers.

    Their sums over the check are exact in float32, in any order.
    """
    import numpy

    m, n, k = MMA_SHAPE
    numbers = numpy.random.default_rng(5).integers(-8, 8, m * k + CHAINS * k * n)
    a, b = numbers[: m * k], numbers[m * k :]
    return a.reshape(m, k).astype("float16"), b.reshape(CHAINS, k, n).astype("float16")


def mma_lanes(CHAINS: int, UNROLL: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """The registers of mma_operands, uint32 (4, 32) and (2 * CHAINS, 32), as PTX says of m16n8k16.

    Lane 4 g + t holds rows g and g + 8 of A, each at columns 2 t and 2 t + 8 and their neighbours;
    column g of B at rows 2 t and 2 t + 8 and theirs.
    """
    import numpy

    a, b = mma_operands(CHAINS)
    g, t = numpy.divmod(numpy.arange(32), 4)
    pair = 2 * t[:, None] + numpy.arange(2)  # (32, 2): two neighbours
    of_a = [a[(g + row)[:, None], pair + column] for column in (0, 8) for row in (0, 8)]
    of_b = [chain[pair + row, g[:, None]] for chain in b for row in (0, 8)]
    return tuple(
        numpy.ascontiguousarray(registers).view(numpy.uint32)[..., 0] for registers in (of_a, of_b)
    )


def mma_chain(iterations: int, CHAINS: int, UNROLL: int) -> numpy.ndarray:
    """What each lane of a warp of mma_chain stores, float32 (32,): a NumPy twin of the kernel.

    Lane 4 g + t sums rows g and g + 8 of all products, at columns 2 t and 2 t + 1.
    """
    import numpy

    a, b = (each.astype(numpy.float32) for each in mma_operands(CHAINS))
    sums = (a @ b).sum(axis=0) * (iterations * UNROLL)
    both = sums[:8] + sums[8:]
    return (both[:, 0::2] + both[:, 1::2]).reshape(32)


def fma_chain(threads: int, iterations: int, CHAINS: int, UNROLL: int) -> numpy.ndarray:
    """What each thread of a block of fma_chain stores, float32: a NumPy twin of the kernel."""
    import numpy

    thread = numpy.arange(threads)[:, None] + numpy.arange(CHAINS)
    x = thread.astype(numpy.float32) * numpy.float32(2**-7)
    for _ in range(iterations * UNROLL):
        x = (x.astype(numpy.float64) * MULTIPLIER + ADDEND).astype(numpy.float32)
    total = numpy.zeros(threads, dtype=numpy.float32)
    for chain in range(CHAINS):
        total += x[:, chain]
    return total
