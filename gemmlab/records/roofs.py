"""The roofs of this GPU, or the recorded ones: what bounds every kernel in its roofline.

    python -m gemmlab record 00_wgmma_ceilings

compares each way to start wgmma with a NumPy twin, then paces it, in a burst and sustained, with
clock and power beside it; results/<gpu>/wgmma_ceilings.csv. The other roofs are in runs.json.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from typing import Any

from gemmlab.cuda.device import Gpu, GpuState, gpu, require_gpu
from gemmlab.kernel.fingerprint import Fingerprint
from gemmlab.ladder import CEILINGS, HALF, LEVELS, TENSOR_CEILING, IllegalSetting, Target
from gemmlab.ladder.precision import BRAIN
from gemmlab.ladder.probes import COPY, MMA_TYPES, WGMMA_CEILINGS, Probe
from gemmlab.ladder.rung import number
from gemmlab.measure import ceilings as measured
from gemmlab.measure.ceilings import Roof, WgmmaCeiling, measure_wgmma
from gemmlab.measure.power import Pace, Work, burst, sustained
from gemmlab.measure.timing import Spread, now
from gemmlab.records import registry, runs
from gemmlab.records.registry import POSITIVE, REPORTED, SIZE, TEXT, NoRecord, Row, Say


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

    def arithmetic(self, dtype: str, by_wgmma: bool = False) -> float:
        """The roof, in FLOP per second, of products of this dtype: FP32 units or tensor cores.

        That of mma.sync is measured in FP16, and is that of BF16 too; other types are measured by
        the lesson mma_sync. `by_wgmma`: of warpgroups' products, with both factors in shared
        memory, random numbers, after a rest. Raises NoRecord where that of the tensor cores is not
        known.
        """
        if dtype == "float32":
            return self.flop_per_second
        return self._tensor_pace(dtype, by_wgmma).flop_per_second

    def flop_per_cycle(self, dtype: str, by_wgmma: bool = False) -> float:
        """The same of tensor cores, of all SMs together, in a cycle of the clock it had."""
        pace = self._tensor_pace(dtype, by_wgmma)
        return pace.flop_per_second / (1e6 * pace.sm_clock_mhz)

    def _tensor_pace(self, dtype: str, by_wgmma: bool) -> Pace:
        wgmma = self.wgmma.get(dtype.partition(" ")[0])  # "float16" of "float16 to float32"
        if by_wgmma and wgmma is not None:
            return wgmma
        if by_wgmma or self.tensor is None or not dtype.startswith((HALF.name, BRAIN.name)):
            raise _not_recorded(WGMMA if by_wgmma else TENSOR_CEILING.name, self.gpu)
        assert self.tensor.state.sm_clock_mhz is not None, "the SMs counted it"
        return Pace(self.tensor.per_second.median, self.tensor.state.sm_clock_mhz)

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


def roof_fields(roof: Roof, unit: str) -> Row:
    """A roof as runs.json holds it. unit: "bytes", of memory, or "flop"."""
    return {
        f"{unit}_per_second": asdict(roof.per_second), unit: roof.work,
        **{name: getattr(roof.state, name) for name in runs.STATE},
    }  # fmt: skip


def _roof(fields: Row) -> Roof:
    unit = "bytes" if "bytes" in fields else "flop"
    state = GpuState(**{name: fields[name] for name in runs.STATE})
    return Roof(Spread(**fields[f"{unit}_per_second"]), fields[unit], state)


def cells_of_roof(roof: Roof) -> Row:
    """A roof of arithmetic as tables hold it."""
    state = {"sm_clock_mhz": roof.state.sm_clock_mhz, "power_w": roof.state.power_w}
    return runs.spread("tflops", roof.per_second, 1e-12) | state


def ceilings() -> Ceilings:
    """The roofs of the GPU here, measured once; or without a GPU the recorded ones. Raises
    NoRecord, StaleRecord (see registry), CeilingsError."""
    return _measured_once() if gpu() is not None else recorded_ceilings()


@cache
def _measured_once() -> Ceilings:
    here, recorded = require_gpu("Measuring the ceilings"), now()
    by_wgmma = (WgmmaCeiling(HALF_NUMBER), WgmmaCeiling(BRAIN_NUMBER))
    return Ceilings(
        here.name,
        recorded,
        **_measure_ceilings(here),
        tensor=measured.measure_tensor_ceiling() if _has_mma(here) else None,
        reads=measured.measure_levels(),
        wgmma={
            ceiling.precision.name: measure_wgmma(ceiling, False, burst)
            for ceiling in by_wgmma
            if here.arch == "sm_90a"
        },
    )


def _measure_ceilings(here: Gpu) -> dict[str, Roof]:
    """With the launch shapes of the ladder."""
    return {
        "copy": measured.measure_copy(COPY.launch(here.sm_count)),
        "fma": measured.measure_fma(CEILINGS.launch(here.sm_count), CEILINGS.macros),
    }


def _has_mma(here: Gpu) -> bool:
    return number(here.arch) >= TENSOR_CEILING.oldest_arch


def recorded_ceilings() -> Ceilings:
    """The recorded roofs, to stand over recorded points. Raises NoRecord, StaleRecord."""
    return registry.of_one_gpu(_recorded_ceilings)


def _recorded_ceilings() -> Ceilings:
    roofs, recorded = CEILINGS_PART.read(), runs.current()
    about = recorded["ceilings"]["provenance"]
    return Ceilings(
        about["gpu"],
        about["recorded"],
        **roofs,
        tensor=TENSOR_PART.read()["mma"] if "tensor_ceiling" in recorded else None,
        reads=LEVELS_PART.read() if "levels" in recorded else {},
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


def _not_recorded(name: str, gpu_name: str) -> NoRecord:
    so = f"{registry.again(name)} on a GPU that runs it"
    return NoRecord(f"{name} is not recorded on {gpu_name}; {so}.")


# ---- runs.json -----------------------------------------------------------------------------------


def _part(
    field_name: str, probe: Probe, fingerprint_of: Callable[[int], Fingerprint],
    measure: Callable[[Gpu], Mapping[str, Roof]], inside: str = "",
) -> runs.Part:  # fmt: skip
    """The roofs in this field of runs.json, or `inside` a field of it; by their names."""

    def measured_here(say: Say) -> Row:
        provenance, here = runs.provenance(), require_gpu("Recording")
        fields = {}
        for name, roof in measure(here).items():
            unit = "flop" if name in ("fma", "mma") else "bytes"
            fields[name] = roof_fields(roof, unit)
            say(f"{probe.name}: {name} {roof.per_second.median / 1e12:.2f} T{unit}/s")
        code = runs.kept_code(probe.name, fingerprint_of(here.sm_count))
        kept = {inside: fields} if inside else fields
        return {field_name: {"provenance": provenance, "code": code, **kept}}

    def recorded() -> dict[str, Roof]:
        record = runs.current()
        if field_name not in record:
            raise _not_recorded(probe.name, record["gpu"]["name"])
        kept = record[field_name]
        print_now = fingerprint_of(registry.target().sm_count)
        registry.refuse_stale(probe.name, print_now, kept["code"])
        fields = kept[inside] if inside else kept
        about = ("provenance", "code")
        return {name: _roof(roof) for name, roof in fields.items() if name not in about}

    return runs.Part(name=probe.name, measure=measured_here, reader=recorded)


def _mma_ceiling(here: Gpu) -> dict[str, Roof]:
    if not _has_mma(here):
        needed = f"sm_{TENSOR_CEILING.oldest_arch} or newer"
        raise IllegalSetting(f"{TENSOR_CEILING.name} needs {needed}, this is {here.arch}")
    return {"mma": measured.measure_tensor_ceiling()}


OF_TENSOR_CEILING = partial(measured.of_probe, TENSOR_CEILING, TENSOR_CEILING.macros)
PARTS = CEILINGS_PART, TENSOR_PART, LEVELS_PART = (
    _part("ceilings", CEILINGS, measured.of_ceilings, _measure_ceilings),
    _part("tensor_ceiling", TENSOR_CEILING, OF_TENSOR_CEILING, _mma_ceiling),
    _part("levels", LEVELS, measured.of_levels, lambda here: measured.measure_levels(), "reads"),
)


# ---- wgmma ---------------------------------------------------------------------------------------

WGMMA = WGMMA_CEILINGS.name
LOADS: dict[str, Callable[[Work], Pace]] = {"burst": burst, "sustained": sustained}
DATA = ("random", "zeros")
PLACES = ("shared memory", "registers")  # of A, by WgmmaCeiling.in_registers
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
        for data in every:
            for load, pace in LOADS.items():
                cells = paced(measure_wgmma(ceiling, data == "zeros", pace))
                say(f"{WGMMA}: {ceiling}, {data}, {load}: {cells['tflops']:.0f} TFLOP/s")
                yield {
                    "dtype": ceiling.precision.name, "a_from": PLACES[ceiling.in_registers],
                    "width": ceiling.columns, "sms": sm_count, "data": data, "load": load, **cells,
                }  # fmt: skip


def _fingerprint_of_wgmma(row: Any, on: Target) -> Fingerprint:
    dtype = [precision.name for precision in MMA_TYPES].index(row.dtype)
    ceiling = WgmmaCeiling(dtype, int(row.width), bool(PLACES.index(row.a_from)))
    return ceiling.fingerprint(on.sm_count)


WGMMA_TABLE = registry.Table(
    name=WGMMA, file="wgmma_ceilings.csv", key=("dtype", "a_from", "width", "data", "load"),
    columns={
        **TEXT("dtype", "a_from"), **SIZE("width", "sms"), **TEXT("data", "load"), **PACE,
        **registry.provenance("driver", "cuda", "nvrtc"),
    },
    measure=_measure_wgmma, fingerprint_of=_fingerprint_of_wgmma,
)  # fmt: skip
