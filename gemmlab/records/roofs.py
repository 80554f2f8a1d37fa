"""The roofs of this GPU, or the recorded ones: what bounds every kernel in its roofline.

    python -m gemmlab record 00_wgmma_ceilings

compares each way to start wgmma with a NumPy twin, then paces it, in a burst and sustained, with
clock and power beside it; results/<gpu>/wgmma_ceilings.csv. The other roofs are in runs.json.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from gemmlab.cuda.device import GpuState, gpu, require_gpu
from gemmlab.kernel.fingerprint import Fingerprint
from gemmlab.ladder import CEILINGS, HALF, LEVELS, TENSOR_CEILING, Target
from gemmlab.ladder.precision import BRAIN
from gemmlab.ladder.probes import MMA_TYPES, WGMMA_CEILINGS
from gemmlab.measure import ceilings as measured
from gemmlab.measure.ceilings import Roof, WgmmaCeiling, measure_wgmma
from gemmlab.measure.power import Pace, Work, burst, sustained
from gemmlab.measure.timing import Spread, now
from gemmlab.records import registry, runs
from gemmlab.records.registry import (
    POSITIVE,
    REPORTED,
    SIZE,
    TEXT,
    NoRecord,
    Row,
    Say,
    Table,
    again,
    changed,
    of_one_gpu,
    provenance,
    stale,
    target,
)


@dataclass(frozen=True)
class Ceilings:
    """The roofs of a GPU, as the kernels of 00_ceilings.cu, 00_tensor_ceiling.cu and 00_levels.cu
    measured them."""

    gpu: str
    recorded: str  # ISO date and time, UTC
    copy: Roof
    fma: Roof
    tensor: Roof | None = None  # mma.sync, FP16 with FP32 sums; None where it is not known
    wgmma: Mapping[str, Pace] = field(default_factory=dict)  # of the dtypes that are known
    reads: Mapping[str, Roof] = field(default_factory=dict)  # of the levels that are known

    @property
    def bytes_per_second(self) -> float:
        """The memory roof: the median over the launches."""
        return self.copy.per_second.median

    @property
    def flop_per_second(self) -> float:
        """The FP32 roof: the median over the launches."""
        return self.fma.per_second.median

    def knows(self, dtype: str, by_wgmma: bool = False) -> bool:
        """Whether the arithmetic roof of products of this dtype is known.

        That of mma.sync is measured in FP16, and is that of BF16 too; other types are measured by
        the lesson mma_sync. `by_wgmma`: of warpgroups' products.
        """
        if dtype == "float32":
            return True
        if by_wgmma:
            return _element(dtype) in self.wgmma
        return self.tensor is not None and dtype.startswith((HALF.name, BRAIN.name))

    def arithmetic(self, dtype: str, by_wgmma: bool = False) -> float:
        """The roof, in FLOP per second, of products of this dtype: FP32 units or tensor cores.

        `by_wgmma`: of warpgroups' products, with both factors in shared memory, random numbers,
        after a rest. Raises NoRecord where that of the tensor cores is not known.
        """
        if dtype == "float32":
            return self.flop_per_second
        return self._tensor_pace(dtype, by_wgmma).flop_per_second

    def _tensor_pace(self, dtype: str, by_wgmma: bool) -> Pace:
        if not self.knows(dtype, by_wgmma):
            raise _not_recorded(WGMMA if by_wgmma else TENSOR_CEILING.name, self.gpu)
        if by_wgmma:
            return self.wgmma[_element(dtype)]
        assert self.tensor is not None and self.tensor.state.sm_clock_mhz is not None
        return Pace(self.tensor.per_second.median, self.tensor.state.sm_clock_mhz)

    def flop_per_cycle(self, dtype: str, by_wgmma: bool = False) -> float:
        """The same of tensor cores, of all SMs together, in a cycle of the clock it had."""
        pace = self._tensor_pace(dtype, by_wgmma)
        return pace.flop_per_second / (1e6 * pace.sm_clock_mhz)

    def read_rate(self, level: str) -> float | None:
        """Bytes per second read from "DRAM", "L2", "L1" or "shared memory"; None if not known."""
        return self.reads[level].per_second.median if level in self.reads else None

    @property
    def ridge(self) -> float:
        """The intensity, in FLOP per byte, where the memory roof meets the FP32 roof."""
        return self.flop_per_second / self.bytes_per_second

    def __str__(self) -> str:
        return (
            f"copy {self.bytes_per_second / 1e12:.2f} TB/s, "
            f"FP32 {self.flop_per_second / 1e12:.1f} TFLOP/s"
        )


def roof_fields(roof: Roof, unit: str) -> dict[str, Any]:
    """A roof as runs.json holds it. unit: "bytes", of memory, or "flop"."""
    return {
        f"{unit}_per_second": asdict(roof.per_second), unit: roof.work,
        **{name: getattr(roof.state, name) for name in runs.STATE},
    }  # fmt: skip


def _roof(fields: dict[str, Any], unit: str) -> Roof:
    state = GpuState(**{name: fields[name] for name in runs.STATE})
    return Roof(Spread(**fields[f"{unit}_per_second"]), fields[unit], state)


def cells_of_roof(roof: Roof) -> registry.Row:
    """A roof of arithmetic as tables hold it."""
    state = {"sm_clock_mhz": roof.state.sm_clock_mhz, "power_w": roof.state.power_w}
    return runs.spread("tflops", roof.per_second, 1e-12) | state


def ceilings() -> Ceilings:
    """The roofs of the GPU here, measured once; or without a GPU the recorded ones. Raises
    NoRecord, StaleRecord (see registry), CeilingsError."""
    return _measured_once() if gpu() is not None else recorded_ceilings()


def recorded_ceilings() -> Ceilings:
    """The recorded roofs, to stand over recorded points. Raises NoRecord, StaleRecord."""
    return of_one_gpu(_recorded_ceilings)


def _recorded_ceilings() -> Ceilings:
    fields, recorded = _current("ceilings", CEILINGS.name, measured.of_ceilings), runs.current()
    return Ceilings(
        gpu=fields["provenance"]["gpu"],
        recorded=fields["provenance"]["recorded"],
        copy=_roof(fields["copy"], "bytes"),
        fma=_roof(fields["fma"], "flop"),
        tensor=recorded_tensor_ceiling() if "tensor_ceiling" in recorded else None,
        reads=recorded_levels() if "levels" in recorded else {},
        wgmma=_recorded_wgmma(),
    )


def _recorded_wgmma() -> dict[str, Pace]:
    """By dtype; nothing where it is not recorded. Raises StaleRecord, BadRecord."""
    try:
        table = WGMMA_TABLE.read()
    except NoRecord:
        return {}
    rows = table.query("a_from == 'shared memory' and data == 'random' and load == 'burst'")
    return {
        row.dtype: Pace(1e12 * row.tflops, row.sm_clock_mhz)
        for row in rows.sort_values("width").itertuples()
    }


def recorded_tensor_ceiling() -> Roof:
    """The recorded roof of the tensor cores. Raises NoRecord, StaleRecord."""
    fields = _current("tensor_ceiling", TENSOR_CEILING.name, measured.of_tensor_ceiling)
    return _roof(fields["mma"], "flop")


def recorded_levels() -> dict[str, Roof]:
    """The recorded roofs of reading each level of memory. Raises NoRecord, StaleRecord."""
    reads = _current("levels", LEVELS.name, measured.of_levels)["reads"]
    return {level: _roof(roof, "bytes") for level, roof in reads.items()}


def _current(
    field_name: str, name: str, fingerprint_of: Callable[[int], Fingerprint]
) -> dict[str, Any]:
    """What `record name` put into this field of runs.json. Raises NoRecord, StaleRecord."""
    record = runs.current()
    if field_name not in record:
        raise _not_recorded(name, record["gpu"]["name"])
    now = fingerprint_of(target().sm_count)
    if str(now) != (code := record[field_name]["code"]):
        raise stale(name, changed(name, now, code))
    return record[field_name]


def _not_recorded(name: str, gpu_name: str) -> NoRecord:
    return NoRecord(f"{name} is not recorded on {gpu_name}; {again(name)} on a GPU that runs it.")


def _element(dtype: str) -> str:
    """Of A and B, where a dtype also names that of C: "float16 to float32"."""
    return dtype.partition(" ")[0]


@cache
def _measured_once() -> Ceilings:
    return measure_ceilings()


def measure_ceilings() -> Ceilings:
    """Measure the roofs on the GPU here, with the launch shapes of the ladder."""
    here = require_gpu("Measuring the ceilings")
    major, minor = here.compute_capability
    has_mma = 10 * major + minor >= TENSOR_CEILING.oldest_arch
    by_wgmma = (WgmmaCeiling(HALF_NUMBER), WgmmaCeiling(BRAIN_NUMBER))
    return Ceilings(
        gpu=here.name,
        recorded=now(),
        copy=measured.measure_copy(CEILINGS.copy_launch(here.sm_count)),
        fma=measured.measure_fma(CEILINGS.fma_launch(here.sm_count), CEILINGS.macros),
        tensor=measured.measure_tensor_ceiling() if has_mma else None,
        reads=measured.measure_levels(),
        wgmma={
            ceiling.precision.name: measure_wgmma(ceiling, False, burst)
            for ceiling in by_wgmma
            if here.arch == "sm_90a"
        },
    )


# ---- wgmma ---------------------------------------------------------------------------------------

WGMMA = WGMMA_CEILINGS.name
LOADS: dict[str, Callable[[Work], Pace]] = {"burst": burst, "sustained": sustained}
DATA = ("random", "zeros")
PLACES = {"shared memory": False, "registers": True}  # of A -> WgmmaCeiling.in_registers
HALF_NUMBER, BRAIN_NUMBER, E4M3_NUMBER = 0, 1, 4  # as rung 15 numbers types
MEASURED = (  # and on which data
    (WgmmaCeiling(HALF_NUMBER), DATA),
    (WgmmaCeiling(HALF_NUMBER, in_registers=True), DATA),
    (WgmmaCeiling(HALF_NUMBER, columns=128), DATA[:1]),
    (WgmmaCeiling(HALF_NUMBER, columns=128, in_registers=True), DATA[:1]),
    (WgmmaCeiling(BRAIN_NUMBER), DATA),
    (WgmmaCeiling(BRAIN_NUMBER, in_registers=True), DATA[:1]),
    (WgmmaCeiling(E4M3_NUMBER), DATA),
)
PACE = {
    **POSITIVE("tflops", "sm_clock_mhz"),
    **REPORTED("driver_clock_mhz", "power_w", "joules_per_tflop", "temperature_c"),
}


def paced(pace: Pace) -> dict[str, float | None]:
    """A pace as columns of PACE."""
    return {
        "tflops": pace.flop_per_second / 1e12,
        **{name: getattr(pace, name) for name in PACE if name != "tflops"},
    }


def _measure_wgmma(say: Say) -> Iterator[Row]:
    """All of MEASURED. Raises CeilingsError."""
    sm_count = require_gpu("Measuring the ceilings of wgmma").sm_count
    for ceiling, every in MEASURED:
        place = next(words for words, inside in PLACES.items() if inside == ceiling.in_registers)
        for data in every:
            for load, pace in LOADS.items():
                cells = paced(measure_wgmma(ceiling, data == "zeros", pace))
                say(f"{WGMMA}: {ceiling}, {data}, {load}: {cells['tflops']:.0f} TFLOP/s")
                yield {
                    "dtype": ceiling.precision.name, "a_from": place, "width": ceiling.columns,
                    "sms": sm_count, "data": data, "load": load, **cells,
                }  # fmt: skip


def _fingerprint_of_wgmma(row: Any, on: Target) -> Fingerprint:
    number = [precision.name for precision in MMA_TYPES].index(row.dtype)
    return WgmmaCeiling(number, int(row.width), PLACES[row.a_from]).fingerprint(on.sm_count)


WGMMA_TABLE = Table(
    name=WGMMA, file="wgmma_ceilings.csv", key=("dtype", "a_from", "width", "data", "load"),
    columns={
        **TEXT("dtype", "a_from"), **SIZE("width", "sms"), **TEXT("data", "load"), **PACE,
        **provenance("driver", "cuda", "nvrtc"),
    },
    measure=_measure_wgmma, fingerprint_of=_fingerprint_of_wgmma,
)  # fmt: skip
