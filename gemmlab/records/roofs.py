"""The roofs of this GPU, or the recorded ones: what bounds every kernel in its roofline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from gemmlab.cuda.device import GpuState, gpu, require_gpu
from gemmlab.kernel.fingerprint import Fingerprint
from gemmlab.ladder import CEILINGS, HALF, LEVELS, TENSOR_CEILING
from gemmlab.ladder.precision import BRAIN
from gemmlab.measure.ceilings import (
    Roof,
    measure_copy,
    measure_fma,
    measure_levels,
    measure_tensor_ceiling,
    of_ceilings,
    of_levels,
    of_tensor_ceiling,
)
from gemmlab.measure.power import Pace, burst
from gemmlab.measure.timing import Spread, now
from gemmlab.measure.wgmma_ceilings import Ceiling, measure
from gemmlab.records import registry, runs, wgmma_ceilings
from gemmlab.records.registry import NoRecord, again, changed, of_one_gpu, stale, target


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
        if not self.knows(dtype, by_wgmma):
            raise _no_tensor_ceiling(self.gpu, by_wgmma)
        if by_wgmma:
            return self.wgmma[_element(dtype)].flop_per_second
        return self.tensor.per_second.median

    def flop_per_cycle(self, dtype: str, by_wgmma: bool = False) -> float:
        """The same of tensor cores, of all SMs together, in a cycle of the clock it had."""
        rate = self.arithmetic(dtype, by_wgmma)
        paced = self.wgmma[_element(dtype)] if by_wgmma else self.tensor.state
        return rate / (1e6 * paced.sm_clock_mhz)

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

    def as_record(self) -> dict[str, Any]:
        """The "copy" and "fma" fields of a record."""
        return {
            "copy": bandwidth_fields(self.copy),
            "fma": arithmetic_fields(self.fma),
        }

    @classmethod
    def from_record(
        cls,
        fields: dict[str, Any],
        tensor: Roof | None = None,
        reads: Mapping[str, Roof] | None = None,
        wgmma: Mapping[str, Pace] | None = None,
    ) -> Ceilings:
        return cls(
            gpu=fields["provenance"]["gpu"],
            recorded=fields["provenance"]["recorded"],
            copy=_bandwidth_roof(fields["copy"]),
            fma=_arithmetic_roof(fields["fma"]),
            tensor=tensor,
            reads=reads or {},
            wgmma=wgmma or {},
        )


def bandwidth_fields(roof: Roof) -> dict[str, Any]:
    """A roof of memory as a record holds it."""
    return {
        "bytes_per_second": asdict(roof.per_second),
        "bytes": roof.work,
        **_state_fields(roof.state),
    }


def arithmetic_fields(roof: Roof) -> dict[str, Any]:
    """A roof of arithmetic as a record holds it."""
    return {
        "flop_per_second": asdict(roof.per_second),
        "flop": roof.work,
        **_state_fields(roof.state),
    }


def cells_of_roof(roof: Roof) -> registry.Row:
    """A roof of arithmetic as tables hold it."""
    state = {"sm_clock_mhz": roof.state.sm_clock_mhz, "power_w": roof.state.power_w}
    return runs.spread("tflops", roof.per_second, 1e-12) | state


def _bandwidth_roof(fields: dict[str, Any]) -> Roof:
    return Roof(Spread(**fields["bytes_per_second"]), fields["bytes"], _state_of(fields))


def _arithmetic_roof(fields: dict[str, Any]) -> Roof:
    return Roof(Spread(**fields["flop_per_second"]), fields["flop"], _state_of(fields))


def _state_fields(state: GpuState) -> dict[str, float | None]:
    return {name: getattr(state, name) for name in runs.STATE}


def _state_of(fields: dict[str, Any]) -> GpuState:
    return GpuState(memory_clock_mhz=None, **{name: fields[name] for name in runs.STATE})


def ceilings() -> Ceilings:
    """The roofs of the GPU here, measured once; or without a GPU the recorded ones.

    Raises NoRecord, StaleRecord (see registry), CeilingsError.
    """
    return _measured_once() if gpu() is not None else recorded_ceilings()


def recorded_ceilings() -> Ceilings:
    """The recorded roofs, to stand over recorded points. Raises NoRecord, StaleRecord."""
    return of_one_gpu(_recorded_ceilings)


def _recorded_ceilings() -> Ceilings:
    record = runs.current()
    if "ceilings" not in record:
        raise NoRecord(
            f"The ceilings of {record['gpu']['name']} are not recorded; "
            f"{again(CEILINGS.name)} on a GPU."
        )
    _require_current(CEILINGS.name, record["ceilings"], of_ceilings)
    tensor = recorded_tensor_ceiling() if "tensor_ceiling" in record else None
    reads = recorded_levels() if "levels" in record else {}
    return Ceilings.from_record(record["ceilings"], tensor, reads, _recorded_wgmma())


def _recorded_wgmma() -> dict[str, Pace]:
    """By dtype; nothing where it is not recorded. Raises StaleRecord, BadRecord."""
    try:
        table = wgmma_ceilings.ceilings()
    except NoRecord:
        return {}
    rows = table.query("a_from == 'shared memory' and data == 'random' and load == 'burst'")
    return {
        row.dtype: Pace(1e12 * row.tflops, row.sm_clock_mhz)
        for row in rows.sort_values("width").itertuples()
    }


def recorded_tensor_ceiling() -> Roof:
    """The recorded roof of the tensor cores. Raises NoRecord, StaleRecord."""
    record = runs.current()
    if "tensor_ceiling" not in record:
        raise _no_tensor_ceiling(record["gpu"]["name"])
    _require_current(TENSOR_CEILING.name, record["tensor_ceiling"], of_tensor_ceiling)
    return _arithmetic_roof(record["tensor_ceiling"]["mma"])


def recorded_levels() -> dict[str, Roof]:
    """The recorded roofs of reading each level of memory. Raises NoRecord, StaleRecord."""
    record = runs.current()
    if "levels" not in record:
        raise NoRecord(
            f"How fast the levels of memory of {record['gpu']['name']} can be read is not "
            f"recorded; {again(LEVELS.name)} on a GPU."
        )
    _require_current(LEVELS.name, record["levels"], of_levels)
    return {level: _bandwidth_roof(roof) for level, roof in record["levels"]["reads"].items()}


def _require_current(
    name: str, recorded: dict[str, Any], fingerprint_of: Callable[[int], Fingerprint]
) -> None:
    """Raises StaleRecord."""
    now = fingerprint_of(target().sm_count)
    if str(now) != recorded["code"]:
        raise stale(name, changed(name, now, recorded["code"]))


def _element(dtype: str) -> str:
    """Of A and B, where a dtype also names that of C: "float16 to float32"."""
    return dtype.partition(" ")[0]


def _no_tensor_ceiling(gpu_name: str, by_wgmma: bool = False) -> NoRecord:
    if by_wgmma:
        return NoRecord(
            f"The ceiling of wgmma on {gpu_name} is not recorded; {again(wgmma_ceilings.NAME)} on "
            "a GPU of compute capability 9.0."
        )
    return NoRecord(
        f"The ceiling of {gpu_name}'s tensor cores is not recorded; "
        f"{again(TENSOR_CEILING.name)} on a GPU from sm_{TENSOR_CEILING.oldest_arch} on."
    )


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
        reads=measure_levels(),
        wgmma=_measure_wgmma() if here.arch == "sm_90a" else {},
    )


def _measure_wgmma() -> dict[str, Pace]:
    types = (Ceiling(wgmma_ceilings.HALF), Ceiling(wgmma_ceilings.BRAIN))
    return {ceiling.precision.name: measure(ceiling, False, burst) for ceiling in types}
