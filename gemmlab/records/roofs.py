"""The roofs of this GPU, or the recorded ones: what bounds every kernel in its roofline."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from gemmlab.cuda.device import GpuState, gpu, require_gpu
from gemmlab.ladder import CEILINGS, TENSOR_CEILING
from gemmlab.measure.ceilings import (
    Roof,
    ceilings_code,
    measure_copy,
    measure_fma,
    measure_tensor_ceiling,
    tensor_ceiling_code,
)
from gemmlab.measure.timing import Spread, now
from gemmlab.records import runs
from gemmlab.records.registry import NoRecord, again, stale


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
            raise _no_tensor_ceiling(self.gpu)
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
    record = runs.current()
    if "ceilings" not in record:
        raise NoRecord(
            f"The ceilings of {record['gpu']['name']} are not recorded; "
            f"{again(CEILINGS.name)} on a GPU."
        )
    if record["ceilings"]["code"] != ceilings_code():
        raise stale(CEILINGS.name)
    tensor = recorded_tensor_ceiling() if "tensor_ceiling" in record else None
    return Ceilings.from_record(record["ceilings"], tensor)


def recorded_tensor_ceiling() -> Roof:
    """The recorded roof of the tensor cores. Raises NoRecord, StaleRecord."""
    record = runs.current()
    if "tensor_ceiling" not in record:
        raise _no_tensor_ceiling(record["gpu"]["name"])
    if record["tensor_ceiling"]["code"] != tensor_ceiling_code():
        raise stale(TENSOR_CEILING.name)
    return _arithmetic_roof(record["tensor_ceiling"]["mma"])


def _no_tensor_ceiling(gpu_name: str) -> NoRecord:
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
    )
