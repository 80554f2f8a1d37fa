"""What power does to a comparison: cuBLAS and rungs 16 to 18 in a burst and sustained.

    python -m gemmlab record 18_power

verifies each kernel, then paces it and cuBLAS at 8192×8192×8192 on random numbers and on zeros,
with clock and power beside it; results/<gpu>/power.csv holds it (see gemmlab.records.registry).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmlab import ladder
from gemmlab.cuda.cublas import Cublas
from gemmlab.cuda.device import require_gpu, software_versions
from gemmlab.kernel.fingerprint import Fingerprint
from gemmlab.kernel.kernel import Kernel
from gemmlab.kernel.operands import Operands
from gemmlab.ladder import Precision, Problem, Settings, Target
from gemmlab.ladder.precision import BRAIN, HALF
from gemmlab.lessons.persistent.rung import RUNG as PERSISTENT
from gemmlab.lessons.tma_wgmma.rung import RUNG as TMA_WGMMA
from gemmlab.lessons.warp_specialized.rung import RUNG as WARP_SPECIALIZED
from gemmlab.measure.in_turn import make_sets
from gemmlab.measure.power import Work
from gemmlab.measure.timing import now, require_verified
from gemmlab.records.registry import DATE, NOTE, SIZE, TEXT, Say, Table, of_row
from gemmlab.records.wgmma_ceilings import DATA, LOADS, PACE, paced

if TYPE_CHECKING:
    import pandas

NAME = "18_power"
PROBLEM = Problem(8192, 8192, 8192)
RUNGS = (TMA_WGMMA, WARP_SPECIALIZED, PERSISTENT)
CUBLAS = "cublas"
LIBRARY = "library"  # in place of a hash of its code
MEASURED = ((HALF, DATA), (BRAIN, DATA[:1]))  # types, and on which data
COLUMNS = {
    **TEXT("kernel", "dtype"), **NOTE("settings"), **TEXT("data", "load"), **SIZE("m", "n", "k"),
    **PACE, **TEXT("code", "gpu", "driver", "cuda", "nvrtc", "cublas"), **DATE("recorded"),
}  # fmt: skip


def settings_of(rung: ladder.Rung, precision: Precision) -> Settings:
    """The defaults, of this type."""
    return ladder.settings_for(rung, {"DTYPE": (HALF, BRAIN).index(precision)})


def record(say: Say) -> Path:
    """Measure cuBLAS and all kernels; returns the file.

    Raises NoGpu, CublasError, VerificationError, TimingError.
    """
    import cupy
    import pandas

    here, versions = require_gpu("Measuring power"), software_versions()
    rows = []
    for precision, every in MEASURED:
        kernels = [Kernel(rung, settings_of(rung, precision), None, rung.path) for rung in RUNGS]
        for one in kernels:
            require_verified(one)
        random = Operands(PROBLEM, precision, *make_sets(PROBLEM, 1, precision)[0])
        inputs = {"random": random, "zeros": _zeroed(random)}
        with Cublas(cupy.cuda.get_current_stream(), precision.name) as library:
            for data in every:
                for one in (library, *kernels):
                    launch = one.prepared(inputs[data], 1.0, 0.0)
                    for load, pace in LOADS.items():
                        found = pace(Work(launch, PROBLEM.flop))
                        rows.append({
                            "kernel": one.name, "dtype": precision.name,
                            "settings": _settings(one), "data": data, "load": load, "m": PROBLEM.m,
                            "n": PROBLEM.n, "k": PROBLEM.k, **paced(found), "gpu": here.name,
                            **{name: versions[name]
                               for name in ("driver", "cuda", "nvrtc", "cublas")},
                            "recorded": now(),
                        })  # fmt: skip
                        say(
                            f"{NAME}: {one.name}, {precision.name}, {data}, {load}: "
                            f"{rows[-1]['tflops']:.0f} TFLOP/s at {found.sm_clock_mhz:.0f} MHz"
                        )
                        EVIDENCE.write(pandas.DataFrame(rows), here.slug, whole=False)
    return EVIDENCE.write(pandas.DataFrame(rows), here.slug)


def _zeroed(operands: Operands) -> Operands:
    import cupy

    A, B, C = (cupy.zeros_like(one) for one in (operands.A, operands.B, operands.C))
    return Operands(operands.problem, operands.precision, A, B, C)


def _settings(measured: Kernel | Cublas) -> str:
    return "" if isinstance(measured, Cublas) else ladder.written(measured.settings)


def _fingerprint_of(row: Any, on: Target) -> Fingerprint:
    if row.kernel == CUBLAS:
        return Fingerprint({}, {}, LIBRARY)
    (rung,) = (rung for rung in RUNGS if rung.name == row.kernel)
    return of_row(rung, row, on)


EVIDENCE = Table(
    name=NAME, file="power.csv", remake=record, key=("kernel", "dtype", "settings", "data", "load"),
    columns=COLUMNS, fingerprint_of=_fingerprint_of,
)  # fmt: skip


def paces(dtype: str = HALF.name) -> pandas.DataFrame:
    """As recorded of one type: kernel, data, load, and what wgmma_ceilings.PACE names.

    The clock is that which the SMs counted. Raises what registry.Table.read raises.
    """
    table = EVIDENCE.read()
    return table[table.dtype == dtype].reset_index(drop=True)[["kernel", "data", "load", *PACE]]
