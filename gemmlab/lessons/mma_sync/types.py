"""15_mma_sync with each type of its elements, against cuBLAS of the same types and its own ceiling.

    python -m gemmlab record 15_types

verifies it with each type, times it, counts the cycles of one launch, measures mma.sync of the type
from registers beside it, at the clock that the SMs count, and keeps the bits of a small product;
results/<gpu>/mma_types.csv holds it (see gemmlab.records.registry).
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmlab import ladder
from gemmlab.cuda.device import require_gpu, software_versions
from gemmlab.kernel.compiler import code_hash
from gemmlab.kernel.fingerprint import Fingerprint, shortened
from gemmlab.kernel.kernel import Kernel
from gemmlab.ladder import Settings, Target
from gemmlab.ladder.probes import MMA_CEILINGS
from gemmlab.ladder.probes import MMA_TYPES as TYPES
from gemmlab.lessons.mma_sync.rung import RUNG as MMA_SYNC
from gemmlab.lessons.mma_sync.steps import OR_ZERO
from gemmlab.measure import profiler
from gemmlab.measure.ceilings import measure_mma_ceiling
from gemmlab.measure.timing import compare, gflops, now
from gemmlab.records import runs
from gemmlab.records.ablations import Step, compile_step
from gemmlab.records.registry import DATE, POSITIVE, REPORTED, SIZE, TEXT, Say, Table, of_row
from gemmlab.records.runs import LARGE

if TYPE_CHECKING:
    import pandas

NAME = "15_types"
SQUARES = (LARGE, (8192, 8192, 8192))
SMALL, ODD = (1024, 1024, 512), (1001, 777, 513)
BITS_SHAPE = (130, 150, 170)  # of the product whose bits are kept; its tiles have edges
BITS_SEED = 15
LARGE_TILES: dict[str, Settings] = {  # besides the defaults: what was fastest, by type
    "tf32": {"BK": 32},
    "int8": {"BK": 128},
    "float8_e4m3": {"BN": 128, "WN": 32, "BK": 64},
    "float8_e5m2": {"BN": 128, "WN": 32, "BK": 64},
}
# On Hopper mma.sync of FP8 is two of FP16, so it stands under their roof. Its own chain shows none:
# the assembler computes products that do not change once for several steps.
CEILING_OF = {"float8_e4m3": "float16", "float8_e5m2": "float16"}
SMALL_TILES = {
    SMALL: {"BM": 64, "BN": 128, "WM": 32, "WN": 32},
    ODD: {"BM": 128, "BN": 64, "WM": 32, "WN": 32},
}
COUNTED_AT, CYCLES = LARGE, "sm__cycles_active.sum"
COLUMNS = {
    **TEXT("dtype", "settings"), **SIZE("m", "n", "k"),
    **POSITIVE("tflops", "pct_cublas", "pct_cublas_q1", "pct_cublas_q3"),
    **POSITIVE("cublas_tflops", "ceiling_tflops", "ceiling_mhz"),
    **REPORTED("sm_clock_mhz", "power_w"), **OR_ZERO("sm_cycles"),
    **TEXT("sha256", "code", "ceiling_code"),
    **TEXT("gpu", "driver", "cuda", "nvrtc", "cublas"), **DATE("recorded"),
}  # fmt: skip


def settings_of(dtype: str, shape: tuple[int, int, int]) -> Settings:
    """With which settings a type is measured at a shape (M, N, K)."""
    kind = {"DTYPE": [one.name for one in TYPES].index(dtype)}
    tiles = LARGE_TILES.get(dtype, {}) | SMALL_TILES.get(shape, {})
    return ladder.settings_for(MMA_SYNC, kind | tiles)


def shapes_of(dtype: str) -> tuple[tuple[int, int, int], ...]:
    """(M, N, K) at which a type is measured. cuBLASLt takes 8 bits at multiples of 16 alone."""
    eight_bits = TYPES[settings_of(dtype, LARGE)["DTYPE"]].a.bytes == 1
    return (*SQUARES, SMALL) if eight_bits else (*SQUARES, SMALL, ODD)


def measured_types() -> tuple[str, ...]:
    """In the order of DTYPE."""
    return tuple(one.name for one in TYPES)


def bits_of(kernel: Kernel) -> str:
    """The SHA-256 of C, as it is stored, of a small product of a seed."""
    operands = kernel.operands(kernel.problem(*BITS_SHAPE), BITS_SEED)
    C = kernel(operands.A, operands.B, operands.C, 0.5, 2.0)
    return hashlib.sha256(C.tobytes()).hexdigest()


def record(say: Say) -> Path:
    """Measure every type at its shapes; returns the file.

    Raises NoGpu, CublasError, VerificationError, CeilingsError, TimingError, CountersUnavailable.
    """
    import pandas

    here, versions = require_gpu("Measuring types"), software_versions()
    rows = []
    wanted = [(dtype, shape) for dtype in measured_types() for shape in shapes_of(dtype)]
    every = {ladder.written(settings_of(*one)): settings_of(*one) for one in wanted}
    # NVRTC takes seconds for each, so other processes compile ahead.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        steps = [Step("", "", MMA_SYNC.name, settings) for settings in every.values()]
        pairs = zip(steps, pool.map(compile_step, steps), strict=True)
        kernels = {name: step.kernel(made) for name, (step, made) in zip(every, pairs, strict=True)}
    for dtype in measured_types():
        number = settings_of(CEILING_OF.get(dtype, dtype), LARGE)["DTYPE"]
        roof = measure_mma_ceiling(number, TYPES[number])
        for shape in shapes_of(dtype):
            settings = settings_of(dtype, shape)
            kernel = kernels[ladder.written(settings)]
            found = compare(kernel, *shape)
            counted = {CYCLES: 0}
            if shape == COUNTED_AT:
                (counted,) = profiler.counters(MMA_SYNC, settings, [shape], (CYCLES,))
            rows.append({
                "dtype": dtype, "settings": ladder.written(settings),
                "m": found.m, "n": found.n, "k": found.k, "tflops": found.gflops / 1e3,
                "pct_cublas": 100 * found.ratio.median, "pct_cublas_q1": 100 * found.ratio.q1,
                "pct_cublas_q3": 100 * found.ratio.q3,
                "cublas_tflops": gflops(*shape, found.cublas_ms.median) / 1e3,
                "ceiling_tflops": roof.per_second.median / 1e12,
                "ceiling_mhz": roof.state.sm_clock_mhz,
                "sm_clock_mhz": found.sm_clock_mhz, "power_w": found.power_w,
                "sm_cycles": counted[CYCLES], "sha256": bits_of(kernel),
                "ceiling_code": _ceiling_code(number), "gpu": here.name,
                **{name: versions[name] for name in ("driver", "cuda", "nvrtc", "cublas")},
                "recorded": now(),
            })  # fmt: skip
            say(f"{NAME}: {dtype} at {shape}: {rows[-1]['tflops']:.0f} TFLOP/s")
            EVIDENCE.write(pandas.DataFrame(rows), here.slug, whole=False)
    return EVIDENCE.write(pandas.DataFrame(rows), here.slug)


def _ceiling_code(dtype: int) -> str:
    return shortened(code_hash(MMA_CEILINGS.path, MMA_CEILINGS.macros | {"DTYPE": dtype}))


def _fingerprint_of(row: Any, on: Target) -> Fingerprint:
    return of_row(MMA_SYNC, row, on)


EVIDENCE = Table(
    name=NAME, file="mma_types.csv", remake=record, key=("dtype", "settings", "m", "n", "k"),
    columns=COLUMNS, fingerprint_of=_fingerprint_of,
)  # fmt: skip


def types(shape: tuple[int, int, int] = LARGE) -> pandas.DataFrame:
    """What was recorded of each type at one shape (M, N, K), a row each, in the order of DTYPE.

    Columns: TFLOP/s (of int8 operations), % of cuBLAS, that of cuBLAS, the ceiling of mma.sync, of
    both kinds of FP8 that of FP16. Where the cycles of an SM were counted: the share of
    them that the products take at the ceiling. Raises what registry.Table.read raises.
    """
    table = EVIDENCE.read()
    m, n, k = shape
    at = table[(table.m == m) & (table.n == n) & (table.k == k)].set_index("dtype")
    found = at[["tflops", "pct_cublas", "cublas_tflops"]].copy()
    roofs = table.drop_duplicates("dtype").set_index("dtype")
    roofs = roofs.loc[[CEILING_OF.get(dtype, dtype) for dtype in at.index]].set_index(at.index)
    found["ceiling_tflops"] = roofs.ceiling_tflops
    if (at.sm_cycles > 0).all():
        needed = 2 * m * n * k / (1e6 * roofs.ceiling_tflops / roofs.ceiling_mhz)  # of each SM
        sms = runs.current()["gpu"]["sm_count"]
        found["products at the ceiling, % of cycles"] = 100 * needed / (at.sm_cycles / sms)
    return found.rename(
        columns={
            "tflops": "TFLOP/s", "pct_cublas": "% of cuBLAS", "cublas_tflops": "cuBLAS",
            "ceiling_tflops": "mma.sync",
        }
    )  # fmt: skip
