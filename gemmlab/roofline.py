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
from gemmlab.ladder import CEILINGS, Launch
from gemmlab.timing import Measurement, Spread, flop, now, wait

if TYPE_CHECKING:
    import numpy
    import pandas

COPY_BYTES = 2 * 2**30  # of each of the two arrays; far beyond any L2
SAMPLES = 30
ITERATIONS = 2048  # of the FMA loop; some 10 ms
CHECK_ITERATIONS = 3
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
    """The two roofs of a GPU, as 00_ceilings.cu measured them."""

    gpu: str
    recorded: str  # ISO date and time, UTC
    copy: Roof
    fma: Roof

    @property
    def bytes_per_second(self) -> float:
        """The memory roof: the median over the launches."""
        return self.copy.per_second.median

    @property
    def flop_per_second(self) -> float:
        """The FP32 roof: the median over the launches."""
        return self.fma.per_second.median

    @property
    def ridge(self) -> float:
        """The intensity, in FLOP per byte, where the two roofs meet."""
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
            "fma": {
                "flop_per_second": asdict(self.fma.per_second),
                "flop": self.fma.work,
                **_state_fields(self.fma.state),
            },
        }

    @classmethod
    def from_record(cls, fields: dict[str, Any]) -> Ceilings:
        copied, computed = fields["copy"], fields["fma"]
        return cls(
            gpu=fields["provenance"]["gpu"],
            recorded=fields["provenance"]["recorded"],
            copy=Roof(Spread(**copied["bytes_per_second"]), copied["bytes"], _state_of(copied)),
            fma=Roof(Spread(**computed["flop_per_second"]), computed["flop"], _state_of(computed)),
        )


def _state_fields(state: GpuState) -> dict[str, float | None]:
    return {name: getattr(state, name) for name in records.STATE}


def _state_of(fields: dict[str, Any]) -> GpuState:
    return GpuState(memory_clock_mhz=None, **{name: fields[name] for name in records.STATE})


# ---- the model -----------------------------------------------------------------------------------


def compulsory_bytes(m: int, n: int, k: int) -> int:
    """The fewest bytes a float32 product can move: A and B read once, C written once."""
    return 4 * (m * k + k * n + m * n)


def intensity(operations: float, moved_bytes: float) -> float:
    """FLOP per byte; infinite where nothing is moved."""
    return operations / moved_bytes if moved_bytes else math.inf


def attainable(flop_per_byte: float, roofs: Ceilings) -> float:
    """The most FLOP per second that the roofs allow at an intensity."""
    return min(roofs.flop_per_second, flop_per_byte * roofs.bytes_per_second)


# ---- measuring the roofs -------------------------------------------------------------------------


def ceilings_code() -> str:
    """The hash of the code that measures the roofs."""
    return code_hash(CEILINGS.path, CEILINGS.macros)


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
    return Ceilings.from_record(record["ceilings"])


@cache
def _measured_once() -> Ceilings:
    return measure_ceilings()


def measure_ceilings() -> Ceilings:
    """Measure both roofs on the GPU here, with the launch shapes of the ladder."""
    here = require_gpu("Measuring the ceilings")
    return Ceilings(
        gpu=here.name,
        recorded=now(),
        copy=measure_copy(CEILINGS.copy_launch(here.sm_count)),
        fma=measure_fma(CEILINGS.fma_launch(here.sm_count), CEILINGS.macros),
    )


def _kernel(entry: str, macros: dict[str, int]):
    import cupy

    module = cupy.RawModule(code=CEILINGS.path.read_text("utf-8"), options=options_for(macros))
    return module.get_function(entry)


def _time(launch: Callable[[], None], work: int, label: str) -> Roof:
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
    kernel = _kernel(CEILINGS.copy_entry, {})

    def launch() -> None:
        kernel(shape.grid, shape.block, (original, target, numpy.int64(count)))

    launch()
    if not bool((original == target).all()):
        raise CeilingsError("The copy of 00_ceilings.cu differs from its original.")
    return _time(launch, 2 * 16 * count, "copy")


def measure_fma(shape: Launch, macros: dict[str, int]) -> Roof:
    """The FP32 roof with this launch shape and these macros (CHAINS and UNROLL).

    Raises CeilingsError if a few iterations differ from NumPy, rounded once per multiply-add.
    """
    import cupy
    import numpy

    threads, blocks = math.prod(shape.block), math.prod(shape.grid)
    out = cupy.full(threads * blocks, cupy.nan, dtype=cupy.float32)
    kernel = _kernel(CEILINGS.fma_entry, macros)

    def launch(iterations: int = ITERATIONS) -> None:
        scalars = (numpy.int32(iterations), numpy.float32(MULTIPLIER), numpy.float32(ADDEND))
        kernel(shape.grid, shape.block, (out, *scalars))

    launch(CHECK_ITERATIONS)
    expected = fma_chain(threads, CHECK_ITERATIONS, **macros)
    if not bool((out.reshape(blocks, threads) == cupy.asarray(expected)).all()):
        raise CeilingsError("The multiply-adds of 00_ceilings.cu differ from NumPy's.")
    work = 2 * out.size * macros["CHAINS"] * macros["UNROLL"] * ITERATIONS
    return _time(launch, work, "multiply-adds")


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

    Columns: kernel, m, n, k; gflops as measured; dram_bytes and l2_bytes as Nsight Compute counted
    them in one launch; model_bytes, what the idea says it asks of global memory; compulsory_bytes;
    and the intensity, in FLOP per byte, that follows from each: dram_intensity, ...; gpu, recorded.
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
        "compulsory": compulsory_bytes(*shape),
    }
    return {
        "kernel": kernel.name,
        "m": run.m,
        "n": run.n,
        "k": run.k,
        "gflops": run.gflops,
        **{f"{level}_bytes": amount for level, amount in moved.items()},
        **{f"{level}_intensity": intensity(flop(*shape), q) for level, q in moved.items()},
        "gpu": run.gpu,
        "recorded": run.recorded,
    }
