"""The roofline: what this GPU can do at most, and where a kernel stands under it.

A kernel that does W floating-point operations and moves Q bytes has the arithmetic intensity W / Q.
It can run no faster than the smaller of the arithmetic roof and intensity times the memory roof
(Williams, Waterman, Patterson: Roofline, Communications of the ACM 52(4), 2009).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from gemmlab import records
from gemmlab.compiler import code_hash, options_for
from gemmlab.device import GpuState, gpu, require_gpu
from gemmlab.ladder import CEILINGS, ELEMENT_BYTES, TENSOR_CEILING, Launch
from gemmlab.timing import Measurement, Spread, flop, now, wait

if TYPE_CHECKING:
    from pathlib import Path

    import numpy
    import pandas

COPY_BYTES = 2 * 2**30  # of each of the two arrays; far beyond any L2
SAMPLES = 30
ITERATIONS = 2048  # of the FMA loop; some 10 ms
CHECK_ITERATIONS = 3
MMA_SHAPE = (16, 8, 16)  # M, N and K of one mma.sync of FP16
# Exact in few bits, so that the check can round once where the GPU rounds once: a product of a
# 24-bit and a 10-bit number, and its sum with 0.5, fit in float64's 53 bits.
MULTIPLIER, ADDEND = -1 + 2**-10, 0.5

DRAM = ("dram__bytes_read.sum", "dram__bytes_write.sum")
L2 = "lts__t_bytes.sum"


class CeilingsError(RuntimeError):
    """A ceiling kernel returned something wrong, so its time means nothing."""


@dataclass(frozen=True)
class Roof:
    """One measured ceiling. Work is bytes, read plus written, or floating-point operations."""

    per_second: Spread  # work per second, over the launches
    work: int  # in one launch
    state: GpuState


@dataclass(frozen=True)
class Ceilings:
    """The roofs of a GPU, as 00_ceilings.cu and 00_tensor_ceiling.cu measured them."""

    gpu: str
    recorded: str  # ISO date and time, UTC
    copy: Roof
    fma: Roof
    tensor: Roof | None = None  # mma.sync, FP16 with FP32 sums; None where it is not known

    @property
    def bytes_per_second(self) -> float:
        """The memory roof: the median over the launches."""
        return self.copy.per_second.median

    @property
    def flop_per_second(self) -> float:
        """The FP32 roof: the median over the launches."""
        return self.fma.per_second.median

    def knows(self, dtype: str) -> bool:
        """Whether the arithmetic roof of products of this dtype is known."""
        return dtype == "float32" or self.tensor is not None

    def arithmetic(self, dtype: str) -> float:
        """The roof, in FLOP per second, of products of this dtype: FP32 units or tensor cores.

        Raises NoRecord where that of the tensor cores is not known.
        """
        if dtype == "float32":
            return self.flop_per_second
        if not self.knows(dtype):
            raise records.NoRecord(
                f"The ceiling of {self.gpu}'s tensor cores is not recorded; run "
                f"`python -m gemmlab record {TENSOR_CEILING.name}` on a GPU from "
                f"sm_{TENSOR_CEILING.oldest_arch} on."
            )
        return self.tensor.per_second.median

    @property
    def ridge(self) -> float:
        """The intensity, in FLOP per byte, where the memory roof meets the FP32 roof."""
        return self.flop_per_second / self.bytes_per_second

    def __str__(self) -> str:
        return (
            f"copy {self.bytes_per_second / 1e12:.2f} TB/s, "
            f"FP32 {self.flop_per_second / 1e12:.1f} TFLOP/s"
        )

    def as_record(self) -> dict[str, Any]:
        """The "copy" and "fma" fields of a record."""
        return {
            "copy": {
                "bytes_per_second": asdict(self.copy.per_second),
                "bytes": self.copy.work,
                **_state_fields(self.copy.state),
            },
            "fma": arithmetic_fields(self.fma),
        }

    @classmethod
    def from_record(cls, fields: dict[str, Any], tensor: Roof | None = None) -> Ceilings:
        copied = fields["copy"]
        return cls(
            gpu=fields["provenance"]["gpu"],
            recorded=fields["provenance"]["recorded"],
            copy=Roof(Spread(**copied["bytes_per_second"]), copied["bytes"], _state_of(copied)),
            fma=_arithmetic_roof(fields["fma"]),
            tensor=tensor,
        )


def arithmetic_fields(roof: Roof) -> dict[str, Any]:
    """A roof of arithmetic as a record holds it."""
    return {
        "flop_per_second": asdict(roof.per_second),
        "flop": roof.work,
        **_state_fields(roof.state),
    }


def _arithmetic_roof(fields: dict[str, Any]) -> Roof:
    return Roof(Spread(**fields["flop_per_second"]), fields["flop"], _state_of(fields))


def _state_fields(state: GpuState) -> dict[str, float | None]:
    return {name: getattr(state, name) for name in records.STATE}


def _state_of(fields: dict[str, Any]) -> GpuState:
    return GpuState(memory_clock_mhz=None, **{name: fields[name] for name in records.STATE})


# ---- the model -----------------------------------------------------------------------------------


def compulsory_bytes(m: int, n: int, k: int, dtype: str = "float32") -> int:
    """The fewest bytes a product can move: A and B read once, C written once."""
    return ELEMENT_BYTES[dtype] * (m * k + k * n + m * n)


def intensity(operations: float, moved_bytes: float) -> float:
    """FLOP per byte; infinite where nothing is moved."""
    return operations / moved_bytes if moved_bytes else math.inf


def attainable(flop_per_byte: float, roofs: Ceilings, dtype: str = "float32") -> float:
    """The most FLOP per second that the roofs allow at an intensity. Raises NoRecord."""
    return min(roofs.arithmetic(dtype), flop_per_byte * roofs.bytes_per_second)


# ---- measuring the roofs -------------------------------------------------------------------------


def ceilings_code() -> str:
    """The hash of the code that measures the roofs."""
    return code_hash(CEILINGS.path, CEILINGS.macros)


def tensor_ceiling_code() -> str:
    """The hash of the code that measures the roof of the tensor cores."""
    return code_hash(TENSOR_CEILING.path, TENSOR_CEILING.macros)


def ceilings() -> Ceilings:
    """The roofs of the GPU here, measured once; or without a GPU the recorded ones.

    Raises NoRecord, StaleRecord (see gemmlab.records), CeilingsError.
    """
    return _measured_once() if gpu() is not None else recorded_ceilings()


def recorded_ceilings() -> Ceilings:
    """The recorded roofs, to stand over recorded points. Raises NoRecord, StaleRecord."""
    record = records.current()
    if "ceilings" not in record:
        raise records.NoRecord(
            f"The ceilings of {record['gpu']['name']} are not recorded; "
            f"run `python -m gemmlab record 00_ceilings` on a GPU."
        )
    if record["ceilings"]["code"] != ceilings_code():
        raise records.StaleRecord(
            "00_ceilings: recorded for another version of this kernel; "
            "run `python -m gemmlab record 00_ceilings` on a GPU."
        )
    tensor = record.get("tensor_ceiling")
    if tensor and tensor["code"] != tensor_ceiling_code():
        raise records.StaleRecord(
            f"{TENSOR_CEILING.name}: recorded for another version of this kernel; "
            f"run `python -m gemmlab record {TENSOR_CEILING.name}` on a GPU."
        )
    return Ceilings.from_record(record["ceilings"], tensor and _arithmetic_roof(tensor["mma"]))


@cache
def _measured_once() -> Ceilings:
    return measure_ceilings()


def measure_ceilings() -> Ceilings:
    """Measure the roofs on the GPU here, with the launch shapes of the ladder."""
    here = require_gpu("Measuring the ceilings")
    major, minor = here.compute_capability
    has_mma = 10 * major + minor >= TENSOR_CEILING.oldest_arch
    return Ceilings(
        gpu=here.name,
        recorded=now(),
        copy=measure_copy(CEILINGS.copy_launch(here.sm_count)),
        fma=measure_fma(CEILINGS.fma_launch(here.sm_count), CEILINGS.macros),
        tensor=measure_tensor_ceiling() if has_mma else None,
    )


def _kernel(entry: str, macros: dict[str, int], path: Path):
    import cupy

    module = cupy.RawModule(code=path.read_text("utf-8"), options=options_for(macros))
    return module.get_function(entry)


def time_launches(launch: Callable[[], None], work: int, label: str) -> Roof:
    """Time SAMPLES launches, enqueued behind a warm-up that keeps the GPU busy meanwhile."""
    import cupy

    stream = cupy.cuda.get_current_stream()
    for _ in range(3):
        launch()
    samples = []
    for _ in range(SAMPLES):
        start = stream.record()
        launch()
        samples.append((start, stream.record()))
    elapsed_ms, state = wait(samples, label)
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
    kernel = _kernel(CEILINGS.copy_entry, {}, CEILINGS.path)

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
    kernel = _kernel(CEILINGS.fma_entry, macros, CEILINGS.path)

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
    kernel = _kernel(TENSOR_CEILING.entry, macros, TENSOR_CEILING.path)

    def launch(iterations: int = ITERATIONS) -> None:
        kernel(shape.grid, shape.block, (out, *lanes, numpy.int32(iterations)))

    launch(CHECK_ITERATIONS)
    expected = mma_chain(CHECK_ITERATIONS, **macros)
    if not bool((out.reshape(warps, 32) == cupy.asarray(expected)).all()):
        raise CeilingsError("The products of 00_tensor_ceiling.cu differ from NumPy's.")
    steps = macros["CHAINS"] * macros["UNROLL"] * ITERATIONS
    return time_launches(launch, flop(*MMA_SHAPE) * steps * warps, "mma.sync")


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


# ---- where the kernels stand ---------------------------------------------------------------------


def points(kernels: Iterable) -> pandas.DataFrame:
    """Recorded points of kernels under the roofline, one row per shape that has counters.

    Columns: kernel, dtype, m, n, k; gflops as measured; dram_bytes and l2_bytes as Nsight Compute
    counted them in one launch; model_bytes, what the idea says it asks of global memory;
    compulsory_bytes; and the intensity, in FLOP per byte, that follows from each: dram_intensity,
    ...; gpu, recorded.
    Raises NoRecord and StaleRecord.
    """
    import pandas

    rows = []
    for kernel in kernels:
        runs = {(run.m, run.n, run.k): run for run in records.replay(kernel)}
        for counted in records.entry(kernel)["counters"]:
            shape = (counted["m"], counted["n"], counted["k"])
            if shape in runs:
                rows.append(_point(kernel, runs[shape], counted["metrics"]))
    return pandas.DataFrame(rows)


def _point(kernel, run: Measurement, metrics: dict[str, float]) -> dict[str, Any]:
    shape = (run.m, run.n, run.k)
    moved = {
        "dram": sum(metrics[name] for name in DRAM),
        "l2": metrics[L2],
        "model": kernel.rung.model_bytes(*shape, kernel.settings),
        "compulsory": compulsory_bytes(*shape, kernel.rung.dtype),
    }
    return {
        "kernel": kernel.name,
        "dtype": run.dtype,
        "m": run.m,
        "n": run.n,
        "k": run.k,
        "gflops": run.gflops,
        **{f"{level}_bytes": amount for level, amount in moved.items()},
        **{f"{level}_intensity": intensity(flop(*shape), q) for level, q in moved.items()},
        "gpu": run.gpu,
        "recorded": run.recorded,
    }
