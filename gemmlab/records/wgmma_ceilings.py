"""The ceilings of wgmma, in a burst and sustained, on random numbers and on zeros.

    python -m gemmlab record 00_wgmma_ceilings

compares each way to start the instruction with a NumPy twin, then paces it, with clock and power
beside it; results/<gpu>/wgmma_ceilings.csv.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from gemmlab.cuda.device import require_gpu
from gemmlab.kernel.fingerprint import Fingerprint
from gemmlab.ladder import Target
from gemmlab.ladder.probes import MMA_TYPES as TYPES
from gemmlab.ladder.probes import WGMMA_CEILINGS
from gemmlab.measure.power import Pace, Work, burst, sustained
from gemmlab.measure.wgmma_ceilings import Ceiling, measure
from gemmlab.records.registry import POSITIVE, REPORTED, SIZE, TEXT, Row, Say, Table, provenance

if TYPE_CHECKING:
    import pandas

NAME = WGMMA_CEILINGS.name
LOADS: dict[str, Callable[[Work], Pace]] = {"burst": burst, "sustained": sustained}
DATA = ("random", "zeros")
PLACES = {"shared memory": False, "registers": True}  # of A -> Ceiling.in_registers
HALF, BRAIN, E4M3 = 0, 1, 4  # as rung 15 numbers types
MEASURED = (  # and on which data
    (Ceiling(HALF), DATA),
    (Ceiling(HALF, in_registers=True), DATA),
    (Ceiling(HALF, columns=128), DATA[:1]),
    (Ceiling(HALF, columns=128, in_registers=True), DATA[:1]),
    (Ceiling(BRAIN), DATA),
    (Ceiling(BRAIN, in_registers=True), DATA[:1]),
    (Ceiling(E4M3), DATA),
)
PACE = {
    **POSITIVE("tflops", "sm_clock_mhz"),
    **REPORTED("driver_clock_mhz", "power_w", "joules_per_tflop", "temperature_c"),
}


def paced(pace: Pace) -> dict[str, float | None]:
    """A pace as columns of PACE."""
    return {
        "tflops": pace.flop_per_second / 1e12,
        **{
            name: getattr(pace, name)
            for name in (
                "sm_clock_mhz", "driver_clock_mhz", "power_w", "joules_per_tflop", "temperature_c",
            )
        },
    }  # fmt: skip


def _measure(say: Say) -> Iterator[Row]:
    """All of MEASURED. Raises CeilingsError."""
    sm_count = require_gpu("Measuring the ceilings of wgmma").sm_count
    for ceiling, every in MEASURED:
        place = next(words for words, inside in PLACES.items() if inside == ceiling.in_registers)
        for data in every:
            for load, pace in LOADS.items():
                cells = paced(measure(ceiling, data == "zeros", pace))
                say(f"{NAME}: {ceiling}, {data}, {load}: {cells['tflops']:.0f} TFLOP/s")
                yield {
                    "dtype": ceiling.precision.name, "a_from": place, "width": ceiling.columns,
                    "sms": sm_count, "data": data, "load": load, **cells,
                }  # fmt: skip


def _fingerprint_of(row: Any, on: Target) -> Fingerprint:
    number = [precision.name for precision in TYPES].index(row.dtype)
    return Ceiling(number, int(row.width), PLACES[row.a_from]).fingerprint(on.sm_count)


EVIDENCE = Table(
    name=NAME, file="wgmma_ceilings.csv", key=("dtype", "a_from", "width", "data", "load"),
    columns={
        **TEXT("dtype", "a_from"), **SIZE("width", "sms"), **TEXT("data", "load"), **PACE,
        **provenance("driver", "cuda", "nvrtc"),
    },
    measure=_measure, fingerprint_of=_fingerprint_of,
)  # fmt: skip


def ceilings() -> pandas.DataFrame:
    """As recorded: dtype, a_from, width, data, load, and what PACE names.

    width: columns of B of one instruction. The clock is that which the SMs counted.
    """
    return EVIDENCE.read()[["dtype", "a_from", "width", "data", "load", *PACE]]
